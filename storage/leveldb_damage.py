"""Translates errors of LevelDB to `StorageError`, with file, loss and remedy.

| LevelDB says (1.22) | what happened |
|---|---|
| Invalid argument: PATH: does not exist (create_if_missing is false) | CURRENT is missing; the data may be complete |
| Corruption: CURRENT ... | CURRENT is damaged, or the manifest that it names is missing |
| Corruption: N missing files; e.g.: FILE | tables were removed |
| Corruption: bad record length, checksum mismatch (LOG says which log and how many bytes) | recent writes damaged |
| Corruption: anything else at open, no file named | the manifest is damaged |
| Corruption: block checksum mismatch, at a read | a table is damaged; LevelDB lists the tables with the key |
| IO error: FILE.ldb: Invalid argument, No such file | a table is truncated or missing |
| IO error: ...: No space left on device | the disk is full |
| IO error: ...: Too many open files | no file descriptor is left; this is temporary |
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from .engine import Corrupted, DiskFull, OutOfDescriptors, StorageError

REMEDY = (
    "Put the directory back from a backup, or run `strogoff repair DATA-DIRECTORY`, which keeps readable data and "
    "reports the loss; a node that has replicas should then be emptied and refilled from them"
)
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))
_NO_DESCRIPTOR = tuple(os.strerror(number) for number in (errno.EMFILE, errno.ENFILE))
_BROKEN_TABLE = tuple(os.strerror(number) for number in (errno.EINVAL, errno.ENOENT))


def explain(path: Path, error: Exception, opening: bool = False, suspects: tuple[str, ...] = ()) -> StorageError:
    """Translate an error of LevelDB or the operating system at the database in `path`.

    `suspects` are the tables that may have the key of the read.
    """
    text = _text(error)
    if any(words in text for words in _FULL):
        return DiskFull(f"{path}: no space left ({text}); reads continue, the node repeats the writes")
    if any(words in text for words in _NO_DESCRIPTOR):
        return OutOfDescriptors(
            f"{path}: no file descriptor is left ({text}); the node tries again. Raise the limit (`ulimit -n`)"
        )
    named = re.search(re.escape(str(path)) + r"/([\w.-]+)", text)
    table = named is not None and named[1].endswith((".ldb", ".sst"))
    if "does not exist (create_if_missing is false)" in text:
        return Corrupted(
            f"{path}/CURRENT",
            "the file that names the list of tables is missing; the data itself may be complete",
            REMEDY,
        )
    if text.startswith("Corruption: CURRENT"):
        loss = f"the list of tables is missing ({text}); the data itself may be complete"
        return Corrupted(f"{path}/CURRENT", loss, REMEDY)
    missing = re.match(r"Corruption: (\d+) missing files", text)
    if missing:
        file = named[1] if named else "*.ldb"
        loss = f"{missing[1]} table(s) are missing, with all of their keys"
        return Corrupted(f"{path}/{file}", loss, REMEDY, data_missing=True)
    if text.startswith("Corruption:"):
        return _corruption(path, text, opening, suspects)
    if table and named and any(words in text for words in _BROKEN_TABLE):
        loss = f"the table is cut short or missing ({text}): its keys cannot be read"
        return Corrupted(f"{path}/{named[1]}", loss, REMEDY, data_missing=os.strerror(errno.ENOENT) in text)
    return StorageError(f"{path}: {text}")


def has_log(path: Path) -> bool:
    """Whether the log of the most recent writes exists. Every database has one."""
    return any(path.glob("*.log"))


def check_logs(path: Path) -> None:
    """Raise `Corrupted` if the log of the most recent writes is missing. LevelDB does not notice this."""
    if not has_log(path):
        loss = "the log is missing, with the most recent writes; if the database has no tables, all data is lost"
        raise Corrupted(f"{path}/*.log", loss, REMEDY, data_missing=True)


def tables_of(listing: str, key: bytes) -> tuple[str, ...]:
    """The tables whose range of keys covers `key`, from LevelDB's property `leveldb.sstables`."""
    found = []
    for number, low, high in re.findall(r"^ (\d+):\d+\['(.*)' @ \d+ : \d \.\. '(.*)' @ \d+ : \d\]$", listing, re.M):
        if _unescape(low) <= key <= _unescape(high):
            found.append(f"{int(number):06}.ldb")
    return tuple(found)


def _corruption(path: Path, text: str, opening: bool, suspects: tuple[str, ...]) -> Corrupted:
    if opening:
        dropped = _dropped(path)
        if dropped:
            file, count, why = dropped
            loss = f"{count} bytes of the most recent writes are damaged ({why})"
            return Corrupted(f"{path}/{file}", loss, REMEDY)
        loss = f"the list of tables is damaged ({text}); the data itself may be complete"
        return Corrupted(f"{path}/{_manifest(path)}", loss, REMEDY)
    file = " or ".join(suspects) or "*.ldb"
    return Corrupted(f"{path}/{file}", f"a block of the table is damaged ({text}): its keys cannot be read", REMEDY)


def _dropped(path: Path) -> tuple[str, int, str] | None:
    """Find the damaged write-ahead log in LevelDB's file LOG. Returns file, bytes and reason; None without damage."""
    try:
        said = (path / "LOG").read_text(errors="replace")
    except OSError:
        return None
    lines = re.findall(re.escape(str(path)) + r"/([\w.-]+): dropping (\d+) bytes; (.*)", said)
    if not lines:
        return None
    file, _, why = lines[0]
    return file, sum(int(count) for _, count, _ in lines), why


def _manifest(path: Path) -> str:
    try:
        return (path / "CURRENT").read_text(errors="replace").strip() or "CURRENT"
    except OSError:
        return "CURRENT"


def _unescape(key: str) -> bytes:
    r"""Decode a key of the listing, in which LevelDB writes bytes outside of printable ASCII as \xNN."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes((int(found[1], 16),)), key.encode())


def _text(error: Exception) -> str:
    said = error.args[0] if len(error.args) == 1 else str(error)
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
