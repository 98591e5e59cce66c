"""The registration of client ids, and all sessions of the node (docs/architecture.md, section 3).

Only the primary of a client id's slot registers it. A client id has one connection at a time: the old one is closed
before the new one gets its answer (P3). Today every slot is local, and a registration is a function call. The answer
still comes through `reply`, because the primary may later be another node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...cluster.identity import slot_of
from ...mqtt.topics import parse_shared
from ...storage import keys
from ..environment import Environment
from ..queues.durable_queue import DurableQueue
from ..queues.records import WillRecord, decode_inbound, decode_session, decode_subscription
from ..queues.session_cleanup import SessionCleanup
from ..routing.retained_store import RetainedStore
from ..routing.router import Router
from ..routing.subscriptions import Subscription
from .retained_replay import ReplayTurns
from .session import RESTARTED, Session, SessionConnection, SessionParts
from .slot_counters import SlotCounters
from .wills import Wills

_LOAD_STEP = 2000


class Registration(msgspec.Struct):
    """The session parameters of a CONNECT. `window` is how many QoS 1 and 2 messages may be in flight to the client."""

    connection: SessionConnection
    mountpoint: str
    client_id: str
    version: int
    username: str | None
    clean_start: bool
    expiry_s: int
    will: WillRecord | None
    window: int
    overrides: dict[str, Any]


class SessionRegistry:
    """All sessions whose slot is local."""

    def __init__(
        self,
        env: Environment,
        router: Router,
        retained: RetainedStore,
        wills: Wills,
        replays: ReplayTurns,
        cleanup: SessionCleanup,
        counters: SlotCounters,
    ) -> None:
        self._env = env
        self._counters = counters
        self._parts = SessionParts(env, router, retained, wills, replays, cleanup, self._forget)
        self._sessions: dict[tuple[str, str], Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def get(self, mountpoint: str, client_id: str) -> Session | None:
        """The session of a client id, None if it has none."""
        return self._sessions.get((mountpoint, client_id))

    def on_disk(self, mountpoint: str, client_id: str) -> bool:
        """True if the store has a session of this client id, or the deletion of one that is not committed yet."""
        session = self.get(mountpoint, client_id)
        if session is not None:
            return session.stored
        key = keys.client_key(slot_of(mountpoint, client_id), mountpoint, client_id)
        return self._env.store.is_waiting(keys.session_key(key))

    def _forget(self, session: Session) -> None:
        """Remove an ended session from the registry, unless its client id has a newer one."""
        if self._sessions.get((session.mountpoint, session.client_id)) is session:
            del self._sessions[session.mountpoint, session.client_id]

    def register(
        self,
        request: Registration,
        reply: Callable[[Session, bool, bool], None],
        refused: Callable[[], None],
    ) -> None:
        """Make `request.connection` the only owner of its client id.

        Calls `reply` with the session, whether it existed before, and whether a write must be safe before CONNACK.

        An older connection gets 0x8E and is closed first [MQTT-3.1.4-2] [MQTT5-3.1.4-3]; Clean Start ends the old
        session [MQTT-3.1.2-6] [MQTT5-3.1.2-4]. If the disk fails to return the session's queue, calls `refused`
        instead, and the session stays as it is.
        """
        env = self._env
        before = env.store.bytes_waiting
        key = (request.mountpoint, request.client_id)
        session = self._sessions.get(key)
        if session is not None and session.connection is not None:
            old = session.connection
            env.observer.taken_over(old, request.connection)
            old.taken_over()
            session.detach(fire_will=not env.options.suppress_lwt_on_session_takeover)
            env.event("sess.takeover.end", client=request.client_id, mountpoint=request.mountpoint)
            session = self._sessions.get(key)
        if session is not None and request.clean_start:
            session.end("clean_start")
            session = None
        present = session is not None
        if session is None:
            durable = request.expiry_s > 0
            session = Session(self._parts, *key, self._counters.next(slot_of(*key)) if durable else 0, durable)
            self._sessions[key] = session
        session.version = request.version
        session.username = request.username
        session.expiry_s = request.expiry_s
        session.overrides = request.overrides
        session.will = request.will
        apply_limits(session)
        session.attach(request.connection, request.window)
        if session.queue.unreadable:
            session.detach(fire_will=False)
            refused()
            return
        # also while the deletion of a former session is not committed: a restart would bring that session back
        wrote = env.store.bytes_waiting != before or env.store.is_waiting(keys.session_key(session.key))
        reply(session, present, wrote)

    def load(self) -> int:
        """Restore every session of the store, with its deadlines. Returns how many there are."""
        was_attached: list[tuple[Session, bool]] = []
        start = b"s"
        while True:
            found = self._env.store.scan(start, b"t", _LOAD_STEP)
            for key, value in found:
                session, attached = self._restore(key, value)
                self._sessions[session.mountpoint, session.client_id] = session
                was_attached.append((session, attached))
            if len(found) < _LOAD_STEP:
                break
            start = found[-1][0] + b"\x00"
        # only now, because a will that is published must find all subscriptions
        for session, attached in was_attached:
            session.resume_absence(attached)
        return len(was_attached)

    def _restore(self, key: bytes, value: bytes) -> tuple[Session, bool]:
        record = decode_session(key, value)
        session = Session(self._parts, record.mountpoint, record.client_id, record.incarnation, record.durable)
        session.stored = True
        session.version = record.version
        session.username = record.username
        session.expiry_s = record.expiry_s
        session.expires_at = record.expires_at
        session.will = record.will
        session.will_at = record.will_at
        session.overrides = record.overrides
        session.grouped = record.grouped
        queue = session.queue
        if isinstance(queue, DurableQueue):
            # the session had a connection: all entries on disk may have been sent
            sent_below = record.next_seq if record.attached else record.sent_below
            queue.restore(record.first_seq, record.next_seq, sent_below)
            self._restore_details(session)
        apply_limits(session)
        return session, record.attached

    def _restore_details(self, session: Session) -> None:
        store = self._env.store
        prefix = keys.subscription_prefix(session.key, session.incarnation)
        table = self._parts.router.table(session.mountpoint)
        for key, value in store.scan(prefix, keys.after(prefix)):
            text = key[len(prefix) :].decode()
            group, pattern = parse_shared(text)
            record = decode_subscription(key, value)
            subscription = Subscription(
                session,
                pattern,
                group,
                record.qos,
                record.no_local,
                record.retain_as_published,
                record.retain_handling,
                record.identifier,
            )
            session.subscriptions[text] = subscription
            if record.due:
                session.due[text] = RESTARTED
                session.expect_replay(text, subscription, record.replay_at)
            session.grouped = session.grouped or group is not None
            table.add(subscription)
        prefix = keys.inbound_prefix(session.key, session.incarnation)
        for key, value in store.scan(prefix, keys.after(prefix)):
            session.inbound.restore(int.from_bytes(key[-2:], "big"), decode_inbound(key, value))


def apply_limits(session: Session) -> None:
    """Set the queue limits: the node's, unless a modifier of auth_on_register overrides them."""
    options = session.env.options
    overrides = session.overrides
    queue = session.queue
    queue.max_online = overrides.get("max_online_messages", options.max_online_messages)
    queue.max_offline = overrides.get("max_offline_messages", options.max_offline_messages)
    queue.lifo = overrides.get("queue_type", options.queue_type) == "lifo"
    queue.upgrade = overrides.get("upgrade_qos", options.upgrade_outgoing_qos)
