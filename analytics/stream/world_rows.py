"""The rows of the world that the stream has read so far, in memory and on the disk.

Each batch adds a file with its rows, named by the number of the batch. Sometimes a batch writes all that still matter
instead. So the rows before any batch that Spark may repeat can be read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from ...judge.alerts import Minute
from ...judge.forgetting import needed
from ...judge.lives import BootRows
from ...judge.rows import LOGICAL_BITS, Row, in_order
from ..manifest import place
from ..trouble import Trouble
from .items import Counted, both

MOST_ROWS: Final = 1_000_000
"""Most rows of all runs."""
LEAST_NEW: Final = 1000
"""So many rows are new at least when all are written again."""

_NAME: Final = re.compile(r"(all|new)-([0-9]{12})\.json")
BootKey = tuple[str, int]


@dataclass
class RunRows:
    """The rows of one run in their order, and what was read of each boot."""

    rows: list[Row] = field(default_factory=list)
    boots: dict[BootKey, BootRows] = field(default_factory=dict)

    def add(self, rows: Iterable[Row], boots: Iterable[tuple[BootKey, BootRows]]) -> None:
        """Add what a batch has read."""
        self.rows = in_order((*self.rows, *rows))
        for key, found in boots:
            self.boots[key] = both(self.boots.get(key), found)


class _File(msgspec.Struct):
    """What a file has: rows and boots by run, and what was counted in minutes that are not over."""

    rows: dict[str, list[dict[str, Any]]]
    boots: dict[str, list[tuple[BootKey, BootRows]]]
    minutes: list[tuple[Minute, Counted]]


class WorldRows:
    """The rows by run, before a batch and with it. Only one process uses the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs: dict[str, RunRows] = {}
        self._minutes: dict[Minute, Counted] = {}
        self._next = -1
        self._written = self._new = 0

    def add(self, number: int, new: Mapping[str, RunRows]) -> tuple[dict[str, RunRows], dict[Minute, Counted]]:
        """Add the rows of a batch. Returns all, and the minutes that are not over, which the caller changes. Raises
        `Trouble` if the rows are too many."""
        if number != self._next:
            self._load(number)
        for run_id, each in new.items():
            self._runs.setdefault(run_id, RunRows()).add(each.rows, each.boots.items())
        if self._count() > MOST_ROWS:
            raise Trouble(f"the log has more than {MOST_ROWS} rows about present connections, sessions, subscriptions")
        return self._runs, self._minutes

    def save(self, number: int, new: Mapping[str, RunRows], since_ms: int) -> None:
        """Write the rows of a batch. What is judged later is younger than `since_ms`. Raises OSError."""
        self._new += sum(len(each.rows) for each in new.values())
        if self._new > max(LEAST_NEW, self._written):
            for each in self._runs.values():
                each.rows = needed(each.rows, since_ms << LOGICAL_BITS)
            self._write("all", number, self._runs)
            self._written, self._new = self._count(), 0
            self._sweep()
        else:
            self._write("new", number, new)
        self._next = number + 1

    def _load(self, before: int) -> None:
        """Read the rows before a batch, and delete what an unfinished one has left."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._runs, self._minutes, self._new = {}, {}, 0
        files = [each for each in self._files() if each[0] < before]
        for number, _, path in self._files():
            if number >= before:
                path.unlink()
        begin = max((number for number, kind, _ in files if kind == "all"), default=-1)
        for number, _, path in files:
            if number >= begin:
                found = msgspec.json.decode(path.read_bytes(), type=_File)
                self._minutes = dict(found.minutes)
                for run_id, rows in found.rows.items():
                    self._runs.setdefault(run_id, RunRows()).add(rows, found.boots[run_id])
        self._written = self._count()

    def _sweep(self) -> None:
        """Keep what the last two files with all rows need: Spark may repeat the last batch."""
        alls = [number for number, kind, _ in self._files() if kind == "all"]
        for number, _, path in self._files():
            if number < alls[-2:][0]:
                path.unlink()

    def _files(self) -> list[tuple[int, str, Path]]:
        found = [(_NAME.fullmatch(path.name), path) for path in self._directory.iterdir()]
        return sorted((int(name[2]), name[1], path) for name, path in found if name)

    def _write(self, kind: str, number: int, runs: Mapping[str, RunRows]) -> None:
        rows = {run_id: [dict(row) for row in each.rows] for run_id, each in runs.items()}
        boots = {run_id: [*each.boots.items()] for run_id, each in runs.items()}
        fresh = self._directory / "unfinished"
        fresh.write_bytes(msgspec.json.encode(_File(rows, boots, [*self._minutes.items()])))
        place(self._directory, fresh, f"{kind}-{number:012d}.json")

    def _count(self) -> int:
        return sum(len(each.rows) for each in self._runs.values())
