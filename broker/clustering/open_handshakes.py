"""The mids of QoS 2 messages that this node may send again: receivers must remember them until they are over (H-12).

A mid stays open during its publisher's handshake, and while a copy of it may be sent to another node again. All copies
say below which mid everything is over. If one handshake stays open for long, a node gets a list of the open mids from
time to time: without it a single client could make that node use more and more memory and disk.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from ...cluster.identity import following, slot_of_origin
from .forward_codec import encode_open_mids

Number = tuple[int, int]
"""Boot and counter of a message. With its origin they are the mid."""

TELL_OPEN_EVERY = 256
"""After this many QoS 2 messages a node gets the list of open handshakes; if more are open, after as many messages."""


class Numbers(Protocol):
    """Where the next mid comes from."""

    @property
    def boot(self) -> int:
        """The second part of the next mid."""
        ...

    @property
    def counter(self) -> int:
        """The third part of the last mid."""
        ...


class SlotNumbers:
    """The mids of one slot (H-47). Each primary begins anew in its epoch, which `epoch` returns."""

    def __init__(self, epoch: Callable[[], int]) -> None:
        self._epoch = epoch
        self._last = (0, 0)

    @property
    def boot(self) -> int:
        """The present epoch."""
        return self._epoch()

    @property
    def counter(self) -> int:
        """The last counter of the present epoch."""
        epoch, counter = self._last
        return counter if epoch == self._epoch() else 0

    def next(self, has_rows: bool = True) -> Number:
        """Returns epoch and counter of a new mid. `has_rows` as in `identity.following`."""
        self._last = (self._epoch(), following(self.counter, has_rows))
        return self._last


class HandshakesByOrigin:
    """The open mids of all origins that this node speaks for: its own name, and the slots of which it is primary.

    `own` is the name of this node, `numbers` its mids; `epoch` returns the epoch of a slot.
    """

    def __init__(self, own: str, numbers: Numbers, epoch: Callable[[int], int]) -> None:
        self._origins = {own: OpenHandshakes(numbers)}
        self._numbers: dict[int, SlotNumbers] = {}
        self._epoch = epoch

    def of(self, origin: str) -> OpenHandshakes:
        """The open mids of an origin."""
        found = self._origins.get(origin)
        if found is None:
            found = self._origins[origin] = OpenHandshakes(self.numbers(slot_of_origin(origin)))
        return found

    def numbers(self, slot: int) -> SlotNumbers:
        """The mids of a slot of this node."""
        found = self._numbers.get(slot)
        if found is None:
            found = self._numbers[slot] = SlotNumbers(lambda: self._epoch(slot))
        return found

    def forget(self, origin: str) -> None:
        """This node does not speak for the origin any more."""
        self._origins.pop(origin, None)


class OpenHandshakes:
    """The open mids of one origin. A mid may be opened several times, and is over when it was closed as often."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.open: dict[Number, int] = {}
        """Open mid -> how often it was opened."""
        self._order: list[Number] = []
        self._told: dict[str, tuple[int, Number]] = {}

    def opened(self, boot: int, counter: int) -> None:
        """This mid may be sent again, until `closed`."""
        before = self.open.get((boot, counter), 0)
        self.open[boot, counter] = before + 1
        if not before:
            heappush(self._order, (boot, counter))

    def closed(self, boot: int, counter: int) -> bool:
        """Returns True if the mid is over, and False if it was opened more often than closed."""
        count = self.open.pop((boot, counter), 0)
        if count > 1:
            self.open[boot, counter] = count - 1
        return count <= 1

    @property
    def boot(self) -> int:
        """The second part of the next mid of this origin."""
        return self._numbers.boot

    def stable(self) -> Number:
        """Return the mid below which no mid of this origin is ever sent again."""
        order = self._order
        while order and order[0] not in self.open:
            heappop(order)
        if order:
            return order[0]
        numbers = self._numbers
        return numbers.boot, numbers.counter

    def list_for(self, name: str, origin: str) -> tuple[Number, list[bytes]] | None:
        """A QoS 2 message goes to a node: return the end of the mids and the encoded open ones, if it needs the list.

        `origin`: the name of this origin, "" if it is this node. Returns None in most cases.
        """
        sent, horizon = self._told.get(name, (TELL_OPEN_EVERY, (self._numbers.boot, 0)))
        if sent + 1 < max(TELL_OPEN_EVERY, len(self.open)):
            self._told[name] = (sent + 1, horizon)
            return None
        end = (self._numbers.boot, self._numbers.counter)
        self._told[name] = (0, end)
        if self.stable() > horizon:
            return None  # all mids before the last list are over: `qos2_stable` makes the node forget them
        return end, encode_open_mids(end, sorted(mid for mid in self.open if mid < end), origin)
