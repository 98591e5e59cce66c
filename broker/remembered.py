"""Caches by a text that peers choose: they keep no long texts.

Peers choose topics, client ids and user names of up to 64 KiB, and as many as they like. A bound on the number of texts
alone would let a cache of 100,000 grow to gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_Found = TypeVar("_Found")

TEXT_KEPT = 256
"""The longest text, in characters, that a cache keeps."""


def remembered(most: int, function: Callable[[str], _Found]) -> Callable[[str], _Found]:
    """Return a function that returns the same, and remembers what it returned for the last `most` texts, but for long
    ones."""
    cached = lru_cache(most)(function)
    return lambda text: cached(text) if len(text) <= TEXT_KEPT else function(text)
