"""The wire format of a result: one JSON object a line, long tables in several lines, the exit status last.

The node sends lines of the kind `progress` while the command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from .result import Alert, Cell, Part, Table, Text

ROWS = 500
"""Most rows in one line."""
CHARACTERS = 1 << 20
"""A line ends with the row that exceeds this number of characters."""


class ResultLine(msgspec.Struct, omit_defaults=True):
    """One line: progress, a text, an alert, the columns of a table, rows of the last table, or the end."""

    kind: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[Cell, ...]] = []
    status: int = 0


class Refusal(msgspec.Struct, frozen=True):
    """The body of a response with status 401: `reason` is missing, unknown, expired or scope; `text` is a sentence."""

    reason: str
    text: str


_decoder = msgspec.json.Decoder(ResultLine)


class TruncatedResult(Exception):
    """The result is incomplete, because the node stopped, or it is no result."""


def to_lines(parts: Iterable[Part], status: int) -> Iterator[bytes]:
    """Encode a result as lines."""
    for part in parts:
        if isinstance(part, Table):
            yield _line(ResultLine("table", part.line, part.columns))
            for rows in pieces(part.rows):
                yield _line(ResultLine("rows", rows=rows))
        else:
            yield _line(ResultLine("alert" if isinstance(part, Alert) else "text", part.text))
    yield _line(ResultLine("end", status=status))


def pieces(rows: list[tuple[Cell, ...]]) -> Iterator[list[tuple[Cell, ...]]]:
    """Cut the rows of a table into pieces, each for one turn of the event loop."""
    begin = size = 0
    for end, row in enumerate(rows, 1):
        size += sum(len(cell) for cell in row if isinstance(cell, str))
        if size > CHARACTERS or end - begin == ROWS or end == len(rows):
            yield rows[begin:end]
            begin, size = end, 0


def progress_line(text: str) -> bytes:
    """Encode a line of progress."""
    return _line(ResultLine("progress", text))


def _line(piece: ResultLine) -> bytes:
    return msgspec.json.encode(piece) + b"\n"


def from_lines(lines: Iterable[bytes], show: Callable[[str], None] | None = None) -> tuple[list[Part], int]:
    """Decode lines to a result and its exit status. Raises `TruncatedResult`.

    `show` gets the lines of progress. Without `show` they are texts of the result.
    """
    parts: list[Part] = []
    for line in lines:
        try:
            piece = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TruncatedResult(str(error)) from None
        if piece.kind == "end":
            return parts, piece.status
        last = parts[-1] if parts else None
        if piece.kind == "progress" and show is not None:
            show(piece.text)
            continue
        if piece.kind == "table":
            parts.append(Table(piece.columns, [], piece.text))
        elif piece.kind == "rows" and isinstance(last, Table):
            last.rows.extend(piece.rows)
        elif piece.kind in ("progress", "text", "alert"):
            parts.append(Alert(piece.text) if piece.kind == "alert" else Text(piece.text))
        else:
            raise TruncatedResult(f"unexpected {piece.kind}")
    raise TruncatedResult("no end")
