"""A machine of a cluster with its own clocks and two disks. Faults suspend or kill its process, or replace its disks.

The monotonic clock runs at the machine's own rate and stops while the machine is frozen. The wall clock is correct
unless a fault sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from ...broker.node import Node
from ...broker.options import Options
from ...cluster.membership.consensus import node_of
from ...cluster.transport.memory_wire import MemoryTransport
from ...storage.engine import Durability
from .cluster_host import ClusterHost, DiskNote
from .disk import ReplaceableDisk, SimDisk
from .host import EPOCH_MS
from .loop import Scheduled, VirtualLoop
from .network import SimNetwork
from .pipe import Pipe
from .process_gate import GatedEngine, GatedTransport, ProcessGate

EPSILON_S = 1e-9
"""Times that differ by less than this count as equal."""


@dataclass(frozen=True, slots=True)
class Backup:
    """An old copy of a data directory."""

    messages: Mapping[bytes, bytes]
    meta: Mapping[bytes, bytes]
    boot: int
    disk_id: str
    cluster_id: str
    note: DiskNote


class Machine(ClusterHost):
    """One machine. `rate` is the speed of its monotonic clock. `latency_s` is the range of a write's duration in
    seconds.

    Clients may connect only while the node has `joined`: a node that has lost its disk must join again first.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        network: SimNetwork,
        options: Options,
        seed: int,
        name: str,
        durability: Durability,
        latency_s: tuple[float, float],
        rate: float,
        plugins: dict[str, object] | None = None,
    ) -> None:
        self.gate = ProcessGate(loop.call_soon)
        network.gates[name] = self.gate
        self.rate = rate
        self.network: SimNetwork = network
        self.joined = False
        self.backup: Backup | None = None
        self._rng = Random(f"disk/{seed}/{name}")
        self.latency_s = latency_s
        self._frozen_at: float | None = None
        self._frozen_s = 0.0
        self._stops = 0
        self._disks = 0
        self.loop = loop
        self.messages = self.message_disk(self._new_disk(durability))
        self.meta = self._new_disk("sync")
        super().__init__(loop, network, _messages, _raft, options, seed, name, plugins)
        self.durability = durability

    def _new_disk(self, durability: Durability, content: Mapping[bytes, bytes] | None = None) -> SimDisk:
        return SimDisk(self._rng, self.loop.call_later, lambda: self.loop.now_s, durability, self.latency_s, content)

    def message_disk(self, disk: SimDisk) -> ReplaceableDisk:
        """Returns the engine for the disk of messages; a subclass may return one that records."""
        return ReplaceableDisk(disk)

    def new_transport(self) -> MemoryTransport:
        """Returns a transport behind the gate."""
        return GatedTransport(self.network, self.name, self.gate)

    # -- clocks

    def mono_s(self) -> float:
        """The monotonic clock in seconds."""
        now = self.loop.now_s if self._frozen_at is None else self._frozen_at
        return (now - self._frozen_s) * self.rate

    def _mono_ms(self) -> float:
        # repeats the code of `mono_s`: every node calls this a thousand times in a second
        now = self.loop.now_s if self._frozen_at is None else self._frozen_at
        return (now - self._frozen_s) * self.rate * 1000

    def _mono_ns(self) -> int:
        return int(self.mono_s() * 1e9)

    def _wall_ms(self) -> float:
        return EPOCH_MS + self.loop.now_s * 1000 + self.wall_off_ms

    # -- ports

    def soon(self, function: Callable[[], None]) -> None:
        """Run a function at the end of the turn, or after the suspension if the process is suspended."""
        self.loop.call_soon(partial(self.gate.enter, self._run, self.life, function))

    def _run(self, life: int, function: Callable[..., None], *arguments: object) -> None:
        if life == self.life and self.node is not None:
            function(*arguments)

    def later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        """Run a function after `delay_s` seconds of the machine's monotonic clock."""
        handle = Scheduled(function)
        due = self.mono_s() + max(0.0, delay_s)
        life = self.life

        def fire() -> None:
            left = due - self.mono_s()
            if handle.function is None:
                return
            if left > EPSILON_S and self.alive(life):
                self.loop.call_later(left / self.rate, fire)
            else:
                self.gate.enter_timer(run)

        def run() -> None:
            function, handle.function = handle.function, None
            if function is not None and self.alive(life):
                function()

        self.loop.call_later(max(0.0, delay_s) / self.rate, fire)
        return handle

    @property
    def leaves(self) -> bool:
        """Whether the node leaves the cluster in order: it accepts no clients."""
        return self.clustering is not None and self.clustering.slots.balance.leaving

    def connect(self, rng: Random, delay_s: tuple[float, float] = (0.0, 0.0), **listener: Any) -> Pipe | None:
        """Connect a client. Returns None if the node is stopped, stopping, suspended, has not joined, or leaves."""
        if not self.joined or self.gate.shut or self.leaves:
            return None
        return super().connect(rng, delay_s, **listener)

    def accepted(self, pipe: Pipe) -> None:
        """Pass bytes and other events of a new connection through the gate."""
        gate, life = self.gate, self.life

        def ended(reason: str) -> None:
            pipe.over_at = self.loop.now_s
            self._lost(pipe, reason)

        pipe.to_node.deliver = partial(gate.enter, self._run, life, pipe.receive)
        pipe.to_client.pressure = partial(gate.enter, self._pressure, pipe)
        pipe.gone = partial(gate.enter, self._run, life, ended)

    @property
    def disks(self) -> tuple[SimDisk, SimDisk]:
        """The disk of messages and the disk of Raft."""
        return self.messages.disk, self.meta

    def disk_is_slow(self, now_s: float) -> bool:
        """Whether the disk of messages is full, hangs, or is slow."""
        return self._is_slow(self.messages.disk, now_s)

    def log_is_slow(self, now_s: float) -> bool:
        """Whether the disk of the cluster's log is full, hangs, or is slow."""
        return self._is_slow(self.meta, now_s)

    def _is_slow(self, disk: SimDisk, now_s: float) -> bool:
        return disk.full or disk.stall_until > now_s or disk.latency_s != self.latency_s

    @property
    def failed(self) -> bool:
        """Whether a write has failed. Then the process must be started again."""
        return self.node is not None and "failed" in (self.node.env.store.state, self.meta_store.state)

    @property
    def leads(self) -> bool:
        """Whether the node believes that it leads."""
        return self.member is not None and self.member.consensus is not None and self.member.consensus.leads

    @property
    def runs(self) -> bool:
        """Whether a process runs and is not suspended."""
        return self.node is not None and not self.gate.shut

    @property
    def suspension(self) -> tuple[int, int] | None:
        """None while the process `runs`; else a value that does not change until it has run again."""
        return None if self.runs else (self.life, self._stops)

    def voters(self) -> tuple[str, ...]:
        """Returns the voters in this node's configuration; none while it is standalone."""
        return next(iter(self.quorums()), ())

    def quorums(self) -> list[tuple[str, ...]]:
        """Returns the sets of voters in this node's configuration: each needs a majority. Empty while standalone."""
        return [tuple([node_of(peer) for peer in voters]) for voters in self.peer_quorums()]

    def peer_quorums(self) -> tuple[tuple[str, ...], ...]:
        """Returns `quorums` with the disk of each voter."""
        consensus = self.member.consensus if self.member is not None else None
        return () if consensus is None else consensus.raft.quorums

    @property
    def peer(self) -> str:
        """The node's id as a peer of Raft: its name and its present disk."""
        return f"{self.name}/{self.disk_id}"

    # -- faults

    def start(self) -> Node:
        """Start a process, without the events that waited for the last one."""
        self.gate.forget()
        return super().start()

    def crash(self, power: bool) -> None:
        """Kill the process or, with `power`, cut the power of the machine."""
        self.gate.forget()
        self.resume()
        self.messages.crash(power)
        self.meta.crash(power)
        self.meta = self.meta.reopen()
        self.kill()
        if power:
            self.new_boot()

    def stopped(self) -> None:
        """Open the disks for the next process: the last one has ended in order."""
        self.messages.disk.sync()
        self.messages.reopen()
        self.meta_store.close()
        self.meta = self.meta.reopen()

    def suspend(self, frozen: bool) -> None:
        """Suspend the process (SIGSTOP) or, if `frozen`, the whole machine. After a while the other nodes close their
        streams to it."""
        if self.gate.shut or self.node is None:
            return
        self.gate.stop()
        self._stops += 1
        stop = self._stops
        if frozen:
            self._frozen_at = self.loop.now_s
        self.loop.call_later(self.network.notice_s, lambda: self._noticed() if self._stops == stop else None)

    def _noticed(self) -> None:
        if self.gate.shut:
            for other in self.network.gates:
                if other != self.name:
                    self.network.drop(self.name, other, "the peer does not answer")

    def resume(self) -> None:
        """End the suspension of the process (SIGCONT) or of the machine."""
        if self._frozen_at is not None:
            self._frozen_s += self.loop.now_s - self._frozen_at
            self._frozen_at = None
        if self.gate.shut:
            self._stops += 1
            self.gate.go_on()

    def keep_backup(self) -> None:
        """Keep a copy of the present data directory."""
        messages, meta = self.messages.disk.content(), self.meta.content()
        self.backup = Backup(messages, meta, self.boot, self.disk_id, self.cluster_id, self.note)

    def lose_disk(self) -> None:
        """Replace the data directory by an empty one; only while no process runs."""
        self._disks += 1
        self._swap(
            Backup({}, {}, 0, f"{self.name}-disk{self._disks}", f"cluster-of-{self.name}{self._disks}", DiskNote())
        )
        self.joined = False

    def restore_backup(self) -> bool:
        """Replace the data directory by the backup. Returns False without a backup."""
        if self.backup is None:
            return False
        self._swap(self.backup)
        return True

    def _swap(self, data: Backup) -> None:
        assert self.node is None
        self.forget_log()
        self.messages.replace(self._new_disk(self.durability, data.messages))
        self.meta = self._new_disk("sync", data.meta)
        self.boot, self.disk_id, self.cluster_id = data.boot, data.disk_id, data.cluster_id
        self.replace_note(data.note)


def _messages(host: Any) -> GatedEngine:
    return GatedEngine(host.messages, host.gate)


def _raft(host: Any) -> GatedEngine:
    return GatedEngine(host.meta, host.gate)
