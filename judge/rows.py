"""Rows of an event log as dicts, and how findings refer to them.

The stamp of a row is its `hlc`. Of two rows with one stamp none is a cause of the other. A row is written once for each
(node, boot, seq); this triple is how a finding names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..cluster.identity import slot_of

Row = Mapping[str, Any]
MessageId = tuple[str, int, int]
"""The `mid` of rows: the node and boot that accepted the message, and a counter."""
RowId = tuple[str, int, int]
"""Node, boot and seq of a row."""
Owner = tuple[str, str, str]
"""The name of a session: the node where it began, mountpoint and client id. If an older session of the client began at
the same node and lives on elsewhere, a number follows the name of the node: `node_of` removes it."""
NEVER: Final = 1 << 62
"""A stamp after all others."""
BEFORE: Final = -1
"""A stamp before all others."""
LOGICAL_BITS: Final = 16
"""Bits of the logical part of a stamp; above them are milliseconds since 1970."""


def message_id_of(row: Row) -> MessageId:
    """Returns the message id of a row as a tuple: rows from files have a list."""
    node, boot, counter = row["mid"]
    return str(node), int(boot), int(counter)


def row_id(row: Row) -> RowId:
    """Returns how a finding names the row."""
    return row["node"], row["boot"], row["seq"]


def settings_of(row: Row) -> Iterator[tuple[str, str]]:
    """Yields key and value of each setting that a row of node.start or node.join names."""
    for each in row.get("settings") or ():
        key, _, value = each.partition("=")
        yield key, value


def numbered(owner: Owner, number: int) -> Owner:
    """Returns another name for sessions that begin at the node of an owner."""
    return f"{owner[0]} ({number})", owner[1], owner[2]


def node_of(owner: Owner) -> str:
    """Returns the node where the sessions of an owner began. Names of nodes have no spaces."""
    return owner[0].partition(" ")[0]


def slot_in(row: Row) -> int:
    """Returns the slot of the row's client: a log whose names are replaced says it in the row."""
    given: int | None = row.get("slot")
    return slot_of(row.get("mountpoint") or "", row["client"]) if given is None else given


def slots_of(ranges: Iterable[str]) -> Iterator[int]:
    """Returns the slots in texts such as `0-84` and `90`."""
    for each in ranges:
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


def ms_of(stamp: int) -> int:
    """Returns the milliseconds since 1970 of a stamp, or of a difference of two stamps."""
    return stamp >> LOGICAL_BITS


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows in the order in which they are judged: by stamp, node and seq."""
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, str, int]:
    return row["hlc"], row["node"], row["seq"]
