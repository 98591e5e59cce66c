"""Begin a stopped node's data directory anew, for a node that its cluster takes no more: the old data is set aside.

    DIR/strogoff.json, DIR/messages, DIR/meta  ->  DIR/set-aside-1/...

The directory keeps the node's name and counts its starts on from above all that the old data may have had: the cluster
takes the node back at once, with no sessions. An interrupted run is finished by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from . import leveldb_folder
from .directory import DATABASES, MARKER, read_marker
from .engine import WrongDirectory
from .files import PathLock, make_directory, sync_directory, write_durably

SKIPPED = 1000
"""So many starts in a row of one disk the cluster may never have heard of."""


def reset(path: Path, new_uuid: Callable[[], str]) -> Path:
    """Set the data aside and begin anew; the folder where the old data is. Durable on return.

    Raises `DirectoryInUse` while a node uses it, `WrongDirectory` where no node's data is, `Corrupted` where the marker
    cannot be read, or OSError.
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
        for name in DATABASES:
            leveldb_folder.prepare(path / name)
        boot = max(marker.boot, marker.boot_above) + SKIPPED
        fresh = replace(marker, cluster_id=new_uuid(), disk_uuid=new_uuid(), boot=boot, boot_above=boot)
        write_durably(file, json.dumps(asdict(fresh), indent=2).encode() + b"\n")
    finally:
        lock.close()
    return aside


def _free(path: Path) -> Path:
    number = 1
    while (path / f"set-aside-{number}").exists():
        number += 1
    return path / f"set-aside-{number}"
