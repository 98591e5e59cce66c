"""Parts of the broker with one bug each: subclasses that override a single decision."""

from __future__ import annotations

from collections.abc import Callable

from ...broker.connection.ack_queue import AckQueue, Item
from ...broker.connection.connection import ClientConnection
from ...broker.queues.durable_queue import DurableQueue
from ...broker.queues.queue import Consumer, Entry, Queue
from ...broker.queues.records import InboundRecord, SessionRecord
from ...broker.routing.pending_acks import PendingAcks
from ...broker.sessions.inbound_qos2 import InboundHandshakes
from ...broker.sessions.registry import Registration, SessionRegistry
from ...broker.sessions.session import Session
from ...cluster.clock import ClusterClock

# -- queues


class ReleasedNotStored(DurableQueue):
    """Records the arrival of PUBREC only in memory."""

    __slots__ = ()

    def _release(self, entry: Entry) -> None:
        Queue._release(self, entry)


class PubrelBeforeStored(DurableQueue):
    """Sends PUBREL before the arrival of PUBREC is on disk."""

    __slots__ = ()

    def _pubrel_when_safe(self, entry: Entry) -> None:
        Queue._pubrel_when_safe(self, entry)


class PublishBeforeStored(DurableQueue):
    """Sends a QoS 2 PUBLISH before its entry is on disk."""

    __slots__ = ()

    def _may_leave(self, entry: Entry) -> bool:
        entry.batch = 0
        return super()._may_leave(entry)


class DiskMeansSafe(DurableQueue):
    """Treats entries read back from disk as committed, even if their write is not complete."""

    __slots__ = ()

    def _decode(self, key: bytes, value: bytes) -> Entry:
        entry = super()._decode(key, value)
        entry.batch = 0
        return entry

    def _may_leave(self, entry: Entry) -> bool:
        return Queue._may_leave(self, entry)  # the commit of the session record would make the entry safe as well


class IdsFromOne(DurableQueue):
    """Renumbers the entries of a queue after a restart, with packet ids from 1 on."""

    __slots__ = ()

    def renumber(self) -> None:
        """Renumber the entries; called when the session is restored."""
        store = self.env.store
        found = self._scan(self.low, self.high, 0, False) or []
        first = seq = (self.next_seq // 65535 + 1) * 65535
        for key, value in found:
            store.delete(key)
            store.put(self.prefix + seq.to_bytes(8, "big"), value)
            seq += 1
        self.low, self.high, self.next_seq = first, seq, seq


class NewestFirst(DurableQueue):
    """Sends waiting messages in reverse order."""

    __slots__ = ()

    def _load(self, limit: int, reverse: bool) -> list[Entry] | None:
        return (super()._load(limit, reverse) or [])[::-1]


class WindowIgnored(DurableQueue):
    """Ignores the receive maximum of the client."""

    __slots__ = ()

    def attach(self, consumer: Consumer, window: int) -> None:
        """Attach with the largest window."""
        super().attach(consumer, 65535)


class NothingCleanedUp(DurableQueue):
    """Leaves the entries of an ended session on disk."""

    __slots__ = ()

    def discard(self) -> None:
        """Drop the entries from memory without deleting them on disk."""
        Queue.discard(self)


class MessageExpiryRestarts(DurableQueue):
    """Prolongs the expiry of messages read back after a restart."""

    __slots__ = ()

    def _decode(self, key: bytes, value: bytes) -> Entry:
        entry = super()._decode(key, value)
        if entry.message is not None and entry.message.expires_at and entry.message.origin.boot < self.env.numbers.boot:
            entry.message.expires_at += 5000
            entry.dup = False
        return entry


class BodiesKept(DurableQueue):
    """Keeps a shared payload after the last queue has removed its entry."""

    __slots__ = ()

    def _forget(self, entry: Entry) -> None:
        entry.shared = False
        super()._forget(entry)


# -- sessions


class InboundRoutedTooEarly(InboundHandshakes):
    """Stores the id of an inbound QoS 2 message as routed before the message is routed."""

    __slots__ = ()

    def open(self, packet_id: int, record: InboundRecord) -> bool:
        """Store the record, and mark it as routed at once."""
        super().open(packet_id, record)
        return self._write(packet_id, InboundRecord(record.boot, record.counter, True))


class WillStaysOnDisk(Session):
    """Publishes a will, and does not delete it from the record on disk."""

    __slots__ = ()

    def _will_due(self) -> None:
        self.fire_will()


class WillForgottenFirst(Session):
    """Deletes a will from the record, and publishes it only after that commit."""

    __slots__ = ()

    def fire_will(self) -> None:
        """Delete the will, and publish it after the commit."""
        will = self.will
        if will is None:
            return
        self.will = None
        self.absence.will_at = 0
        self.save()
        store = self.env.store
        store.when_committed(store.open_commit, lambda: self.parts.wills.publish(self, will))


class DisconnectKeepsWill(Session):
    """Keeps the will at a DISCONNECT."""

    __slots__ = ()

    def detach(self, fire_will: bool, grace_s: int = 0, doubted: str = "") -> None:
        """Detach as if the connection had been lost."""
        super().detach(True, grace_s, doubted)


# -- connections


class AnswersBeforeCommit(AckQueue):
    """Sends every answer without waiting for the disk."""

    __slots__ = ()

    def reply(
        self, item: Item, wait: bool, unacked: int = 0, pending: PendingAcks | None = None, operation: int = 0
    ) -> None:
        """Reply at once."""
        super().reply(item, False, unacked, pending, operation)


class OldConnectionKept(ClientConnection):
    """Keeps the old connection at a takeover."""

    __slots__ = ()

    def taken_over(self) -> None:
        """Do nothing."""


# -- registry and clock


class AlteringSlots(SessionRegistry):
    """A session registry that changes sessions when they are made and when they are restored."""

    made: Callable[[Session], None]
    restored: Callable[[Session], None]

    def register(
        self,
        request: Registration,
        reply: Callable[[Session, bool, bool], None],
        refused: Callable[[], None],
    ) -> None:
        """Register a connection (`SessionRegistry.register`), and call `made` with the session before the answer."""

        def altered(session: Session, present: bool, wrote: bool) -> None:
            self.made(session)
            reply(session, present, wrote)

        super().register(request, altered, refused)

    def _restore(self, record: SessionRecord, in_slot: bool) -> Session:
        session = super()._restore(record, in_slot)
        self.made(session)
        self.restored(session)
        return session


class WallClock(ClusterClock):
    """Returns the wall clock as cluster time."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Returns the wall clock of the machine in ms."""
        return int(self._wall_ms())
