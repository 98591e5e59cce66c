"""One seed from begin to verdict: faults while clients work, then healing, then everything must come to rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from typing import Any

from ..broker.node import Node
from .drop_recorder import DropRecorder
from .engine.disk import SimDisk
from .engine.host import Host
from .engine.loop import VirtualLoop
from .faults.node_injector import NodeFaultInjector
from .history import History
from .judge import judge, make_case
from .planted_bugs.node_bugs import NodeBug
from .recording_disk import RecordingDisk
from .shared_assignments import record_assignments
from .workload.behaviour import Behaviour
from .workload.client import ModelClient
from .workload.swarm import Swarm

HEAL_S = 60.0
"""Virtual time within which everything must have come to rest after the healing."""
STEP_S = 1.0
WILL_S = 8.0
"""At least so long the world is watched after the healing: longer than any will waits or session lasts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one seed: what was broken, how much happened, and the trace if one was asked for."""

    seed: int
    violations: tuple[str, ...]
    messages: int
    deliveries: int
    faults: int
    clients: int
    lines: tuple[str, ...] = ()


def _made(history: History, bug: NodeBug | None, node: Node) -> None:
    record_assignments(history, node)
    if bug is not None:
        bug.apply(node)


class World:
    """All that one seed consists of."""

    def __init__(self, swarm: Swarm, trace: bool = False, bug: NodeBug | None = None) -> None:
        self.swarm = swarm
        self.loop = loop = VirtualLoop()
        self.history = history = History(lambda: loop.now_s, [] if trace else None)
        rng = Random(f"disk/{swarm.seed}")
        durability = swarm.durability
        if bug is not None and bug.durability is not None:
            durability = bug.durability
        self.recorder = RecordingDisk(
            history, SimDisk(rng, loop.call_later, lambda: loop.now_s, durability, swarm.latency_s)
        )
        plugins: dict[str, object] = {"witness": DropRecorder(history)}
        self.host = Host(loop, lambda host: self.recorder, swarm.options, swarm.seed, plugins=plugins)
        self.host.event_level = 1
        self.host.on_event = self._event
        self.host.mark = lambda: (history.commits, loop.now_s, False)
        self.host.on_node = partial(_made, history, bug)
        kept = swarm.options.persistent_client_expiration_s or None
        self.clients = [
            ModelClient(spec, self.host, history, Random(f"{swarm.seed}/{spec.name}"), swarm.delay_s, kept)
            for spec in swarm.clients
        ]
        self.behaviours = [
            Behaviour(client, swarm, Random(f"{swarm.seed}/{client.name}/mood")) for client in self.clients
        ]
        self.faults = NodeFaultInjector(self, Random(f"faults/{swarm.seed}"))

    # -- what faults use

    def start(self) -> None:
        """Start the node again, if nobody did."""
        if self.host.node is None:
            # a machine whose clock is wrong when the process starts cannot know how long it was away
            self.host.wall_off_ms = 0.0
            self.history.say("FAULT", "the node starts")
            self.host.start()
            self._started()

    def _started(self) -> None:
        now = self.loop.now_s
        life = self.history.life()
        life.starts.append(now)
        life.full_until = min(life.full_until, now)
        for connections in self.history.connections.values():
            for connection in connections:
                if connection.noticed_at is None and connection.asked_at < now:
                    connection.came_back_at = now

    def crash(self, power: bool) -> None:
        """The process or the machine dies."""
        if power and self.swarm.durability == "os":
            self.history.power_lost = True
        self.history.life().ends.append(self.loop.now_s)
        self.recorder.crash(power)
        self.host.kill()

    def stopped(self) -> None:
        """The process has ended in order; what the disk did not take in time is gone as by a kill."""
        if self.host.unwritten:
            self.history.fault("kill")
        self.history.life().ends.append(self.loop.now_s)
        self.recorder.reopen()

    def set_delay(self, delay_s: tuple[float, float]) -> None:
        """How slow the network is from now on."""
        for client in self.clients:
            client.delay_s = delay_s
        for pipe in self.host.pipes:
            pipe.to_node.delay_s = pipe.to_client.delay_s = delay_s

    # -- events of the node

    def _event(self, row: dict[str, Any]) -> None:
        kind = row["type"]
        history = self.history
        if kind == "store.state":
            history.life().full_until = self.loop.now_s if row["state"] == "serving" else inf
        if kind in ("will.fire", "sess.end", "policy.deny"):
            history.events.append((self.loop.now_s, row))
        if history.lines is not None:
            shown = {name: value for name, value in row.items() if name not in _HEADER}
            history.say("node", f"{kind} {shown}")

    # -- the run

    def run(self) -> Outcome:
        """All phases; the verdict."""
        self.start()
        for behaviour in self.behaviours:
            behaviour.begin()
        self.faults.begin()
        self.loop.run_until(self.swarm.seconds)
        self._heal()
        self._rest()
        node = self.host.node
        assert node is not None
        case = make_case(self.history, self.swarm, self.clients, node, self.recorder.disk.content())
        return self.outcome(tuple(judge(case)))

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
        """End the faults and start the node once more; everybody comes back."""
        history = self.history
        self.faults.heal()
        history.healed = history.next()
        history.healed_at = self.loop.now_s
        history.say("FAULT", "all is healed, the node is restarted")
        if self.host.up:
            self.crash(False)
        elif self.host.node is not None:
            self.crash(False)  # it was stopping, perhaps waiting for its disk
        self.start()
        for behaviour in self.behaviours:
            behaviour.calm()

    def _rest(self) -> None:
        limit = self.loop.now_s + HEAL_S
        earliest = self.loop.now_s + WILL_S
        while self.loop.now_s < limit:
            self.loop.run_for(STEP_S)
            if self.loop.now_s >= earliest and self._at_rest():
                return

    def _at_rest(self) -> bool:
        node = self.host.node
        assert node is not None
        if node.store.bytes_waiting or not all(client.connected or client.gone for client in self.clients):
            return False
        return not any(client.sender.open for client in self.clients if client.connected) and _queues_rest(node)


def _queues_rest(node: Node) -> bool:
    return all(not each.online or (not each.queue.inflight and not each.queue.size) for each in node.slots)


_HEADER = ("v", "run_id", "node", "boot", "seq", "hlc", "mono_ns", "type")
