"""Members of a cluster on virtual time, without brokers. A listener records their events."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from strogoff.cluster.links.ports import Lane
from strogoff.cluster.membership.admission import (
    CallAnswer,
    JoinRequest,
    LeaveRequest,
    asked_again,
    decode_answer,
    encode_call,
)
from strogoff.cluster.membership.join_leave import VERSIONS
from strogoff.cluster.membership.state_machine import UNLOGGED_MAX, wanted_voters
from strogoff.cluster.membership.view import View
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.ports import Identity, Ports, Settings
from strogoff.cluster.replicated_map.namespaces import NAMESPACES
from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import CallFailed
from strogoff.sim.engine.loop import Scheduled
from strogoff.storage.store import Store
from tests.harness.simulation import Simulation


class RecordingListener:
    """A listener without routes that takes every item, and records its calls in `said`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.said: list[tuple[Any, ...]] = []
        self.taken: list[tuple[str, bytes]] = []
        self.acknowledged: dict[str, int] = {}

    def rejoin(self, since: int) -> None:
        self.said.append(("entering", since))

    def announce(self, since: int, announced: Callable[[int], None]) -> None:
        self.said.append(("announce", since))
        announced(0)

    def informed(self) -> None:
        self.said.append(("informed",))

    def view_applied(self, before: View, after: View) -> None:
        self.said.append(("view", after.id))

    def slots_changed(self) -> None:
        self.said.append(("slots", self.machine.member.slots.index))

    def slot_message(self, node: str, data: bytes) -> None:
        self.said.append(("slot message", node, data))

    def copy_message(self, node: str, data: bytes) -> None:
        self.said.append(("copy message", node, data))

    def replica(self, node: str, seq: int, payload: bytes) -> None:
        self.said.append(("replica", node, seq, payload))
        self.machine.member.links.ack(node, Lane.REPLICA, seq)

    def replicas_acked(self, node: str, upto: int) -> None:
        self.said.append(("replicas acked", node, upto))

    def lease_changed(self) -> None:
        self.said.append(("standing", self.machine.member.leased(), self.machine.member.whole))

    def replaced(self, node: str) -> None:
        self.said.append(("replaced", node))

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        self.said.append(("metadata", key, value))

    def applied(self) -> int:
        return 0

    def watermark(self, node: str, boot: int) -> int:
        return 0

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        self.taken.append((node, payload))
        self.machine.member.links.ack(node, 2, seq)  # type: ignore[arg-type]

    def acked(self, node: str, upto: int) -> None:
        self.acknowledged[node] = upto

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        raise AssertionError("nothing is relayed here")

    def acked_early(self, node: str, seqs: list[int]) -> None:
        pass

    def relays_acked(self, node: str, upto: int) -> None:
        raise AssertionError("nothing is relayed here")

    def relieved(self, node: str) -> None:
        self.said.append(("relieved", node))

    def room(self, node: str) -> None:
        self.said.append(("room", node))


