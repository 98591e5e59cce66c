"""Invariants: conditions that a cluster must fulfil at every moment of true time.

The monitor reads the state of all machines at once. So it finds violations that no node can detect, and short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.slots.table import Holder, SlotTable
from ..cluster.transport.memory_stream import Path
from ..netsplit.policy import OPERATIONS
from . import relay
from .checkers import agreement, available, clocks, leases, primaries, relay_bounds, roles, sides, slots, unanswered
from .cluster_plan import USUAL
from .engine.host import EPOCH_MS
from .faults import rare
from .history import Attempt
from .machines import ClusterMachine
from .workload.roaming_client import RoamingClient
from .world import ClusterWorld

EVERY_S = 0.05
"""The interval between two checks, in seconds."""

MAPS_S = 0.5
"""The interval between two comparisons of the replicated maps, in seconds."""

AT_PROMISES = 3
"""The number of `invariants`, from the first on, that are also checked at each promise: a violation may be short."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that a process holds now, with the view that the process has applied.

    `rows` are (node, since) of that view. `boot` and `process` are those of the process; `row_boot` is the boot in the
    view, `row_process` the process in the membership.
    """

    node: str
    view: int
    since: int
    rows: tuple[tuple[str, int], ...]
    boot: int
    row_boot: int
    process: str
    row_process: str


Judge = Callable[[ClusterWorld, list[Lease]], Iterable[str]]
"""Gets the world and the present leases, and yields a sentence for each violation."""

Leaders = Mapping[str, tuple[str, ...]]
"""Node that believes that it leads -> the voters in its configuration."""


class OnLeaseChange:
    """Calls a judge that reads only leases, and only when the leases have changed."""

    def __init__(self, judge: Callable[[list[Lease]], Iterator[str]]) -> None:
        self._judge = judge
        self._held: list[Lease] = []

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        if held == self._held:
            return iter(())
        self._held = held
        return self._judge(held)


class MajorityReach:
    """Remembers when each node could last reach a majority (H-21).

    If one cut ends and another begins between two checks, messages may have passed on every link that only one of them
    cuts. A machine that is suspended at both checks may have run in between.
    """

    def __init__(self) -> None:
        self._reached: dict[str, float] = {}
        self._reaching: list[str] = []
        self._ways: object = None
        """The input of `_reaching`: leaders with their voters, suspended machines, cuts."""
        self._cuts: dict[Path, int] = {}
        self._still: dict[str, tuple[int, int]] = {}

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        now = world.loop.now_s
        leaders = {machine.name: machine.voters() for machine in world.machines.values() if machine.leads}
        cuts = world.network.cuts
        still = {name: since for name, machine in world.machines.items() if (since := machine.suspension) is not None}
        ways = (leaders, still, cuts)
        if ways != self._ways:
            cut = dict(self._cuts.items() & cuts.items())
            stood = dict(self._still.items() & still.items())
            self._ways, self._cuts, self._still = ways, cuts, still
            self._reaching = _reaching(world, leaders, world.hears)

            def heard(a: str, b: str) -> bool:
                return a not in stood and b not in stood and (b, a) not in cut

            self._reached.update(dict.fromkeys(_reaching(world, leaders, heard), now))
        self._reached.update(dict.fromkeys(self._reaching, now))
        return sides.judge(now, [each.node for each in held], self._reached)


def _reaching(world: ClusterWorld, leaders: Leaders, hears: Callable[[str, str], bool]) -> list[str]:
    return [name for name in world.machines if not leaders or sides.reaches_majority(name, leaders, hears)]


class Unanswered:
    """Remembers since when the cluster is stable, and which publishes wait during that time (H-06)."""

    def __init__(self) -> None:
        self._waits = unanswered.Waits()
        self._connects = available.Connects()
        self._calm_since: dict[str, float] = {}
        self._then = 0.0

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        now, then = world.loop.now_s, self._then
        if now - then < 0.5:
            return
        self._then = now
        views = {each.view for each in held}
        calm = len(views) == 1 and len(held[0].rows) == len(held) > len(world.machines) // 2
        nodes = {each.node for each in held} if calm else set()
        copied = world.swarm.options.queue_replicas > 1
        for name, machine in world.machines.items():
            # with copies slots change their primaries, and a node whose log hangs does not follow
            if name not in nodes or machine.disk_is_slow(now) or (copied and machine.log_is_slow(now)):
                self._calm_since.pop(name, None)
            else:
                self._calm_since.setdefault(name, now)
        yield from self._connects.judge(now - then, self._unconnected(world), world.swarm.latency_s[1])
        readers = [client for client in world.clients if client.spec.filters]
        homes = {client.server.name for client in readers}
        # a node that was away for too long waits for an empty disk; its former sessions are waited for until then
        homes.update([each.node for client in readers for each in client.lists])
        waited_for = {name: now - self._calm_since.get(name, now) for name in nodes | homes}
        attempts = [
            flight.attempt
            for client in world.clients
            if client.connected and client.server.name in nodes and client.host.name in nodes and client.reads
            if client.is_read or not world.network.slowed  # else its node waits for a slow link before it reads more
            for flight in client.sender.open.values()
            if not flight.released and _accepted(world, client, flight.attempt)
        ]
        room_bytes = min(world.plan.settings.links.replica_window_bytes, world.swarm.options.pause_reading_bytes)
        little = unanswered.takes_little(room_bytes, world.swarm.latency_s[1])
        slow_copies = copied and (world.network.slowed or little)
        yield from self._waits.judge(now - then, attempts, waited_for, slow_copies)

    def _unconnected(self, world: ClusterWorld) -> Iterator[tuple[str, int]]:
        """Yield the connections without CONNACK at nodes that are calm."""
        if world.network.slowed or world.network.lossy:
            return
        for client in world.clients:
            connection = client.connection
            if connection is None or client.connected:
                continue
            needed = {each.name for each in (client.host, client.server, client.former_server) if each is not None}
            if needed <= self._calm_since.keys():
                yield client.name, connection.number


class Metadata:
    """Notes whether all nodes that serve may lack metadata, such as routes, that an absent node has.

    A loss of power under `os` costs the last writes. Before a node serves again it gets the metadata of those that
    serve. If all of them lost power, nobody knows a route that only the absent node has kept, and the promise of two
    copies holds for one node (3 nodes, copies, seed 5200767).
    """

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        history = world.history
        if history.gappy:
            for view in {each.view for each in held}:
                serving = {each.node for each in held if each.view == view}
                history.metadata_lost = history.metadata_lost or serving <= history.gappy
                history.gappy -= serving
        return iter(())


class Maps:
    """Compares the replicated maps of all nodes, durable and volatile halves (H-16)."""

    def __init__(self) -> None:
        self._then = 0.0

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        if world.loop.now_s - self._then < MAPS_S:
            return
        self._then = world.loop.now_s
        maps = {name: machine.member.metadata for name, machine in world.machines.items() if machine.member is not None}
        for half in (0, 1):
            yield from agreement.judge_seen((name, *each.digests(half)) for name, each in maps.items())


class LeaseTimes:
    """Compares the cluster time that leases say (H-17).

    Under a policy `on` nothing is compared: a node that serves without a leader takes its wall clock.
    """

    def __init__(self) -> None:
        self._clocks = clocks.Clocks()

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        if not _is_lenient(world):
            now_s = world.loop.now_s
            true_ms = EPOCH_MS + now_s * 1000
            times = {each.node: _cluster_ms(world.machines[each.node]) - true_ms for each in held}
            yield from self._clocks.judge(now_s, times)


def _cluster_ms(machine: ClusterMachine) -> float:
    """The leader's cluster time now, as the lease of a machine says it."""
    assert machine.member is not None and machine.member.lease_service is not None
    return machine.member.lease_service.holder.offset_ms + machine.mono_s() * 1000


