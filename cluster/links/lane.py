"""One lane of items from one process to one peer: the sender's half and the receiver's half.

Items are numbered from 1 without gaps for the life of the sending process, even if the receiver restarts. The sender
keeps each item until it is acknowledged or cancelled. A cancelled item keeps its number and is sent as a void, a number
without payload. The receiver takes number n + 1 after number n and nothing else (H-07).

When a stream opens, the receiver names its watermark w and the sender continues with w + 1:

    w = acknowledged           the sender sends the unacknowledged items again
    w > acknowledged           an acknowledgement was lost with the former stream: the sender frees the items now
    w < acknowledged           the receiver has forgotten items (another disk; or another process, if they were only
                               in memory): the sender sends voids for these numbers, so that none is missing
    w > last                   impossible: another process has used these numbers. An error, nothing is sent

A receiver that cannot take an item now *holds* its lane: it drops all later items. When it can take the item, it asks
the sender to continue with that number. Other lanes and datagrams are not affected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from .frames import MalformedFrame, Run
from .pieces import Joining, Piece, Scattered, cut

ITEM_BYTES = 16
"""Bytes that an item counts in windows in addition to its payload, so that empty items count too."""

KEPT_BYTES = 640
"""Memory of an unacknowledged item in addition to its payload, which is stored twice: in the lane and in the message.
Measured with CPython 3.11: 870 bytes for a message of QoS 1 with 100 bytes, its target and its waiting answer."""


class Gap(MalformedFrame):
    """Numbers are missing between the last received item and a run or piece: the receiver must not take it."""


class _Items(dict[int, bytes]):
    """The items that are kept, by number, in rising order. `again` has the numbers of those that a new stream sends
    again, and the one behind all of them."""

    def __init__(self) -> None:
        self.again = deque([1])

    def send_again(self, last: int) -> None:
        """Items up to `last` are sent again."""
        self.again = deque([*self, last + 1])

    def first_from(self, seq: int, last: int) -> int:
        """Returns the first number from `seq` on whose item is kept; if there is none, `last` + 1.

        It passes in one step over the numbers that an earlier stream has sent: nearly all may be cancelled.
        """
        if not self:
            return last + 1
        again = self.again
        while len(again) > 1 and (again[0] < seq or again[0] not in self):
            again.popleft()
        seq = max(seq, again[0])
        while seq <= last and seq not in self:
            seq += 1
        return seq


class SendLane:
    """The sender's half of a lane. `window`: limit of unacknowledged bytes in flight, None for no limit.

    Items of more than `whole` bytes are sent in pieces.
    """

    __slots__ = (
        "_behind", "_items", "_most", "_offset", "acked_upto", "beside_bytes", "held", "inflight_bytes", "lane", "last",
        "resent", "sent", "waiting_bytes", "whole", "window",
    )  # fmt: skip

    def __init__(self, lane: int, window: int | None, whole: int = 256 << 10) -> None:
        self.lane = lane
        self.window = window
        self.whole = whole
        self.held = False
        """The receiver has asked to send nothing until it can take the next item."""
        self.acked_upto = 0
        self.sent = 0
        self.last = 0
        self.waiting_bytes = 0
        self.inflight_bytes = 0
        self.beside_bytes = 0
        """Memory of the items that the owner keeps until the lane has free space."""
        self.resent = 0
        self._most = 0
        self._offset = 0  # bytes of item `sent + 1` that went out in pieces
        self._items = _Items()
        self._behind: deque[tuple[int, int]] = deque()

    def add(self, payload: bytes) -> int:
        """Take an item and return its number."""
        self.last += 1
        self._items[self.last] = payload
        self.waiting_bytes += len(payload) + ITEM_BYTES
        return self.last

    def follow(self, other: SendLane) -> None:
        """Send the last item only after all items that are in the other lane now, also when both are sent again."""
        if other.last > other.acked_upto and (not self._behind or self._behind[-1][1] < other.last):
            self._behind.append((self.last, other.last))

    def free(self, other: SendLane) -> int:
        """Returns the last number that may be sent before the other lane sends more: see `follow`."""
        behind = self._behind
        while behind and behind[0][1] <= other.acked_upto:
            behind.popleft()
        return next((seq - 1 for seq, upto in behind if upto > other.sent), self.last)

    def void(self, seq: int) -> None:
        """Cancel this item. Does nothing if it is acknowledged already."""
        self._drop(seq)

    def early(self, seqs: list[int]) -> None:
        """The peer has finished these items, although an earlier one is open: from now on they are sent as voids.

        Raises `MalformedFrame` if one of them was never sent.
        """
        if seqs and max(seqs) > max(self.sent, self._most):
            raise MalformedFrame(f"lane {self.lane}: {max(seqs)} acknowledged, {self.sent} sent")
        for seq in seqs:
            self._drop(seq)

    def void_all(self) -> None:
        """Cancel all items."""
        self._items.clear()
        self.waiting_bytes = self.inflight_bytes = self._offset = 0

    def acked(self, upto: int) -> int:
        """The peer has finished all items up to `upto`, perhaps items of an earlier stream that were not resent yet.

        Returns the number of items freed. Raises `MalformedFrame` if fewer items were sent.
        """
        if upto > max(self.sent, self._most):
            raise MalformedFrame(f"lane {self.lane}: {upto} acknowledged, {self.sent} sent")
        return self._free(upto)

    def resume(self, watermark: int) -> int:
        """A stream has opened and the peer has the lane up to `watermark`. Returns the number of items freed.

        Raises `MalformedFrame` if the lane never had that number.
        """
        if not 0 <= watermark <= self.last:
            raise MalformedFrame(f"lane {self.lane}: the peer has {watermark}, of {self.last} that this process made")
        freed = self._free(watermark)
        self._send_again(watermark + 1)
        self.inflight_bytes = 0
        return freed

    def hold(self) -> None:
        """The receiver cannot take an item of this lane: send nothing until it asks for more."""
        self.held = True

    def rewind(self, first: int) -> None:
        """The receiver takes the lane again: send from number `first` on. Raises `MalformedFrame`."""
        if not 1 <= first <= self.sent + 1:
            raise MalformedFrame(f"lane {self.lane}: asked for {first}, {self.sent} sent")
        again = [len(payload) for seq, payload in self._items.items() if first <= seq <= self.sent]
        self.inflight_bytes -= sum(again) + ITEM_BYTES * len(again)
        self._send_again(first)

    def _send_again(self, first: int) -> None:
        self.sent = first - 1
        self._items.send_again(self.last)
        self._offset = 0
        self.held = False

    @property
    def unacknowledged(self) -> int:
        """Number of items that are kept."""
        return len(self._items)

    @property
    def memory_bytes(self) -> int:
        """Memory of the unacknowledged items, here and in the messages that wait for their acknowledgement."""
        return 2 * self.waiting_bytes + KEPT_BYTES * len(self._items) + self.beside_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of the items that are in no frame yet or have to be sent again."""
        return self.waiting_bytes - self.inflight_bytes

    def take(self, limit: int, room: int, last: int | None = None) -> Run | None:
        """Returns the next run of items. None if the lane has nothing to send, or the receiver holds it.

        The run has at most `limit` bytes, or one larger item, but not more than `room`, and no number beyond `last`.
        """
        last = self.last if last is None else last
        if self.sent >= last or self.held:
            return None
        items = self._items
        first = self.sent + 1
        seq = items.first_from(first, self.last)
        run = Run(self.lane, first, seq - first, [])
        payloads = run.payloads
        used = 0
        window, inflight = self.window, self.inflight_bytes
        while seq <= last and (payload := items.get(seq)) is not None:
            size = len(payload) + ITEM_BYTES
            if size > self.whole or used + size > (min(limit, room) if payloads else room):
                break
            if window is not None and inflight and inflight + size > window:
                break
            payloads.append(payload)
            used += size
            inflight += size
            seq += 1
        self.inflight_bytes = inflight
        if run.last < first:
            return None
        self.resent += max(0, min(run.last, self._most) - first - run.voids + 1)
        self.sent = run.last
        self._offset = 0  # an item that was sent in part is cancelled now
        self._most = max(self._most, self.sent)
        return run

    def take_piece(self, room: int, last: int | None = None) -> Piece | None:
        """Returns the next piece of the next item; None if the item fits into a run, or has to wait.

        The data has at most `room` bytes and at most `whole`. The item counts as sent with its last piece.
        """
        seq = self.sent + 1
        payload = self._items.get(seq)
        if payload is None or self.held or seq > (self.last if last is None else last) or room < 1:
            return None
        size = len(payload) + ITEM_BYTES
        if size <= self.whole:
            return None
        inflight = self.inflight_bytes
        if self.window is not None and not self._offset and inflight and inflight + size > self.window:
            return None
        piece = cut(self.lane, seq, payload, self._offset, min(room, self.whole))
        self._offset += len(piece.data)
        if piece.last:
            self.resent += seq <= self._most
            self.sent = seq
            self._offset = 0
            self._most = max(self._most, seq)
            self.inflight_bytes += size
        return piece

    def _free(self, upto: int) -> int:
        items = self._items
        before = len(items)
        if before:
            size = unsent = 0  # items that only an earlier stream has sent are not in flight
            over: Iterable[int] = range(self.acked_upto + 1, upto + 1)
            if upto - self.acked_upto > before:
                over = [seq for seq in items if seq <= upto]  # most of these numbers are cancelled
            for seq in over:
                payload = items.pop(seq, None)
                if payload is not None:
                    size += len(payload) + ITEM_BYTES
                    if seq > self.sent:
                        unsent += len(payload) + ITEM_BYTES
            self.waiting_bytes -= size
            self.inflight_bytes -= size - unsent
        self.acked_upto = max(self.acked_upto, upto)
        return before - len(items)

    def _drop(self, seq: int) -> None:
        payload = self._items.pop(seq, None)
        if payload is not None:
            size = len(payload) + ITEM_BYTES
            self.waiting_bytes -= size
            if seq <= self.sent:
                self.inflight_bytes -= size


