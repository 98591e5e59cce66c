"""The tunnel to one other node, as all relayed connections of both roles share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .credit import Budget
from .messages import HEAD_BYTES, head

JOINED_BYTES = 32 << 10
"""About the most bytes of one item."""


class TunnelPort(Protocol):
    """The tunnels of all links: `cluster.links.Links` implements it."""

    def tunnel(self, node: str, payload: bytes) -> bool:
        """Send an item once and in order, unless the tunnel breaks. Returns False if it is not open."""
        ...

    def tunnel_open(self, node: str) -> bool:
        """True if items can be sent, and those of the peer arrive."""
        ...

    def tunnel_full(self, node: str) -> bool:
        """True if the owner should send no data before `tunnel_room`."""
        ...


class _BrokenTunnel:
    """Takes the place of a tunnel that has broken: nothing is sent through it any more."""

    def tunnel(self, _node: str, _payload: bytes) -> bool:
        """As `TunnelPort.tunnel`."""
        return False

    def tunnel_open(self, _node: str) -> bool:
        """As `TunnelPort.tunnel_open`."""
        return False

    def tunnel_full(self, _node: str) -> bool:
        """As `TunnelPort.tunnel_full`."""
        return False


_BROKEN = _BrokenTunnel()


class Sender(Protocol):
    """A connection with bytes that wait for the tunnel."""

    def pump(self) -> None:
        """Send waiting bytes, as far as credit and tunnel allow."""
        ...


class PeerNode:
    """The tunnel to `node`: joins the messages of a turn into items, and keeps the senders that wait for a full tunnel.

    `room_up` and `room_down` are the budgets for the windows of this node: as primary, and as gateway. When the tunnel
    breaks, another object takes the place of this one: who refers to this one sends nothing through the next tunnel.
    """

    __slots__ = ("_after_turn", "_parts", "_size", "_tunnel", "blocked", "full", "node", "room_down", "room_up")

    def __init__(self, node: str, tunnel: TunnelPort, after_turn: Callable[[Callable[[], None]], object]) -> None:
        self.node = node
        self.full = False
        self.blocked: dict[Sender, None] = {}
        self.room_up = Budget()
        self.room_down = Budget()
        self._tunnel = tunnel
        self._after_turn = after_turn
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def open(self) -> bool:
        """True if the peer can be asked and can answer."""
        return self._tunnel.tunnel_open(self.node)

    def say(self, kind: int, number: int, value: int) -> None:
        """Send a message without body, at the end of the turn."""
        self._add(HEAD_BYTES)
        self._parts.append(head(kind, number, value))

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a message with a body of at most `PIECE_BYTES`, at the end of the turn."""
        size = len(body)
        self._add(HEAD_BYTES + size)
        self._parts.append(head(kind, number, size))
        self._parts.append(body)

    def _add(self, size: int) -> None:
        if not self._size:
            self._after_turn(self.flush)
        elif self._size + size > JOINED_BYTES:
            self._leave()
        self._size += size

    def flush(self) -> None:
        """Send what this turn has gathered."""
        if self._size:
            self._leave()

    def _leave(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        self._tunnel.tunnel(self.node, b"".join(parts))
        self.full = self._tunnel.tunnel_full(self.node)

    def broken(self) -> None:
        """The tunnel is broken: from now on forget what is sent."""
        self.begin()
        self._tunnel = _BROKEN

    def begin(self) -> None:
        """The tunnel opens: forget what this turn has gathered before."""
        self._parts, self._size, self.full = [], 0, False
        self.blocked.clear()

    def room(self) -> None:
        """The tunnel has room: let the waiting senders send, one after the other, until it is full again."""
        self.full = False
        waiting, self.blocked = self.blocked, {}
        for sender in waiting:
            if self.full:
                self.blocked[sender] = None
            else:
                sender.pump()
