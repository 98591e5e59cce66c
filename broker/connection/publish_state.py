"""The state of a connection whose client is a publisher."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from ...mqtt import packets
from ..remembered import TEXT_KEPT
from ..routing.plans import PlanCache


class PublishRequest(msgspec.Struct):
    """A PUBLISH with the changes of plugins. Its answer follows `qos`; `routed_qos` is the QoS for its subscribers.

    `dup` is True if an earlier connection may have accepted it. `first` is True if it came without DUP.
    `deferred_at` is when it was deferred. `digest`: `digest_of` a PUBLISH with QoS 2.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any] | None
    expires_at: int
    packet_id: int
    routed_qos: int
    dup: bool = False
    first: bool = False
    deferred_at: int = 0
    digest: bytes = b""


def request_of(packet: packets.Publish) -> PublishRequest:
    """Return the request of a PUBLISH without properties and changes, which was not accepted before."""
    qos = packet.qos
    request = PublishRequest(packet.topic, packet.payload, qos, packet.retain, None, 0, packet.packet_id, qos)
    request.first = not packet.dup
    if qos == 2:
        request.digest = digest_of(packet)
    return request


def digest_of(packet: packets.Publish) -> bytes:
    """Returns 16 bytes for topic, payload and RETAIN as the client sent them, without a topic alias.

    Nobody asks plugins again about a message with the digest of one that they allowed. So a client must be unable to
    find two messages with the same one: it is half of a SHA-256. A topic has no zero byte.
    """
    digest = sha256(packet.topic.encode() + (b"\0\1" if packet.retain else b"\0\0"))
    digest.update(packet.payload)
    return digest.digest()[:16]


PERMITTED_LIMIT = 10_000
"""Topics whose permission a connection remembers."""


class PublishState:
    """The state of a publisher.

    `permitted` has the topics that plugins allow, each with the epoch of the hooks for which that is valid; `aliases`
    has the topics of the client's topic aliases; `receive_maximum` is how many PUBLISH packets may have no answer.

    QoS 2: `packet_ids` are those that count against the Receive Maximum until PUBREL; `waiting_for_lease` are
    handshakes whose turn came while the node had no lease. `deferred` are PUBLISH packets that the node does not accept
    now, each with mountpoint and plans (H-13).
    """

    __slots__ = (
        "alias_maximum",
        "aliases",
        "deferred",
        "packet_ids",
        "permitted",
        "plans",
        "receive_maximum",
        "waiting_for_lease",
    )

    def __init__(self) -> None:
        self.plans: PlanCache | None = None
        self.permitted: dict[str, int] = {}
        self.aliases: dict[int, str] = {}
        self.alias_maximum = 0
        self.receive_maximum = 1 << 30
        self.packet_ids: set[int] = set()
        self.waiting_for_lease: list[Callable[[], None]] = []
        self.deferred: list[tuple[str, PlanCache, PublishRequest]] = []

    def permit(self, topic: str, epoch: int) -> None:
        """Remember that plugins allow this topic, unless it is long."""
        if len(topic) <= TEXT_KEPT:
            if len(self.permitted) >= PERMITTED_LIMIT:
                self.permitted.clear()
            self.permitted[topic] = epoch
