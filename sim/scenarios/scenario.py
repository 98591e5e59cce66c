"""A scenario: hand-written faults and clients instead of those that a seed draws.

A seed still decides clocks, delays, disks, durability and the leader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from ...storage.engine import Durability
from ..cluster_plan import ClusterPlan, plan
from ..faults.schedule import FaultSchedule
from ..simulation import ClusterSimulation
from ..workload.swarm import ClientSpec
from .script import Act, with_script


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario; `about` describes it.

    `schedule` is the text of a `FaultSchedule`; without one the seed draws faults of these `kinds`. `clients` replace
    those of the seed (`with_script`): nodes have `policy` for all operations, clients publish with `qos` and perform
    `acts`. `sockets_first`: after a suspension a process reads its sockets before it runs its timers, as asyncio does.
    The cluster has at least `nodes` nodes. `options` are fields of `Options` that are not those of the seed.
    """

    name: str
    about: str
    schedule: str = ""
    clients: dict[str, ClientSpec] | None = None
    acts: tuple[Act, ...] = ()
    qos: int = 1
    policy: str = "majority"
    kinds: tuple[str, ...] | None = None
    nodes: int = 3
    sockets_first: bool = False
    options: dict[str, Any] | None = None

    def plan(self, seed: int, nodes: int, durability: Durability | None, seconds: float) -> ClusterPlan:
        """Returns the plan of a seed in this scenario, with `seconds` under faults."""
        found = plan(seed, nodes, durability, seconds, () if self.schedule else self.kinds)
        if self.schedule:
            found = replace(found, schedule=FaultSchedule.parse(self.schedule))
        if self.clients is not None:
            found = with_script(found, self.clients, self.policy, self.qos)
        options = msgspec.structs.replace(found.swarm.options, **(self.options or {}))
        return replace(found, swarm=replace(found.swarm, options=options))

    def begin(self, simulation: ClusterSimulation) -> None:
        """Schedule the acts of the clients. Called when the faults begin."""
        for machine in simulation.world.machines.values():
            machine.gate.sockets_first = self.sockets_first
        for at_s, act in self.acts:
            simulation.world.loop.call_later(at_s, partial(act, simulation))
