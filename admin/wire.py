"""A command's answer on its way to vmq-admin: a JSON object per line, long tables in pieces, the exit status last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .reply import Alert, Cell, Part, Table, Text

ROWS = 500
"""Rows in one line."""


class Piece(msgspec.Struct, omit_defaults=True):
    """One line: a whole text or alert, the head of a table, more rows of it, or the end."""

    kind: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[Cell, ...]] = []
    status: int = 0


_decoder = msgspec.json.Decoder(Piece)


class CutOff(Exception):
    """The answer has no end: the node stopped in the middle of it, or it is not an answer at all."""


def to_lines(parts: Iterable[Part], status: int) -> Iterator[bytes]:
    """The lines of an answer."""
    for part in parts:
        if isinstance(part, Table):
            yield _line(Piece("table", part.line, part.columns))
            for at in range(0, len(part.rows), ROWS):
                yield _line(Piece("rows", rows=part.rows[at : at + ROWS]))
        else:
            yield _line(Piece("alert" if isinstance(part, Alert) else "text", part.text))
    yield _line(Piece("end", status=status))


def _line(piece: Piece) -> bytes:
    return msgspec.json.encode(piece) + b"\n"


def from_lines(lines: Iterable[bytes]) -> tuple[list[Part], int]:
    """The answer and its exit status. Raises `CutOff`."""
    parts: list[Part] = []
    for line in lines:
        try:
            piece = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise CutOff(str(error)) from None
        if piece.kind == "end":
            return parts, piece.status
        last = parts[-1] if parts else None
        if piece.kind == "table":
            parts.append(Table(piece.columns, [], piece.text))
        elif piece.kind == "rows" and isinstance(last, Table):
            last.rows.extend(piece.rows)
        elif piece.kind in ("text", "alert"):
            parts.append(Text(piece.text) if piece.kind == "text" else Alert(piece.text))
        else:
            raise CutOff(f"unexpected {piece.kind}")
    raise CutOff("no end")
