"""The node: one broker core with all its parts. A shell or the simulator runs it.

All effects go through `Ports`. In a turn of the loop client connections receive bytes and cores act. Then `flush`
writes once per connection that has output, and the store starts to commit the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..analytics.schema import UNWRITTEN
from ..mqtt.reasons import ReasonCode
from .connection.connection import ClientConnection
from .connection.dispatch import open_connection
from .connection.services import ConnectionServices
from .connection.transport import ClientTransport, ConnectionOrigin
from .environment import Environment, Ports
from .gateway.gateways import Gateways
from .gateway.locator import SlotLocator
from .operation_policy import OperationPolicy
from .options import Options
from .plugins.hooks import Hooks
from .queues.session_cleanup import SessionCleanup
from .reporting.events import Events
from .routing.publisher import Publisher
from .routing.retained_store import RetainedStore
from .routing.router import Router
from .sessions.registry import SessionRegistry
from .sessions.retained_replay import ReplayTurns
from .sessions.session import Session
from .sessions.slot_counters import SlotCounters
from .sessions.slot_sessions import SlotSessions
from .sessions.wills import Wills

_PUMPED = 100
"""Sessions in one step of `Node.deliver_stored`."""
ENDED = 200
"""Sessions that one turn ends when the node leaves its cluster."""


class Node:
    """One broker: creates its parts, starts and stops them."""

    def __init__(self, name: str, boot: int, options: Options, hooks: Hooks, events: Events, ports: Ports) -> None:
        self.name = name
        self.env = env = Environment(name, boot, options, hooks, events, ports)
        self.policy = OperationPolicy(env)
        self.router = Router(env, ports.rng, self._overrides, self._wake)
        self.retained = RetainedStore(env)
        self.publisher = Publisher(env, self.router, self.retained)
        counters = SlotCounters(env.store, lambda slot: env.cluster.slot_epoch(slot))
        self.wills = Wills(env, self.policy, self.publisher, counters)
        self.router.leave_behind = self.wills.leave_behind
        self.replays = ReplayTurns(env.after_turn, env.tick)
        self.cleanup = SessionCleanup(env.store, env.after_turn)
        self.sessions = SessionRegistry(
            env, self.router, self.retained, self.wills, self.replays, self.cleanup, counters
        )
        self.slot_sessions = SlotSessions(env, self.router, self.sessions, self.wills, self.cleanup, counters)
        self.services = ConnectionServices(
            env, self.policy, self.router, self.publisher, self.sessions, self.replays, ports, self._closed
        )
        self.connections: dict[int, ClientConnection] = {}
        self.gateways = Gateways(name, env, self.sessions, self.policy, self.accept)
        self.wills.ask_gateway = self.gateways.ask
        self.closing = False
        env.store.on_state = self._store_state
        env.store.on_damage = self._store_damaged

    def _overrides(self, mountpoint: str, client_id: str) -> dict[str, Any]:
        session = self.sessions.known(mountpoint, client_id)
        return {} if session is None else session.overrides

    def _wake(self, client: bytes) -> Session | None:
        return self.sessions.wake(client)

    @property
    def options(self) -> Options:
        """The settings of the broker core, as they are now."""
        return self.env.options

    # -- life

    def open(self, settings: Sequence[str] = (), former_log: Mapping[str, Any] | None = None) -> None:
        """Load retained messages, wills, then subscriptions, from the store; handle wills and deadlines that are due.
        `settings`: those that promises depend on, for the event log. `former_log`: fields about the log of the boot
        before.

        Many subscriptions are loaded in later turns. Until `sessions.startup` is ready, clients can connect, and their
        other packets wait.
        """
        env = self.env
        self.slot_sessions.load()
        self.retained.load()
        self.wills.load()  # before the sessions: one that ends while it is loaded may store another will
        promised = self._promised(settings)
        env.event("node.start", retained=self.retained.count, **promised, **(former_log or {}))
        self.policy.loading = True
        self.sessions.startup.loaded = self._loaded
        self.sessions.startup.when_ready(self._ready)
        self.sessions.load()
        self.cleanup.load()
        self.retained.sweep_at_intervals()

    def _promised(self, settings: Sequence[str]) -> dict[str, Any]:
        """What the first row of a run must say: without it nobody can tell what the node has promised."""
        return {"level": "message" if self.env.events.messages else "session", "settings": settings}

    def _ready(self) -> None:
        self.policy.loading = False
        self.policy.look_again()

    def _loaded(self) -> None:
        sessions = self.env.counters.queue_initialized_from_storage = len(self.sessions)
        self.env.event("node.loaded", sessions=sessions)

    def join_run(self, run_id: str, settings: Sequence[str] = ()) -> None:
        """This node is a member of another cluster now: later rows of the event log belong to that cluster's run.
        `settings` as in `open`."""
        env, old = self.env, self.env.events.run_id
        env.observer.emit_stats()
        env.event("node.stop", reason="joined")
        env.events.belong_to(run_id)
        env.event("node.join", old=old, **self._promised(settings))
        env.observer.emit_stats()

    def accept(self, transport: ClientTransport, origin: ConnectionOrigin) -> ClientConnection:
        """A client connected: return the connection that handles its bytes."""
        self.env.tick()
        connection = open_connection(self.services, transport, origin)
        self.connections[id(connection)] = connection
        if not origin.gateway:
            self.env.counters.socket_open += 1
        return connection

    def relay_by(self, locator: SlotLocator) -> None:
        """From now on relay clients whose slot has its primary at another node, by this table.

        Call it after `Gateways.bind` and before the first client connects: a decoder that has read on behind CONNECT
        cannot hand its bytes over.
        """
        self.gateways.use(locator)
        self.services.relay = self.gateways.relay

    def stopped(self) -> None:
        """The stop ends: write the last rows of the boot. What the disk has not taken by now is lost, as by a kill, and
        then the last one is not `node.stop`."""
        env = self.env
        env.observer.emit_stats()
        if env.store.bytes_waiting:
            env.event("store.state", state=UNWRITTEN, detail=env.store.detail)
        else:
            env.event("node.stop")

    def _closed(self, connection: object) -> bool:
        if self.services.relay is not None and isinstance(connection, ClientConnection):
            self.gateways.closed(connection)
        return self.connections.pop(id(connection), None) is not None

    def close(self) -> None:
        """Stop the node: close every connection, v5 clients with 0x8B; wills are published (MQTT 5.0 section 4.13)."""
        self.closing = True
        self.env.tick()
        self.sessions.lost.end_all()
        for connection in list(self.connections.values()):
            connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN)
        self.flush()
        self.gateways.close()

    def end_sessions(self, reason: str) -> None:
        """End every session and delete its state, some in each turn; v5 clients get 0x98 (administrative action)."""
        self._end_some(reason, self.sessions.everything())

    def _end_some(self, reason: str, sessions: Iterator[Session]) -> None:
        self.env.tick()
        ended = 0
        for session in islice(sessions, ENDED):
            ended += 1
            if session.connection is not None:
                session.connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
            session.end(reason)
        self.flush()
        if ended == ENDED:
            self.env.after_turn(lambda: self._end_some(reason, sessions))

    def flush(self) -> None:
        """Write the output that all connections gathered in this turn."""
        self.services.flusher.flush()

    def reopen_handshakes(self) -> None:
        """Report the mids that were open before this node had its cluster port: of inbound QoS 2 handshakes, and of
        wills."""
        self.wills.reopen_handshakes()
        for session in self.sessions.in_memory():  # a session with open handshakes is always in memory
            for record in session.inbound.records.values():
                if not record.done:
                    self.env.cluster.handshake_opened(session.inbound.mid(record), record.members)

    def _store_state(self, state: str, detail: str) -> None:
        env = self.env
        env.tick()
        env.event("store.state", state=state, detail=detail)
        self.policy.look_again()
        if state != "serving":
            self.deliver_stored()

    def deliver_stored(self) -> None:
        """Send to connected clients what waits for a disk that takes no writes, or for copies while this node has no
        lease (H-51): some clients in each step."""
        online = [session for session in self.sessions.in_memory() if session.online]

        def step() -> None:
            for session in online[-_PUMPED:]:
                session.queue.pump()
            del online[-_PUMPED:]
            if online:
                self.env.background(step)

        step()

    def _store_damaged(self, detail: str) -> None:
        self.env.event("store.state", state="damaged", detail=detail)