class Machine:
    """One machine: two disks, the number of its last boot, and the process that runs there."""

    def __init__(self, cluster: MemberHarness, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.disk_id = f"{name}-disk"
        self.boot = 0
        self.port = 1
        self.life = 0
        self.wall_off_ms = 1.76e12
        self.knows_time = True
        self.cluster_id = f"cluster-of-{name}"
        self.settings = Settings()
        self.disks = [cluster.disk(f"{name}/{kind}") for kind in ("messages", "meta")]
        self.log: list[tuple[str, str]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.member: ClusterNode
        self.listener: RecordingListener
        self.up = False
        self.left = 0

    def start(self, boot: int | None = None) -> None:
        """Start a process, by default with the next boot."""
        loop = self.cluster.loop
        self.boot = self.boot + 1 if boot is None else boot
        self.life += 1
        life, self.up = self.life, True
        self.transport = transport = MemoryTransport(self.cluster.network, self.name)

        def soon(function: Callable[[], None]) -> None:
            loop.call_soon(lambda: function() if self.life == life and self.up else None)

        def later(delay_s: float, function: Callable[[], None]) -> Scheduled:
            return loop.call_later(delay_s, lambda: function() if self.life == life and self.up else None)

        ports = Ports(
            now_ms=lambda: loop.now_s * 1000,
            wall_ms=lambda: loop.now_s * 1000 + self.wall_off_ms,
            cluster_ms=lambda: int(loop.now_s * 1000),
            follow=lambda _: None,
            time_known=lambda: self.knows_time,
            soon=soon,
            later=later,
            rng=Random(f"{self.name}/{life}"),
            meta=Store(self.disks[1], soon, later),
            store=Store(self.disks[0], soon, later),
            transport=transport,
            log=lambda level, text: self.log.append((level, text)),
            event=lambda kind, **facts: self.events.append((kind, facts)),
        )
        me = Identity(
            self.name, self.disk_id, self.boot, f"{self.name}/{life}", f"{self.name}:{self.port}", self.cluster_id
        )
        self.listener = RecordingListener(self)
        self.member = ClusterNode(me, ports, self.settings, dict(NAMESPACES), self.listener)
        self.member.on_left = self._left
        self.member.open()
        transport.listen(me.address, self.member.links.accept, self.member.answer_call)

    def _left(self) -> None:
        self.left += 1

    def kill(self, power: bool = False) -> None:
        """Kill the process (`power`: cut the power of the machine)."""
        self.up = False
        for disk in self.disks:
            disk.crash(power)
        self.transport.shut()
        self.disks = [disk.reopen() for disk in self.disks]

    def backup(self) -> list[dict[bytes, bytes]]:
        """Returns the content of both disks."""
        return [disk.content() for disk in self.disks]

    def restore(self, backup: list[dict[bytes, bytes]]) -> None:
        """Replace the disks of a stopped node by those of a backup."""
        self.disks = [self.cluster.disk(f"{self.name}/restored", content) for content in backup]

    def replace_disk(self, name: str) -> None:
        """Replace the machine by a new one with the same name and empty disks.

        Its boot is above all numbers that the old machine may have used, as an operator must configure it.
        """
        self.boot += UNLOGGED_MAX
        self.disk_id = name
        self.cluster_id = f"cluster-of-{name}"
        self.disks = [self.cluster.disk(f"{name}/{kind}") for kind in ("messages", "meta")]

    def ask(self, address: str, method: str, request: bytes, answers: list[CallAnswer]) -> None:
        """Make a call and follow redirections. The last answer is appended to `answers`."""

        def came(result: bytes | CallFailed) -> None:
            answer = CallAnswer(str(result)) if isinstance(result, CallFailed) else decode_answer(result)
            if answer.ask and answer.ask != address:
                self.ask(answer.ask, method, asked_again(method, request, answer), answers)
            else:
                answers.append(answer)

        self.transport.ask(address, method, request, 12.0, came)

    def join(self, address: str) -> list[CallAnswer]:
        """Ask the node at `address` for membership. The returned list gets the answer, for `adopt`."""
        answers: list[CallAnswer] = []
        me = self.member.me
        request = JoinRequest(me.node, me.disk, me.boot, me.process, me.address, VERSIONS, True, self.settings.zone)
        self.ask(address, "join", encode_call(request), answers)
        return answers

    def adopt(self, answer: CallAnswer) -> None:
        """Become a member with an answer to `join`."""
        assert not answer.problem, answer
        self.cluster_id = answer.cluster_id
        self.member.adopt(answer)

    def leave(self, node: str) -> list[CallAnswer]:
        """Ask this node to remove the member `node`. The returned list gets the answer."""
        answers: list[CallAnswer] = []
        self.ask(f"{self.name}:1", "leave", encode_call(LeaveRequest(node, True)), answers)
        return answers

    @property
    def settled(self) -> bool:
        """Whether the node sees all members, and the intended voters vote."""
        member = self.member
        if member.consensus is None:
            return member.whole
        return member.whole and {*wanted_voters(member.membership)} == {*member.consensus.raft.configuration.voters}

    @property
    def serving(self) -> bool:
        """Whether the node runs with a lease and in a cluster."""
        return self.up and self.member.leased() and self.member.clustered


class MemberHarness(Simulation[MemoryNetwork]):
    """`size` machines; joined into one cluster unless `joined` is False."""

    def __init__(self, size: int = 3, joined: bool = True) -> None:
        super().__init__(MemoryNetwork)
        self.machines = [Machine(self, f"n{number}") for number in range(1, size + 1)]
        for machine in self.machines:
            machine.start()
        if joined:
            for machine in self.machines[1:]:
                self.join(machine)
            self.whole()

    def __getitem__(self, number: int) -> Machine:
        """Returns a machine; n1 has number 1."""
        return self.machines[number - 1]

    def join(self, machine: Machine, address: str = "n1:1") -> None:
        """Make a node a member, and wait until it serves."""
        answers = machine.join(address)
        self.until(lambda: bool(answers))
        machine.adopt(answers[0])
        self.until(lambda: machine.serving)

    def whole(self) -> float:
        """Let time pass until all running nodes serve, see all members, and the intended voters vote.

        Returns the seconds that it took.
        """
        return self.until(lambda: all(machine.serving and machine.settled for machine in self.machines if machine.up))

    def leader(self) -> Machine:
        """Returns the leader. Fails unless exactly one node leads."""
        leading = [
            machine
            for machine in self.machines
            if machine.up and machine.member.consensus and machine.member.consensus.leads
        ]
        assert len(leading) == 1, [machine.name for machine in leading]
        return leading[0]
