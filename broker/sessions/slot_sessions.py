"""The durable sessions of a slot that moves from one node to another (docs/cluster.md#moving-a-slot).

At the node that gives the slot away, the sessions leave memory as they do when they are idle, and stay on disk. At the
node that gets it, their rows arrive on disk, and the slot is opened. In between the router has the subscriptions, but
no session of the slot is made from its record: `Router.elsewhere` says where their messages go.

A mark on disk tells a restarted node which slots were moving. They stay closed until the slot table says where they
are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...mqtt.topics import parse_shared
from ...storage import keys
from ..environment import Environment
from ..queues.records import SessionRecord, decode_session, decode_subscription
from ..queues.session_cleanup import SessionCleanup
from ..routing.remote import MOVING, Elsewhere
from ..routing.router import Router
from ..routing.subscriptions import part_of
from .registry import SessionRegistry
from .slot_counters import SlotCounters
from .snapshots import packed
from .wills import Wills

LEAVING = b"leaving"
"""The mark of a slot that this node gives away: another node may have become its primary since."""
ARRIVING = b"arriving"
"""The mark of a slot whose rows are not all here."""
ARRIVED = b"arrived"
"""The mark of a slot whose rows are all here: this node may have become its primary since."""

STEP = 200
"""Rows that one step reads or deletes."""
STEP_BYTES = 64 << 10
"""A step reads fewer rows if the last one had more bytes of values."""


class SlotSessions:
    """The sessions of the slots that are moving. `marks`: slot -> its mark on disk."""

    def __init__(
        self,
        env: Environment,
        router: Router,
        sessions: SessionRegistry,
        wills: Wills,
        cleanup: SessionCleanup,
        counters: SlotCounters,
    ) -> None:
        self._env = env
        self._router = router
        self._sessions = sessions
        self._wills = wills
        self._cleanup = cleanup
        self._counters = counters
        self.marks: dict[int, bytes] = {}
        self._arrived: dict[int, int] = {}
        """Slot -> the sessions that have arrived in this process."""

    def load(self) -> None:
        """Read the marks and the counters of all slots, before anything makes a session."""
        self._counters.load()
        for key, value in self._env.store.scan(b"h", b"i"):
            self.marks[key[1]] = value
            self._close(key[1])

    def mark(self, slot: int, mark: bytes | None) -> None:
        """Write a mark with the open batch; None removes it."""
        if mark is None:
            self.marks.pop(slot, None)
            self._env.store.delete(keys.move_key(slot))
        else:
            self.marks[slot] = mark
            self._env.store.put(keys.move_key(slot), mark)

    def _close(self, slot: int) -> None:
        self._sessions.elsewhere.add(slot)
        self._sessions.deadlines.stop(slot)
        if slot not in self._router.elsewhere:
            self._router.place(slot, Elsewhere(MOVING, True))

    # -- at the node that gives a slot away

    def disconnect(self, slot: int) -> None:
        """Close the connections of the slot's sessions. Their wills wait a while, for the clients come back (H-39)."""
        for session in self._sessions.of_slot(slot):
            connection = session.connection
            if connection is not None:
                connection.moved()

    def busy(self, slot: int) -> str:
        """Return why the sessions of the slot cannot leave memory yet; "" if they can. Raises `StorageError`."""
        if not self._sessions.startup.complete:
            return "this node is still loading its sessions"
        for session in self._sessions.of_slot(slot):
            if session.connection is not None:
                return f"client {session.client_id} is connected"
            if session.inbound.unfinished():
                return f"client {session.client_id} has a QoS 2 publish that not every receiver has acknowledged"
            if not session.stored or not session.queue.dormant:  # type: ignore[attr-defined]
                return f"messages of client {session.client_id} are not on disk yet"
        if self._wills.waiting(slot):
            return "a will waits for a lease"
        if self._cleanup.has(slot):
            return "the queue of an ended session is being deleted"
        return ""

    def leave(self, slot: int) -> None:
        """Leave all sessions of a slot that is not `busy` to the disk. From now on no session of it is made."""
        self._close(slot)
        for session in self._sessions.of_slot(slot):
            session.inbound.finish()
            self._sessions.release(session)
        self.mark(slot, LEAVING)

    def rows(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of the slot that move. Raises `StorageError`, `RecordError`.

        A client without durable state has a record with its will at its gateway: that record stays.
        """
        store = self._env.store
        for kind in keys.MOVING_KINDS:
            start, stop = keys.of_slot(b"%c" % kind, slot), keys.after(keys.of_slot(b"%c" % kind, slot))
            step = 1
            while found := store.scan(start, stop, step):
                for key, value in found:
                    if self._moves(key, value):
                        yield key, value
                start = found[-1][0] + b"\x00"
                # rows may be as large as messages
                small = sum([len(value) for _, value in found]) < STEP_BYTES
                step = min(2 * step, STEP) if small else max(1, step // 2)

    def _moves(self, key: bytes, value: bytes) -> bool:
        if key[:1] == b"s":
            return decode_session(key, value).durable
        if key[:1] == b"e":
            record = self._record(keys.parse_deadline_key(key)[0])
            return record is None or record.durable
        return True

    def _record(self, client: bytes) -> SessionRecord | None:
        key = keys.session_key(client)
        value = self._env.store.get(key)
        return None if value is None else decode_session(key, value)

    # -- at the node that gets a slot

    def strange_rows(self, slot: int) -> bool:
        """True if this disk has rows of sessions of the slot, which no client can reach. Raises `StorageError`."""
        found = [self._env.store.keys(keys.of_slot(b"%c" % kind, slot), keys.after(keys.of_slot(b"%c" % kind, slot)), 1)
                 for kind in b"bqijpu"]  # fmt: skip
        return any(found)

    def begin(self, slot: int) -> None:
        """The rows of a slot begin to arrive."""
        self._close(slot)
        self.mark(slot, ARRIVING)

    def put(self, key: bytes, value: bytes) -> None:
        """Write a row that has arrived with the open batch. Raises `RecordError`."""
        if key[:1] == b"b":
            client, text = keys.parse_subscription_key(key)
            text, subscription = packed(client, text, decode_subscription(key, value))
            self._router.table(keys.mountpoint_of(client)).load(part_of(text), ((text, subscription),))
        elif key[:1] == b"s":
            self._sessions.startup.released(key[1:])
            self._arrived[key[1]] = self._arrived.get(key[1], 0) + 1
        self._env.store.put(key, value)

    def open(self, slot: int) -> None:
        """This node has the sessions of the slot from now on. Raises `StorageError`."""
        self._sessions.elsewhere.discard(slot)
        self._router.place(slot, None)
        self._counters.load_slot(slot)
        self._sessions.deadlines.resume(slot)
        for _ in range(self._arrived.pop(slot, 0)):
            self._sessions.snapshots.uncovered(slot)
        self.mark(slot, None)

    # -- what stays behind

    def forget(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """Delete the rows of a slot that is at another node; yields each subscription before its deletion.

        The caller takes so many at a time that a turn stays short. Raises `StorageError`, `RecordError`.
        """
        self._close(slot)
        self._sessions.snapshots.forget(slot)
        self._arrived.pop(slot, None)
        store = self._env.store
        # not the reserved numbers, which wills that wait here have; the mark last
        for kind in b"bqiepujyavfs":
            start, stop = keys.of_slot(b"%c" % kind, slot), keys.after(keys.of_slot(b"%c" % kind, slot))
            while found := store.scan(start, stop, STEP):
                for key, value in found:
                    if not self._moves(key, value):
                        continue
                    yield key, value
                    self._delete(key)
                start = found[-1][0] + b"\x00"
        self._sessions.elsewhere.discard(slot)
        self._router.place(slot, None)
        self.mark(slot, None)

    def _delete(self, key: bytes) -> None:
        self._env.store.delete(key)
        if key[:1] == b"b":
            client, text = keys.parse_subscription_key(key)
            group, text = parse_shared(text)
            self._router.table(keys.mountpoint_of(client)).remove(client, text, group)
        elif key[:1] == b"s":
            self._sessions.startup.woken(key[1:])
