"""What the rows of a log are for the stream: items, each with a key, a time and when it is due.

Items of one key are held together until they are due (`held.py`). A row may be several items, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from ...judge import building, message
from ...judge.alerts import MINUTE_MS, Limits, Minute, due_ms, hits_of
from ...judge.lives import BootRows
from ...judge.rows import Row, RowId, ms_of
from ..message_ids import mid_key

MESSAGE: Final = "message"
"""A row of a message, by its id. Due `late_ms` after the acknowledgement."""
MINUTE: Final = "minute"
"""A row that counts for a minute, by what is counted. Due when the minute is over."""
WORLD: Final = "world"
"""A row of the world of the judges. Due when no older row can come."""
BOOT: Final = "boot"
"""How far the log of a boot was read. Due at once."""

Counted = tuple[int, int, RowId]
"""How often something happened in a minute; stamp and row of the first time."""

SQL: Final = "run_id string, part string, ms bigint, due_ms bigint, kind string, key string, row string"
AT_ONCE: Final = 1
NOT_DUE: Final = 0


class Item(NamedTuple):
    """One item. `part`: items of different parts are held apart. `ms`: when it happened, in ms since 1970; `due_ms`
    likewise, `NOT_DUE` if another item of the key says it. `row`: JSON."""

    run_id: str
    part: str
    ms: int
    due_ms: int
    kind: str
    key: str
    row: str


def items_of(row: dict[str, Any], limits: Limits, parts: int) -> Iterator[Item]:
    """The items of a row. Messages and minutes are spread over so many parts."""
    kind, run_id, ms = row["type"], row["run_id"], ms_of(row["hlc"])
    if row.get("mid") is not None and kind in message.TYPES:
        key = mid_key(row["mid"])
        due = due_ms(row, limits) or NOT_DUE
        yield Item(run_id, _part(key, parts), ms, due, MESSAGE, key, _text(row))
    if kind in building.TYPES:
        yield Item(run_id, WORLD, ms, ms, WORLD, f"{row['node']}/{row['boot']}/{row['seq']}", _text(row))
    for hit in hits_of(row):
        key = _text(hit.minute)
        yield Item(run_id, _part(key, parts), ms, hit.minute.begin_ms + MINUTE_MS, MINUTE, key, _text(hit[1:]))


class ReadBoots:
    """How far the boots are read in one piece of a file."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], tuple[Row, Row]] = {}

    def note(self, row: Row) -> None:
        """Read a row; those of one boot come in their order."""
        key = row["run_id"], row["node"], row["boot"]
        first, _ = self._found.get(key, (row, row))
        self._found[key] = first, row

    def items(self) -> Iterator[Item]:
        """An item for each boot."""
        for (run_id, node, boot), (first, last) in self._found.items():
            stopped = last["type"] == "node.stop"
            rows = BootRows(first["seq"], first["hlc"], last["seq"], last["hlc"], stopped)
            key = f"{node}/{boot}/{last['seq']}"
            yield Item(run_id, WORLD, ms_of(last["hlc"]), AT_ONCE, BOOT, key, _text((node, boot, rows)))


def row_of(text: str) -> dict[str, Any]:
    """The row of an item of a message or a world."""
    row: dict[str, Any] = msgspec.json.decode(text)
    return row


def boot_of(text: str) -> tuple[tuple[str, int], BootRows]:
    """Node, boot and what was read of it."""
    node, boot, rows = msgspec.json.decode(text, type=tuple[str, int, BootRows])
    return (node, boot), rows


def both(before: BootRows | None, later: BootRows) -> BootRows:
    """What two readings of a boot say together."""
    if before is None:
        return later
    first, last = min(before, later), max(before, later, key=lambda each: each.last_seq)
    return BootRows(first.first_seq, first.first_hlc, last.last_seq, last.last_hlc, last.stopped)


def minute_of(text: str) -> Minute:
    """The key of a minute."""
    return msgspec.json.decode(text, type=Minute)


def hit_of(text: str) -> tuple[int, RowId]:
    """Stamp and row of a hit."""
    at, row = msgspec.json.decode(text, type=tuple[int, RowId])
    return at, row


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _part(key: str, parts: int) -> str:
    return str(crc32(key.encode("utf-8", "surrogatepass")) % parts)


def counted(before: Counted | None, more: Counted) -> Counted:
    """What two counts of a minute say together."""
    if before is None:
        return more
    return before[0] + more[0], *min(before[1:], more[1:])
