"""Runs many simulations, on one process or on several."""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 8
"""Items for each process that are handed out before their results are taken."""


def run_all(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield the result of `work` for each item, in order, with `jobs` processes.

    Raises `BrokenProcessPool` if one of them dies, for example because the machine has no memory left.
    """
    if jobs <= 1:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin_work)
    try:
        rest = iter(items)
        under_way = deque([pool.submit(work, item) for item in islice(rest, AHEAD * jobs)])
        while under_way:
            result = under_way.popleft().result()
            under_way.extend([pool.submit(work, item) for item in islice(rest, 1)])
            yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin_work() -> None:
    """In a worker process: ignore Ctrl-C, because the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spare_collector()


def spare_collector() -> None:
    """Let the garbage collector run rarely, and skip the loaded modules: this halves the time of a simulation."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
