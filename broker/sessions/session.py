"""The session: the Session State of the standard, which outlives connections (MQTT 5.0 section 4.1).

The primary of the slot has the session: subscriptions, queue, QoS 2 state of both directions, the will and the expiry.
It writes every change of them to the store in the batch of its cause. A clean session is the same class and writes only
one record, while it has a will: the will is published after a crash as well (P5). If the slot has copies, its primary
has these sessions too, and the record is a row of the slot, which outlives the node. Otherwise the record belongs to
the gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...cluster.identity import slot_of
from ...mqtt.reasons import ReasonCode
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.durable_queue import UNKNOWN, DurableQueue
from ..queues.queue import Queue
from ..queues.records import SessionRecord, SubscriptionRecord, WillRecord, encode
from ..queues.session_cleanup import SessionCleanup
from ..routing.ack_context import AckContext
from ..routing.retained_store import RetainedStore
from ..routing.router import Router
from ..routing.subscriptions import Subscription
from ..timers import Timer
from .absence import NEVER, Absence, Replaced, absence
from .deadlines import Deadlines
from .due_replays import DueReplay, DueReplays
from .inbound_qos2 import InboundHandshakes
from .latest_connect import LatestConnect
from .retained_replay import ReplayTurns
from .session_connection import SessionConnection
from .snapshots import Snapshots
from .wills import Wills

EPOCH = (1 << 63) - 1
"""The bits of an incarnation that the event log has: all but the one that each number of a slot has."""

QUEUE_UNREADABLE = "the broker cannot read the queue of this session"
"""The reason string for a client whose messages the message store fails to return."""


def client_key_of(mountpoint: str, client_id: str) -> bytes:
    """The key of a client in the store; it begins with the client's slot."""
    return keys.client_key(slot_of(mountpoint, client_id), mountpoint, client_id)


class SessionParts(msgspec.Struct):
    """The parts of the node that sessions use.

    A session that ends calls `ended`. A session calls `offline` when its client has disconnected and it continues.
    """

    env: Environment
    router: Router
    retained: RetainedStore
    wills: Wills
    replays: ReplayTurns
    cleanup: SessionCleanup
    deadlines: Deadlines
    snapshots: Snapshots
    ended: Callable[[Session], None]
    offline: Callable[[Session], None]


