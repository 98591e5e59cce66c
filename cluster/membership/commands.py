"""The commands of the Raft log that change members, views and slots. A field may be added at the end with a default.

Three values identify a start of a process. `disk` is a text written when the data directory was created: another disk
is another peer of Raft. `boot` counts the starts. `process` is random at each start. A restored backup has a known disk
and repeats a boot that is already in the log; `process` tells the two apart (H-01). If the backup is started once more,
it is still recognised, because it does not know the start that the log has.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ..slots.table import SlotRow

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]


class MalformedCommand(Exception):
    """Bytes are neither a command nor a snapshot of a membership. The text names the error and its place."""


class Row(Struct, array_like=True, frozen=True, order=True):
    """One incarnation in a view. `entered_in_view`: id of the view in which it entered. `serving`: False while it is
    joining."""

    node: Name
    boot: Count
    entered_in_view: Count
    serving: bool = False


class _Start(Struct, array_like=True, frozen=True):
    node: Name
    disk: Name
    boot: Count
    process: Name
    address: str


class Settle(Struct, array_like=True, frozen=True, tag=0):
    """The first command of a cluster: its id, and its first member, which serves at once in view 1.

    `zone`: the zone of the node; "" means the node itself. `slots`: the slot table begins, and the node is primary of
    all slots. It is False in logs from before the table, so that every node reads them in the same way.
    """

    cluster_id: Name
    node: Name
    disk: Name
    boot: Count
    process: Name
    address: str
    zone: str = ""
    slots: bool = False


class Join(_Start, array_like=True, frozen=True, tag=1):
    """A new member, or a known member with another disk: its old disk is forgotten, and it counts as empty.

    `zone`: the zone of the node; "" means the node itself.
    """

    zone: str = ""


class Boot(_Start, array_like=True, frozen=True, tag=2):
    """A start of a member with its known disk: a boot above the logged one, or the same process once more.

    `earlier`: (boot, process) of the disk's starts, from the last one that it knows to be in the log; () if unknown.
    `zone`: the zone of the node; "" means the node itself. `incomplete`: the last start of the disk that found that the
    disk may lack its last writes; 0 if none did.
    """

    earlier: tuple[tuple[int, str], ...] = ()
    zone: str = ""
    incomplete: Annotated[int, Meta(ge=0)] = 0


class Leave(Struct, array_like=True, frozen=True, tag=3):
    """Remove the member. `empty`: it has no session, so nothing is lost with its slots."""

    node: Name
    empty: bool = False


class Stale(Struct, array_like=True, frozen=True, tag=4):
    """A member was away for too long to be brought up to date: it has to return with an empty disk (H-16)."""

    node: Name


class SetView(Struct, array_like=True, frozen=True, tag=5):
    """The next view, in force only if `after` is still the id of the present one (compare and set).

    `serving_only`: all nodes that serve in it are reachable, and barriers may complete without the nodes that do not
    serve. From then on only the serving nodes know every acknowledged write. `slots`: if the slot table has not begun,
    it begins, and the eldest serving node is primary of all slots; False in logs from before the table.
    """

    after: Annotated[int, Meta(ge=0)]
    rows: tuple[Row, ...]
    serving_only: bool = False
    slots: bool = False


class Away(Struct, array_like=True, frozen=True, tag=6):
    """The member has had no row in the view since cluster time `since_ms`; the time until `Stale` counts from there.

    `notice_ms`: the cluster time at which a leader gave notice of `Stale`, 0 if it gave none.
    """

    node: Name
    since_ms: Count
    notice_ms: Annotated[int, Meta(ge=0)] = 0


class SetSlots(Struct, array_like=True, frozen=True, tag=7):
    """Change rows of the slot table, each only if `epoch` and `version` are still those of the row (compare and set).

    Each row is accepted or refused for itself. A valid row names only holders whose incarnations are in the present
    view, and its primary was in sync before (H-22, H-23). `leaving`: the follower that takes itself out of the in-sync
    sets; "" if the primaries of the slots ask.
    """

    changes: tuple[SlotRow, ...]
    leaving: str = ""


class RecoverSlots(Struct, array_like=True, frozen=True, tag=8):
    """Give slots without primary to other nodes, although a last holder may have more (`slots/recovery.py`).

    Each row is accepted or refused for itself, only if `epoch` and `version` are still those of the row (compare and
    set), and if no complete holder is in the view. Of a row only these and `primary` count. `by`: the node whose
    operator has asked.
    """

    changes: tuple[SlotRow, ...]
    by: Name


Command = Settle | Join | Boot | Leave | Stale | SetView | Away | SetSlots | RecoverSlots

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Returns the bytes of a command for the log."""
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """Decode a command. Raises `MalformedCommand`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedCommand(f"command of {len(data)} bytes beginning {data[:16].hex(' ')}: {error}") from error
