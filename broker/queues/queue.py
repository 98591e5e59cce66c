"""The queue of one session: the unfinished messages that the router gave it.

`Queue` is the queue of a clean session, in memory; `DurableQueue` (its own module) keeps every entry on disk. Both hand
entries to the client connection by credit: at most `window` are in flight, the rest waits in order. A packet id is
`(seq mod 65535) + 1`, so it needs no state of its own (H-11); an id that is still in flight makes the queue
wait. A QoS 0 message has neither seq nor id. It is sent at once, or waits in order behind a full window, as in VerneMQ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any, Protocol

import msgspec

from ...cluster.identity import left_out
from ...storage.engine import StorageError
from ..environment import Environment
from .message import Message
from .records import QUEUED, RELEASED

UNLIMITED = -1


class Entry(msgspec.Struct, gc=False):
    """One message in one queue.

    `message` is None after PUBREC; `batch` is the commit that makes the entry safe, 0 if it is not written to disk;
    `sent_at` is cluster time in ms when PUBLISH or PUBREL was last sent, 0 if never. `shared` is True if the body is on
    disk once for several queues. `left_out`: the message is None, and event logs have no rows about it. `queued_at` is
    cluster time in ms when the entry began to wait, 0 if that is not known.
    """

    seq: int
    message: Message | None
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    group: str = ""
    state: int = QUEUED
    batch: int = 0
    dup: bool = False
    sent_at: int = 0
    shared: bool = False
    left_out: bool = False
    queued_at: int = 0

    @property
    def packet_id(self) -> int:
        """The packet id towards the subscriber [MQTT-2.3.1-1]."""
        return self.seq % 65535 + 1


class Consumer(Protocol):
    """The output of a client connection, as the queue sees it."""

    is_writable: bool

    def send_qos0(self, message: Message, retain: bool, identifiers: tuple[int, ...]) -> None:
        """Send a QoS 0 message."""
        ...

    def send(self, entry: Entry) -> None:
        """Send a QoS 1 or 2 message, or send it again."""
        ...

    def send_pubrel(self, entry: Entry) -> None:
        """Send the PUBREL of an entry [MQTT-4.3.3-1]."""
        ...


class Owner(Protocol):
    """The session that the queue belongs to."""

    mountpoint: str
    client_id: str
    incarnation: int

    @property
    def epoch(self) -> int:
        """As `observer.Session.epoch`."""
        ...

    @property
    def durable(self) -> bool:
        """True if the session outlives its connections."""
        ...

    @property
    def lost(self) -> bool:
        """As `observer.QueueOwner.lost`."""
        ...

    def save(self) -> None:
        """Write the session record with the open batch."""
        ...

    def queue_unreadable(self, error: StorageError) -> None:
        """The disk fails to return entries of the queue."""
        ...


class Replay(Protocol):
    """Puts retained messages into the queue; `hold` of them may wait there beyond the queue's limit."""

    hold: int

    def expect(self, text: str, subscription: Any, at: str = "") -> None:
        """Note that retained messages are due for this filter, from topic `at` on."""
        ...

    def begin(self, text: str) -> None:
        """Start the replay of this filter, which is expected."""
        ...

    def cancel(self, text: str) -> None:
        """Stop the replay of this filter."""
        ...

    def at(self, text: str) -> str:
        """Return the topic where the replay of this filter continues; "" if none is due."""
        ...

    def live(self, message: Message) -> None:
        """A live message is about to enter the queue: put the retained message of its topic there first."""
        ...

    def wake(self) -> None:
        """The client has taken a message: continue at the end of the turn."""
        ...

    def go_on(self) -> None:
        """Put more retained messages into the queue, at once."""
        ...


class QueueState(Enum):
    """ONLINE: a client is connected; OFFLINE: none is; DRAINING: the session ends; ENDED: nothing is left."""

    OFFLINE = auto()
    ONLINE = auto()
    DRAINING = auto()
    ENDED = auto()


