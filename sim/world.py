"""The simulated world of one seed: virtual time, one machine or several, clients, and the history that they write.

Injectors, invariants and checkers use a world. The world does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from random import Random
from typing import Any, Generic, TypeVar

from ..broker.sessions.latest_connect import OUTDATED
from ..cluster.identity import slot_of
from ..mqtt.topics import parse_shared
from ..netsplit.policy import ViewState
from ..storage.engine import Durability
from .causes import Causes
from .checkers.case import topic_matches
from .cluster_plan import ClusterPlan
from .engine.host import EventLog
from .engine.loop import VirtualLoop
from .engine.network import SimNetwork
from .engine.pipe import Mark
from .history import NEVER, History, Subscribed
from .machines import ClusterMachine, NodeMachine
from .relay import server_of
from .workload.behaviour import Behaviour
from .workload.client import ModelClient
from .workload.roaming_client import RoamingClient
from .workload.swarm import ClientSpec, Swarm

M = TypeVar("M", NodeMachine, ClusterMachine)
C = TypeVar("C", bound=ModelClient)

RECORDED_EVENTS = ("conn.open", "conn.close", "will.fire", "sess.end", "policy.deny")
"""Types of the domain events that checkers read."""

_HEADER = ("v", "run_id", "node", "boot", "seq", "hlc", "mono_ns", "type")


class World(Generic[M, C]):
    """The machines, clients and history of one seed. `on_started` gets each machine after the start of its process."""

    def __init__(self, swarm: Swarm, trace: bool) -> None:
        self.swarm = swarm
        self.loop = loop = VirtualLoop()
        self.history = History(lambda: loop.now_s, [] if trace else None)
        self.machines: dict[str, M] = {}
        self.clients: list[C] = []
        self.behaviours: list[Behaviour] = []
        self.on_started: Callable[[M], None] | None = None

    def add_machine(self, machine: M) -> None:
        """Add a machine. The history records its events, and time and lease of everything that it sends."""
        machine.event_level = 1
        machine.on_event = partial(self._event, machine)
        machine.mark = partial(self._mark, machine)
        self.machines[machine.name] = machine

    def keep_log(self, rows: list[dict[str, Any]], apart_ms: int = 0) -> Causes:
        """Add the event logs of all machines to `rows`, at level message. Call it before the first start. `apart_ms`:
        how far the clocks of the logs are apart. Returns what is counted of the rows."""
        causes = Causes()

        def take(row: dict[str, Any]) -> None:
            causes.wrote(row)
            rows.append(row)

        for number, machine in enumerate(self.machines.values()):
            machine.log = EventLog(take, apart_ms * number // max(1, len(self.machines) - 1))
        return causes

    def add_clients(self, clients: Iterable[C]) -> None:
        """Add clients, each with its own behaviour."""
        seed = self.swarm.seed
        self.clients = list(clients)
        self.behaviours = [
            Behaviour(client, self.swarm, Random(f"{seed}/{client.name}/mood")) for client in self.clients
        ]

    # -- starts and ends of machines

    def start(self, machine: M) -> None:
        """Start the process of a machine, with a correct wall clock: it computes from it how long it was away."""
        machine.wall_off_ms = 0.0
        history, now = self.history, self.loop.now_s
        history.trace("FAULT", f"{machine.title} starts")
        life = history.life(machine.name)
        life.starts.append(now)
        life.full_until = min(life.full_until, now)
        machine.start()
        if self.on_started is not None:
            self.on_started(machine)
        for connections in history.connections.values():
            for connection in connections:
                if connection.gateway == machine.name and connection.noticed_at is None and connection.asked_at < now:
                    connection.came_back_at = now

    def crash(self, machine: M, power: bool) -> None:
        """Kill the process of a machine or, with `power`, cut the power of the machine."""
        if power and self.swarm.durability == "os":
            self.history.power_lost = self.history.power_lost or not self.history.copied
            self.history.gappy.add(machine.name)
        self.history.life(machine.name).ends.append(self.loop.now_s)
        machine.crash(power)

    def stopped(self, machine: M) -> None:
        """Record the orderly end of a process; it counts as a kill if the disk did not take everything in time."""
        if machine.unwritten:
            self.history.fault("kill", machine.name)
        self.history.life(machine.name).ends.append(self.loop.now_s)
        machine.stopped()

    # -- reports of machines

    def _mark(self, machine: M) -> Mark:
        node = machine.node
        without_lease = node is not None and node.policy.view_state is ViewState.MINORITY
        return (self.history.commits, self.loop.now_s, without_lease)

    def _event(self, machine: M, row: dict[str, Any]) -> None:
        kind = row["type"]
        history = self.history
        if kind == "store.state":
            history.life(machine.name).full_until = self.loop.now_s if row["state"] == "serving" else inf
        if kind == "slot.lost":
            self.lost_slots(row["target"], row["slots"])
        if kind == "slot.loss_possible":
            self.doubtful_slots(row["slots"])
        if kind == "slot.few":
            history.few_copies.note(machine.name, self.loop.now_s, row["count"] > 0)
        if kind == "slot.repair" and not history.rotten:
            history.problem(f"{row['rows']} rows of a copy of slot {row['slot']} at {machine.name} were wrong")
        if kind == "slot.arrive":
            history.slot_arrivals.setdefault(row["slot"], []).append(self.loop.now_s)
        self._note_connection(machine, row)
        if kind in RECORDED_EVENTS:
            history.events.append((self.loop.now_s, row))
        if history.lines is not None:
            shown = {name: value for name, value in row.items() if name not in _HEADER}
            history.trace(machine.speaker, f"{kind} {shown}")

    def _note_connection(self, machine: M, row: dict[str, Any]) -> None:
        kind, history = row["type"], self.history
        if kind == "conn.close" and row["reason"] == "gateway_lost":
            history.given_up[row["client"]] = self.loop.now_s
        if kind == "conn.refuse" and history.life(machine.name).full_until == inf:
            history.refused_by_full[row["client"]] = self.loop.now_s
        if kind == "conn.refuse" and row["reason"] == OUTDATED:
            history.refused_as_older[row["client"]] = self.loop.now_s

    def doubtful_slots(self, slots: list[str]) -> None:
        """The log says that the primary of these slots may lack what was acknowledged."""

    def lost_slots(self, node: str, slots: list[str]) -> None:
        """The cluster has given up the disk of a node with the last copy of these slots, and the log says so."""


class NodeWorld(World[NodeMachine, ModelClient]):
    """A world with one node. `durability` is that of its disk, by default that of the swarm."""

    def __init__(self, swarm: Swarm, trace: bool = False, durability: Durability | None = None) -> None:
        super().__init__(swarm, trace)
        self.machine = NodeMachine(self.loop, self.history, swarm, durability or swarm.durability)
        self.add_machine(self.machine)
        kept_s = swarm.options.persistent_client_expiration_s or None
        self.add_clients(
            ModelClient(spec, self.machine, self.history, Random(f"{swarm.seed}/{spec.name}"), swarm.delay_s, kept_s)
            for spec in swarm.clients
        )

    def set_delay(self, delay_s: tuple[float, float]) -> None:
        """Set the range of the delay between clients and node, in seconds, also for open connections."""
        for client in self.clients:
            client.delay_s = delay_s
        for pipe in self.machine.pipes:
            pipe.to_node.delay_s = pipe.to_client.delay_s = delay_s


class ClusterWorld(World[ClusterMachine, RoamingClient]):
    """A world with several nodes on one network."""

    def __init__(self, plan: ClusterPlan, trace: bool = False) -> None:
        super().__init__(plan.swarm, trace)
        self.plan = plan
        self.history.copied = plan.swarm.options.queue_replicas > 1
        loop = self.loop
        self.network = SimNetwork(
            loop.call_soon, loop.call_later, lambda: loop.now_s, Random(f"roads/{plan.swarm.seed}"),
            plan.network_delay_s, plan.bytes_per_s,
        )  # fmt: skip
        for a, b, seconds in plan.slow_data:
            self.network.slow_data(a, b, seconds)
        for name, rate in zip(plan.nodes, plan.rates, strict=True):
            self.add_machine(ClusterMachine(loop, self.network, self.history, plan, name, rate))
        self.add_clients(self._client(spec) for spec in plan.swarm.clients)

    def _client(self, spec: ClientSpec) -> RoamingClient:
        swarm, plan = self.swarm, self.plan
        home = self.machines[plan.homes[spec.name]]
        places = tuple(self.machines.values()) if spec.name in plan.roaming else (home,)
        kept_s = swarm.options.persistent_client_expiration_s or None
        rng = Random(f"{swarm.seed}/{spec.name}")
        if plan.relay:
            places = tuple(self.machines.values())
        find = partial(self._server, spec.name)
        client = RoamingClient(spec, home, places, self.history, rng, swarm.delay_s, kept_s, find)
        if plan.publish_at_suback:
            client.on_granted = self._publish_at_once
        return client

    def _server(self, client: str, gateway: str) -> ClusterMachine | None:
        """Returns the machine with the session of a client; None if `gateway`, its next one, is in no cluster."""
        member = self.machines[gateway].member
        if member is not None and not member.clustered:
            return None
        name = server_of(self.machines.values(), client)
        return None if name is None else self.machines[name]

    def _publish_at_once(self, granted: Subscribed) -> None:
        """After a SUBACK let one writer at each other node publish on a topic of the filter."""
        asked = {granted.node}
        for client in self.clients:
            if self.history.healed != NEVER or client.server.name in asked or not client.connected:
                continue
            _, pattern = parse_shared(granted.filter)
            topics = [topic for topic in client.spec.topics if topic[0] != "r" and topic_matches(pattern, topic)]
            if topics:
                asked.add(client.server.name)
                client.sender.publish(topics[0], 1)

    def lost_slots(self, node: str, slots: list[str]) -> None:
        """Take note that the sessions of a node are lost, once for all nodes that report it."""
        emptied, now = self.history.life(node).emptied, self.loop.now_s
        if not emptied or emptied[-1] < now - 1:
            emptied.append(now)
        self.doubtful_slots(slots)

    def doubtful_slots(self, slots: list[str]) -> None:
        """Take note that the sessions of these slots may have lost something. Their clients forget QoS 2 packet ids."""
        now = self.loop.now_s
        for text in slots:
            first, _, last = text.partition("-")
            for slot in range(int(first), int(last or first) + 1):
                self.history.slot_losses.setdefault(slot, []).append(now)
                for client in self.clients if self.history.copied else ():
                    if slot_of("", client.spec.name) == slot:
                        client.receiver.forget()

    def keep_log(self, rows: list[dict[str, Any]], apart_ms: int = 0) -> Causes:
        """As `World.keep_log`. What goes from machine to machine is counted, too."""
        self.network.watch = causes = super().keep_log(rows, apart_ms)
        return causes

    def hears(self, a: str, b: str) -> bool:
        """Whether machine `a` hears machine `b`: both run, and no cut blocks the direction from `b` to `a`."""
        return self.machines[a].runs and self.machines[b].runs and not self.network.is_cut(b, a)

    def lose_disk(self, machine: ClusterMachine) -> None:
        """Replace the disk of a machine by an empty one. Its clients forget their QoS 2 packet ids with the sessions.

        A client may not notice the loss. If the CONNACK without a session is lost, the next CONNACK reports the session
        that the unanswered CONNECT has made.
        """
        for client in self.clients:
            if client.server is machine and not self.history.copied:
                client.receiver.forget()
        self.history.life(machine.name).emptied.append(self.loop.now_s)
        machine.lose_disk()
