"""This node's copy of the settings of the cluster: overrides of the configuration, and API keys.

It is the space `c` of the replicated metadata, so that a write goes to every node, outlives restarts, and of concurrent
writes the one with the higher hybrid logical clock stays. The map finds all keys with a prefix by going through all it
has, a million retained messages among them; the few of this space have a table of their own here.

A node without a way to others keeps the same in its own store: both are a `Shelf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

CONFIG = b"c"
"""The space of the map."""

Changed = Callable[[bytes, bytes | None], None]
"""A key, and its value, None if it is deleted."""


class Shelf(Protocol):
    """A store for the settings that operators make; `storage.store.Store` is one."""

    def get(self, key: bytes) -> bytes | None:
        """The value, None if there is none."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Set it."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete it, or nothing."""
        ...

    def scan(self, start: bytes, stop: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop."""
        ...


class ReplicatedMap(Protocol):
    """The calls that this module makes to the replicated map, `cluster.replicated_map.map.ReplicatedMap`."""

    def put(self, key: bytes, value: bytes) -> int:
        """Set a value; the number of this write comes back."""
        ...

    def delete(self, key: bytes) -> int:
        """Delete a key."""
        ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, and their values, in no order."""
        ...


class SharedConfig:
    """The shelf of the cluster. `load` once, when the map has read its disk; then `changed` for what others write."""

    def __init__(self, metadata: ReplicatedMap) -> None:
        self._metadata = metadata
        self._values: dict[bytes, bytes] = {}
        self.listeners: list[Changed] = []
        """Told what other nodes changed, without the letter of the space."""

    def load(self) -> None:
        """Load all entries of the map."""
        self._values = {key[len(CONFIG) :]: value for key, value in self._metadata.scan(CONFIG)}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        return self._values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set a value here at once, and at the others at the end of the turn."""
        self._metadata.put(CONFIG + key, value)
        self._values[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key everywhere, or nothing."""
        if self._values.pop(key, None) is not None:
            self._metadata.delete(CONFIG + key)

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop, in order."""
        return sorted((key, value) for key, value in self._values.items() if start <= key < stop)

    def changed(self, key: bytes, value: bytes | None) -> None:
        """Another node changed a key of the space."""
        name = key[len(CONFIG) :]
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value
        for listener in self.listeners:
            listener(name, value)


def move(source: Shelf, target: Shelf, start: bytes, stop: bytes) -> None:
    """Copy a node's own entries into its cluster. A key that the cluster already has keeps its value."""
    for key, value in list(source.scan(start, stop)):
        if target.get(key) is None:
            target.put(key, value)
        source.delete(key)
