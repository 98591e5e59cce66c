"""The data directory of a node: its owner, the number of starts, and a lock against a second process.

    lock             held for the life of the process, with its pid
    strogoff.json    format, cluster id, disk uuid, node name, last boot, whether a loss of power may have cost writes
    messages/        sessions, queues, retained messages
    meta/            Raft and metadata

The node raises the boot number durably before it does anything else. Node name and boot number make its numbers
unique among all of its processes. If the cluster has seen this boot number or a higher one, or does not know the disk
uuid, the disk was lost or restored from an old backup (H-01).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import leveldb_folder
from .engine import Corrupted, Durability, WrongDirectory
from .files import PathLock, make_directory, sync_files, write_durably
from .unsynced import SYNCED, left_unsynced, may_lack_writes

MARKER = "strogoff.json"
FORMAT = 2
"""The format of new directories. Format 1 differs in keys of the message database (`broker/slot_conversion.py`)."""
READABLE = (1, FORMAT)
"""The node converts a directory of an older format at its start, and then calls `set_format`."""
DATABASES = ("messages", "meta")


@dataclass(slots=True)
class _Marker:
    format: int
    cluster_id: str
    disk_uuid: str
    node_name: str
    boot: int
    boot_above: int = 0
    unsynced: str = SYNCED
    incomplete: int = 0


class DataDirectory:
    """The data directory of `node_name`. The constructor opens or creates it. The lock is held until `close`.

    `new_uuid` returns unique ids, for cluster and disk of a new directory. Raises `DirectoryInUse`; `WrongDirectory`
    (another node's directory, unknown format, databases without marker); `Corrupted` (unreadable marker, missing
    database); OSError (missing permission, read-only disk).
    """

    def __init__(self, path: Path, node_name: str, new_uuid: Callable[[], str]) -> None:
        self.path = Path(path).absolute()
        make_directory(self.path)
        self._lock = PathLock(self.path / "lock")
        try:
            self._file = self.path / MARKER
            marker = read_marker(self._file) if self._file.exists() else self._begin(node_name, new_uuid)
            if marker.node_name != node_name:
                raise WrongDirectory(
                    f"{self.path} holds the data of node {marker.node_name!r}, but this node is {node_name!r}: "
                    f"correct nodename, or give this node its own directory"
                )
            self._check_databases()
            self._boot = marker.boot + 1
            self._write(replace(marker, boot=self._boot))
        except BaseException:
            self._lock.close()
            raise

    @property
    def format(self) -> int:
        """The format of the content, one of `READABLE`."""
        return self._marker.format

    @property
    def boot(self) -> int:
        """The number of this start, from 1. It is durable already."""
        return self._boot

    @property
    def boot_above(self) -> int:
        """The highest boot number that an earlier disk of this node may have used; 0 if no earlier disk is known."""
        return self._marker.boot_above

    @property
    def incomplete(self) -> int:
        """The number of the last start that found that the message database may lack its last writes; 0 if none did."""
        return self._marker.incomplete

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that the data belongs to. A new directory has the id of a new cluster."""
        return self._marker.cluster_id

    @property
    def disk_uuid(self) -> str:
        """The id of this disk. A replaced disk has another one."""
        return self._marker.disk_uuid

    @property
    def node_name(self) -> str:
        """The name of the node that owns the data."""
        return self._marker.node_name

    @property
    def messages(self) -> Path:
        """Folder of the message database."""
        return self.path / "messages"

    @property
    def meta(self) -> Path:
        """Folder of the metadata database."""
        return self.path / "meta"

    def adopt_cluster(self, cluster_id: str) -> None:
        """Set the cluster id, after the node has joined a cluster. Durable on return."""
        self._write(replace(self._marker, cluster_id=cluster_id))

    def set_format(self) -> None:
        """The content has `FORMAT` now: older versions refuse the directory from here on. Durable on return."""
        self._write(replace(self._marker, format=FORMAT))

    def note_writes(self, durability: Durability | None, machine: str) -> None:
        """This process begins to write messages. Durable on return. Arguments as in `unsynced.left_unsynced`."""
        marker = self._marker
        incomplete = self._boot if may_lack_writes(marker.unsynced, machine) else marker.incomplete
        unsynced = left_unsynced(durability, machine, marker.unsynced)
        self._write(replace(marker, incomplete=incomplete, unsynced=unsynced))

    def sync_messages(self) -> None:
        """This process has closed the message database: sync its files. May take a while, so call it in a thread.
        Raises OSError."""
        sync_files(self.messages)

    def note_synced(self) -> None:
        """Note that `sync_messages` has ended, and nothing is left. Call it before `close`: later the directory may be
        that of the next process. Raises OSError."""
        self._write(replace(self._marker, unsynced=SYNCED))

    def raise_boot(self, boot: int) -> None:
        """Make the next start use a number above `boot`, which an earlier disk of this node used. Durable on return."""
        marker = self._marker
        self._write(replace(marker, boot=max(boot, marker.boot), boot_above=max(boot, marker.boot_above)))

    def close(self) -> None:
        """Release the lock. Another call has no effect."""
        self._lock.close()

    def _begin(self, node_name: str, new_uuid: Callable[[], str]) -> _Marker:
        """Create a new directory. Raises `WrongDirectory` if it has databases but no marker."""
        for name in DATABASES:
            folder = self.path / name
            # After a crash in this function the folders are prepared, but have no database.
            if folder.exists() and not leveldb_folder.is_fresh(folder):
                raise WrongDirectory(
                    f"{folder} has database files, but {self._file} is missing: put the file back from a backup, "
                    f"or move the whole directory away to start with an empty one; nothing was changed"
                )
        for name in DATABASES:
            if not leveldb_folder.was_prepared(self.path / name):
                leveldb_folder.prepare(self.path / name)
        marker = _Marker(FORMAT, cluster_id=new_uuid(), disk_uuid=new_uuid(), node_name=node_name, boot=0)
        self._write(marker)
        return marker

    def _check_databases(self) -> None:
        for name in DATABASES:
            folder = self.path / name
            if not leveldb_folder.was_prepared(folder):
                raise Corrupted(
                    str(folder),
                    "the database is missing, with all of its data",
                    "Put the folder back from a backup; a node of a cluster may instead start with an empty data "
                    "directory and rejoin",
                )

    def _write(self, marker: _Marker) -> None:
        write_durably(self._file, _encoded(marker))
        self._marker = marker


