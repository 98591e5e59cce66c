"""The subscription of a session that only the disk has, as bytes. A node may have millions of them.

    options       1 byte: QoS, No Local, Retain As Published, Retain Handling, and two flags
    identifier    4 bytes, with the flag `IDENTIFIED`
    client key    `storage.keys.client_key`
    share name    UTF-8, with the flag `SHARED`

Options and identifier are the *head*. Client key and share name are the *subscriber key*: with the filter, it
identifies a subscription (MQTT 5.0 section 4.8.2).
"""

from __future__ import annotations

from ...storage.keys import end_of_client_key, mountpoint_of

IDENTIFIED = 0x40
"""The flag of a subscription with an identifier. Below it, the head is one byte and the rest is the client key."""

SHARED = 0x80
"""The flag of a shared subscription."""

CLEAN = b"\xff"
"""It follows the client key in the subscriber key of a clean session. No share name begins with this byte."""

_UNPACKED = tuple([(each & 3, bool(each & 4), bool(each & 8), each >> 4 & 3, 0) for each in range(256)])
"""First byte -> QoS, No Local, Retain As Published, Retain Handling, no identifier."""


class DormantSession(bytes):
    """A durable session that only the disk has, as the subscriber of a subscription. The bytes are its client key.

    `SessionRegistry.wake` makes a `Session` of it.
    """

    __slots__ = ()

    durable = True
    online = False
    ending = False

    @property
    def key(self) -> bytes:
        """The client key, as `Session.key`."""
        return self

    @property
    def mountpoint(self) -> str:
        """The mountpoint of the client."""
        return mountpoint_of(self)


def pack_head(options: tuple[int, bool, bool, int], identifier: int, shared: bool) -> bytes:
    """The head of a subscription. `options` are QoS, No Local, Retain As Published and Retain Handling."""
    qos, no_local, retain_as_published, retain_handling = options
    packed = qos | no_local << 2 | retain_as_published << 3 | retain_handling << 4 | (SHARED if shared else 0)
    if identifier:
        return bytes((packed | IDENTIFIED,)) + identifier.to_bytes(4, "big")
    return bytes((packed,))


def unpack_head(head: bytes) -> tuple[int, bool, bool, int, int]:
    """QoS, No Local, Retain As Published, Retain Handling and identifier of a head."""
    unpacked = _UNPACKED[head[0]]
    return unpacked if len(head) == 1 else (*unpacked[:4], int.from_bytes(head[1:], "big"))


def split(packed: bytes) -> tuple[bytes, bytes]:
    """The head and the subscriber key of a subscription."""
    end = 5 if packed[0] & IDENTIFIED else 1
    return packed[:end], packed[end:]


def subscriber_key(client: bytes, group: str | None, durable: bool = True) -> bytes:
    """The subscriber key of a client key and a share name. No client key is a prefix of another one.

    That of a clean session is another one: the client may be here by a Clean Start, while its durable session is in a
    slot that has no primary and whose rows are here.
    """
    key = client if durable else client + CLEAN
    return key if group is None else key + group.encode()


def parse_subscriber_key(head: bytes, key: bytes) -> tuple[bytes, str | None]:
    """The client key and the share name of the subscriber key that belongs to this head."""
    if not head[0] & SHARED:
        return key, None
    end = end_of_client_key(key)
    return key[:end], key[end:].decode()


def client_of(packed: bytes) -> bytes:
    """The client key of a subscription."""
    return packed[1:] if packed[0] < IDENTIFIED else parse_subscriber_key(*split(packed))[0]
