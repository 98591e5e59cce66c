"""The messages between gateway and primary, and their bytes in the tunnel.

An item of the tunnel is a sequence of messages. A message has 13 bytes: its kind (1), the number of the connection (8)
and a value (4), little-endian. `DATA`, `OPEN_PART`, `OPEN`, `NOT_MINE`, `GONE`, `ASK` and `REPORT` have a body, and the
value is its length. In the other kinds the value is the only content. Bit 7 of the kind is set in messages of the
primary or registrar.

The number names one attempt of a gateway to open a connection. A process of a gateway never uses it again, and no
other process of that node does. So an answer to an earlier attempt has an unknown number, and is dropped.

A relayed piece costs little because both nodes only copy it (H-33).
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Any

import msgspec

from ...cluster.identity import Slot
from ...configs.listeners import ListenerSettings
from ...mqtt import packets
from ...mqtt.decoder import Decoder
from ...mqtt.encoder import encode
from ..connection.handshake import Admission
from ..connection.transport import ConnectionOrigin

(
    OPEN_PART, OPEN, OPENED, NOT_MINE, DATA, ROOM, WANT, RECALL, RETURNED, GONE, SILENT, LOCAL, EVICT, ASK, REPORT,
    REPORTED,
) = range(1, 17)  # fmt: skip
"""OPEN_PART: a part of a large OPEN, before it. OPEN: serve this client (`Opening`).
OPENED: the client has its CONNACK; the value is the silence in ms that ends the connection, 0 for none.
NOT_MINE: the slot has another primary; the body is the epoch of the slot, 8 bytes.
DATA: bytes of the client, or for it. ROOM: so many bytes more may be sent. WANT: so many bytes wait for credit.
RECALL: give back so many bytes of credit. RETURNED: so many are given back. GONE: the connection has ended, with the
reason. SILENT: the client was silent for so many ms, longer than OPENED allows.
LOCAL: serve this client yourself, it needs no session here. EVICT: end the client with this number; GONE is the answer,
also if it has ended.
ASK: which clients without durable state do you serve in these slots (`encode_slots`)? The number names the question.
From a gateway, without content: ask me about all slots, you do not know some of my clients.
REPORT: some of them (`encode_clients`). REPORTED: that were all."""

FROM_PRIMARY = 0x80
PIECE_BYTES = 16 << 10
"""The largest body of a message."""
OPENING_BYTES = 512 << 10
"""The largest `Opening`: four times a CONNECT with the largest will."""

_HEAD = Struct("<BQI")
_EPOCH = Struct("<Q")
_BODIES = frozenset(
    kind | role for kind in (OPEN_PART, OPEN, NOT_MINE, DATA, GONE, ASK, REPORT) for role in (0, FROM_PRIMARY)
)

head = _HEAD.pack
"""`head(kind, number, value)`: the bytes of a message without body, or the first 13 of one with body."""
HEAD_BYTES = _HEAD.size

Message = tuple[int, int, int, bytes]
"""Kind, number of the connection, value, body."""


class MalformedRelay(ValueError):
    """Bytes from another node are no message of the relay; the text names the error."""


def read(item: bytes) -> list[Message]:
    """Return the messages of an item, in order. Raises `MalformedRelay`."""
    messages: list[Message] = []
    at, end, unpack = 0, len(item), _HEAD.unpack_from
    while at < end:
        if at + HEAD_BYTES > end:
            raise MalformedRelay(f"{end - at} bytes behind the last message")
        kind, number, value = unpack(item, at)
        at += HEAD_BYTES
        if kind in _BODIES:
            stop = at + value
            if stop > end:
                raise MalformedRelay(f"a message of kind {kind} with {value} bytes, {end - at} are there")
            messages.append((kind, number, value, item[at:stop]))
            at = stop
        else:
            messages.append((kind, number, value, b""))
    return messages


def epoch_body(epoch: int) -> bytes:
    """Return the body of NOT_MINE."""
    return _EPOCH.pack(epoch)


def epoch_in(body: bytes) -> int:
    """Return the epoch in the body of NOT_MINE. Raises `MalformedRelay`."""
    if len(body) != _EPOCH.size:
        raise MalformedRelay(f"an epoch of {len(body)} bytes")
    return int(_EPOCH.unpack(body)[0])


class Opening(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The content of OPEN.

    `epoch` is that of the slot in the gateway's table. `listener` has the fields of `ListenerSettings` that matter to a
    connection and differ from their defaults. `connect` is the CONNECT after the hooks, without its password;
    `waited_ms` is the time since the gateway has received it.
    """

    epoch: Annotated[int, msgspec.Meta(ge=0)]
    peer_host: str
    peer_port: int
    certificate_name: str | None
    tls: dict[str, Any] | None
    transport: str
    listener: dict[str, Any]
    version: int
    connect: bytes
    admission: Admission
    waited_ms: Annotated[int, msgspec.Meta(ge=0)]

    def origin(self) -> ConnectionOrigin:
        """Return the origin of the client connection, as the gateway saw it. Raises `MalformedRelay`."""
        try:
            listener = msgspec.convert(self.listener, ListenerSettings)
        except msgspec.ValidationError as error:
            raise MalformedRelay(f"listener: {error}") from None
        return ConnectionOrigin(
            self.peer_host, self.peer_port, listener, self.certificate_name, self.tls, self.transport
        )

    def packet(self) -> packets.Connect:
        """Return the CONNECT. Raises `MalformedRelay`."""
        found = Decoder().feed(self.connect)
        if len(found) != 1 or not isinstance(found[0], packets.Connect):
            raise MalformedRelay(f"{len(self.connect)} bytes are no CONNECT")
        return found[0]


