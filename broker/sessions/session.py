"""The session: what the standard calls Session State, which outlives connections (MQTT 5.0 section 4.1).

It lives at the slot's primary, holds subscriptions, queue, QoS 2 state of both directions, the will and the expiry, and
writes every change of them to the store in the batch of its cause. A clean session is the same object without a store;
only a will makes it leave a record, so that a killed node still fires it (P5).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...cluster.identity import slot_of
from ...storage import keys
from ..queues.durable_queue import DurableQueue
from ..queues.queue import Queue
from ..queues.records import InboundRecord, SessionRecord, SubscriptionRecord, WillRecord, encode
from ..routing.pending_acks import PendingAcks
from ..routing.remote import RemoteMembers
from ..routing.subscriptions import Subscription
from .retained_replay import Replay

if TYPE_CHECKING:
    from ..connection.connection import ClientConnection
    from ..node import Node
    from ..timers import Timer

NEVER = 0xFFFFFFFF
"""A session expiry interval that never ends (MQTT 5.0 section 3.1.2.11.2)."""

DUE, LOST, REPLAYED, RESTARTED = range(4)
"""Retained messages come behind the SUBACK; the connection was lost before that; the SUBACK has left, and they are on
their way; a restart came, perhaps after it.
"""


class Session:
    """One client id's session. `front` is None while no connection is there; times are cluster time in ms."""

    __slots__ = (
        "__weakref__",
        "client_id",
        "due",
        "durable",
        "ending",
        "expires_at",
        "expiry_s",
        "expiry_timer",
        "forward_again",
        "front",
        "grouped",
        "inbound",
        "incarnation",
        "key",
        "mountpoint",
        "node",
        "overrides",
        "owed",
        "queue",
        "stored",
        "subscriptions",
        "username",
        "version",
        "will",
        "will_at",
        "will_timer",
    )

    def __init__(self, node: Node, mountpoint: str, client_id: str, incarnation: int, durable: bool) -> None:
        self.node = node
        self.mountpoint = mountpoint
        self.client_id = client_id
        self.incarnation = incarnation
        self.durable = durable
        self.key = keys.client_key(slot_of(mountpoint, client_id), mountpoint, client_id)
        self.version = 4
        self.username: str | None = None
        self.expiry_s = 0
        self.expires_at = 0
        self.expiry_timer: Timer | None = None
        self.front: ClientConnection | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.due: dict[str, int] = {}
        """Filters whose retained messages are not all in the queue: `DUE`, `LOST`, `REPLAYED` or `RESTARTED`."""
        self.grouped = False
        self.inbound: dict[int, InboundRecord] = {}
        self.forward_again: set[int] = set()
        self.owed: dict[int, PendingAcks] = {}
        self.will: WillRecord | None = None
        self.will_at = 0
        self.will_timer: Timer | None = None
        self.overrides: dict[str, Any] = {}
        self.stored = False
        self.ending = False
        self.queue: Queue = DurableQueue(node, self, self.key) if durable else Queue(node, self)

    @property
    def online(self) -> bool:
        """A connection is there."""
        return self.front is not None

    # -- the record on disk

    def save(self) -> None:
        """Write the session record with the open batch; a clean session has one only while it has a will."""
        if self.ending:
            return
        if not self.durable and self.will is None:
            if self.stored:
                self.node.store.delete(keys.session_key(self.key))
                self.stored = False
            return
        queue = self.queue
        first = following = sent = 0
        if isinstance(queue, DurableQueue):
            first, following, sent = queue.first_seq, queue.reserved, queue.sent_below
        record = SessionRecord(
            self.mountpoint,
            self.client_id,
            self.incarnation,
            self.durable,
            self.version,
            self.username,
            self.expiry_s,
            self.front is not None,
            self.expires_at,
            self.will,
            self.will_at,
            first,
            following,
            sent,
            self.overrides,
            self.grouped,
        )
        self.node.store.put(keys.session_key(self.key), encode(record))
        self.stored = True

    # -- subscriptions

    def subscribe(self, text: str, subscription: Subscription) -> bool:
        """Add or replace a subscription [MQTT-3.8.4-3]; True if its retained messages are due behind the SUBACK.

        If the connection was lost before that, the filter is as good as new.
        """
        before = self.due.get(text)
        new = text not in self.subscriptions or before in (LOST, RESTARTED)
        handling = subscription.retain_handling
        due = subscription.group is None and (handling == 0 or (handling == 1 and new))  # [MQTT5-3.3.1-10]
        if due:
            self.due[text] = DUE
            self.expect_replay(text, subscription)
        elif before in (LOST, RESTARTED):
            self._forget_replay(text)
        self.subscriptions[text] = subscription
        if subscription.group is not None and not self.grouped:
            self.grouped = True
            self.save()  # messages of the group may be here longer than the subscription
        replaced = self.node.router.table(self.mountpoint).add(subscription)
        self.node.subscribed(subscription, replaced)
        self._write_subscription(text, subscription)
        return due

    def expect_replay(self, text: str, subscription: Subscription, at: str = "") -> None:
        """Retained messages are due for this filter, from topic `at` on."""
        if self.queue.replay is None:
            self.queue.set_replay(Replay(self.node, self))
        assert self.queue.replay is not None
        self.queue.replay.expect(text, subscription, at)

    def begin_replay(self, text: str) -> None:
        """The SUBACK has left: retained messages follow, as the client takes them."""
        subscription = self.subscriptions.get(text)
        if subscription is None:
            return
        self.due[text] = REPLAYED
        if self.queue.replay is None:
            self.expect_replay(text, subscription)
        assert self.queue.replay is not None
        self.queue.replay.begin(text)

    def replayed(self, text: str) -> None:
        """Some more of what is retained for this filter is in the queue, as safe as the open batch."""
        self._write_subscription(text, self.subscriptions[text])

    def served(self, text: str) -> None:
        """What is retained for this filter is in the queue, as safe as the open batch."""
        if self.due.pop(text, None) is not None:
            self._write_subscription(text, self.subscriptions[text])

    def _forget_replay(self, text: str) -> None:
        self.due.pop(text, None)
        if self.queue.replay is not None:
            self.queue.replay.cancel(text)

    def _write_subscription(self, text: str, subscription: Subscription) -> None:
        if self.durable:
            replay = self.queue.replay
            record = SubscriptionRecord(
                subscription.qos,
                subscription.no_local,
                subscription.retain_as_published,
                subscription.retain_handling,
                subscription.identifier,
                text in self.due,
                replay.at(text) if replay is not None else "",
            )
            self.node.store.put(self._subscription_key(text), encode(record))

    def unsubscribe(self, text: str) -> bool:
        """Remove a subscription; False if there was none."""
        subscription = self.subscriptions.pop(text, None)
        if subscription is None:
            return False
        self._forget_replay(text)
        self.node.router.table(self.mountpoint).remove(self, subscription.filter, subscription.group)
        self.node.unsubscribed(subscription)
        if self.durable:
            self.node.store.delete(self._subscription_key(text))
        return True

    def _subscription_key(self, text: str) -> bytes:
        return keys.subscription_prefix(self.key, self.incarnation) + text.encode()

    # -- inbound QoS 2

    def restore_inbound(self, packet_id: int, record: InboundRecord) -> None:
        """A handshake that a restart interrupted: whether other nodes have the message, nobody knows any more."""
        self.inbound[packet_id] = record
        self.node.mid_opened(record.boot, record.counter)
        if record.routed:
            self.forward_again.add(packet_id)

    def open_inbound(self, packet_id: int, record: InboundRecord) -> bool:
        """Remember the packet id until PUBREL. True if that has to be safe before anything leaves (H-12)."""
        self.inbound[packet_id] = record
        self.node.mid_opened(record.boot, record.counter)
        return self._write_inbound(packet_id, record)

    def drawn_inbound(self, packet_id: int, record: InboundRecord, elsewhere: list[tuple[str, str, str]]) -> bool:
        """The members were drawn again. True if that has to be safe before anything leaves (H-12)."""
        record.elsewhere = elsewhere
        return self._write_inbound(packet_id, record)

    def redrawn_inbound(self, packet_id: int, record: InboundRecord, gone: RemoteMembers, node: str | None) -> bool:
        """Somebody else gets the message, these members being gone: those of another node, or one here (None).

        True if that has to be safe before anything leaves (H-12).
        """
        if self.inbound.get(packet_id) is not record:
            return False
        record.elsewhere = [each for each in record.elsewhere if each[:2] != (gone.group, gone.filter)]
        if node is not None:
            record.elsewhere.append((gone.group, gone.filter, node))
        return self._write_inbound(packet_id, record)

    def routed_inbound(self, packet_id: int, elsewhere: list[tuple[str, str, str]], owed: PendingAcks | None) -> None:
        """The message of this packet id was routed, in the open batch: a repeated PUBLISH is only answered.

        `elsewhere` as in `InboundRecord`; `owed` is what its answer waits for.
        """
        record = self.inbound.get(packet_id)
        if owed is not None:
            self.owed[packet_id] = owed
            if record is not None and elsewhere:
                owed.redrawn = partial(self.redrawn_inbound, packet_id, record)
        if record is not None and not (record.routed and record.elsewhere == elsewhere):
            record.routed = True
            record.elsewhere = elsewhere
            self._write_inbound(packet_id, record)

    def _write_inbound(self, packet_id: int, record: InboundRecord) -> bool:
        if self.durable:
            self.node.store.put(self._inbound_key(packet_id), encode(record))
        return self.durable

    def void_owed(self) -> None:
        """The node was out of the view: the copies for other nodes are void, or were taken as such, and who subscribed
        there meanwhile was not matched. The repeated PUBLISH of whoever had no PUBREC sends them again (H-04, H-12).
        """
        self.forward_again.update([packet_id for packet_id, record in self.inbound.items() if record.routed])
        self.owed.clear()

    def close_inbound(self, packet_id: int) -> bool:
        """PUBREL: forget the packet id. True if that has to be safe before PUBCOMP."""
        record = self.inbound.pop(packet_id, None)
        if record is None:
            return False
        self.owed.pop(packet_id, None)
        self.forward_again.discard(packet_id)
        self.node.mid_closed(record.boot, record.counter)
        if self.durable:
            self.node.store.delete(self._inbound_key(packet_id))
        return self.durable

    def _inbound_key(self, packet_id: int) -> bytes:
        return keys.inbound_prefix(self.key, self.incarnation) + packet_id.to_bytes(2, "big")

    # -- connection and expiry

    def attach(self, front: ClientConnection, window: int) -> None:
        """A connection has this session; timers of its absence stop [MQTT5-3.1.3-9]."""
        timers = self.node.timers
        timers.cancel(self.expiry_timer)
        timers.cancel(self.will_timer)
        if self.will_at:
            self.node.event("will.cancel", client=self.client_id, reason="resumed")
        self.expires_at = self.will_at = 0
        self.front = front
        self._lose_due()
        self.queue.attach(front, window)
        if self.grouped:
            self.node.presence(self)
        self.save()

    def _lose_due(self) -> None:
        """The connection was lost before a SUBACK: the client asks again, its filters are as good as new."""
        for text in [text for text, state in self.due.items() if state == DUE]:
            self.due[text] = LOST
            if self.queue.replay is not None:
                self.queue.replay.cancel(text)

    def detach(self, fire_will: bool) -> None:
        """The connection is gone. The will fires, waits, or is given up; a session without expiry ends."""
        if self.front is None:
            return
        self.front = None
        self._lose_due()
        self.queue.detach()
        if self.grouped:
            self.node.presence(self)
        if not fire_will and self.will is not None:
            self.node.event("will.cancel", client=self.client_id, topic=self.will.topic, reason="disconnected")
            self.will = None
        if self.expiry_s == 0:
            self.end("disconnected")
            return
        now = self.node.now
        if self.expiry_s != NEVER:
            self.expires_at = now + self.expiry_s * 1000
        if self.will is not None:
            if self.will.delay_s == 0:
                self.fire_will()
            else:
                self.will_at = now + min(self.will.delay_s, self.expiry_s) * 1000
        self.save()
        self._set_timers()
        self.node.client_offline(self)
        self._hand_over()

    def _set_timers(self) -> None:
        timers = self.node.timers
        if self.will_at:
            self.will_timer = timers.at(self.will_at, self._will_due)
        if self.expires_at:
            self.expiry_timer = timers.at(self.expires_at, self._expire)

    def _will_due(self) -> None:
        self.fire_will()
        self.save()

    def _expire(self) -> None:
        self.node.event("sess.expire", client=self.client_id, mountpoint=self.mountpoint)
        self.end("expired")

    def resume_absence(self, was_attached: bool) -> None:
        """After a restart: deadlines go on where they were; a connection that the restart cut ends now."""
        if was_attached:
            self.expires_at = self.will_at = 0
            now = self.node.now
            if self.expiry_s == 0:
                self.end("restart")
                return
            if self.expiry_s != NEVER:
                self.expires_at = now + self.expiry_s * 1000
            if self.will is not None:
                self.will_at = now + min(self.will.delay_s, self.expiry_s) * 1000
            self.save()
        self._set_timers()

    def _hand_over(self) -> None:
        """Messages of shared subscriptions go to members that are there (MQTT 5.0 section 4.8.2)."""
        if self.grouped:
            self.node.router.redistribute(self)

    # -- will and end

    def fire_will(self) -> None:
        """Publish the will, in the same batch in which it is forgotten: exactly once (H-19)."""
        will = self.will
        if will is None:
            return
        self.will = None
        self.will_at = 0
        self.node.timers.cancel(self.will_timer)
        self.node.publish_will(self, will)

    def end(self, reason: str) -> None:
        """The session is over: a will that still waits is published [MQTT5-3.1.2-8], everything it had is deleted."""
        if self.ending:
            return
        self.ending = True
        self.front = None
        self.node.timers.cancel(self.expiry_timer)
        self.fire_will()
        self.queue.leave()
        if self.grouped:
            self.node.router.redistribute(self)
        store = self.node.store
        for text in list(self.subscriptions):
            self.unsubscribe(text)
        for packet_id, record in self.inbound.items():
            self.node.mid_closed(record.boot, record.counter)
            if self.durable:
                store.delete(self._inbound_key(packet_id))
        self.inbound.clear()
        self.owed.clear()
        self.queue.discard()
        if self.stored:
            store.delete(keys.session_key(self.key))
            self.stored = False
        self.node.slots.forget(self)
        self.node.session_ended(self, reason)
