"""Makes Arrow batches of the files of an event log. These functions run in the Python workers of Spark.

`event_lines.py` decides what each line is, as everywhere else. A worker reads one file after the other and holds some
thousands of lines, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import astuple

from . import schema
from .event_lines import Reject, Row
from .log_content import Extent, Place, decoded_from, measure, open_content
from .message_ids import mid_key as mid_key
from .message_ids import mid_of as mid_of
from .quick_lines import QuickLines, QuickRow

PIECE: Final = "file string, complete boolean, begin bigint, end bigint"
"""A piece of a file to read. For `extents`, `begin` is where the last run stopped, and `end` is ignored."""

EXTENT: Final = "file string, size bigint, lines bigint, digest string, earlier string, damaged boolean"
BEGIN_OF_LINE: Final = 200
"""Bytes of a rejected line that are kept."""

_LINES: Final = 20_000
_TYPES: Final = {
    schema.STRING: pa.string(),
    schema.INT: pa.int64(),
    schema.BOOL: pa.bool_(),
    schema.MID: pa.string(),
    schema.STRINGS: pa.list_(pa.string()),
    schema.COUNTS: pa.map_(pa.string(), pa.int64()),
}
_EXTENT: Final = pa.schema(
    {
        "file": pa.string(),
        "size": pa.int64(),
        "lines": pa.int64(),
        "digest": pa.string(),
        "earlier": pa.string(),
        "damaged": pa.bool_(),
    }
)
OTHERS: Final = "others"
SCHEMA: Final = pa.schema(
    [(name, _TYPES[each.kind]) for name, each in schema.COLUMNS.items() if name in schema.OF_MESSAGES]
    + [("file", pa.string()), ("line", pa.int32()), ("offset", pa.int64())]
    + [("reject", pa.string()), ("text", pa.string()), ("bytes_of_line", pa.int64())]
    + [(OTHERS, pa.struct([(each.name, _TYPES[each.kind]) for each in schema.OF_OTHERS]))]
)
"""The columns of rows of messages, the place of each row, and for a reject the reason, its begin and its length. All
other columns of the log are in a struct, which most rows lack: Spark sorts rows with a place for each column."""

Batches = Iterable[pa.RecordBatch]
_Map = Callable[[Batches], Iterator[pa.RecordBatch]]


def extents(logdir: str) -> _Map:
    """From pieces to the extents of their files."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for piece in _pieces(batches):
            with open_content(Path(logdir), piece["file"]) as content:
                extent = measure(content, piece["complete"], piece["begin"])
            row = {"file": piece["file"], **dict(zip(Extent._fields, extent, strict=True))}
            yield pa.RecordBatch.from_pylist([row], schema=_EXTENT)

    return run


def decoded(logdir: str, rejects_only: bool = False) -> _Map:
    """From pieces to their rows and rejects, or to their rejects alone."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for piece in _pieces(batches):
            with open_content(Path(logdir), piece["file"]) as content:
                found = decoded_from(content, piece["begin"], piece["end"], QuickLines().decode)
                while some := [*islice(found, _LINES)]:
                    yield from tables(piece["file"], some, rejects_only)

    return run


def tables(
    file: str, found: Sequence[tuple[Place, Row | Reject | QuickRow]], rejects_only: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of these rows and rejects. Rows with the same fields share a batch."""
    rejects = []
    quick: dict[type[QuickRow], list[tuple[Place, QuickRow]]] = {}
    groups: dict[tuple[str, ...], list[tuple[Place, Row]]] = {}
    for place, each in found:
        if isinstance(each, Reject):
            rejects.append((place, each))
        elif rejects_only:
            continue
        elif isinstance(each, QuickRow):
            quick.setdefault(type(each), []).append((place, each))
        else:
            groups.setdefault(tuple(each), []).append((place, each))
    for kind, some in quick.items():
        fields = zip(kind.__struct_fields__, zip(*(astuple(row) for _, row in some), strict=True), strict=True)
        constants = {name: [value] * len(some) for name, value in kind.constants.items()}
        yield _batch(file, [place for place, _ in some], {**constants, **dict(fields)})
    for names, group in groups.items():
        columns = dict(zip(names, zip(*[row.values() for _, row in group], strict=True), strict=True))
        yield _batch(file, [place for place, _ in group], columns)
    if rejects:
        at = [place for place, _ in rejects]
        reasons = [reject.reason for _, reject in rejects]
        texts = [place.line[:BEGIN_OF_LINE].decode(errors="replace") for place in at]
        lengths = [len(place.line) for place in at]
        yield _batch(file, at, {"reject": reasons, "text": texts, "bytes_of_line": lengths})


def _batch(file: str, places: Sequence[Place], fields: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    columns = {
        **fields,
        "file": [file] * len(places),
        "line": [place.number for place in places],
        "offset": [place.offset for place in places],
    }
    others = SCHEMA.field(OTHERS).type
    arrays = [_array(columns, field, len(places)) for field in SCHEMA if field.name != OTHERS]
    if any(field.name in columns for field in others):
        inside = [_array(columns, field, len(places)) for field in others]
        arrays.append(pa.StructArray.from_arrays(inside, fields=list(others)))
    else:
        arrays.append(pa.nulls(len(places), others))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(columns: Mapping[str, Sequence[Any]], field: pa.Field, length: int) -> pa.Array:
    values = columns.get(field.name)
    if values is None:
        return pa.nulls(length, field.type)
    return pa.array(_plain(field.name, values), field.type)


def _plain(name: str, values: Sequence[Any]) -> Sequence[Any]:
    column = schema.COLUMNS.get(name)
    if column is not None and column.kind == schema.MID:
        return [None if mid is None else mid_key(mid) for mid in values]
    if column is not None and column.kind == schema.COUNTS:
        return [None if counts is None else [*counts.items()] for counts in values]
    return values


def _pieces(batches: Batches) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()
