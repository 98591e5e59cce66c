"""One seed from begin to verdict: faults while clients work, then the healing, then everything has to come to rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Generic, TypeVar

from ..broker.node import Node
from ..storage.engine import Durability
from . import verdict
from .cluster_plan import USUAL, ClusterPlan
from .faults.cluster_injector import ClusterFaultInjector
from .faults.node_injector import NodeFaultInjector
from .invariants import InvariantMonitor
from .machines import ClusterMachine
from .shared_assignments import record_assignments
from .workload.swarm import Swarm
from .world import ClusterWorld, NodeWorld

JOIN_S = 30.0
"""Virtual time within which all nodes must have become one cluster at the begin."""
STEP_S = 1.0
"""How often the simulation looks whether everything is at rest."""
WILL_S = 8.0
"""The simulation goes on at least so long after the healing: longer than any will waits or session lasts."""
OPERATORS_S = 2.0
"""How often operators look at their nodes while faults happen, where a member may have been away too long."""
STEADY_S = 5.0
"""In a cluster a backlog may take longer, as long as a message is delivered every `STEADY_S`."""
LONGEST_S = 600.0
"""No simulation waits longer for rest."""

W = TypeVar("W", NodeWorld, ClusterWorld)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one seed: the violations, how much happened, and the trace if one was asked for."""

    seed: int
    violations: tuple[str, ...]
    messages: int
    deliveries: int
    faults: int
    clients: int
    lines: tuple[str, ...] = ()


class Simulation(Generic[W]):
    """The phases that simulations of one node and of several have in common."""

    heal_s = 60.0
    """Virtual time within which everything must have come to rest after the healing."""
    waits_for_backlog = False

    def __init__(self, world: W) -> None:
        self.world: W = world

    def run(self) -> Outcome:
        """All phases; the verdict."""
        loop = self.world.loop
        self.begin()
        self.begin_faults()
        end_s = loop.now_s + self.world.swarm.seconds
        while loop.now_s < end_s:
            loop.run_until(min(end_s, loop.now_s + OPERATORS_S))
            if self.looks_early:
                self.operate()
        self._heal()
        self._rest()
        return self.outcome(tuple(self.verdict()))

    def begin(self) -> None:
        """Start the nodes and the clients."""
        raise AssertionError("each kind of simulation begins in its way")

    def begin_faults(self) -> None:
        """From now on faults happen."""
        raise AssertionError("each kind of simulation has its faults")

    def heal(self) -> str:
        """End the faults; a text for the trace if nodes are restarted, too."""
        raise AssertionError("each kind of simulation ends its faults")

    def restart(self) -> None:
        """Restart what has to be restarted at the healing."""
        raise AssertionError("each kind of simulation has its restarts")

    def operate(self, healed: bool = False) -> None:
        """Do what an operator does for nodes that cannot go on; `healed`: no fault happens any more."""

    def at_rest(self) -> bool:
        """Whether nothing is under way any more."""
        raise AssertionError("each kind of simulation knows its rest")

    def verdict(self) -> Iterator[str]:
        """Every violation."""
        raise AssertionError("each kind of simulation has its checkers")

    @property
    def looks_early(self) -> bool:
        """Whether operators look at the nodes while faults happen, too."""
        return False

    @property
    def problems(self) -> tuple[str, ...]:
        """The violations that were seen before the end."""
        return ()

    def outcome(self, violations: tuple[str, ...]) -> Outcome:
        """The verdict, with what happened so far."""
        history = self.world.history
        return Outcome(
            self.world.swarm.seed,
            violations,
            len(history.attempts),
            len(history.deliveries),
            len(history.faults),
            len(self.world.clients),
            tuple(history.lines or ()),
        )

    def _heal(self) -> None:
        history = self.world.history
        restarted = self.heal()
        history.healed = history.next()
        history.healed_at = self.world.loop.now_s
        history.trace("FAULT", f"all is healed{restarted}")
        self.restart()
        for behaviour in self.world.behaviours:
            behaviour.calm()

    def _rest(self) -> None:
        loop, deliveries = self.world.loop, self.world.history.deliveries
        healed_s = loop.now_s
        limit_s = healed_s + self.heal_s
        while loop.now_s < min(limit_s, healed_s + LONGEST_S):
            before = len(deliveries)
            loop.run_for(STEP_S)
            self.operate(healed=True)
            if loop.now_s >= healed_s + WILL_S and self.at_rest():
                return
            if self.waits_for_backlog and len(deliveries) > before:
                limit_s = max(limit_s, loop.now_s + STEADY_S)


class NodeSimulation(Simulation[NodeWorld]):
    """A simulation with one node. `apply_bug` puts a bug into each node that is made, before it opens its disk."""

    def __init__(
        self,
        swarm: Swarm,
        trace: bool = False,
        apply_bug: Callable[[Node], None] | None = None,
        durability: Durability | None = None,
    ) -> None:
        super().__init__(NodeWorld(swarm, trace, durability))
        world = self.world
        self.injector = NodeFaultInjector(world, Random(f"faults/{swarm.seed}"))
        if apply_bug is not None:
            world.machine.on_node = partial(self._made, apply_bug)

    def _made(self, apply_bug: Callable[[Node], None], node: Node) -> None:
        record_assignments(self.world.history, node)
        apply_bug(node)

    def begin(self) -> None:
        """The node starts, then the clients come."""
        self.world.start(self.world.machine)
        for behaviour in self.world.behaviours:
            behaviour.begin()

    def begin_faults(self) -> None:
        """As `Simulation.begin_faults`."""
        self.injector.begin()

    def heal(self) -> str:
        """As `Simulation.heal`."""
        self.injector.heal()
        return ", the node is restarted"

    def restart(self) -> None:
        """Kill the process, also one that is stopping and perhaps waits for its disk, and start it again."""
        machine = self.world.machine
        if machine.node is not None:
            self.world.crash(machine, False)
        self.world.start(machine)

    def at_rest(self) -> bool:
        """As `Simulation.at_rest`."""
        return verdict.node_rests(self.world)

    def verdict(self) -> Iterator[str]:
        """As `Simulation.verdict`."""
        return verdict.of_node(self.world)


