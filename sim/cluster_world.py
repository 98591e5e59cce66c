"""One seed of a cluster from begin to verdict: joins, faults while clients work, healing, and then all must rest."""

from __future__ import annotations

from functools import partial
from math import inf
from random import Random
from typing import Any

from ..mqtt.topics import parse_shared
from ..netsplit.policy import ViewState
from .checkers.case import topic_matches
from .cluster_plan import USUAL, ClusterPlan
from .cluster_verdict import AT_PROMISES, judges, rests, verdict
from .engine.loop import VirtualLoop
from .engine.machine import Machine
from .engine.network import SimNetwork
from .engine.pipe import Mark
from .faults.cluster_injector import ClusterFaultInjector
from .history import NEVER, History, Subscribed
from .invariants import InvariantMonitor
from .planted_bugs.cluster_bugs import ClusterBug
from .workload.behaviour import Behaviour
from .workload.client import ModelClient
from .workload.roaming_client import RoamingClient
from .world import Outcome

JOIN_S = 30.0
"""Virtual time within which all nodes must have become one cluster at the begin."""
HEAL_S = 90.0
"""Virtual time within which everything must have come to rest after the healing; a backlog may take longer while it
moves: a message every `STEADY_S` at least, up to `LONGEST_S`."""
STEADY_S = 5.0
LONGEST_S = 600.0
STEP_S = 1.0
OPERATORS_S = 2.0
"""How often operators look at their nodes while faults happen, in worlds where a member may have been away too long."""
WILL_S = 8.0


