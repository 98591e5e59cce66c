"""The read access to settings that listeners and checks need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from .schema import Key
from .syntax import Line
from .values import Value


class Setting(msgspec.Struct, frozen=True):
    """A key that is set: its definition, its value, and the line that sets it."""

    key: Key
    value: Value
    line: Line


class Lookup(Protocol):
    """Read access to settings."""

    def __getitem__(self, key: str) -> Value:
        """The value of a key, or its default."""

    def __iter__(self) -> Iterator[str]:
        """The keys that are set."""

    def explicit(self, key: str) -> Setting | None:
        """The setting of a key, None if it is not set."""