_LISTENER = (
    "type", "name", "host", "port", "unix_path", "mountpoint", "allowed_protocol_versions", "allow_anonymous_override",
    "auth_plugins", "authz_plugins", "forward_connection_opts", "max_connection_lifetime_s", "proxy_protocol",
)  # fmt: skip
"""The fields of a listener that travel: paths of keys and secrets do not."""

_DEFAULTS = msgspec.structs.asdict(ListenerSettings(type="", name="", host="", port=-1))
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Opening)


def encode_opening(
    epoch: int, origin: ConnectionOrigin, connect: packets.Connect, admission: Admission, waited_ms: int = 0
) -> bytes:
    """Return the bytes of an `Opening`. Raises `ValueError` if the modifiers of plugins cannot be sent."""
    listener = {name: value for name in _LISTENER if (value := getattr(origin.listener, name)) != _DEFAULTS[name]}
    try:
        data = _encode(
            Opening(
                epoch, origin.peer_host, origin.peer_port, origin.username, origin.tls, origin.transport, listener,
                connect.version, encode(connect, connect.version), admission, waited_ms,
            )
        )  # fmt: skip
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the decisions of plugins cannot be sent to another node: {error}") from error
    if len(data) > OPENING_BYTES:
        raise ValueError(f"CONNECT and the decisions about it have {len(data)} bytes, {OPENING_BYTES} are allowed")
    return data


def decode_opening(data: bytes) -> Opening:
    """Decode the content of OPEN. Raises `MalformedRelay`."""
    try:
        opening = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRelay(f"OPEN of {len(data)} bytes: {error}") from None
    properties = opening.admission.modifiers.get("properties")
    if isinstance(properties, dict) and "user_property" in properties:
        try:
            properties["user_property"] = [(name, value) for name, value in properties["user_property"]]
        except (TypeError, ValueError) as error:
            raise MalformedRelay(f"OPEN of {len(data)} bytes: user_property: {error}") from None
    return opening


_Number = Annotated[int, msgspec.Meta(ge=0)]
Client = tuple[Annotated[bytes, msgspec.Meta(min_length=5)], _Number, _Number, _Number]
"""A client in a REPORT: its key, number and epoch of the connection, and how long ago in ms its CONNECT began."""

_slots_decoder = msgspec.msgpack.Decoder(dict[Slot, _Number])
_clients_decoder = msgspec.msgpack.Decoder(list[Client])


def encode_slots(slots: dict[int, int]) -> bytes:
    """Return the body of ASK: slot -> epoch."""
    return _encode(slots)


def decode_slots(data: bytes) -> dict[int, int]:
    """Decode the body of ASK. Raises `MalformedRelay`."""
    try:
        return _slots_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRelay(f"ASK of {len(data)} bytes: {error}") from None


def encode_clients(clients: list[Client]) -> bytes:
    """Return the body of REPORT."""
    return _encode(clients)


def decode_clients(data: bytes) -> list[Client]:
    """Decode the body of REPORT. Raises `MalformedRelay`."""
    try:
        return _clients_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRelay(f"REPORT of {len(data)} bytes: {error}") from None
