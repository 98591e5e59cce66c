"""Runs one seed, of one node or of several, with or without a planted bug."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..storage.engine import Durability
from .faults import FAILS
from .fleet.changing import with_changing_routes
from .fleet.fleet import Fleet
from .fleet.groups import with_groups
from .fleet.plan import ALL, KINDS, Plan, plan
from .fleet.plants import FLEET_PLANTS
from .fleet.rare import RARE
from .fleet.stages import STAGES
from .fleet.worlds import WORLDS, vary
from .plants import PLANTS
from .swarm import Swarm, draw
from .world import Outcome, World

SECONDS = 20.0
"""Virtual time under faults, before the healing."""

DRAWN = "drawn"
"""Stands for the kinds of worlds that the seed decides on."""

EVERY_RARE = "rare"
"""Stands for all kinds of faults that have to be asked for."""

ON_ONE_NODE = {
    "kill": "kill", "power_loss": "power", "fast_restart": "kill", "stop": "restart", "disk_stall": "stall",
    "disk_full": "full", "clock_jump": "wall", "volume_full": "full", "volume_stall": "stall", "write_fails": FAILS,
}  # fmt: skip
"""What kinds of faults are called in the swarm of one node, where they exist."""


@dataclass(frozen=True, slots=True)
class Order:
    """How seeds are to be run; `kinds` None lets each decide which kinds of faults there are. `cast` is a key of
    `CASTS`, "" for the clients that each seed draws. `worlds` are kinds of `WORLDS`, for several nodes; None lets each
    seed decide. `stage` is a key of `STAGES`: a script of faults and clients in the place of what the seed draws.
    """

    seconds: float = SECONDS
    durability: Durability | None = None
    plant: str | None = None
    nodes: int = 1
    kinds: tuple[str, ...] | None = None
    cast: str = ""
    worlds: tuple[str, ...] | None = ()
    stage: str = ""


CASTS: dict[str, Callable[[Plan], Plan]] = {"groups": with_groups, "routes": with_changing_routes}
"""Who takes part instead of the clients that a seed draws, for several nodes."""


def kinds_of(text: str) -> tuple[str, ...] | None:
    """Kinds of faults from words with commas between them; `all` alone is None, `none` is none."""
    if text == "all":
        return None
    asked = [word for word in text.split(",") if word and word != "none"]
    known = (*KINDS, *RARE)
    for word in asked:
        if word not in (ALL, EVERY_RARE, *known):
            raise argparse.ArgumentTypeError(f"{word!r} is not a kind of fault; there are {', '.join(known)}")
    return tuple([kind for word in asked for kind in (RARE if word == EVERY_RARE else (word,))])


def worlds_of(text: str) -> tuple[str, ...] | None:
    """Kinds of worlds from words with commas between them; `drawn` is None, `usual` is none of them."""
    if text == DRAWN:
        return None
    asked = tuple([word for word in text.split(",") if word and word != "usual"])
    for word in asked:
        if word not in WORLDS:
            raise argparse.ArgumentTypeError(f"{word!r} is not a kind of world; there are {', '.join(WORLDS)}")
    return asked


def run_seed(seed: int, order: Order | None = None, trace: bool = False) -> Outcome:
    """One seed from begin to verdict. An exception anywhere in a node is a violation as well."""
    world = _world(seed, order or Order(), trace)
    try:
        return world.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"crash: {type(error).__name__}: {error}, at {where.filename}:{where.lineno} in {where.name}"
        seen = tuple(world.overseer.seen.problems) if isinstance(world, Fleet) else ()
        return world.outcome((*seen, text))


def _world(seed: int, order: Order, trace: bool) -> World | Fleet:
    bug = FLEET_PLANTS.get(order.plant or "") or STAGES.get(order.stage)
    if bug is not None:
        found = bug.plan(seed, max(bug.nodes, order.nodes), order.durability, order.seconds)
        return Fleet(vary(found, order.worlds) if order.worlds else found, trace, bug)
    if order.nodes > 1:
        found = vary(plan(seed, order.nodes, order.durability, order.seconds, order.kinds), order.worlds)
        return Fleet(CASTS[order.cast](found) if order.cast else found, trace)
    swarm = draw(seed, order.durability, order.seconds)
    return World(swarm if order.kinds is None else _only(swarm, order.kinds), trace, PLANTS.get(order.plant or ""))


def _only(swarm: Swarm, kinds: tuple[str, ...]) -> Swarm:
    asked = [name for kind in kinds if (name := ON_ONE_NODE.get(kind)) is not None]
    return replace(swarm, faults=(*(swarm.faults if ALL in kinds else ()), *asked))
