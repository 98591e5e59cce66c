"""The lines of the event log's files: how a row becomes a line, and a line becomes a row again.

A file begins with one header line, a JSON object. It has what is the same for all rows of the file, and the names of
the fields of each type in their order. Each line behind it is one row, a JSON array:

    {"strogoff_eventlog":6,"run_id":"r","node":"n1","boot":1,"types":{"node.stop":["reason"],...}}
    ["node.stop",17,116117815296000000,5000000,"joined"]

The array has type, `seq`, `hlc` and `mono_ns`, then the fields of the type in the order of the header. A field that the
row lacks is null, and nulls at the end are left out. Files of earlier versions (up to 5) have no header line; each of
their lines is an object with all fields by name. A reader accepts both, also in one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from .schema import BOOL, COLUMNS, HEADER, INT, STRING, TYPES, VERSION, wrong_kind

Row = dict[str, Any]

MARK: Final = "strogoff_eventlog"
"""First key of a header line. Its value is the version of the schema."""

HEADER_BEGIN: Final = f'{{"{MARK}":'
"""The first characters of a header line."""

ENVELOPE: Final = ("type", "seq", "hlc", "mono_ns")
"""What each array begins with."""

NAMES: Final = {name: (*each.required, *each.optional) for name, each in TYPES.items()}
"""The fields of each type in the order in which this version writes them."""

TORN: Final = "torn"
NOT_JSON: Final = "not_json"
WRONG_TYPE: Final = "wrong_type"
NO_HEADER: Final = "no_header"
MISSING_HEADER: Final = "missing_header"
NEWER_VERSION: Final = "newer_version"
UNKNOWN_TYPE: Final = "unknown_type"
REASONS: Final = {
    TORN: "the line is cut: the process or the machine stopped during the write",
    NOT_JSON: "not JSON",
    WRONG_TYPE: "no row and no header, or a field has another type than in the schema",
    NO_HEADER: "an array without one readable header line in its file",
    MISSING_HEADER: "v, run_id, node, boot, seq, hlc, mono_ns or type is missing",
    NEWER_VERSION: "written by a newer version of Strogoff than this one",
    UNKNOWN_TYPE: "an event type that the schema lacks",
}
"""Reason of a reject -> meaning."""


class Header(NamedTuple):
    """What a header line says."""

    version: int
    run_id: str
    node: str
    boot: int
    types: Mapping[str, list[str]]


class Reject(NamedTuple):
    """A line that is no row: the reason, one of `REASONS`."""

    reason: str


def header_line(run_id: str, node: str, boot: int) -> bytes:
    """The first line of a file of this version."""
    return _encode({MARK: VERSION, "run_id": run_id, "node": node, "boot": boot, "types": NAMES}) + b"\n"


def row_line(kind: str, seq: int, hlc: int, mono_ns: int, fields: Mapping[str, Any]) -> bytes:
    """The line of a row. Raises KeyError, TypeError, ValueError or OverflowError if the row has no place in the schema
    or in JSON: a type or field that the schema lacks, a lone surrogate."""
    return _encode((kind, seq, hlc, mono_ns, *_ORDERS[kind, *fields](fields))) + b"\n"


def line_of(row: Mapping[str, Any]) -> bytes:
    """The line of a row that has its envelope with it."""
    fields = {name: value for name, value in row.items() if name not in _COMMON}
    return row_line(row["type"], row["seq"], row["hlc"], row["mono_ns"], fields)


def read_header(line: bytes) -> Header | Reject | None:
    """What a header line says; None if the line is none."""
    if not line.startswith(HEADER_BEGIN.encode()):
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Reject(TORN)
    version = value[MARK]
    if isinstance(version, int) and version > VERSION:
        return Reject(NEWER_VERSION)
    try:
        return msgspec.convert((version, *map(value.get, Header._fields[1:])), Header)
    except msgspec.ValidationError:
        return Reject(WRONG_TYPE)


def decode(line: bytes, header: Header | None) -> Row | Reject:
    """The row of a line that is no header line; `header` is that of the file. Absent fields are not in the row."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Reject(TORN if _cut(line.rstrip()) else NOT_JSON)
    if isinstance(value, list):
        if header is None:
            return Reject(NO_HEADER)
        if len(value) < len(ENVELOPE) or None in value[: len(ENVELOPE)]:
            return Reject(MISSING_HEADER)
        names = header.types.get(value[0]) if isinstance(value[0], str) else None
        if names is None:
            return Reject(UNKNOWN_TYPE if isinstance(value[0], str) else WRONG_TYPE)
        if len(value) > len(ENVELOPE) + len(names):
            return Reject(WRONG_TYPE)
        value = {
            "v": header.version,
            "run_id": header.run_id,
            "node": header.node,
            "boot": header.boot,
            **dict(zip(ENVELOPE, value, strict=False)),
            **dict(zip(names, value[len(ENVELOPE) :], strict=False)),
        }
    if not isinstance(value, dict):
        return Reject(WRONG_TYPE)
    row = {name: each for name, each in value.items() if each is not None}
    return _checked(row)