def note_repair_with_loss(path: Path) -> None:
    """A repair may drop keys from a database of the data directory: the next start counts as one that finds that
    writes are missing. The caller has the lock. Raises as `read_marker`."""
    file = path / MARKER
    if file.exists():
        marker = read_marker(file)
        write_durably(file, _encoded(replace(marker, incomplete=marker.boot + 1)))


def _encoded(marker: _Marker) -> bytes:
    return json.dumps(asdict(marker), indent=2).encode() + b"\n"


def read_marker(file: Path) -> _Marker:
    """Read the marker. Raises `WrongDirectory` for an unknown format, `Corrupted` for an unreadable file."""
    try:
        said = json.loads(file.read_bytes())
        if said["format"] not in READABLE:
            raise WrongDirectory(
                f"{file} has format {said['format']!r}, but this version reads only formats 1 to {FORMAT}: "
                f"use the version of Strogoff that wrote it"
            )
        marker = _Marker(**said)
        if not all(isinstance(value, str) for value in (marker.cluster_id, marker.disk_uuid, marker.node_name)):
            raise TypeError(said)
        if type(marker.boot) is not int or marker.boot < 0:
            raise TypeError(said)
        if type(marker.incomplete) is not int or not isinstance(marker.unsynced, str):
            raise TypeError(said)
    except (ValueError, KeyError, TypeError):
        raise Corrupted(
            str(file),
            "unreadable, so node name, boot number and cluster are unknown; the databases beside it are untouched",
            "Put it back from a backup; a node of a cluster may instead start with an empty directory and rejoin",
        ) from None
    return marker
