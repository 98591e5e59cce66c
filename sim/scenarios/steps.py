"""Step by step: run a protocol once for each of its steps, with one fault at this step.

Random times seldom hit the moment between two messages. Here a first run without faults notes the times at which
anything happens while the protocol runs: a message arrives, a disk is done, a timer runs. These are its steps. Then the
same run is repeated for each step, each node and each kind of fault, which begins right after this step. The same seed
always has the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..cluster_plan import ClusterPlan
from ..faults.kinds import Cut, parse
from ..faults.schedule import FaultSchedule, Step
from ..simulation import ClusterSimulation, Outcome
from ..variants import vary
from ..workload.swarm import ClientSpec
from .scenario import Scenario
from .script import (
    IDLE_S,
    Act,
    client,
    leaves,
    leaves_topic,
    member,
    moves,
    publishes,
    reader,
    retains,
    slot_moves,
    wants_topic,
    writer,
)

SECONDS = 12.0
"""Virtual time, in seconds, until all faults end."""
BEHIND_S = 1e-7
"""The time between a step and the fault, in virtual seconds."""
FAULTS = ("fast_restart {node}", "pause {node} 3s", "cut {node} | {others}")
CUT_S = 3.0
"""The length of a cut, in seconds: long enough for a view without the node."""
AT_S = 4.0
"""When the protocol begins, in virtual seconds after the begin of the faults."""
FOR_S = 0.3
"""The longest time that a protocol takes, in virtual seconds."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a protocol, and a fault behind one of its steps. `variants` are keys of `VARIANTS`."""

    protocol: str
    seed: int
    number: int
    fault: Step
    variants: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol}, seed {self.seed}, step {self.number}: {self.fault}"


def _protocol(name: str, about: str, clients: dict[str, ClientSpec], *acts: Act, qos: int = 1) -> Scenario:
    return Scenario(name, about, clients=clients, acts=acts, qos=qos, kinds=())


_ELSEWHERE = (moves(2.0, "n1", "c0"), moves(2.5, "n3", "w0"))
_WRITER = {"n2.": writer("w0", IDLE_S)}
_TWO = {"n2": reader(), **_WRITER}
_TWO_TOPICS = {"n2": client("c0", ("t/0", "t/1"), version=5), "n2.": writer("w0", IDLE_S, ("t/0", "t/1"))}
_RETAINED = {"n2": client("c0", ("t/0", "r/1"), version=5), "n2.": writer("w0", IDLE_S, ("t/0", "r/1"))}
_QOS_2 = {"n2": client("c0", ("t/0",), version=5, qos=2), **_WRITER}
_WILL = {"n2": replace(reader(), will=(1, 0)), **_WRITER}
_MEMBERS = {"n2": member("c0"), "n3": member("c1"), **_WRITER}
_TWO_DURABLE = {"n2": client("c0", ("t/0",), version=5, qos=2), "n2.": client("w0", topics=("t/0",), version=5)}
_CLEAN = {"n2": reader(clean=True), "n3": writer("w0", IDLE_S)}


def _during(at_s: float) -> tuple[Act, ...]:
    """Returns a publish every 10 ms."""
    return tuple([publishes(at_s + number / 100) for number in range(20)])


