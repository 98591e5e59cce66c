"""Runs one seed, of one node or of several, with or without a planted bug."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..storage.engine import Durability
from .audit import audit
from .cluster_plan import ALL, KINDS, ClusterPlan, plan
from .faults.node_injector import FAILS
from .faults.rare import RARE
from .planted_bugs.cluster_bugs import CLUSTER_BUGS
from .planted_bugs.node_bugs import NODE_BUGS
from .scenarios.catalogue import SCENARIOS
from .simulation import JUDGED_S, ClusterSimulation, NodeSimulation, Outcome
from .variants import VARIANTS, vary
from .workload.changing_routes import with_changing_routes
from .workload.shared_groups import with_groups
from .workload.swarm import Swarm, draw

SECONDS = 20.0
"""Virtual time under faults, in seconds, before all faults end."""

DRAWN = "drawn"
"""Stands for the variants that the seed decides on."""

EVERY_RARE = "rare"
"""Stands for all kinds of faults of `RARE`."""

ON_ONE_NODE = {
    "kill": "kill", "power_loss": "power", "fast_restart": "kill", "stop": "restart", "disk_stall": "stall",
    "disk_full": "full", "clock_jump": "wall", "volume_full": "full", "volume_stall": "stall", "write_fails": FAILS,
}  # fmt: skip
"""Kind of fault -> its name in the swarm of one node, if it exists there."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run seeds.

    `seconds` is the virtual time under faults. `kinds` are the kinds of faults; None lets each seed decide. `workload`
    is a key of `WORKLOADS`, "" for the clients that each seed draws. `variants` are keys of `VARIANTS`, for several
    nodes; None lets each seed decide. `scenario` is a key of `SCENARIOS`: hand-written faults and clients, instead of
    those that the seed draws. `relay`: clients connect to any node, for several nodes.
    `bug` is a key of `NODE_BUGS` or `CLUSTER_BUGS`. `audit`: judge the event log. `apart_ms`: the clocks of the event
    logs are so far apart.
    """

    seconds: float = SECONDS
    durability: Durability | None = None
    bug: str | None = None
    nodes: int = 1
    kinds: tuple[str, ...] | None = None
    workload: str = ""
    variants: tuple[str, ...] | None = ()
    scenario: str = ""
    relay: bool = False
    audit: bool = False
    apart_ms: int = 0


WORKLOADS: dict[str, Callable[[ClusterPlan], ClusterPlan]] = {"groups": with_groups, "routes": with_changing_routes}
"""Name -> function that replaces the clients of a plan, for several nodes."""


def kinds_of(text: str) -> tuple[str, ...] | None:
    """Returns kinds of faults from words separated by commas. `all` alone means None, `none` no kind.

    Raises ArgumentTypeError.
    """
    if text == "all":
        return None
    asked = [word for word in text.split(",") if word and word != "none"]
    known = (*KINDS, *RARE)
    for word in asked:
        if word not in (ALL, EVERY_RARE, *known):
            raise argparse.ArgumentTypeError(f"{word!r} is not a kind of fault; there are {', '.join(known)}")
    return tuple([kind for word in asked for kind in (RARE if word == EVERY_RARE else (word,))])


def variants_of(text: str) -> tuple[str, ...] | None:
    """Returns variants from words separated by commas. `drawn` means None, `usual` no variant.

    Raises ArgumentTypeError.
    """
    if text == DRAWN:
        return None
    asked = tuple([word for word in text.split(",") if word and word != "usual"])
    for word in asked:
        if word not in VARIANTS:
            raise argparse.ArgumentTypeError(f"{word!r} is not a variant; there are {', '.join(VARIANTS)}")
    return asked


def run_seed(seed: int, options: RunOptions | None = None, trace: bool = False) -> Outcome:
    """Run one seed from begin to verdict. An exception anywhere in a node is a violation as well."""
    options = options or RunOptions()
    simulation = _simulation(seed, options, trace)
    if not options.audit and not options.apart_ms:
        return simulation.judged()
    rows: list[dict[str, Any]] = []
    causes = simulation.world.keep_log(rows, options.apart_ms)
    if options.audit:
        simulation.least_s = JUDGED_S
    outcome = simulation.judged()
    return replace(outcome, audit=audit(rows, outcome.violations, causes, options.audit))


def _simulation(seed: int, options: RunOptions, trace: bool) -> NodeSimulation | ClusterSimulation:
    bug = CLUSTER_BUGS.get(options.bug or "")
    scenario = bug or SCENARIOS.get(options.scenario)
    if scenario is not None:
        found = scenario.plan(seed, max(scenario.nodes, options.nodes), options.durability, options.seconds)
        varied = vary(found, options.variants) if options.variants else found
        varied = _relayed(varied, options)
        return ClusterSimulation(varied, trace, None if bug is None else bug.apply, scenario.begin)
    if options.nodes > 1:
        drawn = plan(seed, options.nodes, options.durability, options.seconds, options.kinds)
        varied = _relayed(vary(drawn, options.variants), options)
        return ClusterSimulation(WORKLOADS[options.workload](varied) if options.workload else varied, trace)
    return _node_simulation(seed, options, trace)


def _relayed(found: ClusterPlan, options: RunOptions) -> ClusterPlan:
    return replace(found, relay=True, late=()) if options.relay else found


def _node_simulation(seed: int, options: RunOptions, trace: bool) -> NodeSimulation:
    swarm = draw(seed, options.durability, options.seconds)
    if options.kinds is not None:
        swarm = _only(swarm, options.kinds)
    bug = NODE_BUGS.get(options.bug or "")
    return NodeSimulation(swarm, trace) if bug is None else NodeSimulation(swarm, trace, bug.apply, bug.durability)


def _only(swarm: Swarm, kinds: tuple[str, ...]) -> Swarm:
    asked = [name for kind in kinds if (name := ON_ONE_NODE.get(kind)) is not None]
    return replace(swarm, faults=(*(swarm.faults if ALL in kinds else ()), *asked))
