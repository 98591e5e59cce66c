"""A slot that this node, its primary, gives to another node together with its sessions (H-45).

    filling   the target gets a copy, while the sessions run; only if slots have copies
    parting   its connections are closed, and no session begins; last packets of clients that have gone are handled
    closing   what its clients published is acknowledged
    copying   its sessions are on disk only, nothing changes them, and messages for them wait; the rows go to the target
    asking    the target has all rows on disk, and the leader is asked to make it the primary

Until the last step any problem ends the attempt, and the slot opens here again. Then the slot table alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ...cluster.slots.table import Holder, SlotRow
from ..queues.message import Mid
from .slot_transfer import Attempt, Drop, Offer, Piece, SlotMessage

FILLING, PARTING, CLOSING, COPYING, ASKING = "filling", "parting", "closing", "copying", "asking"
"""The phases of a departure."""

FILL_MS = 600_000
"""How long the target may take to get a copy."""
PARTING_MS = 4_000
"""How long a slot is closed for the last packets of clients that have gone."""
CLOSING_MS = 4_000
"""How long a slot is closed for what its clients have published."""
SILENCE_MS = 5_000
"""How long the target may take for one message."""
REPEAT_MS = 1_000
"""How often a message is repeated: a datagram may be lost."""


class Departure(msgspec.Struct, eq=False):
    """One attempt. `row` is the slot's row that it was made for. `sessions` is how many durable sessions the slot has.

    `done` is called once: with "" when the target is primary, else with the reason why the slot stays.
    """

    attempt: Attempt
    row: SlotRow
    target: Holder
    begun_ms: float
    done: list[Callable[[str], None]]
    phase: str = CLOSING
    sessions: int = 0
    flushed: bool = False
    """The disk has all that the slot's connections did, and so have all copies, those of other slots included."""
    safe: bool = False
    """The disk has the mark that this slot is leaving."""
    copied: bool = False
    """The target has a copy of the slot: nothing has to be sent."""
    left_open: list[Mid] = []
    """The mids of the open QoS 2 handshakes that the next primary of the slot completes."""
    waits_for: str = ""
    """Why there is no progress."""
    message: SlotMessage | None = None
    sent_ms: float = 0.0
    progress_ms: float = 0.0
    moved_bytes: int = 0

    @property
    def slot(self) -> int:
        """The slot."""
        return self.attempt.slot


class Copying:
    """The copying phase: offers the slot, then sends one piece after the other. `send` sends to the target."""

    def __init__(
        self, departure: Departure, pieces: Iterator[tuple[bytes, bool]], send: Callable[[SlotMessage], None]
    ) -> None:
        self._departure = departure
        self._pieces = pieces
        self._send = send
        self._seq = -1
        self.complete = False
        """The target has all rows on disk."""

    def begin(self, now_ms: float) -> None:
        """Offer the slot."""
        self._say(Offer(self._departure.attempt), now_ms)

    def ready(self, now_ms: float) -> None:
        """The target takes the slot. Raises `StorageError` or `RecordError` if a row cannot be read."""
        if self._seq < 0:
            self._next(now_ms)

    def took(self, seq: int, now_ms: float) -> None:
        """The target has this piece on disk. Raises as `ready`."""
        message = self._departure.message
        if not isinstance(message, Piece) or seq != message.seq or self.complete:
            return
        if message.last:
            self.complete = True
            self._departure.message = None
        else:
            self._next(now_ms)

    def _next(self, now_ms: float) -> None:
        self._seq += 1
        data, last = next(self._pieces)
        self._departure.moved_bytes += len(data)
        self._say(Piece(self._departure.attempt, self._seq, data, last), now_ms)

    def _say(self, message: SlotMessage, now_ms: float) -> None:
        departure = self._departure
        departure.message, departure.sent_ms, departure.progress_ms = message, now_ms, now_ms
        self._send(message)

    def tick(self, now_ms: float) -> bool:
        """Repeat the last message. Returns False if the target has been silent for too long."""
        departure = self._departure
        if departure.message is None:
            return True
        if now_ms - departure.progress_ms >= SILENCE_MS:
            return False
        self.repeat(now_ms)
        return True

    def repeat(self, now_ms: float) -> None:
        """Send the last message again after a while."""
        departure = self._departure
        if departure.message is not None and now_ms - departure.sent_ms >= REPEAT_MS:
            departure.sent_ms = now_ms
            self._send(departure.message)

    @property
    def departure(self) -> Departure:
        """The attempt that these rows belong to."""
        return self._departure

    def drop(self, now_ms: float) -> None:
        """The attempt is over: tell the target."""
        self._say(Drop(self._departure.attempt), now_ms)
