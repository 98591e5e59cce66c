"""A message inside the broker, independent of any protocol version.

A message is made once, when a PUBLISH (or a will) is accepted, and shared by every queue that it goes to. It is never
changed afterwards, except for `frame_key`, `head` and `tail`: the last encoding, so that a fan-out encodes once.
"""

from __future__ import annotations

from typing import Any

import msgspec

Mid = tuple[str, int, int]
"""The identity of a message: origin, boot, and counter."""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The node that accepted a message: its name and boot, the first two parts of every `mid`.

    A QoS 2 message of a durable session, or a will, may have its slot as origin, with the epoch in place of the boot:
    then the next primary of the slot continues under the same mid (H-47, H-50).
    """

    node: str
    boot: int


class Message(msgspec.Struct, gc=False):
    """An application message with its identity.

    `mid` is `(origin.node, origin.boot, counter)` and travels through links, queues, stores and events. `properties`
    holds only what v5 forwards unchanged (payload format, content type, response topic, correlation data, user
    properties). `expires_at` is cluster time in ms, 0 for never. `shared_slots`: in these slots several durable queues
    get the message, so each of these slots stores its body once, under its mid. `again`: an earlier primary of the
    sessions that get it now may have delivered it.
    """

    mountpoint: str
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any] | None
    expires_at: int
    publisher: str
    origin: Origin
    counter: int
    shared_slots: frozenset[int] = frozenset()
    again: bool = False
    frame_key: int = -1
    head: bytes = b""
    tail: bytes = b""

    @property
    def mid(self) -> Mid:
        """The message's identity in the whole cluster and for all time."""
        return (self.origin.node, self.origin.boot, self.counter)

    @property
    def remembered(self) -> bool:
        """True if receivers remember the mid, because the message may come again: with QoS 2, or from a slot."""
        return self.qos == 2 or self.origin.node[:1] == "#"
