"""`strogoff repair DIR`: repair the databases of a data directory of a stopped node, and report the loss."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .directory import DATABASES, MARKER, note_repair_with_loss
from .engine import StorageError
from .files import PathLock, write_durably
from .repair import repair


def register(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `strogoff repair`."""
    parser.description = "Repair a stopped node's databases."
    parser.add_argument(
        "directory", type=lambda text: Path(text).absolute(), help="the node's data directory (platform_data_dir)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Returns 0 if no write was lost, 3 if some were, 1 if the databases cannot be repaired."""
    directory: Path = arguments.directory
    folders = [directory / name for name in DATABASES if (directory / name).is_dir()]
    if not folders:
        print(f"strogoff repair: {directory} holds no database of a node", file=sys.stderr)
        return 1
    gone = [name for name in DATABASES if not (directory / name).is_dir()] if (directory / MARKER).exists() else []
    for name in gone:
        print(
            f"strogoff repair: {directory / name} is missing with all of its data: put it back from a backup",
            file=sys.stderr,
        )
    if gone:
        return 1
    try:
        lock = PathLock(directory / "lock")
        marker = directory / MARKER
        before = marker.read_bytes() if marker.exists() else b""
        try:
            lossless = [_repair(folder) for folder in folders]
            if all(lossless) and before:
                write_durably(marker, before)
        finally:
            lock.close()
    except (StorageError, OSError) as error:
        print(f"strogoff repair: {error}", file=sys.stderr)
        return 1
    return 0 if all(lossless) else 3


def _repair(folder: Path) -> bool:
    """Repair one database and print the result. Returns whether no data is lost. Until that is known, the data
    directory counts as one with a loss."""
    report = repair(folder, begins=lambda: note_repair_with_loss(folder.parent))
    if not report.found:
        print(f"{folder}: no damage, {report.kept} keys")
        return True
    print(report.found)
    if report.lossless:
        print(f"{folder}: repaired without loss, {report.kept} keys")
        return True
    print(
        f"{folder}: repaired with loss: {report.kept} keys are left; at least {report.dropped_writes} writes are lost, "
        f"about {report.dropped_bytes} bytes"
    )
    if report.files:
        print(f"{folder}: the damaged files are in lost/: {', '.join(report.files)}")
    if folder.name == "meta":
        print(
            f"{folder}: this database holds the Raft log. The node may have acknowledged the lost part to other nodes. "
            "If there are other voters, move the data directory away, and let the node join again with an empty one"
        )
    return False
