"""A simulated cluster of brokers, for transcripts: clients at each node, and a network that the test controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from strogoff.broker.node import Node
from strogoff.broker.options import Options
from strogoff.cluster.identity import slot_of
from strogoff.cluster.membership.commands import SetSlots
from strogoff.cluster.membership.state_machine import UNLOGGED_MAX, wanted_voters
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.ports import Settings
from strogoff.cluster.raft.interface import Settings as RaftSettings
from strogoff.cluster.slots.handover import first_wanted
from strogoff.cluster.slots.table import SlotRow
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from strogoff.sim.engine.cluster_host import ClusterHost
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import AllowAll, Host
from strogoff.sim.engine.loop import Scheduled
from strogoff.sim.engine.pipe import Pipe
from strogoff.sim.engine.process_gate import GatedEngine, GatedNetwork, GatedTransport, ProcessGate
from strogoff.storage.engine import Durability
from strogoff.storage.store import LATEST_S
from tests.harness.broker import PacketClient, connect
from tests.harness.simulation import Simulation

MAJORITY: dict[str, Any] = {
    f"allow_{each}_during_netsplit": "majority" for each in ("register", "publish", "subscribe", "unsubscribe")
}
"""Options: during a netsplit every policy allows its operation on the majority side."""

ON: dict[str, Any] = dict.fromkeys(MAJORITY, "on")


def snapshots_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure Raft so that a node that was away catches up by a snapshot, never by entries of the log."""
    monkeypatch.setattr(cluster_host, "Settings", lambda: Settings(raft=RaftSettings(tail=0, snapshot_every=1)))


class PausableHost(ClusterHost):
    """A machine whose process can be paused (SIGSTOP). During a pause its clocks run, and its input waits."""

    gate: ProcessGate
    wall_ahead_ms = 0.0
    stood_still_ms = 0.0
    """How long the machine has been frozen: its monotonic clock stood still."""
    spreads = False
    """Whether the node gives away empty slots. Otherwise the test decides where they are."""

    def bound(self) -> None:
        """Let the node give slots away only if `spreads`."""
        super().bound()
        assert self.clustering is not None
        self.clustering.slots.handover.place = self._place

    def _place(self, slot: int, zones: Mapping[str, str]) -> str:
        return first_wanted(slot, zones) if self.spreads else self.name

    def _wall_ms(self) -> float:
        return super()._wall_ms() + self.wall_ahead_ms

    def _mono_ms(self) -> float:
        return super()._mono_ms() - self.stood_still_ms

    def new_transport(self) -> MemoryTransport:
        assert isinstance(self.network, GatedNetwork)
        return GatedTransport(self.network, self.name, self.gate)

    def soon(self, function: Callable[[], None]) -> None:
        self.loop.call_soon(partial(self.gate.enter, self._of_life(function)))

    def later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        handle = Scheduled(function)

        def due() -> None:
            wanted, handle.function = handle.function, None
            if wanted is not None:
                wanted()

        self.loop.call_later(max(0.0, delay_s), partial(self.gate.enter_timer, self._of_life(due)))
        return handle

    def _of_life(self, function: Callable[[], None]) -> Callable[[], None]:
        life = self.life
        return lambda: function() if self.alive(life) else None

    def accepted(self, pipe: Pipe) -> None:
        pipe.to_node.deliver = lambda data: self.gate.enter(self._of_life(partial(pipe.receive, data)))
        gone = pipe.gone
        assert gone is not None
        pipe.gone = lambda reason: self.gate.enter(self._of_life(partial(gone, reason)))


