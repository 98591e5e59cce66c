"""A scenario: faults and clients that somebody wrote down, where a seed would draw them.

A seed still decides clocks, delays, disks, durability and which node leads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from ...storage.engine import Durability
from ..cluster_plan import ClusterPlan, plan
from ..faults.schedule import FaultSchedule
from ..simulation import ClusterSimulation
from ..workload.swarm import ClientSpec
from .script import Act, with_script


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario; `about` says what happens.

    `schedule` is the text of a `FaultSchedule`; without one the seed draws faults of these `kinds`. With `clients` only
    these take part (`with_script`): their nodes have `policy` for all operations, they publish with `qos`, and do what
    `acts` say. `sockets_first`: a process that stood still reads its sockets before it looks at its timers, as asyncio
    does. There are at least `nodes` nodes.
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

    def plan(self, seed: int, nodes: int, durability: Durability | None, seconds: float) -> ClusterPlan:
        """The plan of a seed in this scenario, with `seconds` under faults."""
        found = plan(seed, nodes, durability, seconds, () if self.schedule else self.kinds)
        if self.schedule:
            found = replace(found, schedule=FaultSchedule.parse(self.schedule))
        return found if self.clients is None else with_script(found, self.clients, self.policy, self.qos)

    def begin(self, simulation: ClusterSimulation) -> None:
        """The faults begin: put the acts of the clients on the timetable."""
        for machine in simulation.world.machines.values():
            machine.gate.sockets_first = self.sockets_first
        for at_s, act in self.acts:
            simulation.world.loop.call_later(at_s, partial(act, simulation))
