"""Empties the data directory of a stopped node that its cluster refuses. It moves the old data aside.

    DIR/strogoff.json, DIR/messages, DIR/meta  ->  DIR/set-aside-1/...

The directory keeps the name of the node. The next boot number is above all numbers that the old data may have used, so
the cluster accepts the node at once, without sessions. After an interrupted reset the next one completes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from . import leveldb_folder
from .directory import DATABASES, FORMAT, MARKER, read_marker
from .engine import WrongDirectory
from .files import PathLock, make_directory, sync_directory, write_durably

SKIPPED = 1000
"""Distance to the new boot number: the most boot numbers that the old disk may have used without the cluster."""


def reset(path: Path, new_uuid: Callable[[], str]) -> Path:
    """Move the data aside. Returns the folder of the old data. Durable on return.

    Raises `DirectoryInUse` if a node uses the directory, `WrongDirectory` if it has no data of a node, `Corrupted` if
    the marker is unreadable, or OSError.
    """
    file = path / MARKER
    if not file.exists():
        raise WrongDirectory(f"{path} is no node's data directory: it has no {MARKER}")
    lock = PathLock(path / "lock")
    try:
        marker = read_marker(file)
        aside = _free(path)
        make_directory(aside)
        write_durably(aside / MARKER, json.dumps(asdict(marker), indent=2).encode() + b"\n")
        for name in DATABASES:
            if (path / name).exists():
                (path / name).rename(aside / name)
        sync_directory(aside)
        sync_directory(path)
        boot = max(marker.boot, marker.boot_above) + SKIPPED
        fresh = replace(marker, format=FORMAT, cluster_id=new_uuid(), disk_uuid=new_uuid(), boot=boot, boot_above=boot)
        write_durably(file, json.dumps(asdict(fresh), indent=2).encode() + b"\n")
        for name in DATABASES:
            leveldb_folder.prepare(path / name)  # last: no node starts with empty databases and the old disk's id
    finally:
        lock.close()
    return aside


def _free(path: Path) -> Path:
    number = 1
    while (path / f"set-aside-{number}").exists():
        number += 1
    return path / f"set-aside-{number}"
