"""The state of a connection that belongs to its client as a publisher."""

from __future__ import annotations

from typing import Any

import msgspec

from ...mqtt import packets
from ..routing.plans import PlanCache
from .ack_queue import Item


class PublishRequest(msgspec.Struct):
    """A PUBLISH as plugins changed it. It is answered as `qos` demands; `routed_qos` is the QoS for its subscribers.

    With `dup` it may have been accepted before, on another connection.
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


def request_of(packet: packets.Publish) -> PublishRequest:
    """A PUBLISH without properties, as it came and accepted for the first time."""
    qos = packet.qos
    return PublishRequest(packet.topic, packet.payload, qos, packet.retain, None, 0, packet.packet_id, qos)


class PublishState:
    """`permitted` are the topics that plugins allow, each with the epoch of the hooks that it is good for; `aliases`
    the topics of the client's topic aliases; `receive_maximum` how many PUBLISH packets may be unanswered.

    QoS 2: `packet_ids` are those that count against the Receive Maximum until PUBREL; `waiting_for_lease` are
    handshakes whose turn came while the node had no lease. `deferred` are PUBLISH packets that the node does not take
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
        self.waiting_for_lease: list[Item] = []
        self.deferred: list[tuple[str, PlanCache, PublishRequest]] = []