class ClusterWorld:
    """All that one seed consists of."""

    def __init__(self, plan: ClusterPlan, trace: bool = False, bug: ClusterBug | None = None) -> None:
        self.plan = plan
        self.bug = bug
        self.swarm = swarm = plan.swarm
        self.loop = loop = VirtualLoop()
        self.history = History(lambda: loop.now_s, [] if trace else None)
        self.network = SimNetwork(
            loop.call_soon, loop.call_later, lambda: loop.now_s, Random(f"roads/{swarm.seed}"), plan.network_delay_s,
            plan.bytes_per_s,
        )  # fmt: skip
        for a, b, seconds in plan.slow_data:
            self.network.slow_data(a, b, seconds)
        self.machines: dict[str, Machine] = {}
        for name, rate in zip(plan.nodes, plan.rates, strict=True):
            self.machines[name] = machine = self._machine(name, rate)
            if bug is not None:
                machine.on_member = bug.apply
        self.monitor = InvariantMonitor(self, judges(), AT_PROMISES)
        self.clients = [self._client(name) for name in range(len(swarm.clients))]
        self.behaviours = [
            Behaviour(client, swarm, Random(f"{swarm.seed}/{client.name}/mood")) for client in self.clients
        ]
        self.injector = ClusterFaultInjector(self, Random(f"faults/{swarm.seed}"))

    def _machine(self, name: str, rate: float) -> Machine:
        swarm = self.swarm
        machine = Machine(
            self.loop, self.network, self.history, swarm.options, swarm.seed, name, swarm.durability, swarm.latency_s,
            rate,
        )  # fmt: skip
        machine.settings = self.plan.settings
        machine.log_dots, machine.sync_ms = self.plan.log_dots, self.plan.sync_ms
        machine.event_level = 1
        machine.on_event = partial(self._event, machine)
        machine.mark = partial(self._mark, machine)
        return machine

    def _client(self, number: int) -> RoamingClient:
        swarm, history = self.swarm, self.history
        spec = swarm.clients[number]
        home = self.machines[self.plan.homes[spec.name]]
        places = tuple(self.machines.values()) if spec.name in self.plan.roaming else (home,)
        kept = swarm.options.persistent_client_expiration_s or None
        rng = Random(f"{swarm.seed}/{spec.name}")
        client = RoamingClient(spec, home, places, history, rng, swarm.delay_s, kept, self.monitor.lacked_whole_view)
        if self.plan.prompt:
            client.on_granted = self._prompt
        return client

    def _prompt(self, granted: Subscribed) -> None:
        """A SUBACK has come: of each other node one writer publishes at once on a topic of the filter."""
        asked = {granted.node}
        for client in self.clients:
            if self.history.healed != NEVER or client.host.name in asked or not client.connected:
                continue
            _, pattern = parse_shared(granted.filter)
            topics = [topic for topic in client.spec.topics if topic[0] != "r" and topic_matches(pattern, topic)]
            if topics:
                asked.add(client.host.name)
                client.sender.publish(topics[0], 1)

    def _mark(self, machine: Machine) -> Mark:
        node = machine.node
        without = node is not None and node.view_state is ViewState.MINORITY
        return (self.history.commits, self.loop.now_s, without)

    def hears(self, a: str, b: str) -> bool:
        """Whether one machine may hear another: both run, and what `b` sends to `a` is not cut."""
        return self.machines[a].runs and self.machines[b].runs and not self.network.is_cut(b, a)

    # -- what faults use

    def start(self, machine: Machine) -> None:
        """Start the node of a machine."""
        machine.wall_off_ms = 0.0
        history, now = self.history, self.loop.now_s
        history.say("FAULT", f"{machine.name} starts")
        life = history.life(machine.name)
        life.starts.append(now)
        life.full_until = min(life.full_until, now)
        machine.start()
        clustering = machine.clustering
        assert clustering is not None
        changed = clustering.lease_changed

        def watched() -> None:
            changed()
            self.monitor.state(machine)

        clustering.lease_changed = watched  # type: ignore[method-assign]
        self.monitor.guard(machine)
        assert machine.member is not None
        machine.member.on_left = partial(self.loop.call_soon, partial(self.injector.left, machine, machine.life))
        self.monitor.state(machine)
        for connections in history.connections.values():
            for connection in connections:
                if connection.node == machine.name and connection.noticed_at is None and connection.asked_at < now:
                    connection.came_back_at = now

    def crash(self, machine: Machine, power: bool) -> None:
        """The process or the machine dies."""
        if power and self.swarm.durability == "os":
            self.history.power_lost = True
        self.history.life(machine.name).ends.append(self.loop.now_s)
        machine.crash(power)

    def stopped(self, machine: Machine) -> None:
        """The process has ended in order; what the disk did not take in time is gone as by a kill."""
        if machine.unwritten:
            self.history.fault("kill", machine.name)
        self.history.life(machine.name).ends.append(self.loop.now_s)
        machine.stopped()

    def lose_disk(self, machine: Machine) -> None:
        """All that the node had stored is gone, and with their sessions what its clients remember of QoS 2 ids.

        They need not hear of it: where the CONNACK that says so is lost, the next one finds the session that the
        CONNECT before has made.
        """
        for client in self.clients:
            if client.host is machine:
                client.receiver.forget()
        self.history.life(machine.name).emptied.append(self.loop.now_s)
        machine.lose_disk()

    # -- events

    def _event(self, machine: Machine, row: dict[str, Any]) -> None:
        kind = row["type"]
        history = self.history
        if kind == "store.state":
            history.life(machine.name).full_until = self.loop.now_s if row["state"] == "serving" else inf
        if kind in ("conn.open", "will.fire", "sess.end", "policy.deny"):
            history.events.append((self.loop.now_s, row))
        if history.lines is not None:
            shown = {name: value for name, value in row.items() if name not in _HEADER}
            history.say(machine.name, f"{kind} {shown}")

    # -- the run

    def run(self) -> Outcome:
        """All phases; the verdict."""
        self.begin()
        self.injector.begin()
        if self.bug is not None:
            self.bug.begun(self)
        end_s = self.loop.now_s + self.swarm.seconds
        while self.loop.now_s < end_s:
            self.loop.run_until(min(end_s, self.loop.now_s + OPERATORS_S))
            if self.plan.settings != USUAL:
                self._put_right(False)
        self._heal()
        self._rest()
        return self.outcome(tuple(verdict(self)))

    def begin(self) -> None:
        """All nodes start and those that are not late join; then clients come."""
        first, *others = self.machines.values()
        late = {name for _, name in self.plan.late}
        for machine in self.machines.values():
            self.start(machine)
        first.public = True
        self.monitor.begin()
        for machine in others:
            if machine.name not in late:
                self.injector.rejoin(machine)
        begin = self.loop.now_s
        waited = [machine for machine in others if machine.name not in late]
        while not self._joined(waited) and self.loop.now_s < begin + JOIN_S:
            self.loop.run_for(0.1)
        if not self._joined(waited):
            self.monitor.complain("the nodes did not become one cluster")
        for at_s, name in self.plan.late:
            self.loop.call_later(at_s, partial(self.injector.rejoin, self.machines[name]))
        for behaviour in self.behaviours:
            behaviour.begin()

    def _joined(self, machines: list[Machine]) -> bool:
        return all(each.public and each.member is not None and each.member.leased() for each in machines)

    def outcome(self, violations: tuple[str, ...]) -> Outcome:
        """The verdict, with what happened so far."""
        history = self.history
        return Outcome(
            self.swarm.seed,
            violations,
            len(history.attempts),
            len(history.deliveries),
            len(history.faults),
            len(self.clients),
            tuple(history.lines or ()),
        )

    def _heal(self) -> None:
        """End the faults; everybody comes back, in some seeds after a restart of everything."""
        history = self.history
        self.injector.heal()
        history.healed = history.next()
        history.healed_at = self.loop.now_s
        history.say("FAULT", "all is healed" + (", all nodes are restarted" if self.plan.restart_all else ""))
        if self.plan.restart_all:
            for machine in self.machines.values():
                if machine.node is not None:
                    history.fault("kill", machine.name)
                    self.crash(machine, False)
                self.injector.start(machine)
        for behaviour in self.behaviours:
            behaviour.calm()

    def _rest(self) -> None:
        loop, deliveries = self.loop, self.history.deliveries
        healed_s = loop.now_s
        limit = healed_s + HEAL_S
        while loop.now_s < min(limit, healed_s + LONGEST_S):
            before = len(deliveries)
            loop.run_for(STEP_S)
            self._put_right()
            if loop.now_s >= healed_s + WILL_S and rests(self):
                return
            if len(deliveries) > before:
                limit = max(limit, loop.now_s + STEADY_S)

    def _put_right(self, healed: bool = True) -> None:
        """Operators look at nodes that say that they cannot go on: a data directory is moved away (H-01). What is
        down or has a broken disk they start when all is `healed`."""
        for machine in self.machines.values():
            if machine.node is None or machine.failed:
                if healed:
                    (self.injector.start if machine.node is None else self.injector.restart)(machine)
            elif healed and self.injector.was_taken_out(machine):
                self.history.say("FAULT", f"{machine.name} is no member any more: it gets an empty disk")
                self.crash(machine, False)
                self.lose_disk(machine)
                self.injector.start(machine)
            elif not machine.gate.shut and machine.member is not None and machine.member.registrar.problem:
                self.history.say(
                    "FAULT", f"{machine.name} is refused ({machine.member.registrar.problem}): it joins anew"
                )
                self._look_for_a_reason(machine)
                self.crash(machine, False)
                self.lose_disk(machine)
                self.injector.start(machine)

    def _look_for_a_reason(self, machine: Machine) -> None:
        """A node may be refused if its disk was replaced or is an old copy, if it was taken out, or away too long.

        Who has asked for a departure and was not answered does not know whether it came about (3 nodes, seed 200101).
        """
        lacked_whole_view = self.plan.settings != USUAL or self.plan.twin or self.injector.may_be_out(machine)
        if not (lacked_whole_view or any(life.emptied for life in self.history.lives.values())):
            self.monitor.complain(f"refused: {machine.name}, which has its whole disk and was never taken out")

    @property
    def all_clients(self) -> list[ModelClient]:
        """As the checkers know them."""
        return list(self.clients)


_HEADER = ("v", "run_id", "node", "boot", "seq", "hlc", "mono_ns", "type")
