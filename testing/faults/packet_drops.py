"""The description of a dropped packet: its kind, number and direction, and the fate of its connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from .frame_filter import PACKETS

Direction = Literal["in", "out"]
"""`in`: from a client to the broker; `out`: from the broker to a client."""

Then = Literal["go on", "cut"]

_ONE_WAY: dict[str, Direction] = {
    **dict.fromkeys(("CONNECT", "SUBSCRIBE", "UNSUBSCRIBE", "PINGREQ"), "in"),
    **dict.fromkeys(("CONNACK", "SUBACK", "UNSUBACK", "PINGRESP"), "out"),
}
"""Packets that only a client or only a broker sends (table 2.1 of both standards)."""


class FaultError(Exception):
    """A fault is impossible: its arguments are wrong, or the node is in the wrong state for it. The text says why."""


@dataclass
class Drop:
    """Drops the `nth` packet of a kind, counted over all connections of a node, or over those of one client id.

    With `then = "cut"` the connection is reset right after, as if the link broke with the packet in flight. `happened`
    waits until the packet is dropped.
    """

    packet: str
    nth: int = 1
    direction: Direction = "out"
    client: str | None = None
    then: Then = "go on"
    seen: int = 0
    """Packets counted so far."""
    dropped: bool = False
    _event: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def __post_init__(self) -> None:
        self.packet = self.packet.upper()
        if self.packet not in PACKETS:
            raise FaultError(f"packet {self.packet!r} is not one of {', '.join(PACKETS)}")
        if self.direction not in ("in", "out"):
            raise FaultError(f"direction {self.direction!r}: 'in' (client to broker) or 'out' (broker to client)")
        if self.then not in ("go on", "cut"):
            raise FaultError(f"then {self.then!r}: 'go on' or 'cut'")
        if self.nth < 1:
            raise FaultError(f"nth {self.nth}: packets are counted from 1")
        if _ONE_WAY.get(self.packet, self.direction) != self.direction:
            raise FaultError(f"no {self.packet} goes {self.direction}: direction={_ONE_WAY[self.packet]!r}")
        if self.packet == "CONNECT" and self.client is not None:
            raise FaultError("a CONNECT is counted before its client id is read: leave `client` out")

    def hits(self, packet: str, direction: str, client: str) -> bool:
        """Count a packet. Returns True if it is the one to drop."""
        if self.dropped or packet != self.packet or direction != self.direction:
            return False
        if self.client is not None and client != self.client:
            return False
        self.seen += 1
        if self.seen < self.nth:
            return False
        self.dropped = True
        self._event.set()
        return True

    async def happened(self, timeout: float = 5.0) -> None:
        """Wait until the packet is dropped.

        Raises TimeoutError after `timeout` seconds; its text says how many packets were counted.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            raise TimeoutError(f"{self} did not happen within {timeout:g} s") from None

    def __str__(self) -> str:
        whose = f" of {self.client}" if self.client is not None else ""
        state = "dropped" if self.dropped else f"{self.seen} seen"
        return f"drop {self.packet} {self.nth} {self.direction}{whose} ({state}), then {self.then}"
