"""Runs one seed from begin to verdict: faults while clients work, then the end of all faults, then a wait for rest.

A world is at rest when no message, write or request is in progress.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Generic, TypeVar

from ..broker.node import Node
from ..storage.engine import Durability
from . import verdict
from .audit import Audit
from .cluster_plan import USUAL, ClusterPlan
from .faults.cluster_injector import ClusterFaultInjector
from .faults.node_injector import NodeFaultInjector
from .invariants import InvariantMonitor
from .machines import ClusterMachine, record
from .relay import all_placed, small_credit
from .variants import small_items
from .workload.swarm import Swarm
from .world import ClusterWorld, NodeWorld

JOIN_S = 30.0
"""Virtual time, in seconds, within which all nodes must become one cluster at the begin."""
STEP_S = 1.0
"""The interval between two checks for rest, in virtual seconds."""
WILL_S = 8.0
"""The least virtual time after the end of all faults, in seconds: longer than any will delay or session expiry."""
JUDGED_S = 24.0
"""The same if the event log is judged. A will is lost 12 s after its delay (`judge/anomalies/a14_will.py`), which is
3 s at most. In a cluster the last row of the log may be 6 s old, and a node that starts again needs some time."""
OPERATORS_S = 2.0
"""The interval in which operators check their nodes during faults, in virtual seconds, if `looks_early`."""
STEADY_S = 5.0
"""In a cluster a backlog may take longer, as long as a message is delivered every `STEADY_S` seconds."""
LONGEST_S = 600.0
"""The longest wait for rest, in virtual seconds."""

W = TypeVar("W", NodeWorld, ClusterWorld)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one seed: the violations, the numbers of events, and the trace if it was requested."""

    seed: int
    violations: tuple[str, ...]
    messages: int
    deliveries: int
    faults: int
    clients: int
    lines: tuple[str, ...] = ()
    audit: Audit | None = None
    """What the event log says of this run; None if nobody asked."""

    @property
    def failed(self) -> bool:
        """Whether a promise was broken, or the event log tells of the run otherwise."""
        return bool(self.violations) or (self.audit is not None and bool(self.audit.differences))


class Simulation(Generic[W]):
    """The common phases of simulations with one node and with several nodes."""

    heal_s = 60.0
    """Virtual time, in seconds, from the end of all faults until everything must be at rest."""
    waits_for_backlog = False
    least_s = WILL_S

    def __init__(self, world: W) -> None:
        self.world: W = world

    def judged(self) -> Outcome:
        """Run all phases and return the verdict. An exception in a node counts as a violation."""
        try:
            return self.run()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"crash: {type(error).__name__}: {error}, at {where.filename}:{where.lineno} in {where.name}"
            return self.outcome((*self.problems, text))

    def run(self) -> Outcome:
        """Run all phases and return the verdict."""
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
        """Inject faults from now on."""
        raise AssertionError("each kind of simulation has its faults")

    def heal(self) -> str:
        """End all faults. Returns a text for the trace if nodes are restarted, too."""
        raise AssertionError("each kind of simulation ends its faults")

    def restart(self) -> None:
        """Restart nodes at the end of the faults, if this simulation does so."""
        raise AssertionError("each kind of simulation has its restarts")

    def operate(self, healed: bool = False) -> None:
        """Do an operator's work for nodes that cannot continue. `healed`: all faults have ended."""

    def at_rest(self) -> bool:
        """Whether no message, write or request is in progress."""
        raise AssertionError("each kind of simulation knows its rest")

    def verdict(self) -> Iterator[str]:
        """Yield every violation."""
        raise AssertionError("each kind of simulation has its checkers")

    @property
    def looks_early(self) -> bool:
        """Whether operators check the nodes during faults, too."""
        return False

    @property
    def problems(self) -> tuple[str, ...]:
        """The violations found before the end."""
        return ()

    def outcome(self, violations: tuple[str, ...]) -> Outcome:
        """Returns the verdict with these violations, and the numbers of events so far."""
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
            if loop.now_s >= healed_s + self.least_s and self.at_rest():
                return
            if self.waits_for_backlog and len(deliveries) > before:
                limit_s = max(limit_s, loop.now_s + STEADY_S)


