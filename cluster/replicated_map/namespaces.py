"""Namespaces: the first letter of a key decides how it is stored and which concurrent value wins.

A write that has seen another write replaces it, whatever the clocks say; only concurrent writes are compared. For
retained messages and configuration, the highest hybrid logical clock wins, then the highest dot (H-16, H-17).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

STAMP = 8
"""Length of the hybrid logical clock in front of the values of a stamped namespace, in bytes."""


class Versioned(NamedTuple):
    """One of the concurrent values of a key. `hlc` is 0 in a namespace without stamps."""

    hlc: int
    node: str
    boot: int
    counter: int
    value: bytes


def latest(versions: Sequence[Versioned]) -> Versioned:
    """Returns the version with the highest (hlc, node, boot, counter): the same on every node."""
    return max(versions)


@dataclass(frozen=True, slots=True)
class Namespace:
    """How the keys of one letter are kept. `durable`: on the disk too. `stamped`: with the hybrid logical clock of
    their write. `resolve` picks one of two or more concurrent values and must not depend on their order. `purged`: each
    node forgets some of them by itself (`ReplicatedMap.purge`).
    """

    durable: bool
    stamped: bool = True
    resolve: Callable[[Sequence[Versioned]], Versioned] = latest
    purged: bool = False


NAMESPACES = {
    b"f": Namespace(durable=False, stamped=False, purged=True),
    b"h": Namespace(durable=True, stamped=False),
    b"l": Namespace(durable=True, stamped=False, purged=True),
    b"t": Namespace(durable=True),
    b"c": Namespace(durable=True),
}
"""Routes to nodes, each written only by its own node; routes to slots, written by the primary of the slot; routes of a
former version; retained messages; configuration overrides."""
