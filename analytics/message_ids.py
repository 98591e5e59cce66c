"""The identity of a message as one string: to join, to sort, and to pass as an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def mid_key(mid: Sequence[Any]) -> str:
    """The identity of a message as one string. It is unique, and sorts by node, boot and counter."""
    node, boot, counter = mid
    return f"{node}/{boot:06d}/{counter:012d}"


def mid_of(key: str) -> tuple[str, int, int]:
    """Node, boot and counter of a key, with or without its leading zeros. Raises ValueError for what is none."""
    node, boot, counter = key.rsplit("/", 2)
    return node, int(boot), int(counter)
