"""Repair of a damaged database: it keeps readable data and reports the loss. Only an operator starts it.

After a repair that is not `lossless`, the operator must empty a node that has replicas, and refill it from them: the
node has acknowledged data that is lost (H-01). LevelDB moves damaged files into `lost/`. A repair may restore keys that
were deleted in the seconds before the damage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engine import Corrupted, StorageError
from .files import sync_directory, write_durably
from .leveldb import LevelDBOptions
from .leveldb_binding import plyvel
from .leveldb_damage import REMEDY, check_logs, explain
from .leveldb_folder import MARKER, Folder, is_fresh, was_prepared
from .leveldb_log import frame, sift


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair."""

    found: str
    """The damage; empty if there was none, and then the repair changed nothing."""
    kept: int
    """Keys that are readable now, all of them verified."""
    dropped_writes: int
    """Damaged writes in the logs, a lower bound. A write is one batch of changes."""
    dropped_bytes: int
    """Lost bytes of logs and tables, approximately."""
    files: tuple[str, ...]
    """The damaged files. They are in `lost/` now."""
    lossless: bool
    """True if only lists of files were damaged, so that no data is lost."""


def _nothing() -> None:
    """Default of a callback."""


def repair(path: Path, options: LevelDBOptions | None = None, begins: Callable[[], None] = _nothing) -> RepairReport:
    """Repair the database in `path`, which must be closed. Raises the errors of opening, `Corrupted` if it fails.

    Calls `begins` before it changes anything: after an interrupted repair the next one may find no damage any more.
    `options` should be those of the node. A repair takes seconds per GB: it reads and verifies all data twice.
    """
    path = Path(path).absolute()
    if path.is_dir() and not was_prepared(path) and is_fresh(path):
        raise Corrupted(
            str(path / MARKER),
            "the marker of the database is missing, so other files may be missing too",
            "Put the directory back from a backup, or start with an empty data directory",
        )
    folder = Folder(path)
    try:
        if folder.is_new:
            return RepairReport("", 0, 0, 0, (), lossless=True)
        arguments = (options or LevelDBOptions()).arguments()
        try:
            return RepairReport("", _verify(folder.path, arguments), 0, 0, (), lossless=True)
        except Corrupted as damage:
            begins()
            return _repair(folder.path, arguments, damage)
    finally:
        folder.close()


def _repair(path: Path, arguments: dict[str, Any], damage: Corrupted) -> RepairReport:
    lost = path / "lost"
    before = {place.name for place in lost.iterdir()} if lost.exists() else set()
    writes, size, files = _sift_logs(path)
    try:
        plyvel.repair_db(str(path), **arguments)
    except (plyvel.Error, OSError) as error:
        raise explain(path, error) from error
    for place in sorted(lost.iterdir()) if lost.exists() else ():
        if place.name not in before and place.suffix in (".ldb", ".sst"):
            rest = path / place.name
            size += max(0, place.stat().st_size - (rest.stat().st_size if rest.exists() else 0))
            files.append(place.name)
    try:
        kept = _count(path, arguments)
    except StorageError as error:
        raise Corrupted(
            str(path), f"repair was not enough ({error})", "Put the directory back from a backup"
        ) from error
    lossless = not files and not damage.data_missing
    return RepairReport(f"{damage.file}: {damage.loss}", kept, writes, size, tuple(files), lossless)


def _sift_logs(path: Path) -> tuple[int, int, list[str]]:
    """Remove damaged writes from the logs, because LevelDB keeps them. The old logs go to `lost/`."""
    writes = size = 0
    files = []
    for log in sorted(path.glob("*.log")):
        content = log.read_bytes()
        sifted = sift(content)
        if sifted.dropped_records:
            (path / "lost").mkdir(exist_ok=True)
            write_durably(path / "lost" / f"{log.name}.damaged", content)
            write_durably(log, frame(sifted.records))
            sync_directory(path)
            writes += sifted.dropped_records
            size += sifted.dropped_bytes
            files.append(log.name)
    return writes, size, files


def _verify(path: Path, arguments: dict[str, Any]) -> int:
    """Read every key with checksums. Returns their number. Raises `Corrupted` or another `StorageError`."""
    check_logs(path)
    return _count(path, arguments)


def _count(path: Path, arguments: dict[str, Any]) -> int:
    opening = True
    database = None
    try:
        database = plyvel.DB(str(path), create_if_missing=False, **arguments)
        opening = False
        with database.iterator(include_value=False, verify_checksums=True, fill_cache=False) as keys:
            return sum(1 for _ in keys)
    except (plyvel.Error, OSError) as error:
        raise explain(path, error, opening=opening) from error
    finally:
        if database is not None:
            database.close()


__all__ = ["REMEDY", "RepairReport", "repair"]
