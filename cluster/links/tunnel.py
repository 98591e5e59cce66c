"""The tunnel between this node and one peer: items in both directions, in order, without acknowledgements.

Items have the lowest rank: a data frame takes them after the items of all lanes. Each end begins with an empty item on
each of its streams. So an end knows that the peer can answer: the tunnel is open while the own stream is open and the
empty item of the peer has arrived on the peer's stream. If either stream breaks, all items in the tunnel may be lost:
both ends report it, each when it notices. Items of an earlier stream never arrive later.

An item that arrives while the tunnel is not open is dropped: its sender is about to notice the break too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from .lane import ITEM_BYTES
from .settings import LinkSettings

BEGIN = b""
"""The first item of a stream, and of a tunnel that begins again."""

MAX_ITEM = 64 << 10
"""The largest item in bytes."""


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
        "_items", "_most_bytes", "_over", "_owner", "_receiving", "_sending", "_soon", "_waited", "full_bytes", "node",
        "open", "waiting_bytes",
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
        self._sending = self._receiving = False
        self._waited = self._over = False

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
        self._queue(BEGIN)
        self._look()

    def end(self, reason: str) -> None:
        """The stream to the peer, which was open, is closed."""
        self._clear()
        self._sending = False
        self._break(reason)

    def peer_ended(self, reason: str) -> None:
        """The stream from the peer is closed. A newer one that takes its place begins with an empty item instead."""
        self._receiving = False
        self._break(reason)

    def received(self, item: bytes) -> None:
        """An item of the peer arrived."""
        if item != BEGIN:
            if self.open:
                self._owner().tunnelled(self.node, item)
            return
        if self._receiving:
            self._break(f"{self.node} has begun it again")
        self._receiving = True
        self._look()

    def _begin_again(self) -> None:
        self._over = False
        if self._sending:
            self._clear()
            self._break(f"more than {self._most_bytes >> 10} KiB wait for {self.node}")
            self._queue(BEGIN)
            self._look()

    def _queue(self, item: bytes) -> None:
        self._items.append(item)
        self.waiting_bytes += len(item) + ITEM_BYTES

    def _clear(self) -> None:
        self._items.clear()
        self.waiting_bytes = 0
        self._waited = False

    def _look(self) -> None:
        if self._sending and self._receiving and not self.open:
            self.open = True
            self._owner().tunnel_opened(self.node)

    def _break(self, reason: str) -> None:
        if self.open:
            self.open = False
            self._owner().tunnel_broken(self.node, reason)