def numbers_of(line: bytes, header: Header | None) -> tuple[int, int]:
    """The first and the last `seq` that a line stands for; (0, 0) if it is no row."""
    row = decode(line, header)
    if isinstance(row, Reject):
        return 0, 0
    seq: int = row["seq"]
    return (row.get("first", seq) if row["type"] == "log.gap" else seq), seq


def rows_in(lines: Iterable[bytes]) -> Iterator[Row | Reject]:
    """The rows and rejects of the lines of one file. A header line holds for the lines behind it."""
    header: Header | None = None
    for line in lines:
        found = read_header(line)
        if found is None:
            if line.strip():
                yield decode(line, header)
        elif isinstance(found, Reject):
            header = None
            yield found
        else:
            header = found


def _checked(row: Row) -> Row | Reject:
    for name, value in row.items():
        kind = type(value)
        # most values need no more than this: half the time of a row
        right = kind is _PLAIN.get(name) and (kind is not int or -_INT <= value < _INT)
        if not right and wrong_kind(name, value):
            return Reject(WRONG_TYPE)
    if row.get("v", 0) > VERSION:
        return Reject(NEWER_VERSION)
    if any(each.name not in row for each in HEADER):
        return Reject(MISSING_HEADER)
    return row if row["type"] in TYPES else Reject(UNKNOWN_TYPE)


def _cut(line: bytes) -> bool:
    """A power loss may leave zeros instead of the last line."""
    open_object = line.startswith(b"{") and not line.endswith(b"}")
    open_array = line.startswith(b"[") and not line.endswith(b"]")
    return open_object or open_array or b"\0" in line


_encode = msgspec.json.Encoder(enc_hook=str).encode
_COMMON = frozenset(each.name for each in HEADER)
_INT = 1 << 63
_PLAIN = {
    each.name: {STRING: str, INT: int, BOOL: bool}[each.kind]
    for each in COLUMNS.values()
    if each.kind in (STRING, INT, BOOL)
}
"""The types of values that are right, apart from the size of a number."""


_Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]
"""Makes the values of an array from the fields of a row."""


class _Orders(dict[tuple[str, ...], _Values]):
    """Type and names of the fields, as a caller orders them -> the values in the order of `NAMES`. A core names the
    fields of an event in one or a few orders, so to find their places once is cheaper than for each row."""

    def __missing__(self, order: tuple[str, ...]) -> _Values:
        kind, *given = order
        names = NAMES[kind]
        if unknown := {*given}.difference(names):
            raise KeyError(f"the schema lacks {', '.join(sorted(unknown))}")
        wanted = names[: max((names.index(name) + 1 for name in given), default=0)]
        if len(wanted) < 2:
            values: _Values = lambda fields: (*fields.values(),)  # noqa: E731
        elif len(wanted) == len(given):
            values = itemgetter(*wanted)
        else:
            places = itemgetter(*(given.index(name) + 1 if name in given else 0 for name in wanted))
            values = lambda fields: places((None, *fields.values()))  # noqa: E731
        self[order] = values
        return values


_ORDERS = _Orders()
