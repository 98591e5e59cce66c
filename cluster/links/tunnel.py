"""The tunnel between this node and one peer: items in both directions, in order, without acknowledgements.

Items have the lowest rank: a data frame takes them after the items of all lanes. If one of the two streams breaks, or
if too much waits, all items in the tunnel may be lost: both ends report it, each when it notices. Then it begins again.

Each end numbers its beginnings. It says `(own number, number of the peer that it knows)` on its stream, in the item
after an empty one: when its stream opens, when its number rises, and when it learns a new number of the peer. The
tunnel is open for an end while the peer has said its present number, and its own stream is open. What the peer sent
before it knew that number is dropped, although its stream may have survived: the peer is about to notice the break
(H-42).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from .lane import ITEM_BYTES
from .settings import LinkSettings

BEGIN = b""
"""The next item has the numbers of a beginning."""
NUMBERS = Struct("<QQ")
"""The item with the numbers: of the sender, and of the receiver as the sender knows it."""

MAX_ITEM = 128 << 10
"""The largest item in bytes: more than the largest client id, which a registrar learns whole."""


class TunnelEvents(Protocol):
    """The owner of the tunnels. The links make all calls, on the loop's thread."""

    def tunnel_opened(self, node: str) -> None:
        """The tunnel is open: what is sent from now on arrives, or `tunnel_broken` follows."""

    def tunnel_broken(self, node: str, reason: str) -> None:
        """The tunnel, which was open, is broken: whatever was sent or expected may be lost."""

    def tunnelled(self, node: str, payload: bytes) -> None:
        """The next item arrived."""

    def tunnel_room(self, node: str) -> None:
        """The tunnel was full, and half of its limit is free."""


class Unused:
    """The owner of tunnels that nobody uses: it ignores all events."""

    def tunnel_opened(self, node: str) -> None:
        """As `TunnelEvents.tunnel_opened`: nothing."""

    def tunnel_broken(self, node: str, reason: str) -> None:
        """As `TunnelEvents.tunnel_broken`: nothing."""

    def tunnelled(self, node: str, payload: bytes) -> None:
        """As `TunnelEvents.tunnelled`: nothing."""

    def tunnel_room(self, node: str) -> None:
        """As `TunnelEvents.tunnel_room`: nothing."""


class Tunnel:
    """The tunnel with `node`. `owner` returns the present owner; `soon` runs a function in a later turn."""

    __slots__ = (
        "_heard", "_items", "_mine", "_most_bytes", "_numbers_next", "_over", "_owner", "_sending", "_soon", "_told",
        "_waited", "full_bytes", "node", "open", "waiting_bytes",
    )  # fmt: skip

    def __init__(
        self,
        node: str,
        owner: Callable[[], TunnelEvents],
        settings: LinkSettings,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.node = node
        self.full_bytes = settings.tunnel_bytes
        self.open = False
        """Whether items can be sent, and those of the peer arrive."""
        self.waiting_bytes = 0
        """Bytes of the items that are in no frame yet."""
        self._most_bytes = settings.tunnel_most_bytes
        self._owner = owner
        self._soon = soon
        self._items: deque[bytes] = deque()
        self._sending = self._waited = self._over = self._numbers_next = False
        self._mine = 1
        self._heard = (0, 0)
        """What the peer has said last: its number, and the one of this end that it knows."""
        self._told: tuple[int, int] | None = None
        """What this end has said last on its present stream."""

    @property
    def full(self) -> bool:
        """Whether the owner should send nothing large before `TunnelEvents.tunnel_room`."""
        if self.waiting_bytes <= self.full_bytes:
            return False
        self._waited = True
        return True

    @property
    def waits(self) -> bool:
        """Whether an item waits for a frame."""
        return bool(self._items)

    def send(self, payload: bytes) -> bool:
        """Send an item. Returns False if the tunnel is not open: the item is dropped.

        If more than `tunnel_most_bytes` wait, it breaks and begins again. Raises `ValueError` for an empty item, and
        for one of more than `MAX_ITEM` bytes.
        """
        if not 0 < len(payload) <= MAX_ITEM:
            raise ValueError(f"an item of {len(payload)} bytes, 1 to {MAX_ITEM} are allowed")
        if not self.open or self._over:
            return False
        if self.waiting_bytes + len(payload) + ITEM_BYTES > self._most_bytes:
            self._over = True
            self._soon(self._begin_again)
            return False
        self._queue(payload)
        return True

    def take(self, limit: int) -> list[bytes]:
        """Returns the next items: about `limit` bytes, and at least one item if any waits."""
        taken: list[bytes] = []
        items = self._items
        used = 0
        while items and (not taken or used + len(items[0]) + ITEM_BYTES <= limit):
            item = items.popleft()
            taken.append(item)
            used += len(item) + ITEM_BYTES
        self.waiting_bytes -= used
        return taken

    def offer_room(self) -> None:
        """Tell the owner if it found the tunnel full and half of the limit is free now."""
        if self._waited and self.waiting_bytes <= self.full_bytes // 2:
            self._waited = False
            self._owner().tunnel_room(self.node)

    # Events of the two streams

    def begin(self) -> None:
        """The stream to the peer has opened."""
        self._sending = True
        self._tell()

    def end(self, reason: str) -> None:
        """The stream to the peer, which was open, is closed."""
        self._sending = False
        self._clear()
        self._restart(reason)

    def peer_ended(self, reason: str) -> None:
        """The stream from the peer is closed. On a newer one that takes its place the peer begins again instead."""
        self._numbers_next = False
        self._restart(reason)

    def received(self, item: bytes) -> None:
        """An item of the peer arrived."""
        if item == BEGIN:
            self._numbers_next = True
        elif self._numbers_next:
            self._numbers_next = False
            if len(item) == NUMBERS.size:
                self._begun(NUMBERS.unpack(item))
        elif self.open:
            self._owner().tunnelled(self.node, item)

    def _begun(self, heard: tuple[int, int]) -> None:
        if heard != self._heard:
            self._break(f"{self.node} has begun it again")
        self._heard = heard
        self._tell()

    def _restart(self, reason: str) -> None:
        """Begin again: drop what the peer sends before it knows of this."""
        self._mine += 1
        self._break(reason)
        self._tell()

    def _begin_again(self) -> None:
        self._over = False
        if self._sending:
            self._restart(f"more than {self._most_bytes >> 10} KiB wait for {self.node}")

    def _tell(self) -> None:
        """Say the numbers, if the peer does not know them, and open the tunnel if the peer has answered."""
        theirs, known = self._heard
        numbers = self._mine, theirs
        if self._sending and self._told != numbers:
            self._told = numbers
            self._queue(BEGIN)
            self._queue(NUMBERS.pack(*numbers))
        if self._sending and known == self._mine and not self.open:
            self.open = True
            self._owner().tunnel_opened(self.node)

    def _queue(self, item: bytes) -> None:
        self._items.append(item)
        self.waiting_bytes += len(item) + ITEM_BYTES

    def _break(self, reason: str) -> None:
        """If the tunnel is open, drop what waits in it, and tell the owner."""
        if self.open:
            self.open = False
            self._clear()
            self._owner().tunnel_broken(self.node, reason)

    def _clear(self) -> None:
        self._items.clear()
        self._told = None
        self.waiting_bytes = 0
        self._waited = False