class NodeHarness:
    """One node of the cluster, with its clients."""

    def __init__(self, cluster: ClusterHarness, disks: list[SimDisk]) -> None:
        self.cluster = cluster
        self.host: PausableHost
        self.disks = disks
        self.loop = cluster.loop
        self.durable = False
        """Whether clients ask for a durable session unless the test says how long it lasts."""

    @property
    def node(self) -> Node:
        assert self.host.node is not None
        return self.host.node

    @property
    def member(self) -> ClusterNode:
        assert self.host.member is not None
        return self.host.member

    @property
    def leads(self) -> bool:
        """Whether this node leads the cluster."""
        member = self.host.member
        return member is not None and member.consensus is not None and member.consensus.leads

    def settle(self) -> None:
        self.cluster.settle()

    def commit_late_writes(self) -> None:
        """Let so much time pass that the store commits the writes that nobody waits for."""
        self.cluster.pass_s(LATEST_S)

    def client(self, client_id: str, version: int = 5, clean: bool = True, **fields: Any) -> PacketClient:
        """Returns a connected client."""
        client, connack = self.connect(client_id, version, clean, **fields)
        assert connack.reason == 0, connack
        return client

    def connect(
        self, client_id: str, version: int = 5, clean: bool = True, **fields: Any
    ) -> tuple[PacketClient, packets.Connack]:
        client = self.connect_soon(client_id, version, clean, **fields)
        found: list[Any] = []

        def answered() -> bool:
            found.extend(client.take())
            return bool(found)

        self.cluster.until(answered)
        connack, *client.received = found
        assert isinstance(connack, packets.Connack)
        return client, connack

    def connect_soon(self, client_id: str, version: int = 5, clean: bool = True, **fields: Any) -> PacketClient:
        """Returns a client that has sent CONNECT, without waiting for CONNACK."""
        client = PacketClient(self, version)  # type: ignore[arg-type]
        if client_id not in self.cluster.pinned:
            self.cluster.place(client_id, self)
        client.send(self._packet(client_id, version, clean, fields))
        self.settle()
        return client

    def _packet(self, client_id: str, version: int, clean: bool, fields: dict[str, Any]) -> packets.Connect:
        if self.durable and "expiry_s" not in fields:
            return connect(client_id, version, clean and version == 5, 600 if version == 5 else None, **fields)
        return connect(client_id, version, clean, fields.pop("expiry_s", None), **fields)

    def pause_process(self) -> None:
        """Pause the process (SIGSTOP). After the pause it reads sockets before it runs timers, as asyncio does."""
        self.host.gate.sockets_first = True
        self.host.gate.stop()

    def resume_process(self) -> None:
        """End the pause (SIGCONT): the process gets the input of the pause, in order."""
        self.host.gate.go_on()

    def freeze(self, for_s: float) -> None:
        """Freeze the machine for a while: its process does nothing, and its monotonic clock stands still."""
        self.pause_process()
        self.cluster.pass_s(for_s)
        self.host.stood_still_ms += for_s * 1000
        self.resume_process()

    def kill(self, power: bool = False) -> None:
        """Kill the process; with `power` the machine has lost power."""
        self.host.gate.forget()
        for disk in self.disks:
            disk.crash(power)
        self.host.kill()
        if power:
            self.host.new_boot()

    def start(self) -> None:
        self.disks[:] = [disk.reopen() for disk in self.disks]
        self.host.start()

    def replace_disk(self) -> None:
        """Replace the machine by a new one with the same name and empty disks.

        Its boot is above all numbers that the old machine may have used, as an operator must configure it.
        """
        host = self.host
        if host.up:
            self.kill()
        self.disks[:] = [self.cluster.disk(f"{host.name}/new/{kind}") for kind in "ab"]
        host.disk_id, host.cluster_id = f"{host.name}-another-disk", "none"
        host.boot += UNLOGGED_MAX

    def join(self, address: str = "n1:1") -> str:
        """Join the cluster of the node at that address. Returns the reason if that fails, else ""."""
        problems: list[str] = []
        self.host.join(address, problems.append)
        self.cluster.until(lambda: bool(problems))
        return problems[0]


def _both(harness: NodeHarness) -> tuple[Callable[[Host], Any], Callable[[Host], Any]]:
    def engine(number: int) -> Callable[[Host], Any]:
        return lambda _: GatedEngine(harness.disks[number], harness.host.gate)

    return engine(0), engine(1)


