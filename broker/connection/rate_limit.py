"""`max_message_rate`: how many packets of a client are handled in a second."""

from __future__ import annotations

from typing import Any

from ...mqtt import packets
from .flow_control import FlowControl

_ACKNOWLEDGEMENTS = frozenset((packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp))
"""Not counted: each answers a packet of the broker, so their number is limited already."""


class RateLimit:
    """Counts the packets of each second of cluster time."""

    __slots__ = ("_packets", "_second")

    def __init__(self) -> None:
        self._packets = 0
        self._second = 0

    def count(self, handled: list[Any], rate: int, now_ms: int, flow: FlowControl) -> None:
        """Count handled packets. Above the rate (packets a second, 0 for none) stop reading until the next second."""
        if not rate:
            flow.per_turn = flow.turn_size
            return
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._packets = 0
        self._packets += sum(type(packet) not in _ACKNOWLEDGEMENTS for packet in handled)
        flow.per_turn = min(max(1, rate - self._packets), flow.turn_size)
        if self._packets > rate:
            flow.throttle(1000 - now_ms % 1000)
