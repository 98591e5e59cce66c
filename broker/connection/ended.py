"""Stands for a client connection that has ended, at the parts of it that a late event may still find.

A connection and its parts refer to each other. Without this such a circle stays in memory until the garbage collector
finds it, and a collection of ten thousand closed connections stops the loop for a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NoTimers:
    """Timers that are never set."""

    def set(self, name: str, delay_ms: int, callback: Callable[[], None]) -> None:
        """Do nothing."""

    def left_ms(self, _name: str) -> int:
        """Return 0."""
        return 0

    def cancel(self, name: str) -> None:
        """Do nothing."""


class EndedConnection:
    """As `ClientConnection`: it is closed, and takes and gives nothing."""

    client_id = ""
    number = 0
    session = None
    connected = False
    closed = True
    timers = NoTimers()

    def unsendable(self, packet: Any) -> None:
        """Do nothing."""

    def not_taken(self, size: int) -> None:
        """Do nothing."""

    def process(self, packets_in: list[Any]) -> None:
        """Drop the packets."""

    def go_on(self, packets_in: list[Any]) -> None:
        """Drop the packets."""

    def more_packets(self, _have: int) -> list[Any]:
        """Return none."""
        return []

    def next_turn(self) -> int:
        """Handle nothing."""
        return 0

    def drop(self, reason: str, fire_will: bool = True, detail: str = "") -> None:
        """Do nothing."""

    def too_late(self) -> None:
        """Do nothing."""


ENDED: Any = EndedConnection()