class NodeSimulation(Simulation[NodeWorld]):
    """A simulation with one node. `apply_bug` plants a bug in each new node before it opens its disk."""

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
        record(self.world.history, node)
        apply_bug(node)

    def begin(self) -> None:
        """Start the node, then the clients."""
        self.world.start(self.world.machine)
        for behaviour in self.world.behaviours:
            behaviour.begin()

    def begin_faults(self) -> None:
        """Inject faults from now on."""
        self.injector.begin()

    def heal(self) -> str:
        """End all faults. Returns a text for the trace."""
        self.injector.heal()
        return ", the node is restarted"

    def restart(self) -> None:
        """Kill the process, also one that is stopping and may wait for its disk, and start it again."""
        machine = self.world.machine
        if machine.node is not None:
            self.world.crash(machine, False)
        self.world.start(machine)

    def at_rest(self) -> bool:
        """Whether no message, write or request is in progress."""
        return verdict.node_rests(self.world)

    def verdict(self) -> Iterator[str]:
        """Yield every violation."""
        return verdict.of_node(self.world)


class ClusterSimulation(Simulation[ClusterWorld]):
    """A simulation with several nodes.

    `apply_bug` plants a bug in each new member before it opens. `script` gets the simulation when the faults begin.
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
        """Whether operators check the nodes during faults: with small limits a cluster may give up an absent member."""
        return self.world.plan.settings != USUAL

    @property
    def problems(self) -> tuple[str, ...]:
        """The violations found before the end."""
        return tuple(self.monitor.problems)

    def _started(self, machine: ClusterMachine) -> None:
        self.monitor.watch(machine)
        assert machine.member is not None
        left = partial(self.injector.left, machine, machine.life)
        machine.member.on_left = partial(self.world.loop.call_soon, left)
        self.monitor.note_state(machine)

    def begin(self) -> None:
        """Start all nodes, let those that are not late join, then start the clients."""
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
        while self._places() and world.loop.now_s < begin_s + JOIN_S:
            world.loop.run_for(0.01)
        for at_s, name in world.plan.late:
            world.loop.call_later(at_s, partial(self.injector.rejoin, world.machines[name]))
        for behaviour in world.behaviours:
            behaviour.begin()

    def _places(self) -> bool:
        """Whether slots are still on their way to the homes of the clients."""
        plan = self.world.plan
        return plan.placed and not all_placed(plan, list(self.world.machines.values()))

    def run(self) -> Outcome:
        """Run all phases and return the verdict."""
        with small_credit(self.world.plan), small_items(self.world.plan):
            return super().run()

    def begin_faults(self) -> None:
        """Inject faults from now on, and start the script."""
        self.injector.begin()
        if self._script is not None:
            self._script(self)

    def heal(self) -> str:
        """End all faults. Returns a text for the trace if all nodes are restarted."""
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
        """Whether no message, write or request is in progress."""
        return verdict.cluster_rests(self.world)

    def verdict(self) -> Iterator[str]:
        """Yield every violation."""
        yield from self.problems
        yield from verdict.of_cluster(self.world)

    def operate(self, healed: bool = False) -> None:
        """Empty the data directory of a node that the cluster has refused or removed, as an operator does (H-01).

        If all is `healed`, also start nodes that are down or have a failed disk.
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
        """Report a refused node, unless the refusal has a reason.

        The reasons are: its disk was replaced or is an old copy; it was removed; it was away too long; an operator
        asked for its removal and got no answer, so the removal may have happened (3 nodes, seed 200101).
        """
        plan = self.world.plan
        explained = plan.settings != USUAL or plan.twin or self.injector.may_be_out(machine)
        if not (explained or any(life.emptied for life in self.world.history.lives.values())):
            self.monitor.report(f"refused: {machine.name}, which has its whole disk and was never taken out")


def _joined(machines: list[ClusterMachine]) -> bool:
    return all(each.joined and each.member is not None and each.member.leased() for each in machines)
