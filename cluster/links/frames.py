"""The frame: all that one node has to say to another in one turn of the loop.

From the dialer: datagrams and runs of lanes. From the acceptor, on the same stream: acknowledgements and windows. An
empty frame is a heartbeat. Fields are only ever added at the end; unknown ones at the end are ignored.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack


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


HEARTBEAT = msgpack.encode(Frame())
"""The empty frame."""

encode_frame = msgpack.Encoder().encode
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
    for lane, size in frame.windows:
        if size < 1:
            raise MalformedFrame(f"lane {lane}: a window of {size} bytes")
    return frame