class Session:
    """One client id's session. `connection` is None while no client is connected; times are cluster time in ms.

    `deadline` is the time that the index on disk has for this session (`Deadlines`). `planned` is True if a plan of the
    router may refer to this object. `in_slot` is True if its record, if it has one, is a row of its slot.
    """

    __slots__ = (
        "__weakref__",
        "absence",
        "client_id",
        "connection",
        "deadline",
        "durable",
        "ending",
        "expiry_s",
        "grouped",
        "in_slot",
        "inbound",
        "incarnation",
        "key",
        "latest",
        "mountpoint",
        "overrides",
        "parts",
        "planned",
        "queue",
        "replays",
        "stored",
        "subscriptions",
        "timer",
        "username",
        "will",
    )

    def __init__(
        self, parts: SessionParts, mountpoint: str, client_id: str, incarnation: int, durable: bool, in_slot: bool
    ) -> None:
        assert in_slot or not durable
        self.parts = parts
        env = parts.env
        self.mountpoint = mountpoint
        self.client_id = client_id
        self.incarnation = incarnation
        self.durable = durable
        self.in_slot = in_slot
        self.key = client_key_of(mountpoint, client_id)
        self.latest = LatestConnect()
        self.username: str | None = None
        self.expiry_s = 0
        self.absence = Absence()
        self.deadline: int | None = None
        self.timer: Timer | None = None
        self.connection: SessionConnection | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.replays = DueReplays(env, parts.retained, parts.replays, self)
        self.grouped = False
        self.inbound = InboundHandshakes(env, self)
        self.will: WillRecord | None = None
        self.overrides: dict[str, Any] = {}
        self.stored = False
        self.ending = False
        self.planned = False
        self.queue: Queue = DurableQueue(env, self, self.key, parts.cleanup) if durable else Queue(env, self)

    @property
    def env(self) -> Environment:
        """The environment of the node."""
        return self.parts.env

    @property
    def epoch(self) -> int:
        """The number of a durable session in the event log, other than those of former sessions of its client. 0 for a
        session that ends with its connection."""
        return self.incarnation & EPOCH

    @property
    def version(self) -> int:
        """The MQTT version of the last connection."""
        return self.latest.version

    @property
    def online(self) -> bool:
        """True while a client is connected."""
        return self.connection is not None

    @property
    def lost(self) -> bool:
        """True if another node has this session now: `end` would have deleted its record."""
        return self.ending and self.stored

    # -- the record on disk

    def save(self) -> None:
        """Write the session record with the open batch; a clean session has one only while it has a will."""
        if self.ending:
            return
        if self.durable or self.will is not None:
            self.env.store.put(self._record_key, encode(self._record(UNKNOWN)))
            self.stored = True
            if self.in_slot:
                self._set_deadline(0 if self.connection is not None else self.absence.due_at)
        elif self.stored:
            self._delete_record()

    @property
    def _record_key(self) -> bytes:
        return keys.session_key(self.key) if self.in_slot else keys.local_session_key(self.key)

    def _record(self, waiting: int) -> SessionRecord:
        queue = self.queue
        first = following = sent = limit = 0
        if isinstance(queue, DurableQueue):
            first, following, sent, limit = queue.first_seq, queue.reserved, queue.sent_below, queue.sent_limit.seq
        replaced = self.absence.replaced
        return SessionRecord(
            self.mountpoint,
            self.client_id,
            self.incarnation,
            self.durable,
            self.latest.version,
            self.username,
            self.expiry_s,
            self.connection is not None,
            self.absence.expires_at,
            self.will,
            self.absence.will_at if replaced is None else replaced.absence.will_at,
            first,
            following,
            sent,
            self.overrides,
            self.grouped,
            waiting,
            self.absence.excused_until,
            None if replaced is None else replaced.will,
            limit,
            self.latest.began,
        )

    def _delete_record(self) -> None:
        self.env.store.delete(self._record_key)
        self.stored = False
        self._set_deadline(None)

    def _set_deadline(self, deadline: int | None) -> None:
        if deadline != self.deadline:
            self.parts.deadlines.move(self.key, self.deadline, deadline)
            self.deadline = deadline

    # -- a session that only the disk has

    @property
    def releasable(self) -> bool:
        """True if the disk has everything of this session, and no deadline is due: `release` may be called."""
        queue, deadline = self.queue, self.deadline
        return (
            isinstance(queue, DurableQueue)
            and self.connection is None
            and self.stored
            and not (self.ending or self.inbound.records or self.absence.untold)
            and queue.dormant
            and (deadline is None or deadline > self.env.now)
        )

    def release(self) -> None:
        """Leave this session to the disk: the table keeps its subscriptions as bytes.

        The record on disk then tells how many messages wait, if they have been counted. It is written with the next
        batch, because an older one only costs a count of the queue.
        """
        queue = self.queue
        self.env.timers.cancel(self.timer)
        if isinstance(queue, DurableQueue) and queue.reserved != queue.next_seq:
            queue.reserved = queue.next_seq
            self.env.store.write_later(keys.session_key(self.key), encode(self._record(queue.counted)))
        self._release_subscriptions()

    def _release_subscriptions(self) -> None:
        table = self.parts.router.table(self.mountpoint)
        for each in self.subscriptions.values():
            table.release(each)
            if self.planned:
                table.tell(each.filter)
        self.subscriptions = {}

    def drop(self) -> None:
        """Another node has this session now: forget it without any effect, and close its connection.

        The disk stays as it is. No message enters the queue any more, from a plan that was made before either.
        """
        self.ending = True
        connection, self.connection = self.connection, None
        self.env.timers.cancel(self.timer)
        self.replays.end_all()
        self.inbound.drop()
        queue = self.queue
        queue.drain()
        queue.inflight.clear()
        queue.waiting.clear()
        queue.lifo, queue.max_offline = False, 0  # it takes no message any more
        if self.durable:
            self._release_subscriptions()
        else:
            for text in list(self.subscriptions):
                self.unsubscribe(text)
        if connection is not None:
            connection.moved()

    # -- subscriptions

    def subscribe(self, text: str, subscription: Subscription, context: AckContext) -> DueReplay | None:
        """Add or replace a subscription [MQTT-3.8.4-3]; return the replay that it asks for.

        A filter counts as new if an earlier connection was lost before the SUBACK left. The conditions on other nodes
        that the SUBACK waits for are added to `context`.
        """
        replays, due = self.replays, None
        lost = replays.lost(text)
        new = lost or text not in self.subscriptions
        handling = subscription.retain_handling
        if subscription.group is None and (handling == 0 or (handling == 1 and new)):  # [MQTT5-3.3.1-10]
            due = replays.ask(text, subscription)
        elif lost:
            replays.end(text)
        self.subscriptions[text] = subscription
        if subscription.group is not None and not self.grouped:
            self.grouped = True
            self.save()  # messages of the group may stay in the queue after the subscription is removed
        replaced = self.parts.router.table(self.mountpoint).add(subscription)
        self.env.cluster.subscribed(subscription, replaced, context)
        self._write_subscription(text, subscription)
        if self.durable:
            self.parts.snapshots.changed(self.key)
        return due

    def replayed(self, text: str) -> None:
        """The replay has put more messages of this filter into the queue: save its progress in the same batch."""
        self._write_subscription(text, self.subscriptions[text])

    def served(self, text: str) -> None:
        """The replay has put all messages of this filter into the queue: save that in the same batch."""
        self.replays.served(text)
        self._write_subscription(text, self.subscriptions[text])

    def _write_subscription(self, text: str, subscription: Subscription) -> None:
        if self.durable:
            replay = self.queue.replay
            record = SubscriptionRecord(
                subscription.qos,
                subscription.no_local,
                subscription.retain_as_published,
                subscription.retain_handling,
                subscription.identifier,
                text in self.replays,
                replay.at(text) if replay is not None else "",
            )
            self.env.store.put(self._subscription_key(text), encode(record))

    def unsubscribe(self, text: str) -> bool:
        """Remove a subscription; False if there was none."""
        subscription = self.subscriptions.pop(text, None)
        if subscription is None:
            return False
        self.replays.end(text)
        table = self.parts.router.table(self.mountpoint)
        table.remove(self.key, subscription.filter, subscription.group, self.durable)
        self.env.cluster.unsubscribed(subscription)
        if self.durable:
            self.env.store.delete(self._subscription_key(text))
            self.parts.snapshots.changed(self.key)
        return True

    def _subscription_key(self, text: str) -> bytes:
        return keys.subscription_prefix(self.key, self.incarnation) + text.encode()

    # -- connection and expiry

    def attach(self, connection: SessionConnection, window: int, will: WillRecord | None, expiry_s: int) -> None:
        """Give the session to a connection with this will, and stop the timers of expiry and of the former will. What
        this replaces is kept until the client is `welcomed`."""
        self.env.timers.cancel(self.timer)
        self.absence = Absence(replaced=Replaced(self.expiry_s, self.will, self.absence) if self.stored else None)
        self.expiry_s, self.will = expiry_s, will
        self.connection = connection
        self.replays.disconnected()
        self.queue.attach(connection.output, window)
        if self.grouped:
            self.env.cluster.presence_changed(self)
        if self.queue.unreadable:
            self.will = None  # the caller takes all that back
            return
        self.save()
        if will is not None:  # CONNACK may never leave, and the will is published nevertheless
            self.log_will("will.arm", will)

    def welcomed(self) -> None:
        """CONNACK has left: the former will is cancelled [MQTT5-3.1.3-9]."""
        replaced, self.absence.replaced = self.absence.replaced, None
        if replaced is not None and replaced.will is not None and not self.ending:
            self.log_will("will.cancel", replaced.will, reason="resumed")
            self.save()

    def log_will(self, type_: str, will: WillRecord, **fields: str) -> None:
        """Write a row about this will into the event log."""
        self.env.observer.session_event(type_, self, topic=will.topic, will=will.id or None, **fields)

    def detach(self, fire_will: bool, grace_s: int = 0, doubted: str = "") -> None:
        """The connection has ended: publish, delay or drop the will; end the session if it has no expiry interval.

        A session that continues, and the will of a session in a slot, wait at least for `grace_s` (H-39). `doubted` is
        as in `Absence`. If CONNACK has not left, all is as before the CONNECT, unless its own will is published.
        """
        if self.connection is None:
            return
        if fire_will and self.will is not None:
            self.welcomed()
        self.connection = None
        self.absence.doubted = doubted
        self.replays.disconnected()
        self.queue.detach()
        if self.grouped:
            self.env.cluster.presence_changed(self)
        if not fire_will and self.will is not None:
            self.log_will("will.cancel", self.will, reason="disconnected")
            self.will = None
        replaced = self.absence.replaced
        if replaced is not None:
            self.expiry_s, self.will = replaced.expiry_s, replaced.will
            grace_s = max(grace_s, self.env.cluster.failover_grace_s())
        if self.expiry_s == 0 and not (grace_s and self.in_slot and self.will is not None):
            self.end("disconnected")
            return
        self._begin_absence(grace_s, doubted)
        if replaced is not None:
            self.absence = replaced.absence.prolonged(self.env.now + grace_s * 1000, doubted)
        if not self.durable:  # only the will is left
            self._end_state()
            self.queue = Queue(self.env, self)
            self.save()
            self._set_timer()
            return
        if self.will is not None and self.absence.will_at <= self.env.now:
            self.fire_will()
        self.save()
        self._set_timer()
        self._tell_offline(self.absence)
        self._hand_over()
        self.parts.offline(self)

    def _begin_absence(self, grace_s: int, doubted: str = "") -> None:
        """An absence begins now. A clean session has ended, and only its will is left: no delay of its own counts any
        more [MQTT5-3.1.3-9]."""
        expiry_s = self.expiry_s if self.durable else NEVER
        delay_s = None if self.will is None else self.will.delay_s if self.durable else 0
        self.absence = absence(self.env.now, expiry_s, delay_s, grace_s, doubted)

    def _tell_offline(self, absence: Absence) -> None:
        """Tell plugins that the client is absent. Without a lease another node may have the session and tell them, so
        wait for one (H-43)."""
        if self.ending or self.absence is not absence:
            return
        cluster = self.env.cluster
        absence.untold = not cluster.has_lease()
        if absence.untold:
            later_ms = self.env.now + cluster.expiry_pause_ms()
            self.env.timers.at(later_ms, lambda: self._tell_offline(absence))
        else:
            self.env.observer.client_offline(self)

    def _set_timer(self) -> None:
        deadline = self.absence.due_at
        if deadline is not None:
            will = deadline == self.absence.will_at
            self.timer = self.env.timers.at(deadline, self._will_is_due if will else self._expire)

    def _will_is_due(self) -> None:
        if self._must_wait(self._will_is_due):
            return
        self._will_due()
        self._set_timer()

    def _pause_ms(self) -> int:
        return self.parts.deadlines.pause_ms(self.key[0])

    def _must_wait(self, due: Callable[[], None]) -> bool:
        """Whether the client could not come back yet: then this calls `due` again later (H-43)."""
        pause_ms = self._pause_ms()
        if pause_ms:
            self.timer = self.env.timers.at(self.env.now + pause_ms, due)
        return pause_ms > 0

    def _will_due(self) -> None:
        self.fire_will()
        if self.durable:
            self.save()
        else:
            self.end("disconnected")

    def _expire(self) -> None:
        if self._must_wait(self._expire):
            return
        self.env.observer.session_event("sess.expire", self)
        self.end("expired")

    def resume_absence(self, was_attached: bool) -> None:
        """The session was made from its record: do at once what is due, and set the timer for the rest.

        If a client was connected when the process ended, its absence begins now. A CONNECT may follow in this turn: it
        must not find a session that has expired, nor cancel a will that is due. It may find a session that is due but
        could not be resumed before (H-43).
        """
        now = self.env.now
        if was_attached:
            grace_s = self.env.cluster.failover_grace_s()
            if self.expiry_s == 0 and not (grace_s and self.in_slot):
                self.end("restart")
                return
            former_at = self.absence.will_at
            self._begin_absence(grace_s)
            if former_at:  # CONNACK may not have left
                self.absence.will_at = min(self.absence.will_at, max(former_at, now + grace_s * 1000))
            self.save()
            if self.durable:
                self._tell_offline(self.absence)
        if 0 < self.absence.will_at <= now and not self._pause_ms():
            self._will_due()
        if 0 < self.absence.expires_at <= now:
            self._expire()
        else:
            self._set_timer()

    def _hand_over(self) -> None:
        """Give messages of shared subscriptions to members that are online (MQTT 5.0 section 4.8.2)."""
        if self.grouped:
            self.parts.router.redistribute(self)

    # -- will and end

    def fire_will(self) -> None:
        """Publish the will and forget it in the same batch, so that it is published exactly once (H-19).

        If the gateway of the client is in doubt, the will waits until it is known whether that gateway lives (H-39).
        """
        will = self.will
        if will is None:
            return
        self.will = None
        self.absence.will_at = 0
        self.parts.wills.publish(self, will, self.absence.doubted)

    def discard(self) -> None:
        """End the session, because its client begins another one. If the cluster itself made the end of the last
        connection, and that was soon before, the client is well: its will is not published (H-39). A will that waited
        for no more than that, and still waits, is held up by the cluster as well (H-43)."""
        until_ms, will_at = self.absence.excused_until, self.absence.will_at
        if self.will is not None and (self.env.now < until_ms or 0 < will_at <= until_ms):
            self.log_will("will.cancel", self.will, reason="resumed")
            self.will = None
        self.end("clean_start")

    def end(self, reason: str) -> None:
        """End the session: publish a will that is still pending [MQTT5-3.1.2-8], and delete all state."""
        if self.ending:
            return
        self.ending = True
        self.connection = None
        self.env.timers.cancel(self.timer)
        self.fire_will()
        self._end_state()
        if self.stored:
            self._delete_record()
        self.parts.ended(self)
        self.env.observer.session_ended(self, reason)

    def _end_state(self) -> None:
        """Delete subscriptions, queue and handshakes; other members of shared subscriptions get what is left."""
        self.queue.drain()
        if self.grouped:
            self.parts.router.redistribute(self)
        if self.subscriptions:
            self.env.observer.all_unsubscribed(self)
        for text in list(self.subscriptions):
            self.unsubscribe(text)
        self.inbound.discard()
        self.queue.discard()

    def queue_unreadable(self, error: StorageError) -> None:
        """The disk fails to return entries of the queue: disconnect this client, and no other."""
        self.env.log("error", f"client {self.client_id!r}: its queue cannot be read: {error}")
        connection = self.connection
        if connection is not None and connection.connected:
            reason = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
            self.env.after_turn(lambda: connection.disconnect(reason, QUEUE_UNREADABLE))
