"""Fake links of a node: sent messages wait until the test acknowledges them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from strogoff.broker.cluster_port import NO_MEMBERS, Pausable, Standalone
from strogoff.broker.clustering.forward_codec import (
    ForwardedMessage,
    Head,
    OpenMids,
    decode_forward,
    decode_open_mids,
    is_open_mids,
    split_head,
)
from strogoff.broker.clustering.forward_sender import ForwardSender
from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.queues.message import Message, Mid
from strogoff.broker.queues.records import InboundRecord
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE, RemoteMatch
from tests.harness.broker import BrokerHarness


class FakeLinks:
    """A lane to each node. `sent`: (number, head, message) in order. `voided`: the cancelled numbers."""

    def __init__(self, broker: BrokerHarness) -> None:
        self.broker = broker
        self.sent: dict[str, list[tuple[int, Head, ForwardedMessage]]] = {}
        self.told_open: dict[str, list[OpenMids]] = {}
        self.voided: dict[str, list[int]] = {}
        self.slow: Collection[str] = []
        self.slow_map: Collection[str] = []
        self.full: Collection[str] = ()
        self.takes: int | None = None
        """The number of further messages until a lane is full; None: lanes are never full."""
        self.window_bytes = 8 << 20
        self.ahead_bytes = 64 << 10
        self.behind_bytes = 1 << 20
        self.waiting: dict[str, tuple[int, int]] = {}

    def send(self, node: str, payload: bytes) -> int:
        head, body = split_head(payload)
        if is_open_mids(body):
            self.told_open.setdefault(node, []).append(decode_open_mids(body))
            return 0
        if self.takes is not None:
            self.takes -= 1
            if not self.takes:
                self.full = {*self.full, node}
        lane = self.sent.setdefault(node, [])
        lane.append((len(lane) + 1, head, decode_forward(body, self.broker.node.env.origins)))
        return len(lane)

    def void(self, node: str, seqs: list[int] | None = None) -> None:
        self.voided.setdefault(node, []).extend(
            [seq for seq, _, _ in self.sent.get(node, [])] if seqs is None else seqs
        )

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        self.waiting[node] = (items, size_bytes)

    def payloads(self, node: str) -> list[bytes]:
        """Returns the payloads that a node would get, without the cancelled ones."""
        return [
            each.message.payload for seq, _, each in self.sent.get(node, []) if seq not in self.voided.get(node, [])
        ]

    def since(self, node: str) -> list[int]:
        """Returns the views that the sent copies name."""
        return [head.since for _, head, _ in self.sent.get(node, [])]


class ForwardingCluster(Standalone):
    """A cluster whose lease, subscribers and view the test sets. `present`: every other node is in the view."""

    def __init__(self, forwarding: ForwardSender, matches: dict[str, RemoteMatch]) -> None:
        self.sender = forwarding
        self.matches = matches
        self.present = False
        self.may_acknowledge_hook: Callable[[ClientConnection, int], bool] | None = None

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        if self.may_acknowledge_hook is None:
            return True
        assert isinstance(connection, ClientConnection)
        return self.may_acknowledge_hook(connection, operations)

    def is_present(self, node: str) -> bool:
        return self.present

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        return self.matches.get(topic, NOWHERE)

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        self.sender.forward(message, targets, members, context)

    def congested(self, mountpoint: str, client_id: str) -> str:
        return self.sender.congested(mountpoint, client_id)

    def when_relieved(self, node: str, connection: Pausable) -> None:
        self.sender.pause(node, connection)

    def handshake_opened(self, mid: Mid, members: Mapping[str, int] = NO_MEMBERS) -> None:
        self.sender.opened(mid)

    def handshake_closed(self, mid: Mid) -> None:
        self.sender.closed(mid)


class ForwardingHarness(BrokerHarness):
    """A broker that forwards to other nodes. `matches`: topic -> their subscribers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.matches: dict[str, RemoteMatch] = {}
        self.wire()

    def wire(self) -> None:
        """Connect the newly started node to new fake links."""
        self.links = FakeLinks(self)
        self.sender = ForwardSender(self.node, self.links)
        self.sender.since = 7
        self.cluster = ForwardingCluster(self.sender, self.matches)
        self.node.env.cluster = self.cluster

    def route(self, topic: str, *targets: RemoteTarget, groups: tuple[RemoteMembers, ...] = ()) -> None:
        """Set the subscribers of a topic on other nodes."""
        self.matches[topic] = RemoteMatch(targets, groups)
        self.node.router.plans("").invalidate(topic)

    def handshakes(self, client_id: str) -> list[InboundRecord]:
        """Returns the QoS 2 messages of a publisher that wait for PUBREL."""
        session = self.node.sessions.get("", client_id)
        assert session is not None
        return list(session.inbound.records.values())

    def room(self, node: str, takes: int | None = None) -> None:
        """Let the lane to a node take `takes` messages; None: all."""
        self.links.takes = takes
        self.links.full = set(self.links.full) - {node}
        self.sender.room(node)
        self.settle()

    def acked(self, node: str, upto: int) -> None:
        """Acknowledge everything up to this number in the name of a node."""
        self.sender.acked(node, upto)
        self.settle()


def live(node: str) -> RemoteTarget:
    """Returns a target node with a clean session."""
    return RemoteTarget(node, live=True)


def durable(node: str, absent: bool = False) -> RemoteTarget:
    """Returns a target node with a durable session."""
    return RemoteTarget(node, live=False, slots=(1,), absent=absent)