_ALL = (
    _protocol("takeover", "a durable client connects to another gateway", _TWO,
              *_ELSEWHERE, publishes(3.9), moves(AT_S, "n3", "c0"), publishes(4.01)),
    _protocol("subscribe", "a durable client subscribes at a gateway, and messages follow", _TWO_TOPICS,
              *_ELSEWHERE, leaves_topic(3.0, "c0", "t/1"), wants_topic(AT_S, "c0", "t/1"),
              publishes(4.1, "w0", "t/1"), publishes(4.15)),
    _protocol("qos1", "messages for a durable client at a gateway, from one at another gateway", _TWO,
              *_ELSEWHERE, publishes(AT_S), publishes(4.05), publishes(4.1)),
    _protocol("qos2", "the same with QoS 2", _QOS_2, *_ELSEWHERE, publishes(AT_S), publishes(4.05), qos=2),
    _protocol("clean", "a clean client connects to a node that does not register it, and then to another one", _CLEAN,
              moves(AT_S, "n1", "c0"), publishes(4.1), moves(4.15, "n3", "c0"), publishes(4.25)),
    _protocol("leaving", "a durable client leaves its gateway, and comes back at another one", _TWO,
              *_ELSEWHERE, leaves(AT_S, "c0"), publishes(4.1), moves(4.2, "n2", "c0"), publishes(4.25)),
    _protocol("will", "a durable client with a will loses its connection to a gateway, and comes back at another one",
              _WILL, *_ELSEWHERE, publishes(3.9), leaves(AT_S, "c0"), moves(4.2, "n3", "c0"), publishes(4.25)),
    _protocol("retained", "a message is retained, and a durable client at a gateway subscribes to it", _RETAINED,
              *_ELSEWHERE, leaves_topic(3.0, "c0", "r/1"), retains(AT_S, "w0", "r/1"), wants_topic(4.1, "c0", "r/1"),
              publishes(4.2, "w0", "r/1")),
    _protocol("shared", "messages for a shared subscription, one member of which leaves and comes back", _MEMBERS,
              *_ELSEWHERE, publishes(AT_S), leaves(4.05, "c0"), publishes(4.1), moves(4.2, "n2", "c0"),
              publishes(4.25)),
    _protocol("slot", "the slot of a durable client at a gateway moves, while messages arrive from a third node", _TWO,
              *_ELSEWHERE, publishes(3.9), slot_moves(AT_S, "n3"), *_during(AT_S)),
    _protocol("slot_qos2", "the same with QoS 2, to the node of the writer", _QOS_2, *_ELSEWHERE, publishes(3.9),
              slot_moves(AT_S, "n3"), *_during(AT_S), qos=2),
    _protocol("slot_asleep", "the slot of a client that is away moves there and back", _QOS_2, *_ELSEWHERE,
              publishes(3.8), leaves(3.85, "c0"), slot_moves(3.9, "n1"), slot_moves(AT_S, "n2"), *_during(AT_S),
              moves(4.3, "n3", "c0")),
    _protocol("slot_writer", "the slot of a durable client that publishes moves", _TWO_DURABLE, *_ELSEWHERE,
              publishes(3.99), publishes(3.995), slot_moves(AT_S, "n1", "w0"), *_during(4.05), qos=2),
    _protocol("slot_shared", "the slot of a member of a shared subscription moves", _MEMBERS, *_ELSEWHERE,
              publishes(3.9), slot_moves(AT_S, "n1"), *_during(AT_S), qos=2),
    _protocol("shared_qos2", "the same with QoS 2", _MEMBERS, *_ELSEWHERE, publishes(AT_S), leaves(4.05, "c0"),
              publishes(4.1), moves(4.2, "n2", "c0"), publishes(4.25), qos=2),
)  # fmt: skip

PROTOCOLS: dict[str, Scenario] = {each.name: each for each in _ALL}
"""Every protocol by its name. The sessions are at the homes of the clients, and the clients connect elsewhere."""


def _plan(protocol: Scenario, seed: int, variants: tuple[str, ...], *faults: Step) -> ClusterPlan:
    found = protocol.plan(seed, protocol.nodes, None, SECONDS)
    found = replace(found, schedule=FaultSchedule(faults))
    return vary(found, variants)


def steps(name: str, seed: int, variants: tuple[str, ...] = ()) -> list[float]:
    """Returns the times of the steps of a protocol, in seconds after the begin of the faults."""
    protocol = PROTOCOLS[name]
    simulation = ClusterSimulation(_plan(protocol, seed, variants), script=protocol.begin)
    simulation.begin()
    loop = simulation.world.loop
    begin_s = loop.now_s
    simulation.begin_faults()
    loop.run_until(begin_s + AT_S)
    found: set[float] = set()
    while loop.now_s < begin_s + AT_S + FOR_S and loop.turn():
        found.add(loop.now_s)
    return [when - begin_s for when in sorted(found)]


def cases(name: str, seed: int, every: int = 1, variants: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield the runs of a protocol, for each `every`th step."""
    nodes = _plan(PROTOCOLS[name], seed, variants).nodes
    for number, when in enumerate(steps(name, seed, variants)):
        if number % every:
            continue
        for node in nodes:
            for text in FAULTS:
                yield Case(name, seed, number, fault_at(when, text, node, nodes), variants)


def fault_at(when: float, text: str, node: str, nodes: tuple[str, ...]) -> Step:
    """Returns the fault of a text like those of `FAULTS`, for one of the nodes, right after a step."""
    fault = parse(text.format(node=node, others=" ".join([each for each in nodes if each != node])))
    return Step(when + BEHIND_S, fault, CUT_S if isinstance(fault, Cut) else None)


def run_case(case: Case, trace: bool = False) -> Outcome:
    """Run one case from begin to verdict. An exception anywhere in a node is a violation as well."""
    protocol = PROTOCOLS[case.protocol]
    plan = _plan(protocol, case.seed, case.variants, case.fault)
    return ClusterSimulation(plan, trace, script=protocol.begin).judged()
