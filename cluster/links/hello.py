"""The first messages on a stream: identities of both processes, protocol version, and watermarks of the lanes.

Versions may differ while operators upgrade one node after the other. A new field is added at the end, and a receiver
ignores unknown fields there. Each side names the oldest and the newest version that it speaks; the stream uses the
lower of the two newest.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack

from ..identity import BootNumber, NodeName
from .frames import MalformedFrame

NEWEST = 9
OLDEST = 9
"""The versions of the protocol between nodes that this code speaks."""


class PeerInfo(Struct, array_like=True, frozen=True):
    """The identity of a process: the hello of a dialer, and part of the acceptor's welcome.

    `boot` is raised at each start of the node. `disk` is the uuid of its data directory. `process` is random text for
    each process. `version` and `oldest` are the newest and the oldest version of the protocol that it speaks.
    `earlier`: (boot, process) of former starts of the same disk. `joined`: the log index at which the disk became a
    member; 0 while its node has not read that entry.
    """

    node: NodeName
    boot: BootNumber
    disk: str
    process: str
    cluster_id: str
    address: str
    version: int = NEWEST
    oldest: int = OLDEST
    earlier: tuple[tuple[int, str], ...] = ()
    joined: int = 0


class Welcome(Struct, array_like=True, frozen=True):
    """The answer to a hello: the acceptor, the version for this stream, and the watermark of each lane.

    `applied` is `LinkEvents.applied` of the acceptor: watermarks are acknowledgements.
    """

    me: PeerInfo
    version: int
    watermarks: dict[int, int]
    applied: int = 0


def agree(mine: PeerInfo, theirs: PeerInfo) -> int | None:
    """Returns the version that two processes use with each other; None if they have none in common."""
    version = min(mine.version, theirs.version)
    return version if version >= max(mine.oldest, theirs.oldest) else None


def disagreement(mine: PeerInfo, theirs: PeerInfo) -> str:
    """Returns the reason for the refusal between two processes without a common version."""
    return (
        f"{theirs.node} speaks the versions {theirs.oldest} to {theirs.version} of the protocol, "
        f"{mine.node} {mine.oldest} to {mine.version}"
    )


_encode = msgpack.Encoder().encode
_decode_self = msgpack.Decoder(PeerInfo).decode
_decode_welcome = msgpack.Decoder(Welcome).decode


def encode_hello(me: PeerInfo) -> bytes:
    """Returns the hello for `Transport.dial`."""
    return _encode(me)


def encode_welcome(welcome: Welcome) -> bytes:
    """Returns the bytes of a welcome."""
    return _encode(welcome)


def decode_hello(data: bytes) -> PeerInfo:
    """Decode a hello. Raises `MalformedFrame`."""
    try:
        return _decode_self(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrame(f"hello of {len(data)} bytes: {error}") from error


def decode_welcome(data: bytes) -> Welcome:
    """Decode a welcome. Raises `MalformedFrame`."""
    try:
        return _decode_welcome(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrame(f"welcome of {len(data)} bytes: {error}") from error
