"""What is demanded of a fleet: while it runs, and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..cluster.replicated_map.actors import COUNTER
from ..cluster.replicated_map.dvv import pairs
from ..cluster.transport.memory_stream import Path
from ..netsplit.policy import ViewState
from .checkers import agreement, leases, policies, rest, roles, sides, stale, unanswered, waits
from .checkers.case import Case
from .engine.machine import Machine
from .faults.kinds import Freeze, Pause
from .history import Attempt
from .invariants import Judge, Lease
from .judge import CHECKERS
from .workload.roaming_client import RoamingClient

if TYPE_CHECKING:
    from .cluster_world import ClusterWorld


Leaders = Mapping[str, tuple[str, ...]]
"""The voters as each node knows them that thinks that it leads."""


class News:
    """Asks a judge who looks at nothing but leases, only when they are others than before."""

    def __init__(self, judge: Callable[[list[Lease]], Iterator[str]]) -> None:
        self._judge = judge
        self._held: list[Lease] = []

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Asked every moment."""
        if held == self._held:
            return iter(())
        self._held = held
        return self._judge(held)


class Sides:
    """Remembers when each node could last reach a majority (H-21).

    Where one cut has ended and another has begun between two looks, what neither hinders came through; a machine that
    stands still at both may have run in between.
    """

    def __init__(self) -> None:
        self._reached: dict[str, float] = {}
        self._reaching: list[str] = []
        self._ways: object = None
        """From what `_reaching` followed: leaders with their voters, who stands still, cuts."""
        self._cuts: dict[Path, int] = {}
        self._still: dict[str, tuple[int, int]] = {}

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Asked every moment."""
        now = world.loop.now_s
        leaders = {machine.name: machine.voters() for machine in world.machines.values() if machine.leads}
        cuts = world.network.cuts
        still = {name: since for name, machine in world.machines.items() if (since := machine.still) is not None}
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
    """Remembers since when nothing happens, and what waits meanwhile (H-06)."""

    def __init__(self) -> None:
        self._waits = unanswered.Waits()
        self._calm_since: dict[str, float] = {}
        self._then = 0.0

    def __call__(self, world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
        """Asked every moment."""
        now, then = world.loop.now_s, self._then
        if now - then < 0.5:
            return iter(())
        self._then = now
        views = {each.view for each in held}
        calm = len(views) == 1 and len(held[0].rows) == len(held) > len(world.machines) // 2
        nodes = {each.node for each in held} if calm else set()
        for name in world.machines:
            if name not in nodes or world.machines[name].hindered(now):
                self._calm_since.pop(name, None)
            else:
                self._calm_since.setdefault(name, now)
        homes = {client.host.name for client in world.clients if client.spec.filters}
        waited_for = {name: now - self._calm_since.get(name, now) for name in nodes | homes}
        attempts = [
            flight.attempt
            for client in world.clients
            if client.connected and client.host.name in nodes and client.reads
            if client.is_read or not world.network.slowed  # else its node waits for a slow link before it takes more
            for flight in client.sender.open.values()
            if not flight.released and _accepted(world, client, flight.attempt)
        ]
        return self._waits.judge(now - then, attempts, waited_for)


def _accepted(world: ClusterWorld, client: RoamingClient, attempt: Attempt) -> bool:
    """What the client sent before this connection it sent again at its begin, with DUP. What waits for the disk, or
    behind what does, comes to the policy later: when that said no, it had come for sure."""
    assert client.connection is not None
    flag = world.swarm.options.allow_publish_during_netsplit
    opened_at, between, name = client.connection.opened_at, world.monitor.between, client.host.name
    sent_at = max(attempt.sent_at, opened_at)
    come_at = max(sent_at + world.swarm.delay_s[1], unanswered.denied_at(world.history.events, attempt, sent_at))
    arrival, later = between(name, sent_at, come_at), between(name, come_at, world.loop.now_s)
    return unanswered.accepted(flag, arrival, later, attempt.sent_at < opened_at)


AT_PROMISES = 3
"""So many of `judges`, from the first on, are asked at each promise, too: what is wrong may be so for a moment only."""


def judges() -> tuple[Judge, ...]:
    """Asked every moment."""
    return (
        News(roles.judge),
        News(leases.judge),
        Sides(),
        Unanswered(),
        _refused,
    )


def _refused(world: ClusterWorld, held: list[Lease]) -> Iterator[str]:
    """Who is refused serves nobody, also where the policy asks for no lease (H-01)."""
    for machine in world.machines.values():
        node, member = machine.node, machine.member
        problem = "" if member is None else member.registrar.problem
        if problem and node is not None and any(session.online for session in node.slots):
            yield f"refused: {machine.name} serves ({problem})"


def rests(world: ClusterWorld) -> bool:
    """Nothing is under way any more."""
    if not all(client.connected or client.gone for client in world.clients):
        return False
    if any(client.sender.open or client.wants for client in world.clients if client.connected):
        return False
    return not any(_waiting(world))


def _waiting(world: ClusterWorld) -> Iterator[str]:
    """What is not at rest on some node."""
    for machine in world.machines.values():
        node, member = machine.node, machine.member
        if node is None or member is None:
            yield f"{machine.name} does not run"
            continue
        if not machine.public:
            yield f"{machine.name} has not joined"
        if node.view_state is not ViewState.WHOLE or not member.leased():
            yield f"{machine.name} is {node.view_state.value} in view {member.view.id}"
        for text in waits.waiting(machine):
            yield f"{machine.name}: {text}"
        for session in node.slots:
            if session.online and (session.queue.inflight or session.queue.size):
                yield f"{machine.name}: queue of {session.client_id}"


def _still(world: ClusterWorld) -> Iterator[Pause | Freeze]:
    for step in world.plan.schedule.steps:
        if isinstance(step.fault, Pause | Freeze):
            yield step.fault


def _without_lease(world: ClusterWorld) -> None:
    """What a node was asked while it had no lease it accepted on what it could reach, whenever it said so."""
    history, options, between = world.history, world.swarm.options, world.monitor.between
    # where a policy does not allow it, an answer without a lease is no excuse: it must not have left (H-04)
    for attempt in history.attempts.values():
        attempt.without_lease = attempt.without_lease and options.allow_publish_during_netsplit == "on"
    for each in history.subscriptions:
        each.without_lease = each.without_lease and options.allow_subscribe_during_netsplit == "on"
    if options.allow_publish_during_netsplit == "on":
        for attempt in history.attempts.values():
            seen = between(attempt.node, attempt.sent_at, attempt.acked_at)
            attempt.without_lease = attempt.without_lease or ViewState.MINORITY in seen
    if options.allow_subscribe_during_netsplit == "on":
        for each in history.subscriptions:
            each.without_lease = each.without_lease or ViewState.MINORITY in between(
                each.node, each.asked_at, each.granted_at
            )
    if options.allow_register_during_netsplit == "on":
        for connections in history.connections.values():
            for one in connections:
                one.without_lease = ViewState.MINORITY in between(one.node, one.asked_at, one.opened_at)


def verdict(world: ClusterWorld) -> Iterator[str]:
    """Every violation."""
    yield from world.monitor.seen.problems
    history = world.history
    _without_lease(world)
    found = list(_waiting(world))
    found += rest.clients_waiting(world.all_clients, not history.power_lost)
    for machine in world.machines.values():
        if machine.node is not None:
            found += [f"{machine.name}: {text}" for text in rest.pending(machine.node, [], True, alone=False)]
            if not found:
                found += [f"{machine.name}: {text}" for text in rest.leftovers(machine.recorder.disk.content())]
    sessions = {client.name: client.epoch for client in world.clients if client.connected}
    case = Case(history, world.swarm, sessions, not history.power_lost, history.now(), found)
    case.scattered = True
    case.drift = max(abs(rate - 1.0) for rate in world.plan.rates) * 2
    case.stood_s = sum(fault.s for fault in _still(world))
    lengths = {str(fault): fault.s for fault in _still(world)}
    stood = [(each.node, each.at_s, each.at_s + lengths[each.kind]) for each in history.faults if each.kind in lengths]
    case.stood = tuple(stood)
    for check in CHECKERS:
        yield from check(case)
    yield from stale.check(case, world.monitor.between)
    yield from policies.check(case, world.monitor.between)
    if not found:
        yield from agreement.judge({name: _metadata(machine) for name, machine in world.machines.items()})


def _metadata(machine: Machine) -> dict[bytes, object]:
    """What every node has to have alike: the values of each key and the writes that they are."""
    member = machine.member
    assert member is not None
    metadata = member.metadata
    found: dict[bytes, object] = {}
    for replica in metadata._halves:
        for key, siblings in replica.walk():
            versions = [(metadata._actors.writer(dot), dot & COUNTER, value) for dot, value in pairs(siblings)]
            # a tombstone goes when a node knows that all have it: not everywhere at once
            live = sorted([each for each in versions if each[-1] is not None])
            if live:
                found[key] = live
    return found
