"""At rest each slot has as many copies as it can have, and all of them have the same rows (H-46)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Rows = Mapping[bytes, bytes]


def judge(slot: int, wanted: int, copies: Mapping[str, Rows]) -> Iterator[str]:
    """Compare the copies of one slot. `copies`: each holder of the in-sync set -> the rows of the slot on its disk."""
    if len(copies) < wanted:
        yield f"slot {slot} has {len(copies)} copies, {wanted} are wanted"
    nodes = sorted(copies)
    for other in nodes[1:]:
        first = copies[nodes[0]]
        for key in sorted(first.keys() | copies[other].keys()):
            if first.get(key) != copies[other].get(key):
                yield (
                    f"copies of slot {slot} differ in {key!r}: {first.get(key)!r:.80} at {nodes[0]}, "
                    f"{copies[other].get(key)!r:.80} at {other}"
                )
                break