class ClusterSimulation(Simulation[ClusterWorld]):
    """A simulation with several nodes. `apply_bug` puts a bug into each member that is made, before it opens.

    `script` is called when the faults begin, with the simulation.
    """

    heal_s = 90.0
    waits_for_backlog = True

    def __init__(
        self,
        plan: ClusterPlan,
        trace: bool = False,
        apply_bug: Callable[[ClusterMachine], None] | None = None,
        script: Callable[[ClusterSimulation], None] | None = None,
    ) -> None:
        super().__init__(ClusterWorld(plan, trace))
        world = self.world
        self.monitor = InvariantMonitor(world)
        self.injector = ClusterFaultInjector(world, Random(f"faults/{plan.swarm.seed}"))
        self._script = script
        world.on_started = self._started
        for machine in world.machines.values():
            machine.on_member = apply_bug

    @property
    def looks_early(self) -> bool:
        """Where limits are small: there the others may give up a member that was away for too long."""
        return self.world.plan.settings != USUAL

    @property
    def problems(self) -> tuple[str, ...]:
        """As `Simulation.problems`."""
        return tuple(self.monitor.problems)

    def _started(self, machine: ClusterMachine) -> None:
        self.monitor.watch(machine)
        assert machine.member is not None
        left = partial(self.injector.left, machine, machine.life)
        machine.member.on_left = partial(self.world.loop.call_soon, left)
        self.monitor.note_state(machine)

    def begin(self) -> None:
        """All nodes start, those that are not late join, then the clients come."""
        world = self.world
        first, *others = world.machines.values()
        late = {name for _, name in world.plan.late}
        for machine in world.machines.values():
            world.start(machine)
        first.joined = True
        self.monitor.begin()
        joining = [machine for machine in others if machine.name not in late]
        for machine in joining:
            self.injector.rejoin(machine)
        begin_s = world.loop.now_s
        while not _joined(joining) and world.loop.now_s < begin_s + JOIN_S:
            world.loop.run_for(0.1)
        if not _joined(joining):
            self.monitor.report("the nodes did not become one cluster")
        for at_s, name in world.plan.late:
            world.loop.call_later(at_s, partial(self.injector.rejoin, world.machines[name]))
        for behaviour in world.behaviours:
            behaviour.begin()

    def begin_faults(self) -> None:
        """As `Simulation.begin_faults`, and the script begins."""
        self.injector.begin()
        if self._script is not None:
            self._script(self)

    def heal(self) -> str:
        """As `Simulation.heal`."""
        self.injector.heal()
        return ", all nodes are restarted" if self.world.plan.restart_all else ""

    def restart(self) -> None:
        """In some seeds: kill all nodes, and start them again."""
        if not self.world.plan.restart_all:
            return
        for machine in self.world.machines.values():
            if machine.node is not None:
                self.world.history.fault("kill", machine.name)
                self.world.crash(machine, False)
            self.injector.start(machine)

    def at_rest(self) -> bool:
        """As `Simulation.at_rest`."""
        return verdict.cluster_rests(self.world)

    def verdict(self) -> Iterator[str]:
        """As `Simulation.verdict`."""
        yield from self.problems
        yield from verdict.of_cluster(self.world)

    def operate(self, healed: bool = False) -> None:
        """Operators empty the data directory of a node that is refused or was taken out (H-01).

        Nodes that are down, or whose disk has failed, they start when all is `healed`.
        """
        history = self.world.history
        for machine in self.world.machines.values():
            if machine.node is None or machine.failed:
                if healed:
                    (self.injector.start if machine.node is None else self.injector.restart)(machine)
            elif healed and self.injector.was_taken_out(machine):
                history.trace("FAULT", f"{machine.name} is no member any more: it gets an empty disk")
                self._begin_anew(machine)
            elif not machine.gate.shut and machine.member is not None and machine.member.registrar.problem:
                problem = machine.member.registrar.problem
                history.trace("FAULT", f"{machine.name} is refused ({problem}): it joins anew")
                self._look_for_a_reason(machine)
                self._begin_anew(machine)

    def _begin_anew(self, machine: ClusterMachine) -> None:
        self.world.crash(machine, False)
        self.world.lose_disk(machine)
        self.injector.start(machine)

    def _look_for_a_reason(self, machine: ClusterMachine) -> None:
        """A node may be refused if its disk was replaced or is an old copy, if it was taken out, or was away too long.

        An operator who asked for a departure and got no answer does not know whether it happened (3 nodes, seed
        200101).
        """
        plan = self.world.plan
        explained = plan.settings != USUAL or plan.twin or self.injector.may_be_out(machine)
        if not (explained or any(life.emptied for life in self.world.history.lives.values())):
            self.monitor.report(f"refused: {machine.name}, which has its whole disk and was never taken out")


def _joined(machines: list[ClusterMachine]) -> bool:
    return all(each.joined and each.member is not None and each.member.leased() for each in machines)
