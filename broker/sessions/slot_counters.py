"""Numbers of a slot: incarnations of its durable sessions, and keys of its wills that wait for a lease.

A number is `1 << 63 | epoch << 32 | counter`. A later primary of the slot has a higher epoch, so its numbers are higher
even if the counter of the former primary did not reach its disk. Former versions numbered sessions below `1 << 63`.

The counter continues after a restart: each row `k slot` reserves a block of numbers, in the batch that has the first of
them. A crash skips the rest of a block.
"""

from __future__ import annotations

from collections.abc import Callable

from ...cluster.identity import SLOTS
from ...storage.keys import reserved_key
from ...storage.store import Store

BLOCK = 1024
"""How many numbers one write reserves."""

FIRST = 1 << 63
"""All numbers are above this one, and below it are those of former versions."""


class SlotCounters:
    """The counters of all slots of a node. `epoch` is `ClusterPort.slot_epoch`."""

    def __init__(self, store: Store, epoch: Callable[[int], int]) -> None:
        self._store = store
        self._epoch = epoch
        self._used = [0] * SLOTS
        self._reserved = [0] * SLOTS

    def load(self) -> None:
        """Read which numbers earlier processes of this node reserved."""
        for key, value in self._store.scan(b"k", b"l"):
            self._used[key[1]] = self._reserved[key[1]] = int.from_bytes(value, "big")

    def load_slot(self, slot: int) -> None:
        """The slot has come from another node: continue behind its numbers. This node may have given higher ones."""
        value = self._store.get(reserved_key(slot))
        moved = 0 if value is None else int.from_bytes(value, "big")
        if moved >= self._reserved[slot]:
            self._used[slot] = self._reserved[slot] = moved
        else:
            self._store.put(reserved_key(slot), self._reserved[slot].to_bytes(8, "big"))

    def next(self, slot: int) -> int:
        """Return a 64-bit number that is higher than all earlier ones of the slot. The open batch may get a row."""
        used = self._used[slot] + 1
        if used > self._reserved[slot]:
            assert used + BLOCK < 1 << 32, used
            self._reserved[slot] = used + BLOCK - 1
            self._store.put(reserved_key(slot), self._reserved[slot].to_bytes(8, "big"))
        self._used[slot] = used
        epoch = self._epoch(slot)
        assert 0 <= epoch < 1 << 31, epoch
        return FIRST | epoch << 32 | used


def epoch_of(number: int) -> int:
    """The epoch of the slot in which a number of `SlotCounters` was given; 0 for one of former versions."""
    return (number & FIRST - 1) >> 32 if number & FIRST else 0
