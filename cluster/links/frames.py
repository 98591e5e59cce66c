"""The frame: everything that one node sends to another in one turn of the loop, on one of the two channels of a wire.

The dialer sends datagrams on the urgent channel, with a flag that it hears the peer's own stream. On the data channel
it sends runs of lanes, pieces of items that are too large for a run, and items of the tunnel. The acceptor sends
acknowledgements, windows, and the lanes to hold and to resume, all on the data channel. A frame without content is a
heartbeat.
A new field is added at the end; a receiver ignores unknown fields there.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack

from .pieces import Piece


class MalformedFrame(Exception):
    """Bytes from a peer are not a valid frame. The text names the error and its place; the stream is closed."""


class Run(Struct, array_like=True):
    """Consecutive items of a lane: `voids` cancelled numbers from `first` on, then one item for each payload."""

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
    """Lane, and the number up to which every item is finished."""
    windows: list[tuple[int, int]] = []
    """Lane, and the number of unacknowledged bytes that the receiver takes from now on."""
    pieces: list[Piece] = []
    """Handled after the runs of the same frame."""
    holds: list[tuple[int, int]] = []
    """Lane, and the number of an item that the receiver cannot take now: the sender stops the lane there."""
    resumes: list[tuple[int, int]] = []
    """Lane, and the number of the first item that the receiver takes now: the sender continues there."""
    early: list[tuple[int, list[int]]] = []
    """Lane, and numbers of finished items that follow an unfinished one."""
    heard: bool = False
    """From the dialer: a frame arrived on the peer's own stream since the last frame with this flag."""
    taken: int = 0
    """From the acceptor: how many data frames it has handled since the stream opened; 0 if not reported."""
    tunnel: list[bytes] = []
    """From the dialer: items of the tunnel, handled after everything else in the frame."""
    applied: int = 0
    """From the acceptor, with acknowledgements: `LinkEvents.applied` of its process when it sent them."""
    stamp: int = 0
    """`LinkPorts.stamp` of the sender: no row of its event log that led to this frame has a larger stamp."""

    @property
    def items(self) -> int:
        """The number of items, those of the tunnel included."""
        return len(self.pieces) + len(self.tunnel) + sum([len(run.payloads) for run in self.runs])


encode_frame = msgpack.Encoder().encode


def heartbeat(stamp: int, heard: bool = False) -> bytes:
    """Returns the frame that says only that its sender lives; `heard` and `stamp` as in `Frame`."""
    return encode_frame(Frame(heard=heard, stamp=stamp))


_decode = msgpack.Decoder(Frame).decode


def decode_frame(data: bytes, limit: int) -> Frame:
    """Decode a frame. Raises `MalformedFrame`, also for more than `limit` bytes and for impossible numbers."""
    if len(data) > limit:
        raise MalformedFrame(f"a frame of {len(data)} bytes, {limit} are allowed")
    try:
        frame = _decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
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
