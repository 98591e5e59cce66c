"""A command's answer on its way to vmq-admin: a JSON object per line, long tables in pieces, the exit status last.

Lines of the kind `progress` come while the command goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from .result import Alert, Cell, Part, Table, Text

ROWS = 500
"""Rows in one line."""


class ResultLine(msgspec.Struct, omit_defaults=True):
    """One line: progress, a whole text or alert, the head of a table, more rows of it, or the end."""

    kind: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[Cell, ...]] = []
    status: int = 0


class Refusal(msgspec.Struct, frozen=True):
    """The body of 401: `reason` is missing, unknown, expired or scope; `text` a sentence."""

    reason: str
    text: str


_decoder = msgspec.json.Decoder(ResultLine)


class TruncatedResult(Exception):
    """The answer has no end: the node stopped in the middle of it, or it is not an answer at all."""


def to_lines(parts: Iterable[Part], status: int) -> Iterator[bytes]:
    """The lines of an answer."""
    for part in parts:
        if isinstance(part, Table):
            yield _line(ResultLine("table", part.line, part.columns))
            for at in range(0, len(part.rows), ROWS):
                yield _line(ResultLine("rows", rows=part.rows[at : at + ROWS]))
        else:
            yield _line(ResultLine("alert" if isinstance(part, Alert) else "text", part.text))
    yield _line(ResultLine("end", status=status))


def progress_line(text: str) -> bytes:
    """A line that is to be shown at once."""
    return _line(ResultLine("progress", text))


def _line(piece: ResultLine) -> bytes:
    return msgspec.json.encode(piece) + b"\n"


def from_lines(lines: Iterable[bytes], show: Callable[[str], None] | None = None) -> tuple[list[Part], int]:
    """The answer and its exit status. Raises `TruncatedResult`.

    Progress goes to `show` as it comes; without it, it is texts of the answer like others.
    """
    parts: list[Part] = []
    for line in lines:
        try:
            piece = _decoder.decode(line)
        except msgspec.MsgspecError as error:
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
