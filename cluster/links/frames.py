"""The frame: all that one node has to say to another in one turn of the loop, on one of the two ways of a wire.

From the dialer: datagrams, which are urgent, and with them whether the other's stream is heard; as data, runs of lanes
and pieces of items that are too large for a run. From the acceptor, as data: acknowledgements, windows, and which lanes
are to stop and to go on. An empty frame is a heartbeat. Fields are only ever added at the end; unknown ones at the end
are ignored.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack

from .pieces import Piece


class MalformedFrame(Exception):
    """Bytes from a peer that are no frame, or make no sense. The text says what and where; the stream is closed."""


class Run(Struct, array_like=True):
    """Consecutive numbers of a lane: from `first` on `voids` that matter to nobody any more, then the payloads."""

    lane: int
    first: int
    voids: int
    payloads: list[bytes]

    @property
    def last(self) -> int:
        """The last number of the run."""
        return self.first + self.voids + len(self.payloads) - 1


class Frame(Struct, array_like=True):
    """One frame; all parts may be empty."""

    datagrams: list[tuple[int, bytes]] = []
    """Kind and data."""
    runs: list[Run] = []
    acks: list[tuple[int, int]] = []
    """Lane, and the number up to which everything is done with."""
    windows: list[tuple[int, int]] = []
    """Lane, and how many unacknowledged bytes of it the receiver takes from now on."""
    pieces: list[Piece] = []
    """Taken after the runs of the same frame."""
    holds: list[tuple[int, int]] = []
    """Lane, and the number of an item that the receiver cannot take now: the lane is to stop there."""
    resumes: list[tuple[int, int]] = []
    """Lane, and the number from which on the receiver takes it again."""
    early: list[tuple[int, list[int]]] = []
    """Lane, and numbers that are done with, although something before them is not."""
    heard: bool = False
    """From the dialer: a frame came on the other's own stream since this was said last."""
    taken: int = 0
    """From the acceptor: how many data frames it has handled since the stream opened; 0 if it says nothing of it."""


HEARTBEAT = msgpack.encode([])
"""The empty frame: all parts are left out."""

encode_frame = msgpack.Encoder().encode
HEARD = encode_frame(Frame(heard=True))
"""The heartbeat of a dialer that hears the other's stream."""

_decode = msgpack.Decoder(Frame).decode


def decode_frame(data: bytes, limit: int) -> Frame:
    """Raises `MalformedFrame`, also for more than `limit` bytes and for numbers that no sender gives."""
    if len(data) > limit:
        raise MalformedFrame(f"a frame of {len(data)} bytes, {limit} are allowed")
    try:
        frame = _decode(data)
    except MsgspecError as error:
        raise MalformedFrame(f"frame of {len(data)} bytes: {error}") from error
    for run in frame.runs:
        if run.first < 1 or run.voids < 0:
            raise MalformedFrame(f"lane {run.lane}: a run of {run.voids} voids from {run.first}")
    for piece in frame.pieces:
        end = piece.offset + len(piece.data)
        if piece.seq < 1:
            raise MalformedFrame(f"lane {piece.lane}: a piece of item {piece.seq}")
        if end > piece.size:
            text = f"bytes {piece.offset} to {end} of item {piece.seq}, which has {piece.size}"
            raise MalformedFrame(f"lane {piece.lane}: {text}")
    for lane, size in frame.windows:
        if size < 1:
            raise MalformedFrame(f"lane {lane}: a window of {size} bytes")
    return frame