class Slots:
    """Compares the slot tables of the nodes, each time that one has changed (H-22 to H-25)."""

    def __init__(self) -> None:
        self._history = slots.SlotHistory()
        self._seen: dict[str, SlotTable] = {}

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        for machine in world.machines.values():
            member = machine.member
            if member is None or member.registrar.problem or member.slots is self._seen.get(machine.name):
                continue
            self._seen[machine.name] = member.slots
            known = member.membership.members
            rows = member.view.rows
            present = {row.node: Holder(row.node, known[row.node].disk, row.entered_in_view) for row in rows}
            yield from self._history.judge(machine.name, member.slots, present)


def _accepted(world: ClusterWorld, client: RoamingClient, attempt: Attempt) -> bool:
    """Whether the node has certainly accepted this PUBLISH.

    A PUBLISH from before the connection was sent again with DUP when the connection began. A PUBLISH may wait for the
    disk before the policy decides on it; an event of a denial shows that the policy has decided. While slots have too
    few copies, the node may have deferred it.
    """
    assert client.connection is not None
    flag = world.swarm.options.allow_publish_during_netsplit
    opened_at, between, name = client.connection.opened_at, world.history.views.between, client.server.name
    sent_at = max(attempt.sent_at, opened_at)
    if world.history.few_copies.were_few(name, sent_at):
        return False
    come_at = max(sent_at + world.swarm.delay_s[1], unanswered.denied_at(world.history.events, attempt, sent_at))
    arrival, later = between(name, sent_at, come_at), between(name, come_at, world.loop.now_s)
    return unanswered.accepted(flag, arrival, later, attempt.sent_at < opened_at)


