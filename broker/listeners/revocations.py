"""Watches the file of a revocation list, and reads it again after a change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from .tls import TlsError

Stamp = tuple[int, int, int]
"""Modification time in nanoseconds, size in bytes, and inode of a file. If the file changes, at least one of them
does."""


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def watch(
    path: str,
    seen: Stamp | None,
    interval_s: float,
    reload: Callable[[], Awaitable[None]],
    log: Callable[[str, str], None],
) -> None:
    """Call `reload` whenever the file differs from `seen`, the one in force.

    The earlier list stays in force until `reload` raises no `TlsError`. Each problem is logged once.
    """
    problem = ""
    while True:
        await asyncio.sleep(interval_s)
        found = await asyncio.to_thread(stamp_of, path)
        if found == seen:
            continue
        try:
            await reload()
        except TlsError as error:
            if str(error) != problem:
                problem = str(error)
                log("error", f"{problem}; the revocation list from before stays in force")
        else:
            seen, problem = found, ""