class QueueEvent(Enum):
    """The events that change the state of a queue."""

    ATTACH = auto()
    DETACH = auto()
    DRAIN = auto()
    DISCARD = auto()


TRANSITIONS: dict[tuple[QueueState, QueueEvent], QueueState] = {
    (QueueState.OFFLINE, QueueEvent.ATTACH): QueueState.ONLINE,
    (QueueState.ONLINE, QueueEvent.DETACH): QueueState.OFFLINE,
    (QueueState.OFFLINE, QueueEvent.DRAIN): QueueState.DRAINING,
    (QueueState.ONLINE, QueueEvent.DRAIN): QueueState.DRAINING,
    (QueueState.DRAINING, QueueEvent.DISCARD): QueueState.ENDED,
}
"""An event that is not listed for a state cannot happen in it: it raises `KeyError`."""


class Queue:
    """The queue of a clean session. `consumer` is None unless the queue is `ONLINE`.

    `direct` is the consumer that a new message may be sent to at once. It is also None during a `replay` of retained
    messages, which must see each message first. `max_online`, `max_offline`: the limits that a plugin has set for the
    client; None if it has set none.
    """

    durable = False
    unreadable = False
    handing_over: object | None = None

    __slots__ = (
        "commit_awaited",
        "consumer",
        "direct",
        "env",
        "inflight",
        "lifo",
        "max_offline",
        "max_online",
        "next_seq",
        "replay",
        "session",
        "state",
        "upgrade",
        "waiting",
        "window",
    )

    def __init__(self, env: Environment, session: Owner) -> None:
        self.env = env
        self.session = session
        self.state = QueueState.OFFLINE
        self.consumer: Consumer | None = None
        self.direct: Consumer | None = None
        self.replay: Replay | None = None
        self.inflight: dict[int, Entry] = {}
        self.waiting: deque[Entry] = deque()
        self.next_seq = 0
        self.window = 0
        self.upgrade = False
        self.lifo = False
        self.max_online: int | None = None
        self.max_offline: int | None = None
        self.commit_awaited = 0

    # -- in

    def push(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str = "") -> bool:
        """Take a message. True if the publisher's acknowledgement must wait for the commit of the open batch."""
        consumer = self.direct
        if consumer is not None and not self.waiting and consumer.is_writable:
            if qos == 0:
                consumer.send_qos0(message, retain, identifiers)
                return False
            seq = self.next_seq
            packet_id = seq % 65535 + 1
            if len(self.inflight) < self.window and packet_id not in self.inflight:
                self.next_seq = seq + 1
                entry = self.inflight[packet_id] = Entry(seq, message, qos, retain, identifiers, group)
                if self.env.events.messages:
                    self.env.observer.message_queued(self.session, entry)
                consumer.send(entry)
                return False
        return self._wait(message, qos, retain, identifiers, group)

    def _wait(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str) -> bool:
        if self.consumer is None:
            self.env.observer.unhandled(self.session, message)
            return False
        if not self._room():
            self.env.observer.dropped(self.session, message, "queue_full")
            return False
        if self.replay is not None:
            self.replay.live(message)
        entry = self._append(message, qos, retain, identifiers, group)
        if self.env.events.messages:
            self.env.observer.message_queued(self.session, entry)
        return False

    def _append(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str = "") -> Entry:
        seq = 0
        if qos:
            seq = self.next_seq
            self.next_seq += 1
        entry = Entry(seq, message, qos, retain, identifiers, group, queued_at=self.env.now)
        self.waiting.append(entry)
        return entry

    def feed(self, message: Message, qos: int, identifiers: tuple[int, ...]) -> bool:
        """Take a retained message for a new subscription, beyond the limits; False if the queue cannot take it now."""
        self._append(message, qos, True, identifiers)
        return True

    def _room(self) -> bool:
        """Make room for one more entry; False if the new entry must be dropped (`queue_type`)."""
        if not self.full:
            return True
        if self.lifo and self.waiting:
            oldest = self.waiting.popleft()
            assert oldest.message is not None
            self.env.observer.dropped(self.session, oldest.message, "queue_full")
            return True
        return False

    # -- out

    def attach(self, consumer: Consumer, window: int) -> None:
        """A client connected; `window` is how many QoS 1 and 2 messages may be in flight to it."""
        self._change(QueueEvent.ATTACH)
        self.consumer = consumer
        self.direct = consumer if self.replay is None else None
        self.window = window

    def detach(self) -> None:
        """The client disconnected: send nothing until `attach`."""
        self._change(QueueEvent.DETACH)

    def drain(self) -> None:
        """The session ends: send nothing more. The session hands over or discards the messages in the queue."""
        self._change(QueueEvent.DRAIN)

    def _change(self, event: QueueEvent) -> None:
        self.state = TRANSITIONS[self.state, event]
        self.consumer = self.direct = None

    def set_replay(self, replay: Replay | None) -> None:
        """Set the replay that puts retained messages into this queue; None: it is complete."""
        self.replay = replay
        self.direct = self.consumer if replay is None else None

    @property
    def backlog(self) -> bool:
        """True if messages wait on disk that are not in memory."""
        return False

    def pump(self) -> None:
        """Send as many messages as the window and the connection allow, in order; then continue the replay."""
        self.send_waiting()
        if self.replay is not None:
            self.replay.wake()

    def send_waiting(self) -> None:
        """Send as many messages as the window and the connection allow, in order."""
        consumer = self.consumer
        while consumer is not None and consumer.is_writable:
            if not self.waiting and not self._refill():
                return
            entry = self.waiting[-1] if self.lifo else self.waiting[0]
            if entry.qos and not self._may_leave(entry):
                return
            if self.lifo:
                self.waiting.pop()
            else:
                self.waiting.popleft()
            self._leave(entry, consumer)

    def _may_leave(self, entry: Entry) -> bool:
        if len(self.inflight) >= self.window or entry.packet_id in self.inflight:
            return False
        if entry.qos == 2 and entry.batch > self.env.store.committed:
            # a QoS 2 PUBLISH leaves only after its entry is safe (H-11)
            self._await(entry.batch)
            return False
        return True

    def _await(self, commit: int) -> None:
        """Continue when this commit is safe."""
        if self.commit_awaited < commit:
            self.commit_awaited = commit
            self.env.store.when_committed(commit, self._safe)

    def _safe(self) -> None:
        self.env.tick()
        self.pump()

    def _expired(self, entry: Entry) -> bool:
        message = entry.message
        return message is not None and 0 < message.expires_at <= self.env.now

    def _leave(self, entry: Entry, consumer: Consumer) -> None:
        if entry.state == RELEASED:
            self.inflight[entry.packet_id] = entry
            entry.sent_at = self.env.now
            consumer.send_pubrel(entry)
            return
        message = entry.message
        assert message is not None
        if self._expired(entry) and not entry.dup:
            # an entry that was sent before is completed [MQTT5-4.3.3-7]
            self.env.observer.expired(self.session, message)
            self._forget(entry)
            return
        if entry.queued_at and not entry.dup:
            self.env.counters.queue_wait.add(max(0, self.env.now - entry.queued_at) / 1000)
        if entry.qos == 0:
            consumer.send_qos0(message, entry.retain, entry.identifiers)
        else:
            self.inflight[entry.packet_id] = entry
            consumer.send(entry)

    def _refill(self) -> bool:
        """Fetch entries that are not in memory; False if there are none."""
        return False

    # -- answers of the subscriber

    def ack(self, packet_id: int, qos: int = 1) -> bool:
        """PUBACK (or a PUBREC that refuses): the entry is finished. False if no such entry is in flight."""
        entry = self.inflight.get(packet_id)
        if entry is None or entry.qos != qos or entry.state == RELEASED:
            return False
        del self.inflight[packet_id]
        self._forget(entry)
        if self.waiting or self.durable:
            self.pump()
        return True

    def received(self, packet_id: int) -> bool:
        """PUBREC: from now on only PUBREL is owed [MQTT-4.3.3-1]. False if no such entry is in flight."""
        entry = self.inflight.get(packet_id)
        if entry is None or entry.qos != 2:
            return False
        if entry.state != RELEASED:
            self._release(entry)
        self._pubrel_when_safe(entry)
        return True

    def completed(self, packet_id: int) -> bool:
        """PUBCOMP: the entry is finished. False if no PUBREL was owed."""
        entry = self.inflight.get(packet_id)
        if entry is None or entry.state != RELEASED:
            return False
        del self.inflight[packet_id]
        self._forget(entry)
        self.pump()
        return True

    def _release(self, entry: Entry) -> None:
        entry.state = RELEASED
        entry.left_out = entry.message is not None and left_out(entry.message.counter)
        entry.message = None
        entry.sent_at = self.env.now

    def _pubrel_when_safe(self, entry: Entry) -> None:
        if self.consumer is not None:
            self.consumer.send_pubrel(entry)

    def _forget(self, entry: Entry) -> None:
        """The entry is finished: delete its records."""

    def undeliverable(self, entry: Entry) -> None:
        """Drop an entry that is larger than the client's maximum packet size."""
        self.inflight.pop(entry.packet_id, None)
        self._forget(entry)

    def retry(self, before_ms: int) -> None:
        """Repeat messages that were sent before that time and have no answer (v3 only, `retry_interval`)."""
        for entry in list(self.inflight.values()):
            consumer = self.consumer
            if consumer is None or not consumer.is_writable:
                # do not repeat messages to a client that does not read
                return
            if before_ms < entry.sent_at <= self.env.now:  # a later time is from before the clock was set back
                continue
            if entry.state != RELEASED:
                entry.dup = True
                consumer.send(entry)
            elif entry.batch <= self.env.store.committed:
                entry.sent_at = self.env.now
                consumer.send_pubrel(entry)

    # -- the end

    @property
    def size(self) -> int:
        """Number of waiting messages, without those in flight."""
        return len(self.waiting)

    @property
    def known_size(self) -> int:
        """As `size`, but without those on disk if they have not been counted. Never reads the disk."""
        return len(self.waiting) + max(0, self.counted)

    @property
    def counted(self) -> int:
        """Number of messages on disk; -1 if they have not been counted. Never reads the disk."""
        return 0

    def limit(self, online: bool) -> int:
        """How many messages may wait while a client is connected, or while none is: `UNLIMITED`, or what a plugin has
        set, or else the setting of the node as it is now."""
        options = self.env.options
        own = self.max_online if online else self.max_offline
        if own is not None:
            return own
        return options.max_online_messages if online else options.max_offline_messages

    @property
    def full(self) -> bool:
        """True if the limit allows no further waiting message: one more is dropped or displaces another. Those that
        the window has room for do not count: they are sent now, or with the next commit."""
        consumer = self.consumer
        limit = self.limit(consumer is not None)
        if self.replay is not None and limit != UNLIMITED:
            limit += self.replay.hold
        if limit == UNLIMITED or self.size < limit:
            return False
        room = self.window - len(self.inflight) if consumer is not None and consumer.is_writable else 0
        return room <= 0 or self.size >= limit + room

    def hand_over(self, give: Callable[[Entry], bool]) -> Iterator[bool]:
        """Offer the messages of shared subscriptions to other members; those that `give` takes are finished here.

        The caller decides when to take the next step of a long queue; each yields whether `give` has taken any."""
        for entry in [e for e in self.inflight.values() if e.group and e.message is not None]:
            # no subscriber gets an expired message for the first time [MQTT5-3.3.2-5]
            if not self._expired(entry) and give(entry):
                del self.inflight[entry.packet_id]
                self._forget(entry)
        kept = [e for e in self.waiting if not e.group or not e.qos or self._expired(e) or not give(e)]
        self.waiting = deque(kept)
        return iter(())

    def discard(self) -> None:
        """The session has ended: drop all entries."""
        self._change(QueueEvent.DISCARD)
        self.inflight.clear()
        self.waiting.clear()