def invariants() -> tuple[Judge, ...]:
    """Returns all invariants, new for each simulation."""
    return (
        OnLeaseChange(roles.judge),
        OnLeaseChange(leases.judge),
        MajorityReach(),
        Unanswered(),
        Slots(),
        Metadata(),
        Maps(),
        LeaseTimes(),
        _refused,
        Relays(),
    )


def _refused(world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
    """A node that the cluster refuses has no clients, even if its policy asks for no lease (H-01)."""
    for machine in world.machines.values():
        node, member = machine.node, machine.member
        problem = "" if member is None else member.registrar.problem
        if problem and node is not None and any(session.online for session in node.sessions.in_memory()):
            yield f"refused: {machine.name} serves ({problem})"


class Relays:
    """Sessions are served by their primaries, nothing in the relays exceeds its limit (H-31), and both ends of a relay
    know the same connections (H-32)."""

    def __init__(self) -> None:
        self._one_end = relay_bounds.OneEnd()

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Check now."""
        leased = {each.node for each in held}
        running = [machine for machine in world.machines.values() if not machine.gate.shut]
        found = [each for machine in running for each in relay.served(machine, machine.name in leased)]
        for each in found:
            if each.leaving:
                world.history.leaving.setdefault(each.client, []).append((world.loop.now_s, each.node))
        yield from primaries.judge(found)
        for machine in running:
            yield from relay_bounds.judge(machine.name, relay.levels(machine))
        for sender, receiver, has, gave in relay.credits(running):
            yield from relay_bounds.credit(sender, receiver, has, gave)
        linked = relay.linked(running)
        asked, served = relay.ends(running)
        yield from self._one_end.judge(
            world.loop.now_s,
            {pair: numbers for pair, numbers in asked.items() if pair in linked},
            {pair: numbers for pair, numbers in served.items() if pair in linked},
        )


class InvariantMonitor:
    """Checks the invariants every `EVERY_S`, from `begin` on, and some of them at each promise that leaves a node.

    `problems` has each violation once, as a sentence, in the order of discovery. `leases` counts the leases that the
    checks have read.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._judges = invariants()
        self.problems: dict[str, None] = {}
        self.leases = 0
        self._shown: dict[str, str] = {}
        self._known_leases: dict[str, tuple[object, Lease]] = {}
        self._since: dict[str, tuple[int, int]] = {}
        self._table = SlotTable()

    def begin(self) -> None:
        """Check from now on."""
        self._look()

    def _look(self) -> None:
        world = self._world
        held = self._leases_now()
        self.leases += len(held)
        for machine in world.machines.values():
            self.note_state(machine)
        self._check(self._judges, held)
        world.loop.call_later(EVERY_S, self._look)

    def _check(self, judges: tuple[Judge, ...], held: list[Lease]) -> None:
        for judge in judges:
            for text in judge(self._world, held):
                self.report(text)

    def watch(self, machine: ClusterMachine) -> None:
        """Also check whenever a newly started process sends a promise or its lease changes."""
        clustering = machine.clustering
        assert clustering is not None
        changed = clustering.lease_changed

        def watched() -> None:
            changed()
            self.note_state(machine)

        clustering.lease_changed = watched  # type: ignore[method-assign]
        self._watch_slots(machine)
        self.watch_promises(machine)

    def _watch_slots(self, machine: ClusterMachine) -> None:
        """Record the in-sync sets when the first node applies a slot table."""
        clustering: Any = machine.clustering
        member, changed, history = machine.member, clustering.slots_changed, self._world.history
        assert member is not None

        def watched() -> None:
            if member.slots.index > self._table.index:
                for text in slots.judge_losses(self._table, member.slots, self._disks()):
                    self.report(text)
                for row in member.slots.changes_since(self._table):
                    disks = tuple([holder.disk for holder in row.in_sync])
                    history.holders.setdefault(row.slot, []).append((history.commits, disks))
                self._table = member.slots
            changed()

        clustering.slots_changed = watched

    def _disks(self) -> set[str]:
        """The present disks of the machines, but for those that the cluster may give up: an operator removes the node,
        it has left in order and has no session any more, or small limits make it stale."""
        plan = self._world.plan
        if plan.settings != USUAL:
            return set()
        leaving = plan.departure[1] if plan.departure is not None else ""
        machines = [each for each in self._world.machines.values() if each.name != leaving]
        departs = {step.fault.node for step in plan.schedule.steps if isinstance(step.fault, rare.Depart)}
        left = [each for each in machines if each.name in departs and each.node is not None and not each.node.sessions]
        return {each.disk_id for each in machines if each not in left}

    def watch_promises(self, machine: ClusterMachine) -> None:
        """Also check whenever the node lets an acknowledgement leave."""
        node: Any = machine.node
        allows = node.env.cluster.may_acknowledge
        lenient = _is_lenient(self._world)

        def guarding(connection: Any, promised: int, out: list[bytes]) -> bool:
            leaves = allows(connection, promised, out)
            if leaves:
                self._promised(machine, lenient)
            return bool(leaves)

        node.env.cluster.may_acknowledge = guarding

    def _promised(self, machine: ClusterMachine, lenient: bool) -> None:
        member = machine.member
        if member is None or not member.clustered:
            return
        if not _holds_lease(machine) and not lenient and not member.standalone:
            self.report(f"two leases: {machine.name} promises without a lease")
            return
        self._check(self._judges[:AT_PROMISES], self._leases_now())

    def report(self, text: str) -> None:
        """Record a violation, the same one only once."""
        if text not in self.problems:
            self.problems[text] = None
            self._world.history.trace("PROBLEM", text)

    def note_state(self, machine: ClusterMachine) -> None:
        """Record in the history the node's view state, and the time when it entered a view."""
        node, history = machine.node, self._world.history
        if node is None or machine.member is None:
            return
        history.views.note(machine.name, self._world.loop.now_s, node.policy.view_state)
        incarnation = machine.member.incarnation
        since = (machine.life, 0 if incarnation is None else incarnation.entered_in_view)
        if since[1] and self._since.get(machine.name) != since:
            self._since[machine.name] = since
            history.life(machine.name).entered.append(self._world.loop.now_s)
        if history.lines is not None:
            self._show(machine)

    def _show(self, machine: ClusterMachine) -> None:
        """Add a line to the trace if the view, the lease or the leader has changed."""
        member, node = machine.member, machine.node
        assert member is not None and node is not None
        rows = " ".join(
            f"{row.node}/{row.boot}@{row.entered_in_view}{'' if row.serving else '?'}" for row in member.view.rows
        )
        leads = "leads, " if member.consensus is not None and member.consensus.leads else ""
        text = f"{leads}{node.policy.view_state.value}, view {member.view.id}: {rows}"
        if self._shown.get(machine.name) != text:
            self._shown[machine.name] = text
            self._world.history.trace(machine.name, text)

    def _leases_now(self) -> list[Lease]:
        return [self._lease(machine) for machine in self._world.machines.values() if _holds_lease(machine)]

    def _lease(self, machine: ClusterMachine) -> Lease:
        """Returns the lease that a machine holds. It is the same object until a field changes."""
        member, name = machine.member, machine.name
        assert member is not None
        known = member.membership.members.get(name)
        source = (member, member.view, known)
        before = self._known_leases.get(name)
        if before is not None and before[0] == source:
            return before[1]
        row = member.view.row(name)
        lease = Lease(
            name,
            member.view.id,
            row.entered_in_view if row is not None else -1,
            tuple([(each.node, each.entered_in_view) for each in member.view.rows]),
            machine.boot,
            row.boot if row is not None else -1,
            member.me.process,
            known.process if known is not None else "",
        )
        self._known_leases[name] = (source, lease)
        return lease


def _is_lenient(world: ClusterWorld) -> bool:
    """Whether the policy `on` lets nodes serve without a lease."""
    options = world.swarm.options
    return any(getattr(options, f"allow_{operation}_during_netsplit") == "on" for operation in OPERATIONS)


def _holds_lease(machine: ClusterMachine) -> bool:
    """Whether a running process holds a lease. The check does not change the process."""
    member = machine.member
    if member is None or member.lease_service is None or member.closed or machine.gate.shut:
        return False
    return member.lease_service.holder.serving and member.lease_service.left_ms() > 0
