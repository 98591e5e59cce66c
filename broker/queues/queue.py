"""The queue of one session: what was routed to it and is not finished yet.

`Queue` is the queue of a clean session, in memory; `DurableQueue` (its own module) keeps every entry on disk. Both hand
entries to the front by credit: at most `window` are in flight, the rest waits in order. A packet id is
`(seq mod 65535) + 1`, so it needs no state of its own (H-11); an id that is still in flight makes the queue
wait. QoS 0 has neither seq nor id; it goes at once, or waits its turn behind a full window as VerneMQ has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from .message import Message
from .records import QUEUED, RELEASED

if TYPE_CHECKING:
    from ..connection.connection import ClientConnection
    from ..node import Node
    from ..sessions.retained_replay import Replay
    from ..sessions.session import Session

UNLIMITED = -1


class Entry(msgspec.Struct, gc=False):
    """One message in one queue.

    `message` is None once PUBREC was seen; `batch` is the commit that makes the entry safe, 0 where nothing is written;
    `sent_at` is cluster time in ms of the last sending of PUBLISH or PUBREL, 0 if it never left.
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

    @property
    def packet_id(self) -> int:
        """The packet id towards the subscriber [MQTT-2.3.1-1]."""
        return self.seq % 65535 + 1


class Queue:
    """The queue of a clean session. `front` is None while no connection is there.

    `direct` is the connection to which a new message may go at once. It is None as well while a `replay` of retained
    messages goes on, which has to see each message first.
    """

    durable = False
    unreadable = False

    __slots__ = (
        "commit_awaited",
        "direct",
        "front",
        "inflight",
        "lifo",
        "max_offline",
        "max_online",
        "next_seq",
        "node",
        "replay",
        "session",
        "upgrade",
        "waiting",
        "window",
    )

    def __init__(self, node: Node, session: Session) -> None:
        self.node = node
        self.session = session
        self.front: ClientConnection | None = None
        self.direct: ClientConnection | None = None
        self.replay: Replay | None = None
        self.inflight: dict[int, Entry] = {}
        self.waiting: deque[Entry] = deque()
        self.next_seq = 0
        self.window = 0
        self.upgrade = False
        self.lifo = False
        self.max_online = 1000
        self.max_offline = 1000
        self.commit_awaited = 0

    # -- in

    def push(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str = "") -> bool:
        """Take a message. True if the publisher's acknowledgement must wait for the open batch to be committed."""
        front = self.direct
        if front is not None and not self.waiting and front.is_writable:
            if qos == 0:
                front.send_qos0(message, retain, identifiers)
                return False
            seq = self.next_seq
            packet_id = seq % 65535 + 1
            if len(self.inflight) < self.window and packet_id not in self.inflight:
                self.next_seq = seq + 1
                entry = self.inflight[packet_id] = Entry(seq, message, qos, retain, identifiers, group)
                front.send(entry)
                return False
        return self._wait(message, qos, retain, identifiers, group)

    def _wait(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str) -> bool:
        if self.front is None:
            self.node.unhandled(self.session, message)
            return False
        if not self._room():
            self.node.dropped(self.session, message, "queue_full")
            return False
        if self.replay is not None:
            self.replay.live(message)
        self._append(message, qos, retain, identifiers, group)
        return False

    def _append(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str = "") -> None:
        seq = 0
        if qos:
            seq = self.next_seq
            self.next_seq += 1
        self.waiting.append(Entry(seq, message, qos, retain, identifiers, group))

    def feed(self, message: Message, qos: int, identifiers: tuple[int, ...]) -> bool:
        """Take a retained message for a new subscription, whatever the limits are; False if it has no place now."""
        self._append(message, qos, True, identifiers)
        return True

    def _room(self) -> bool:
        """Make room for one more entry; False if the newest has to go (`queue_type`)."""
        if not self.full:
            return True
        if self.lifo and self.waiting:
            oldest = self.waiting.popleft()
            assert oldest.message is not None
            self.node.dropped(self.session, oldest.message, "queue_full")
            return True
        return False

    # -- out

    def attach(self, front: ClientConnection, window: int) -> None:
        """A connection is there; `window` is how many QoS 1 and 2 messages it takes at a time."""
        self.front = front
        self.direct = front if self.replay is None else None
        self.window = window

    def detach(self) -> None:
        """The connection is gone. What is in flight waits again."""
        self.leave()

    def leave(self) -> None:
        """No connection is there any more."""
        self.front = self.direct = None

    def set_replay(self, replay: Replay | None) -> None:
        """Retained messages are to be replayed into this queue; None: no more."""
        self.replay = replay
        self.direct = self.front if replay is None else None

    @property
    def backlog(self) -> bool:
        """Whether messages wait that are not in memory."""
        return False

    def pump(self) -> None:
        """Send what the window and the connection allow, in order, and let the replay go on."""
        self.drain()
        if self.replay is not None:
            self.replay.wake()

    def drain(self) -> None:
        """Send what the window and the connection allow, in order."""
        front = self.front
        while front is not None and front.is_writable:
            if not self.waiting and not self._refill():
                return
            entry = self.waiting[-1] if self.lifo else self.waiting[0]
            if entry.qos and not self._may_leave(entry):
                return
            if self.lifo:
                self.waiting.pop()
            else:
                self.waiting.popleft()
            self._leave(entry, front)

    def _may_leave(self, entry: Entry) -> bool:
        if len(self.inflight) >= self.window or entry.packet_id in self.inflight:
            return False
        if entry.qos == 2 and entry.batch > self.node.store.committed:
            # a QoS 2 PUBLISH leaves only after its entry is safe (H-11)
            if self.commit_awaited < entry.batch:
                self.commit_awaited = entry.batch
                self.node.store.when_committed(entry.batch, self._safe)
            return False
        return True

    def _safe(self) -> None:
        self.node.tick()
        self.pump()

    def _expired(self, entry: Entry) -> bool:
        message = entry.message
        return message is not None and 0 < message.expires_at <= self.node.now

    def _leave(self, entry: Entry, front: ClientConnection) -> None:
        if entry.state == RELEASED:
            self.inflight[entry.packet_id] = entry
            entry.sent_at = self.node.now
            front.send_pubrel(entry.packet_id)
            return
        message = entry.message
        assert message is not None
        if self._expired(entry) and not entry.dup:
            # one that was sent before is completed [MQTT5-4.3.3-7]
            self.node.expired(self.session, message)
            self._forget(entry)
        elif entry.qos == 0:
            front.send_qos0(message, entry.retain, entry.identifiers)
        else:
            self.inflight[entry.packet_id] = entry
            front.send(entry)

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
        entry.message = None
        entry.sent_at = self.node.now

    def _pubrel_when_safe(self, entry: Entry) -> None:
        if self.front is not None:
            self.front.send_pubrel(entry.packet_id)

    def _forget(self, entry: Entry) -> None:
        """The entry is finished: what was stored of it goes."""

    def undeliverable(self, entry: Entry) -> None:
        """The front cannot send this entry at all (larger than the client's maximum packet size)."""
        self.inflight.pop(entry.packet_id, None)
        self._forget(entry)

    def retry(self, before_ms: int) -> None:
        """Send again what was sent before that time and not answered (v3 only, `retry_interval`)."""
        for entry in list(self.inflight.values()):
            front = self.front
            if front is None or not front.is_writable:
                # a client that does not read is not sent the same again and again
                return
            if entry.sent_at > before_ms:
                continue
            if entry.state != RELEASED:
                entry.dup = True
                front.send(entry)
            elif entry.batch <= self.node.store.committed:
                entry.sent_at = self.node.now
                front.send_pubrel(entry.packet_id)

    # -- the end

    @property
    def size(self) -> int:
        """Messages that wait, those in flight not counted."""
        return len(self.waiting)

    @property
    def full(self) -> bool:
        """Whether one more that waits would push another out, or find no place."""
        limit = self.max_offline if self.front is None else self.max_online
        if self.replay is not None and limit != UNLIMITED:
            limit += self.replay.hold
        return limit != UNLIMITED and self.size >= limit

    def hand_over(self, give: Callable[[Entry], bool]) -> None:
        """Offer the messages of shared subscriptions to their other members; what `give` takes is finished here."""
        for entry in [e for e in self.inflight.values() if e.group and e.message is not None]:
            # nobody gets one for the first time that has expired [MQTT5-3.3.2-5]
            if not self._expired(entry) and give(entry):
                del self.inflight[entry.packet_id]
                self._forget(entry)
        kept = [e for e in self.waiting if not e.group or not e.qos or self._expired(e) or not give(e)]
        self.waiting = deque(kept)

    def discard(self) -> None:
        """The session has ended: nothing in here is wanted any more."""
        self.leave()
        self.inflight.clear()
        self.waiting.clear()
