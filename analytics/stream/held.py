"""Holds the items of one part until they are due. It is plain Python; Spark keeps what it holds (`state`).

Everything ends by the watermark: items with a due time at that time, others after `KEPT_MS`. So the memory depends on
what happens in that time, not on the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from .items import BOOT, MINUTE, NOT_DUE, Item

KEPT_MS: Final = 600_000
"""So long the rows of a message wait for its acknowledgement: 10 minutes."""


class Due(NamedTuple):
    """What was held for one key. `number` of items; of a minute `rows` is the first one alone."""

    kind: str
    key: str
    number: int
    rows: list[str]


class _Group(msgspec.Struct, array_like=True):
    begin_ms: int
    due_ms: int = NOT_DUE
    number: int = 0
    rows: list[tuple[int, str]] = []

    def add(self, item: Item) -> None:
        self.begin_ms = min(self.begin_ms, item.ms)
        if item.due_ms:
            self.due_ms = min(item.due_ms, self.due_ms or item.due_ms)
        self.number += 1
        self.rows.append((item.ms, item.row))
        if item.kind == MINUTE and len(self.rows) > 1:
            self.rows = [min(self.rows)]

    @property
    def ends_ms(self) -> int:
        return self.due_ms or self.begin_ms + KEPT_MS


class Held:
    """The items of one part by kind and key."""

    def __init__(self, state: bytes = b"") -> None:
        self._groups: dict[str, dict[str, _Group]] = _DECODER.decode(state) if state else {}

    def add(self, items: Iterable[Item]) -> None:
        """Hold more items."""
        for item in items:
            groups = self._groups.setdefault(item.kind, {})
            groups.setdefault(item.key, _Group(item.ms)).add(item)

    def take(self, watermark_ms: int) -> Iterator[Due]:
        """Returns what is due, without rows that are later than that, and forgets what has ended."""
        for kind, groups in self._groups.items():
            for key in [key for key, group in groups.items() if group.ends_ms <= watermark_ms]:
                group = groups.pop(key)
                if group.due_ms:
                    rows = [row for ms, row in sorted(group.rows) if ms <= group.due_ms or kind == BOOT]
                    yield Due(kind, key, group.number, rows)

    @property
    def next_ms(self) -> int | None:
        """When the next of them ends; None if nothing is held."""
        return min((each.ends_ms for groups in self._groups.values() for each in groups.values()), default=None)

    @property
    def state(self) -> bytes:
        """What is held, for `Held(state)`."""
        return msgspec.msgpack.encode(self._groups)


_DECODER: Final = msgspec.msgpack.Decoder(dict[str, dict[str, _Group]])