class ReceiveLane:
    """The receiver's half: `received` is the last number received, `done` the last that may be acknowledged.

    `largest` is the size in bytes of the largest item that is taken. `held`: an item was refused, and the sender has
    not begun to send it again.
    """

    __slots__ = ("_joining", "_voids", "done", "duplicates", "held", "lane", "received")

    def __init__(self, lane: int, watermark: int, largest: int = 1 << 30) -> None:
        self.lane = lane
        self.held = False
        self._joining = Joining(largest)
        self.received = watermark
        self.done = watermark
        self.duplicates = 0
        self._voids: deque[tuple[int, int]] = deque()

    def take(self, run: Run) -> Iterator[tuple[int, bytes]]:
        """Yields (number, payload) of the new items of a run. Raises `Gap` if numbers before the run are missing.

        A yielded item counts as received; `refuse` undoes that. While the lane is held, the items that the sender had
        sent before it learned of the hold are dropped.
        """
        if not self._follows(run.first, "a run"):
            return
        self._joining.drop()  # the sender sends a run instead of further pieces: it has cancelled the incomplete item
        begin = run.first + run.voids
        if begin - 1 > self.received:
            self._void(self.received + 1, begin - 1)
        skip = max(0, self.received + 1 - begin)
        self.duplicates += min(skip, len(run.payloads))
        for seq, payload in enumerate(run.payloads[skip:], begin + skip):
            self.received = seq
            yield seq, payload

    def take_piece(self, piece: Piece) -> tuple[int, bytes | None] | None:
        """Returns the number and the payload when this piece completes a new item, else None. Raises `Gap`.

        The payload is None if the item is larger than `largest`.
        """
        if not self._follows(piece.seq, "a piece"):
            return None
        if piece.seq <= self.received:
            self.duplicates += piece.last
            return None
        try:
            payload = self._joining.add(piece)
        except Scattered as error:
            self._joining.drop()
            raise Gap(f"lane {piece.lane}: {error}") from error
        if not piece.last:
            return None
        self.received = piece.seq
        return piece.seq, payload

    def _follows(self, first: int, what: str) -> bool:
        """Returns whether to read a run or piece that begins with `first`; False while the lane is held at an earlier
        number. Raises `Gap` if numbers are missing."""
        if first <= self.received + 1:
            self.held = False
        elif self.held:
            return False
        else:
            raise Gap(f"lane {self.lane}: {what} from {first} after {self.received}")
        return True

    @property
    def bytes_held(self) -> int:
        """Bytes of an incomplete item that are in memory."""
        return self._joining.bytes_held

    def reopen(self) -> None:
        """A new stream has opened: the sender sends incomplete and held items again."""
        self._joining.drop()
        self.held = False

    def refuse(self, seq: int) -> None:
        """The listener did not take the last yielded item: hold the lane there, and drop later items."""
        assert seq == self.received > self.done, (seq, self.received, self.done)
        self.received = seq - 1
        self.held = True

    def set_aside(self, seq: int) -> None:
        """The last yielded item cannot be decoded: count it as cancelled, so that the sender does not send it again."""
        assert seq == self.received, (seq, self.received)
        self._void(seq, seq)

    def finish(self, seq: int) -> bool:
        """All items up to `seq` are finished. Returns whether that is new."""
        assert seq <= self.received, f"lane {self.lane}: {seq} is done, {self.received} received"
        if seq <= self.done:
            return False
        self.done = seq
        self._pass_voids()
        return True

    def _void(self, first: int, last: int) -> None:
        self.received = last
        self._voids.append((first, last))
        self._pass_voids()

    def _pass_voids(self) -> None:
        """Count voids as finished as soon as all items before them are."""
        voids = self._voids
        while voids and voids[0][0] <= self.done + 1:
            self.done = max(self.done, voids.popleft()[1])
