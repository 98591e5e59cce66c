"""The durable sessions of a slot that is not, or no longer, at this node (docs/cluster.md#moving-a-slot).

At the node that gives a slot away, the sessions leave memory as they do when they are idle, and stay on disk. A node
that gets the slot, or only keeps a copy of it, has the rows on disk. Meanwhile the slot is closed here: the router has
the subscriptions, but no session of the slot is made from its record, and nothing of the slot happens by time.
`Router.elsewhere` says where the messages go. A slot that is opened goes on as after a restart of this node. Its former
node may have died with clients connected.

A mark on disk tells a restarted node which slots were closed. They stay closed until the slot table says where they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from ...mqtt.topics import parse_shared
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.message import Mid
from ..queues.records import decode_subscription
from ..queues.session_cleanup import SessionCleanup
from ..routing.remote import MOVING, Elsewhere
from ..routing.router import Router
from ..routing.subscriptions import Subscription, part_of, unpacked
from .deadlines import UNREADABLE_MS
from .registry import SessionRegistry
from .slot_counters import SlotCounters
from .snapshots import packed
from .startup import ATTACHED
from .wills import Wills

Part = Callable[[int], object]
"""Reads a part of what is on disk of a slot. It raises `StorageError`."""

LEAVING = b"leaving"
"""The mark of a slot that this node gives away, or has lost: another node may have become its primary since."""
ARRIVING = b"arriving"
"""The mark of a slot whose rows are not all here."""
ARRIVED = b"arrived"
"""The mark of a slot whose rows are all here: this node may have become its primary since."""
KEPT = b"kept"
"""The mark of a slot that another node has: the rows are what this node had, and are never opened. If this node is to
get a copy, they are compared with those of the primary; else they are deleted, and some may be gone."""

STEP = 200
"""Rows that one step reads or deletes."""
STEP_BYTES = 64 << 10
"""A step reads fewer rows if the last one had more bytes of values."""


FORGOTTEN = b"vfbqiepujyazks"
"""The kinds of rows of a slot in the order in which they are deleted. The snapshot is first: a start after a crash must
not read subscriptions from it that are deleted."""

MOVES = Elsewhere(MOVING, True)
"""It is not known yet where the sessions of a slot will be."""


class SubscriberCounts(Protocol):
    """The port to the numbers of subscribers, which include those of closed slots."""

    def count_copied(self, subscription: Subscription) -> None:
        """The router has got a subscription of a closed slot."""
        ...

    def uncount(self, subscription: Subscription) -> None:
        """The router has lost one."""
        ...


class SlotSessions:
    """The sessions of the slots that are closed here. `marks`: slot -> its mark on disk."""

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
        self.counts: SubscriberCounts | None = None
        self._absences: dict[int, Iterator[list[bytes]]] = {}
        """Slot -> the clients whose absence begins in later turns, in steps."""
        self._parts: tuple[Part, ...] = (
            sessions.deadlines.resume,
            wills.load_slot,
            cleanup.load_slot,
            sessions.end_replaced,
            sessions.startup.dormant.show,
        )
        self._missed: dict[int, str] = {}
        """Slot of `_absences` -> why the disk has failed to return one of its sessions."""
        self._unread: dict[int, list[Part]] = {}
        """Open slot -> what the disk has failed to return: it is read again."""

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

    def _close(self, slot: int, elsewhere: Elsewhere | None = None) -> None:
        """The sessions of the slot are not here from now on. `elsewhere` tells the router where they are; None: it
        need not change what it knows."""
        self._sessions.elsewhere.add(slot)
        self._sessions.deadlines.stop(slot)
        self._sessions.startup.dormant.hide(slot)
        self._wills.drop(slot)
        self._cleanup.drop(slot)
        self._absences.pop(slot, None)
        self._unread.pop(slot, None)
        self._missed.pop(slot, None)
        if elsewhere is not None or slot not in self._router.elsewhere:
            self._router.place(slot, elsewhere or MOVES)

    def _bring_here(self, slot: int) -> None:
        """Clients and messages find the sessions of the slot at this node from now on."""
        self._sessions.elsewhere.discard(slot)
        self._router.place(slot, None)
        self.mark(slot, None)

    def _read(self, slot: int, parts: Iterable[Part]) -> None:
        """Read these parts of a slot that is here. Those that the disk fails to return are read again later: clients
        have their sessions meanwhile, so the slot has no mark."""
        for part in parts:
            try:
                part(slot)
            except StorageError as error:
                self._read_later(slot, part, str(error))

    def _read_later(self, slot: int, part: Part, reason: str) -> None:
        seconds = UNREADABLE_MS // 1000
        text = f"deadlines or wills of slot {slot} wait for the disk; it is read again in {seconds} s: {reason}"
        self._env.log("error", text)
        unread = self._unread.setdefault(slot, [])
        unread.append(part)
        if len(unread) == 1:
            self._env.timers.at(self._env.now + UNREADABLE_MS, lambda: self._read_again(slot, unread))

    def _read_again(self, slot: int, unread: list[Part]) -> None:
        if self._unread.get(slot) is unread:  # else the slot was closed since
            del self._unread[slot]
            self._read(slot, unread)

    # -- at the node that gives a slot away

    def disconnect(self, slot: int, leaving: bool = True) -> None:
        """Close the connections of the slot's sessions. Their wills wait a while, for the clients come back (H-39).
        With `leaving` False those stay whose clients have gone: a DISCONNECT may be among their last packets (H-19)."""
        self._sessions.deadlines.defer(slot)
        for session in self._sessions.of_slot(slot):
            connection = session.connection
            if connection is not None and (leaving or not connection.leaving):
                connection.moved()

    def connections(self, slot: int) -> int:
        """Return the number of connected clients with sessions in the slot."""
        return sum([session.connection is not None for session in self._sessions.of_slot(slot)])

    def busy(self, slot: int) -> str:
        """Return why the sessions of the slot cannot leave memory yet; "" if they can. Raises `StorageError`."""
        if not self._sessions.startup.complete:
            return "this node is still loading its sessions"
        for session in self._sessions.of_slot(slot):
            if session.connection is not None:
                return f"client {session.client_id} is connected"
            if session.inbound.unfinished():
                return f"client {session.client_id} has a QoS 2 publish that not every receiver has acknowledged"
            if session.durable and not (session.stored and session.queue.on_disk_only):  # type: ignore[attr-defined]
                return f"messages of client {session.client_id} are not on disk yet"
        if what := self._wills.on_its_way(slot):
            return f"not every receiver has acknowledged {what}"
        if self._cleanup.has(slot):
            return "the queue of an ended session is being deleted"
        return ""

    def leave(self, slot: int) -> list[Mid]:
        """Leave all sessions of a slot that is not `busy` to the disk. From now on no session of it is made. Returns
        the mids of the handshakes that stay open."""
        self._close(slot)
        left_open: list[Mid] = []
        for session in self._sessions.of_slot(slot):
            left_open += session.inbound.finish()
            self._sessions.release(session)
        self.mark(slot, LEAVING)
        return left_open

    def count(self, slot: int) -> int:
        """Return how many sessions of the slot are on this disk. Raises `StorageError`."""
        return len(self._env.store.keys(*keys.slot_range(b"s", slot)))

    def rows(
        self, slot: int, after: bytes = b"", upto: bytes = b"", closed: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of the slot behind the key `after` up to the key `upto`, b"" for the last one. Both are keys
        of such rows, which need not exist. `closed` is that of `Store.scan`. Raises `StorageError`.

        Rows are read ahead. If they may change, take them within one turn, and go on behind the last one.
        """
        store = self._env.store
        first, last = after[:1], upto[:1]
        end = keys.SLOT_KINDS.find(last) + 1 if upto else None
        for number in keys.SLOT_KINDS[keys.SLOT_KINDS.find(first) : end]:
            kind = b"%c" % number
            start, stop = keys.slot_range(kind, slot)
            if kind == first:
                start = after + b"\x00"
            if kind == last:
                stop = upto + b"\x00"
            step = 1
            while found := store.scan(start, stop, step, closed=closed):
                yield from found
                if len(found) < step:
                    break
                start = found[-1][0] + b"\x00"
                # rows may be as large as messages
                small = sum([len(value) for _, value in found]) < STEP_BYTES
                step = min(2 * step, STEP) if small else max(1, step // 2)

    def last_of_series(self, key: bytes) -> bytes:
        """Return the last present key of the series to which a key belongs (`storage/keys.py`), or the key itself.
        Raises `StorageError`."""
        end = keys.end_of_series(keys.series_of(key))
        found = self._env.store.scan(key, end, 1, reverse=True)
        return found[0][0] if found else key

    # -- at a node that has lost a slot

    def lose(self, slot: int, elsewhere: Elsewhere = MOVES) -> None:
        """Another node has become the primary of the slot, while this one was paused or cut off: forget its sessions.

        Nothing else happens to them here: no will, no hand-over of shared messages, no change of a route or a row. The
        caller announces again which members of shared groups are online here. Clients without durable state stay. If
        the disk cannot be read, the snapshot stays with its notes, and is as right as before.
        """
        self._close(slot, elsewhere)
        for session in self._sessions.of_slot(slot):
            self._sessions.drop(session)
        self.mark(slot, LEAVING)
        with suppress(StorageError):  # the store reports it
            self._sessions.snapshots.delete(slot)

    # -- at a node that gets a slot, or a copy of it

    def strange_rows(self, slot: int) -> bool:
        """True if this disk has rows of sessions of the slot, which no client can reach. Raises `StorageError`."""
        return any(self._env.store.keys(*keys.slot_range(b"%c" % kind, slot), 1) for kind in b"sbqijpuz")

    def begin(self, slot: int) -> None:
        """The rows of a slot begin to arrive."""
        self._close(slot)
        self.mark(slot, ARRIVING)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Write a row of a closed slot with the open batch, or delete it if `value` is None.

        Call it in the order in which the primary changed the rows. The router's table follows. Raises `RecordError` for
        a subscription that cannot be read, and writes nothing.
        """
        if key[:1] != b"b":
            if value is None:
                self._env.store.delete(key)
            else:
                self._env.store.put(key, value)
            return
        client, text = keys.parse_subscription_key(key)
        if value is None:
            self._delete(key)
        else:
            bare, subscription = packed(client, text, decode_subscription(key, value))
            self._unsubscribe(key)  # `load` keeps what the table has, and the options may be others
            table = self._router.table(keys.mountpoint_of(client))
            added = table.load(client[0], part_of(bare), ((bare, subscription),))
            if added and self.counts is not None:
                self.counts.count_copied(unpacked(bare, subscription))
            self._env.store.put(key, value)
        self._sessions.snapshots.changed(client)

    def remove(self, key: bytes) -> None:
        """Delete a row of a closed slot that its primary does not have. Raises `StorageError`, and changes nothing, or
        `RecordError`.

        It may be a subscription of an earlier session of its client. Then one of the present session for the same
        filter stays in the router's table.
        """
        if key[:1] != b"b":
            self._delete(key)
            return
        client, text = keys.parse_subscription_key(key)
        same_filter = list(self._subscriptions(client, text))
        self._delete(key)
        self._sessions.snapshots.changed(client)
        for other, value in same_filter:
            if other != key:
                self.apply(other, value)

    def _subscriptions(self, client: bytes, text: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a client's sessions for one filter, of the earliest session first."""
        store, start = self._env.store, b"b" + client
        stop = keys.after(start)
        while found := store.keys(start, stop, 1):
            session = found[0][: len(client) + 9]
            key = session + text.encode()
            value = store.get(key)
            if value is not None:
                yield key, value
            start = keys.after(session)

    def open(self, slot: int) -> None:
        """This node has the sessions of the slot from now on.

        The absence of clients that were connected at the former node begins in later turns, or when they connect.
        """
        self._bring_here(slot)
        parts = self._counters.load_slot, *self._parts, self._sessions.wake_publishers, self._begin_absences_of
        self._read(slot, parts)

    def _begin_absences_of(self, slot: int) -> None:
        begins = not self._absences
        self._absences[slot] = self._sessions.deadlines.attached_in(slot, ATTACHED)
        if begins:
            self._env.background(self._begin_absences)

    def _begin_absences(self) -> None:
        if not self._absences or self._env.store.state == "closed":
            return
        self._env.tick()
        slot, steps = next(iter(self._absences.items()))
        try:
            for client in next(steps):
                session = self._sessions.wake(client)  # this begins the absence
                if session is None and client in self._sessions.unread:
                    self._missed[slot] = self._sessions.unread[client]
        except StopIteration:
            del self._absences[slot]
            if slot in self._missed:
                self._read_later(slot, self._begin_absences_of, self._missed.pop(slot))
        except StorageError as error:
            del self._absences[slot]
            self._read_later(slot, self._begin_absences_of, str(error))
        if self._absences:
            self._env.background(self._begin_absences)

    # -- what stays behind

    def forget(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """Delete the rows of a slot that is at another node; yields each subscription before its deletion.

        The caller takes so many at a time that a turn stays short. Raises `StorageError`, `RecordError`.
        """
        self._close(slot)
        self._sessions.snapshots.forget(slot)
        store = self._env.store
        for kind in FORGOTTEN:
            start, stop = keys.slot_range(b"%c" % kind, slot)
            while found := store.scan(start, stop, STEP):
                for key, value in found:
                    yield key, value
                    self._delete(key)
                start = found[-1][0] + b"\x00"
        self._bring_here(slot)
        self._read(slot, self._parts)

    def _delete(self, key: bytes) -> None:
        self._env.store.delete(key)
        if key[:1] == b"b":
            self._unsubscribe(key)

    def _unsubscribe(self, key: bytes) -> None:
        client, text = keys.parse_subscription_key(key)
        group, text = parse_shared(text)
        removed = self._router.table(keys.mountpoint_of(client)).remove_dormant(client, text, group)
        if removed is not None and self.counts is not None:
            self.counts.uncount(removed)
