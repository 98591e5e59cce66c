"""What resolving listeners and checking need to know of the settings, without knowing how they came about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from .schema import Key
from .syntax import Line
from .values import Value


class Setting(msgspec.Struct, frozen=True):
    """A key that somebody set: its definition, its value, and the line that set it."""

    key: Key
    value: Value
    line: Line


class Lookup(Protocol):
    """Settings, as seen from the functions that combine them."""

    def __getitem__(self, key: str) -> Value:
        """The value of a key, its default if nobody set it."""

    def __iter__(self) -> Iterator[str]:
        """The keys that somebody set."""

    def explicit(self, key: str) -> Setting | None:
        """What somebody set, or None."""
