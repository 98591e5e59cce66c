"""The shell around `Reloader`: checks the file in intervals and reads it after a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .reloader import Reloader, Stamp


class WatchedFile:
    """A file whose content a `Reloader` keeps."""

    def __init__(self, path: Path | str, reloader: Reloader[Any]) -> None:
        self.path = Path(path)
        self._reloader = reloader

    @property
    def problem(self) -> str:
        """What is wrong with the file, with its name and line; empty if nothing is."""
        return self._reloader.problem

    def check(self) -> bool:
        """Read the file if it has changed; blocks for the disk. True if there is new content."""
        try:
            found = self.path.stat()
            stamp = Stamp(found.st_mtime_ns, found.st_size, found.st_ino)
            if not self._reloader.wants(stamp):
                return False
            text = self.path.read_bytes().decode()
        except OSError as error:
            self._reloader.fail(f"{self.path}: {error.strerror or error}")
            return False
        except UnicodeDecodeError as error:
            self._reloader.fail(f"{self.path}: not UTF-8 at byte {error.start}")
            return False
        return self._reloader.take(str(self.path), stamp, text)

    async def watch(
        self, interval_s: float, on_change: Callable[[], object], on_problem: Callable[[str], object]
    ) -> None:
        """Check every `interval_s` seconds until cancelled, not at all if it is 0.

        `on_change` is called after new content was taken, `on_problem` once for each new problem.
        """
        while interval_s > 0:
            await asyncio.sleep(interval_s)
            await self.look(on_change, on_problem)

    async def look(self, on_change: Callable[[], object], on_problem: Callable[[str], object]) -> None:
        """Check once, in a thread; the functions as in `watch`."""
        before = self.problem
        if await asyncio.to_thread(self.check):
            on_change()
        elif self.problem not in ("", before):
            on_problem(self.problem)
