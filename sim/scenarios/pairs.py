"""Pairs of faults: the second one strikes while the copies that the first one has cost are made again.

Slots have two copies. The first fault takes the primary or the follower of one client's slot away. A run with that
fault alone notes the steps of the repair: each change of what any node knows of the copies of this slot, and each item
of a copy that arrives. Then the run is repeated with a second fault behind each step, at each node: the new primary,
the node that is being filled, or the same node again, in the middle of its return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...broker.clustering.copy_codec import Begin, Digests, End, Rows, decode_item
from ...cluster.identity import slot_of
from ..cluster_plan import ClusterPlan
from ..faults.schedule import FaultSchedule, Step
from ..machines import ClusterMachine
from ..simulation import ClusterSimulation, Outcome
from ..variants import COPIES, small_items, vary
from .scenario import Scenario
from .script import IDLE_S, TOPIC, Act, client, leaves, member, moves, publishes, reader, slot_moves, writer
from .steps import AT_S, fault_at

SECONDS = 14.0
"""Virtual time, in seconds, until all faults end."""
FILL_S = 6.0
"""The steps of the repair are those of so many virtual seconds after the first fault."""
FAULTS = ("kill {node}", "fast_restart {node}", "pause {node} 3s", "cut {node} | {others}", "disk_lost {node}")
"""The kinds of the first fault and, but for `kill`, which is then like `fast_restart`, of the second one."""
ROLES = ("primary", "follower")
"""The nodes that the first fault strikes, by what they are for the slot then."""
PACE_S = 0.1
"""The time between two publishes while the copies are made again, in seconds."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run: a protocol, a fault of the node with a role, and another fault behind a step of the repair. `variants`
    are keys of `VARIANTS`, besides `COPIES`."""

    protocol: str
    seed: int
    number: int
    role: str
    first: Step
    second: Step
    variants: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol}, seed {self.seed}, step {self.number}: {self.first} ({self.role}), then {self.second}"


def _scenario(name: str, about: str, clients: dict[str, Any], *acts: Act, qos: int = 1) -> Scenario:
    stream = tuple([publishes(AT_S - 0.4 + number * PACE_S) for number in range(80)])
    return Scenario(name, about, clients=clients, acts=(*_ELSEWHERE, *acts, *stream), qos=qos, kinds=())


def _backlog(at_s: float, number: int) -> tuple[Act, ...]:
    """Returns publishes of large messages: more than one item of a copy can have."""
    return tuple([(at_s + each * 0.02, _publish_large) for each in range(number)])


def _publish_large(simulation: ClusterSimulation) -> None:
    found = next(each for each in simulation.world.clients if each.name == "w0")
    if found.connected:
        found.sender.publish(TOPIC, 1, size=8000)


_ELSEWHERE = (moves(2.0, "n1", "c0"), moves(2.5, "n3", "w0"))
_WRITER = {"n2.": writer("w0", IDLE_S)}
_WRITER_5 = {"n3.": client("w0", topics=(TOPIC,), version=5)}
_READER_2 = client("c0", (TOPIC,), version=5, qos=2)

_ALL = (
    _scenario("qos1", "messages for a durable client at a gateway", {"n2": reader(), **_WRITER}),
    _scenario("qos2", "the same with QoS 2, from a durable client", {"n2": _READER_2, **_WRITER_5}, qos=2),
    _scenario("away", "large messages wait for a client that is away, and comes back", {"n2": _READER_2, **_WRITER},
              leaves(3.0, "c0"), *_backlog(3.1, 24), moves(AT_S + 4.5, "n3", "c0")),
    _scenario("will", "a client with a will loses its connection, and comes back late",
              {"n2": replace(reader(), will=(1, 0)), **_WRITER}, leaves(AT_S + 2.6, "c0"),
              moves(AT_S + 7.9, "n3", "c0")),
    _scenario("shared", "messages with QoS 2 for a shared subscription",
              {"n2": member("c0"), "n3": member("c1"), **_WRITER_5}, leaves(AT_S + 2.6, "c0"),
              moves(AT_S + 3.4, "n2", "c0"), qos=2),
    _scenario("moving", "the slot of the client is moved meanwhile", {"n2": reader(), **_WRITER},
              *[slot_moves(AT_S + at_s, node) for at_s, node in ((2.4, "n1"), (3.2, "n2"), (4.0, "n3"))]),
)  # fmt: skip

PAIRS: dict[str, Scenario] = {each.name: each for each in _ALL}
"""Every protocol of pairs by its name. The slot is that of the client `c0`, and is at n2 when the faults begin."""

SLOT = slot_of("", "c0")


def _plan(protocol: Scenario, seed: int, variants: tuple[str, ...], *faults: Step) -> ClusterPlan:
    found = protocol.plan(seed, protocol.nodes, None, SECONDS)
    return vary(replace(found, schedule=FaultSchedule(faults)), (*variants, COPIES))


def _begun(plan: ClusterPlan, protocol: Scenario) -> tuple[ClusterSimulation, float]:
    """Returns a simulation in which the faults begin, and that time."""
    simulation = ClusterSimulation(plan, script=protocol.begin)
    simulation.begin()
    begin_s = simulation.world.loop.now_s
    simulation.begin_faults()
    return simulation, begin_s


def _roles(simulation: ClusterSimulation) -> dict[str, str]:
    """Returns the nodes of `ROLES` now. The slot has two copies."""
    tables = [each.member.slots for each in simulation.world.machines.values() if each.member is not None]
    row = max(tables, key=lambda table: table.index).row(SLOT)
    assert row.primary is not None and len(row.in_sync) == 2, row
    (follower,) = [holder for holder in row.in_sync if holder != row.primary]
    return {"primary": row.primary.node, "follower": follower.node}


def repair(name: str, seed: int, first: Step, variants: tuple[str, ...] = ()) -> list[float]:
    """Returns the times of the steps of the repair after a fault, in seconds after the begin of the faults."""
    plan = _plan(PAIRS[name], seed, variants, first)
    with small_items(plan):
        simulation, begin_s = _begun(plan, PAIRS[name])
        simulation.world.loop.run_until(begin_s + first.at_s)
        found = _steps(simulation, begin_s + first.at_s + FILL_S)
    return [when - begin_s for when in found]


def _steps(simulation: ClusterSimulation, end_s: float) -> list[float]:
    """Run until that time. Returns the times of the steps."""
    loop, machines = simulation.world.loop, list(simulation.world.machines.values())
    found: set[float] = set()
    before = [_known(machine) for machine in machines]
    watched: dict[str, int] = {}
    while loop.now_s < end_s and loop.turn():
        for machine in machines:
            if machine.node is not None and watched.get(machine.name) != machine.life:
                watched[machine.name] = machine.life
                _watch(machine, lambda: found.add(loop.now_s))
        now = [_known(machine) for machine in machines]
        if now != before:
            before = now
            found.add(loop.now_s)
    return sorted(found)


def _known(machine: ClusterMachine) -> object:
    """Returns everything that a node knows of the copies of the slot."""
    member, clustering, node = machine.member, machine.clustering, machine.node
    if member is None or clustering is None or node is None:
        return None
    slots = clustering.slots
    copies = [
        (each.attempt.number, each.phase, each.left.complete, each.left.waits, each.sent)
        for each in slots.replicator.copies.get(SLOT, ())
    ]
    kept = slots.copies._copies.get(SLOT)
    return (
        member.slots.row(SLOT), copies, kept and (kept.attempt.number, kept.complete, kept.said, kept.listed),
        node.slot_sessions.marks.get(SLOT), SLOT in slots.opening.leftovers, SLOT in slots.opening.unopened,
    )  # fmt: skip


def _watch(machine: ClusterMachine, seen: Callable[[], object]) -> None:
    """Call `seen` when an item of a copy of the slot arrives, but for the changes."""
    assert machine.clustering is not None
    copies: Any = machine.clustering.slots.copies
    take = copies.take

    def watched(node: str, seq: int, payload: bytes) -> None:
        item = decode_item(payload)
        if isinstance(item, Begin | Rows | Digests | End) and item.attempt.slot == SLOT:
            seen()
        take(node, seq, payload)

    copies.take = watched


def pairs(name: str, seed: int, every: int = 1, variants: tuple[str, ...] = ()) -> Iterator[Pair]:
    """Yield the runs of a protocol, for each `every`th step of each repair."""
    plan = _plan(PAIRS[name], seed, variants)
    with small_items(plan):
        simulation, begin_s = _begun(plan, PAIRS[name])
        simulation.world.loop.run_until(begin_s + AT_S)
    roles, nodes = _roles(simulation), tuple(simulation.world.machines)
    for role in ROLES:
        for text in FAULTS:
            first = fault_at(AT_S, text, roles[role], nodes)
            for number, when in enumerate(repair(name, seed, first, variants)):
                if number % every == 0:
                    make = partial(Pair, name, seed, number, role, first, variants=variants)
                    yield from [make(fault_at(when, second, node, nodes)) for node in nodes for second in FAULTS[1:]]


def run_pair(case: Pair, trace: bool = False) -> Outcome:
    """Run one case from begin to verdict. An exception anywhere in a node is a violation as well."""
    protocol = PAIRS[case.protocol]
    plan = _plan(protocol, case.seed, case.variants, case.first, case.second)
    return ClusterSimulation(plan, trace, script=protocol.begin).judged()
