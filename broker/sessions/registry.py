"""The registration of client ids, and all sessions of the node (docs/architecture.md, section 3).

Only the primary of a client id's slot registers it. A client id has one connection at a time: the old one is closed
before the new one gets its answer (P3). In a cluster `broker/gateway/` brings the clients of other nodes here.

A durable session whose client is absent is on disk only. The registry makes it from its record when a CONNECT, a
message or a deadline needs it, and releases it when nobody uses it (`idle_sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.durable_queue import DurableQueue
from ..queues.records import (
    RecordError,
    SessionRecord,
    WillRecord,
    deadline_of,
    decode_inbound,
    decode_session,
    decode_subscription,
)
from ..queues.session_cleanup import SessionCleanup
from ..routing.retained_store import RetainedStore
from ..routing.router import Router
from .absence import Absence
from .deadlines import Deadlines
from .idle_sessions import IdleSessions
from .latest_connect import MARGIN_MS, LatestConnect, is_outdated
from .lost_connections import LostConnections
from .retained_replay import ReplayTurns
from .session import Session, SessionParts, client_key_of
from .session_connection import SessionConnection
from .slot_counters import SlotCounters
from .snapshots import Snapshots, restored
from .startup import Startup
from .wills import Wills

ITERATED = 200
"""Session records that `everything` reads at once."""


class Registration(msgspec.Struct):
    """The session parameters of a CONNECT. `window` is how many QoS 1 and 2 messages may be in flight to the client.
    `waited_ms`: the time since its node has received it."""

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
    waited_ms: int = 0


class SessionRegistry:
    """All sessions whose slot is local: those in memory by client key, the others on disk."""

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
        self._router = router
        self.deadlines = Deadlines(env, self._wake)
        self.snapshots = Snapshots(env)
        self.idle = IdleSessions(env, self._released)
        self.startup = Startup(env, router, self.snapshots, self.deadlines, self._begin_absence, self._has_in_slot)
        self._parts = SessionParts(
            env,
            router,
            retained,
            wills,
            replays,
            cleanup,
            self.deadlines,
            self.snapshots,
            self._forget,
            self.idle.add,
        )
        self.lost = LostConnections(env)
        self._sessions: dict[bytes, Session] = {}
        self._local: dict[bytes, Session] = {}
        """Those of `_sessions` that belong to this node, and not to their slot."""
        self._of_slot: dict[int, dict[bytes, Session]] = {}
        """The others by slot. A node gives up many slots in one turn, and may have a hundred thousand sessions."""
        self.unread: dict[bytes, str] = {}
        """The reasons why the disk failed to return sessions that were not made since."""
        self.elsewhere: set[int] = set()
        """The slots whose durable sessions stay on disk: they are at another node, or moving (`SlotSessions`)."""

    def __len__(self) -> int:
        return len(self._sessions) + self.startup.dormant.total

    @property
    def durable(self) -> int:
        """Number of durable sessions."""
        return self.startup.dormant.total + sum([session.durable for session in self._sessions.values()])

    # -- finding sessions

    def in_memory(self) -> list[Session]:
        """The sessions in memory: all that have a connection, and those that were used lately."""
        return list(self._sessions.values())

    def local(self) -> list[Session]:
        """The sessions that belong to this node, and not to their slot."""
        return list(self._local.values())

    def known(self, mountpoint: str, client_id: str) -> Session | None:
        """The session of a client id, None if it has none in memory."""
        return self._sessions.get(client_key_of(mountpoint, client_id))

    def get(self, mountpoint: str, client_id: str) -> Session | None:
        """The session of a client id, None if it has none, or if the disk fails to return it: the log then says so."""
        return self.wake(client_key_of(mountpoint, client_id))

    def everything(self) -> Iterator[Session]:
        """Yield all sessions. A session that only the disk has is made for the caller, and released afterwards.

        The caller may take many turns; sessions that begin meanwhile may be missing. A session that the disk fails to
        return is missing, and the log says so.
        """
        yielded = set()
        for session in self.in_memory():
            if self._sessions.get(session.key) is session:  # else it has left memory meanwhile
                yielded.add(session.key)
                yield session
        start = b"s"
        while found := self._env.store.keys(start, b"t", ITERATED):
            for key in found:
                client = key[1:]
                if client in yielded or client[0] in self.elsewhere:
                    continue
                known = client in self._sessions
                session_or_none = self.wake(client)
                if session_or_none is not None:
                    yield session_or_none
                    here = self._sessions.get(client) is session_or_none
                    if here and not known and session_or_none.releasable:
                        self._release(session_or_none)
            start = found[-1] + b"\x00"

    def wake(self, client: bytes) -> Session | None:
        """The session of a client key, made from its record if it is not in memory.

        Returns None if there is none, or if the disk fails to return it: the log then says so, once for each reason.
        """
        try:
            return self._wake(client)
        except (StorageError, RecordError) as error:
            if self.unread.get(client) != str(error):  # each message for the session asks again
                self.unread[client] = str(error)
                name = keys.parse_client_key(client)[1]
                self._env.log("error", f"client {name!r}: its session cannot be read: {error}")
            return None

    def _wake(self, client: bytes) -> Session | None:
        session = self._sessions.get(client)
        if session is None:
            if not self.startup.swept:
                self._end_lost(client)
            key = keys.session_key(client)
            value = self._env.store.get(key)
            if value is None:
                return None
            record = decode_session(key, value)
            if client[0] in self.elsewhere:
                return None
            session = self._make(record, True)
            self.unread.pop(client, None)
        return session

    def _end_lost(self, client: bytes) -> None:
        """If the last process served this client without durable state, publish its will."""
        key = keys.local_session_key(client)
        value = self._env.store.get(key)
        if value is not None:
            self._make(decode_session(key, value), False)

    def _has_in_slot(self, client: bytes) -> bool:
        session = self._sessions.get(client)
        return session is not None and session.in_slot

    def of_slot(self, slot: int) -> list[Session]:
        """The sessions in memory that belong to the slot, and not to this node."""
        return list(self._of_slot.get(slot, {}).values())

    def release(self, session: Session) -> None:
        """Leave a session to the disk. The caller knows that the disk has all of it."""
        self._release(session)

    def drop(self, session: Session) -> None:
        """Another node has this session now: forget it without any effect, and close its connection."""
        self._forget(session)
        session.drop()

    def end_replaced(self, slot: int) -> None:
        """End those sessions of a slot on disk whose clients are connected here without durable state.

        Their Clean Start could not end them, because the former node of the slot was absent. Such a session ends as by
        that Clean Start.
        """
        for client, present in list(self._local.items()):
            if client[0] != slot:
                continue
            key = keys.session_key(client)
            try:
                value = self._env.store.get(key)
                record = None if value is None else decode_session(key, value)
                if record is not None:
                    self._restore(record, True).discard()
            except (StorageError, RecordError) as error:
                self._env.log("error", f"client {present.client_id!r}: its session cannot be read: {error}")

    def on_disk(self, mountpoint: str, client_id: str) -> bool:
        """True if the store has a session of this client id, or the deletion of one that is not committed yet.

        Also True if the disk fails to tell.
        """
        client = client_key_of(mountpoint, client_id)
        session = self._sessions.get(client)
        if session is not None:
            return session.stored
        store = self._env.store
        try:
            return (
                self._is_waiting(client)
                or store.get(keys.session_key(client)) is not None
                or (not self.startup.swept and store.get(keys.local_session_key(client)) is not None)
            )
        except StorageError:
            return True

    def _is_waiting(self, client: bytes) -> bool:
        """True if the store has not committed a change of a record of this client: a restart would bring it back."""
        is_waiting = self._env.store.is_waiting
        return is_waiting(keys.session_key(client)) or is_waiting(keys.local_session_key(client))

    def empty(self, slots: Collection[int]) -> list[int]:
        """Return those of these slots that have no session and no will that waits.

        A slot that the disk fails to read counts as one with sessions.
        """
        return [slot for slot in slots if slot not in self._of_slot and not self._has_rows(slot)]

    def _has_rows(self, slot: int) -> bool:
        try:
            found = self._env.store.keys
            return bool(found(*keys.slot_range(b"s", slot), 1) or found(*keys.slot_range(b"z", slot), 1))
        except StorageError:
            return True

    # -- beginning and end

    def began(self, waited_ms: int) -> int:
        """When a CONNECT began that has waited so long: `LatestConnect.began`."""
        return self._env.now - waited_ms if self._env.clock.known else 0

    def is_outdated(self, client: bytes, waited_ms: int, began: int = 0) -> bool:
        """True if a CONNECT that has waited so long must change nothing, because its client has connected again since.

        The later CONNECT is that of the session, or one at another node, which began at `began`. Ask this before
        anything of the client id ends.
        """
        if waited_ms <= MARGIN_MS or not self._env.clock.known:
            return False
        session, now = self.wake(client), self._env.now
        return is_outdated(now, waited_ms, began) or (
            session is not None and is_outdated(now, waited_ms, session.latest.began)
        )

    def register(
        self,
        request: Registration,
        reply: Callable[[Session, bool, bool], None],
        refused: Callable[[], None],
    ) -> None:
        """Make `request.connection` the only owner of its client id.

        Calls `reply` with the session, whether it existed before, and whether a write must be safe before CONNACK.

        An older connection gets 0x8E and is closed first [MQTT-3.1.4-2] [MQTT5-3.1.4-3]; Clean Start ends the old
        session [MQTT-3.1.2-6] [MQTT5-3.1.2-4]. The caller has asked `is_outdated`. If the disk fails to return the
        session or its queue, calls `refused` instead, and the session stays as it is.
        """
        env = self._env
        key = client_key_of(request.mountpoint, request.client_id)
        self.end_if_lost(key)
        before = env.store.bytes_waiting
        try:
            session = self._wake(key)
        except (StorageError, RecordError) as error:
            env.log("error", f"client {request.client_id!r}: its session cannot be read: {error}")
            refused()
            return
        old = None if session is None else session.connection
        if session is not None and old is not None:
            env.observer.taken_over(old, request.connection)
            self._end_connection(session, request.connection.gateway)
            session = self._sessions.get(key)
        if session is not None and (request.clean_start or not session.durable):
            session.discard()
            session = None
        if old is not None:
            self._parts.wills.ask(key, old)
        present = session is not None
        if session is None:
            durable = request.expiry_s > 0
            in_slot = durable or (request.will is not None and env.cluster.is_copied(key[0]))
            incarnation = self._counters.next(key[0]) if durable else 0
            session = Session(self._parts, request.mountpoint, request.client_id, incarnation, durable, in_slot)
            self._add(session)
        latest, session.latest = session.latest, LatestConnect(request.version, self.began(request.waited_ms))
        session.username = request.username
        session.overrides = request.overrides
        apply_limits(session)
        self.idle.remove(session)
        session.attach(request.connection, request.window, request.will, request.expiry_s)
        if session.queue.unreadable:
            session.latest = latest
            session.detach(fire_will=False)
            refused()
            return
        # also while the deletion of a former session is not committed: a restart would bring that session back
        wrote = env.store.bytes_waiting != before or self._is_waiting(session.key)
        reply(session, present, wrote)

    def take_over(self, session: Session, gateway: str = "") -> None:
        """The client id has connected at another node, which may be known: close the connection of its session here."""
        self._env.observer.session_event("sess.takeover.start", session)
        self._end_connection(session, gateway)

    def end_if_lost(self, client: bytes) -> None:
        """If the cluster has broken the connection of a client, and its end waits, in `lost` or behind packets, end it
        now. Otherwise the client's next connection would take it over, and the node would publish the will of a client
        that is well (H-39)."""
        session = self._sessions.get(client)
        if session is not None and self.lost:
            self.lost.end(session.connection)
        if session is not None and session.connection is not None:
            session.connection.end_if_cut()

    def _end_connection(self, session: Session, gateway: str) -> None:
        """End the connection of a session, whose client has a new one through this gateway.

        The client may be here because its former gateway has died, which the cluster notices seconds later: then its
        will must not be published (H-39). The former gateway lives if it also has the new socket.
        """
        env, old = self._env, session.connection
        assert old is not None
        old.taken_over()
        doubted = old.gateway if old.gateway != gateway else ""
        session.detach(not env.options.suppress_lwt_on_session_takeover, doubted=doubted)
        env.observer.session_event("sess.takeover.end", session)

    def end(self, client: bytes, gateway: str) -> bool:
        """A client without durable state connects at another node, `gateway`: end its connection and session here.

        Returns True if the deletion of a session is not committed yet: a restart would bring the session back.
        """
        self.end_if_lost(client)
        session = self.wake(client)
        old = None if session is None else session.connection
        if session is not None and old is not None:
            self.take_over(session, gateway)
            session = self._sessions.get(client)
        if session is not None:
            session.discard()
        if old is not None:
            self._parts.wills.ask(client, old)
        return self._is_waiting(client)

    def _add(self, session: Session) -> None:
        key = session.key
        if key in self._sessions:
            self._remove(key)
        self._sessions[key] = session
        if session.in_slot:
            self._of_slot.setdefault(key[0], {})[key] = session
        else:
            self._local[key] = session

    def _remove(self, key: bytes) -> None:
        session = self._sessions.pop(key)
        if session.in_slot:
            sessions = self._of_slot[key[0]]
            del sessions[key]
            if not sessions:
                del self._of_slot[key[0]]
        else:
            del self._local[key]

    def _forget(self, session: Session) -> None:
        """Remove an ended session from the registry, unless its client id has a newer one."""
        self.idle.remove(session)
        if self._sessions.get(session.key) is session:
            self._remove(session.key)

    def _release(self, session: Session) -> None:
        self.idle.remove(session)
        session.release()
        self._released(session)

    def _released(self, session: Session) -> None:
        """A session is on disk only from now on."""
        self._remove(session.key)
        self.startup.dormant.released(session.key)
        self.deadlines.watch(session.key, session.deadline)

    # -- sessions on disk

    def load(self) -> None:
        """Begin to load what the start needs: the open handshakes, the subscriptions, the deadlines (`Startup`)."""
        self._wake_publishers(b"i", b"j")
        self.startup.run()

    def wake_publishers(self, slot: int) -> None:
        """Make the sessions of a slot that has come here whose clients have an open QoS 2 handshake as publishers.
        Raises `StorageError`."""
        self._wake_publishers(*keys.slot_range(b"i", slot))
        for session in self.of_slot(slot):
            session.inbound.arrived()

    def _wake_publishers(self, start: bytes, stop: bytes) -> None:
        client = b""
        for key in self._env.store.keys(start, stop):
            if key[1] not in self.elsewhere and keys.client_of(key) != client:
                client = keys.client_of(key)
                self.wake(client)

    def _begin_absence(self, client: bytes) -> None:
        self.wake(client)  # `_make` begins the absence of a session that was attached

    def _make(self, record: SessionRecord, in_slot: bool) -> Session | None:
        """Make a session from its record, and continue its absence. None if it ends thereby."""
        session = self._restore(record, in_slot)
        if in_slot:
            self.startup.dormant.woken(session.key)
        self._add(session)
        self.idle.add(session)
        session.resume_absence(record.attached)
        return None if session.ending else session

    def _restore(self, record: SessionRecord, in_slot: bool) -> Session:
        session = Session(self._parts, record.mountpoint, record.client_id, record.incarnation, record.durable, in_slot)
        session.stored = True
        session.latest = LatestConnect(record.version, record.connect_began)
        session.username = record.username
        session.expiry_s = record.expiry_s
        session.absence = Absence(record.expires_at, record.will_at, record.excused_until)
        session.will = record.will or record.former_will
        if record.will is not None and record.former_will is not None:  # CONNACK may have left: the later one counts
            session.absence.will_at = 0
            session.log_will("will.cancel", record.former_will, reason="resumed")
        session.overrides = record.overrides
        session.grouped = record.grouped
        session.deadline = deadline_of(record) if in_slot else None
        queue = session.queue
        if isinstance(queue, DurableQueue):
            # if the session had a connection, more entries may have been sent since the record was written
            sent_below = min(record.next_seq, record.sent_limit) if record.attached else record.sent_below
            queue.restore(record.first_seq, record.next_seq, sent_below, record.waiting)
            self._restore_details(session)
        apply_limits(session)
        return session

    def _restore_details(self, session: Session) -> None:
        """Read all rows before the router learns of the session: the disk may fail to return one of them."""
        store = self._env.store
        prefix = keys.subscription_prefix(session.key, session.incarnation)
        rows = store.scan(prefix, keys.after(prefix))
        subscriptions = [(key[len(prefix) :].decode(), decode_subscription(key, value)) for key, value in rows]
        prefix = keys.inbound_prefix(session.key, session.incarnation)
        rows = store.scan(prefix, keys.after(prefix))
        handshakes = [(int.from_bytes(key[-2:], "big"), decode_inbound(key, value)) for key, value in rows]
        table = self._router.table(session.mountpoint)
        for text, record in subscriptions:
            subscription = restored(session, text, record)
            table.restore(subscription)
            session.subscriptions[text] = subscription
            if record.due:
                session.replays.restore(text, subscription, record.replay_at)
            session.grouped = session.grouped or subscription.group is not None
        for packet_id, handshake in handshakes:
            session.inbound.restore(packet_id, handshake)


def apply_limits(session: Session) -> None:
    """Set the queue limits: the node's, unless a modifier of auth_on_register overrides them."""
    options = session.env.options
    overrides = session.overrides
    queue = session.queue
    queue.max_online = overrides.get("max_online_messages")
    queue.max_offline = overrides.get("max_offline_messages")
    queue.lifo = overrides.get("queue_type", options.queue_type) == "lifo"
    queue.upgrade = overrides.get("upgrade_qos", options.upgrade_outgoing_qos)
