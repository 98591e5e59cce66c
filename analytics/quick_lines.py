"""Decodes the lines of an event log quickly, for readers of whole logs.

msgspec checks the types of fields while it decodes, if it knows them before: that takes a quarter of the time of
`event_lines.decode`. A line that is not right in this way is left to that function, which knows all versions and says
what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, cast

import msgspec

from . import schema
from .event_lines import ENVELOPE, Header, Reject, Row, decode

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_TYPES: Final[dict[str, Any]] = {
    schema.STRING: str,
    schema.INT: Int64,
    schema.BOOL: bool,
    schema.MID: tuple[str, Int64, Int64],
    schema.STRINGS: list[str],
    schema.COUNTS: dict[str, Int64],
}
_CONSTANTS: Final = ("v", "run_id", "node", "boot")


class QuickRow(msgspec.Struct):
    """A row of one type under one header: its fields in the order of the header, None if it lacks one."""

    constants: ClassVar[dict[str, Any]] = {}
    """What is the same in all rows under the header."""


class QuickLines:
    """Decodes the lines of one file."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._decoders: dict[bytes, msgspec.json.Decoder[QuickRow]] = {}

    def decode(self, line: bytes, header: Header | None) -> QuickRow | Row | Reject:
        """The row of a line, as `event_lines.decode` has it, or in short."""
        if header is not self._header:
            self._header, self._decoders = header, _decoders(header)
        decoder = self._decoders.get(line[2 : line.find(b'"', 2)])
        if decoder is not None:
            try:
                return decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # `decode` says what is wrong
        return decode(line, header)


def _decoders(header: Header | None) -> dict[bytes, msgspec.json.Decoder[QuickRow]]:
    """A decoder for each type, by its name."""
    if header is None or not 0 < header.version <= schema.VERSION or not 0 < header.boot < 1 << 63:
        return {}
    values = header.version, header.run_id, header.node, header.boot
    constants = dict(zip(_CONSTANTS, values, strict=True))
    decoders = {}
    for kind in schema.TYPES.keys() & header.types:
        names = header.types[kind]
        if {*names} <= schema.FIELDS.keys() and len({*names}) == len(names):
            must = [(name, _TYPES[schema.COLUMNS[name].kind]) for name in ENVELOPE]
            may = [(name, _TYPES[schema.COLUMNS[name].kind] | None, None) for name in names]
            row = msgspec.defstruct(
                "QuickRow",
                [*must, *may],
                bases=(QuickRow,),
                namespace={"constants": constants},
                array_like=True,
                forbid_unknown_fields=True,
                gc=False,
            )
            decoders[kind.encode()] = msgspec.json.Decoder(cast("type[QuickRow]", row))
    return decoders