class ClusterHarness(Simulation[GatedNetwork]):
    """`nodes` nodes named n1, n2, ... joined into one cluster unless `joined` is False."""

    def __init__(
        self,
        nodes: int = 3,
        joined: bool = True,
        seed: int = 0,
        level: int = 1,
        durability: Durability = "sync",
        **options: Any,
    ) -> None:
        super().__init__(GatedNetwork)
        loop = self.loop
        self.pinned: set[str] = set()
        """Client ids whose slots stay where `put` has put them."""
        self.nodes: list[NodeHarness] = []
        settings = Options(**{"allow_anonymous": True, "systree_enabled": False, "queue_replicas": 1, **options})
        for number in range(1, nodes + 1):
            name = f"n{number}"
            disks = [self.disk(f"{seed}/{name}/a", durability=durability), self.disk(f"{seed}/{name}/b")]
            harness = NodeHarness(self, disks)
            disk, meta = _both(harness)
            harness.host = host = PausableHost(
                loop, self.network, disk, meta, settings, seed, name, {"plugin": AllowAll()}
            )
            host.gate = self.network.gates[name] = ProcessGate(loop.call_soon)
            host.event_level = level
            host.durability = durability
            self.nodes.append(harness)
            host.start()
        if joined:
            for harness in self.nodes[1:]:
                assert harness.join() == ""
            self.whole()
            self.until(self._settled)

    def _settled(self) -> bool:
        """Whether all intended voters vote, in the configuration of each node.

        Until then a single node may be half of the voters, and its death would stop the cluster.
        """
        members = [harness.host.member for harness in self.nodes]
        return all(
            each
            and each.consensus
            and {*each.consensus.raft.configuration.voters} == {*wanted_voters(each.membership)}
            and len(each.consensus.raft.quorums) == 1
            for each in members
        )

    def __getitem__(self, number: int) -> NodeHarness:
        """Returns a node; n1 has number 1."""
        return self.nodes[number - 1]

    def place(self, client_id: str, node: NodeHarness) -> None:
        """Give the slot of a client id to the node to which it connects, if the slot has no session yet.

        So its session lives there, unless the cluster cannot change its slot table now.
        """
        slot = slot_of("", client_id)
        running = [harness for harness in self.nodes if harness.host.up]
        if self._quiet() and all(harness.node.sessions.empty([slot]) for harness in running):
            primary = node.member.slots.row(slot).primary
            if primary is not None and primary.node != node.host.name:
                self.give(client_id, node)

    def _quiet(self) -> bool:
        """Whether all running nodes serve, and none of them is paused, cut off or slow."""
        running = [harness for harness in self.nodes if harness.host.up]
        names = {harness.host.name for harness in running}
        return sum(harness.leads for harness in running) == 1 and all(
            {*each.member.view.serving} == names and each.member.leased() and not each.host.gate.shut
            for each in running
        )

    def put(self, **nodes: int) -> None:
        """Give the slots of client ids to nodes, before these clients connect: client id -> number of the node."""
        for client_id, number in nodes.items():
            self.place(client_id, self[number])
            self.pinned.add(client_id)

    def give(self, client_id: str, node: NodeHarness) -> None:
        """Give the slot of a client id, which has no session, to a node."""
        slot = slot_of("", client_id)
        while (row := node.member.slots.row(slot)).primary != (target := node.member.own_holder):
            assert row.primary is not None and target is not None
            both = target in row.in_sync
            wanted = (target,) if both else (*row.in_sync, target)
            change = SlotRow(slot, row.epoch, row.version, target if both else row.primary, wanted)
            service = next(each for each in self.nodes if each.leads and each.member.leased()).member.lease_service
            assert service is not None
            service.request_slots(SetSlots((change,)))
            self.until(lambda row=row: node.member.slots.row(slot) != row)
        epoch = node.member.slots.row(slot).epoch
        running = [harness.member for harness in self.nodes if harness.host.up and harness.member.leased()]
        self.until(lambda: all(member.slots.row(slot).epoch >= epoch for member in running))

    def isolate(self, number: int) -> None:
        """Cut all links between this node and the others."""
        for other in range(1, len(self.nodes) + 1):
            if other != number:
                self.network.cut(f"n{number}", f"n{other}")

    def state_of(self, number: int, state: ViewState) -> float:
        """Let time pass until a node has this view state. Returns the seconds that it took."""
        return self.until(lambda: self[number].node.policy.view_state is state)

    def whole(self) -> float:
        """Let time pass until all running nodes see the whole cluster. Returns the seconds that it took."""
        return self.until(lambda: all(state is ViewState.WHOLE for state in self.states()))

    def states(self) -> list[ViewState]:
        return [harness.node.policy.view_state for harness in self.nodes if harness.host.up]
