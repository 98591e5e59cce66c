"""This node's copy of the settings of the cluster: overrides of the configuration, and API keys.

The settings are the namespace `c` of the replicated map. Each write goes to every node and survives restarts; of
concurrent writes the one with the higher hybrid logical clock wins. A scan of the map looks at all its keys, which may
include a million retained messages. So `SharedConfig` keeps the few keys of this namespace in a table.

A node without cluster links keeps these settings in its own store. Both are a `Shelf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

CONFIG = b"c"
"""The namespace of the settings in the replicated map."""
DELETED = b"\0"
"""The value of a deleted setting in the map. A deletion without a value would lose to a concurrent write, perhaps of a
node that has died since (H-16)."""

Changed = Callable[[bytes, bytes | None], None]
"""A function of a key and its new value, None if the key was deleted."""


class Shelf(Protocol):
    """A store for the settings that operators make; `storage.store.Store` is one."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete a key; does nothing if there is none."""
        ...

    def scan(self, start: bytes, stop: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop."""
        ...


class ReplicatedMap(Protocol):
    """The calls that this module makes to the replicated map, `cluster.replicated_map.map.ReplicatedMap`."""

    def put(self, key: bytes, value: bytes) -> int:
        """Set a value; returns the number of this write."""
        ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, and their values, in no order."""
        ...


class SharedConfig:
    """The shelf of the cluster.

    The cluster adapter calls `load` once, after the map has read its disk, then `changed` for each write of another
    node.
    """

    def __init__(self, metadata: ReplicatedMap) -> None:
        self._metadata = metadata
        self._values: dict[bytes, bytes] = {}
        self.listeners: list[Changed] = []
        """Called after each change by another node, with the key without `CONFIG`, and the value."""

    def load(self) -> None:
        """Read all settings from the map."""
        rows = self._metadata.scan(CONFIG)
        self._values = {key[len(CONFIG) :]: value for key, value in rows if value != DELETED}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        return self._values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set a value: on this node at once, on the others after the end of the turn."""
        self._metadata.put(CONFIG + key, value)
        self._values[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key on all nodes; does nothing if there is none."""
        if self._values.pop(key, None) is not None:
            self._metadata.put(CONFIG + key, DELETED)

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop, in order."""
        return sorted((key, value) for key, value in self._values.items() if start <= key < stop)

    def changed(self, key: bytes, value: bytes | None) -> None:
        """Another node has set or deleted (None) a key of the namespace: update the table and call the listeners."""
        name = key[len(CONFIG) :]
        if value in (None, DELETED):
            value = None
            self._values.pop(name, None)
        else:
            self._values[name] = value
        for listener in self.listeners:
            listener(name, value)


def move(source: Shelf, target: Shelf, start: bytes, stop: bytes) -> None:
    """Move the entries with start <= key < stop. A key that `target` already has keeps its value there."""
    for key, value in list(source.scan(start, stop)):
        if target.get(key) is None:
            target.put(key, value)
        source.delete(key)
