"""A table whose items are bytes until somebody asks for them.

What a world says of a client is small, but the objects that say it are not: a dict of sessions takes five times the
memory of their bytes. `Packed` is a table that does not change: names in order, and the bytes of the items. It makes an
item when it is asked for, and remembers the last ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, TypeVar, get_args

import msgspec

Key = TypeVar("Key", bound=tuple[Any, ...])
Value = TypeVar("Value")

REMEMBERED: Final = 1 << 20
"""Items of so many bytes are remembered as objects, which take about eight times as much."""
END: Final = "\0"
"""Stands between the parts of a name. MQTT allows it in no string."""

_UNKNOWN: Final = object()


def name_of(key: tuple[Any, ...]) -> str:
    """Returns a key of texts and numbers as one text."""
    return END.join(map(str, key))


class Packed(Mapping[Key, Value]):
    """A table in few bytes. `key`: the type of its keys, a tuple of `str` and `int`. `value`: the type of its items."""

    def __init__(self, table: Mapping[Key, Value], key: Any, value: Any) -> None:
        encode = msgspec.msgpack.Encoder().encode
        named = sorted((name_of(each), each) for each in table)
        items = [encode(table[each]) for _, each in named]
        begins = array("Q", accumulate(map(len, items), initial=0))
        self._set([name for name, _ in named], begins, b"".join(items), key, value)

    def _set(self, names: list[str], begins: array[int], items: bytes, key: Any, value: Any) -> None:
        self.names = names
        """The names of all keys, in order."""
        self._begins = begins
        self._items = items
        self._key, self._value = key, value
        self._decoder = msgspec.msgpack.Decoder(value)
        self._made: dict[Key, Value | None] = {}
        self._bytes_made = 0

    def __getitem__(self, key: Key) -> Value:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        made: Value = found
        return made

    def get(self, key: Key, default: Any = None, /) -> Any:
        """Returns an item, or `default`."""
        found = self._made.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._make(key)
        return default if found is None else found

    def _make(self, key: Key) -> Value | None:
        """Returns an item; None if there is none, which is remembered, too."""
        name = name_of(key)
        at = bisect_left(self.names, name)
        there = at < len(self.names) and self.names[at] == name
        item = self._items[self._begins[at] : self._begins[at + 1]] if there else b""
        if self._bytes_made > REMEMBERED:
            self._made.clear()
            self._bytes_made = 0
        self._bytes_made += len(name) + len(item)
        made: Value | None = self._decoder.decode(item) if there else None
        self._made[key] = made
        return made

    def __iter__(self) -> Iterator[Key]:
        kinds = get_args(self._key)
        for name in self.names:
            yield tuple(kind(part) for kind, part in zip(kinds, name.split(END), strict=True))  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> tuple[Any, ...]:
        names = msgspec.msgpack.encode(self.names)  # pickle would remember each name while it reads
        return names, self._begins, self._items, self._key, self._value

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names, *others = state
        self._set(msgspec.msgpack.decode(names, type=list[str]), *others)
