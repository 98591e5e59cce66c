"""The gateway's end of one client, before and after the answer of the primary."""

from __future__ import annotations

import pytest

from strogoff.broker.gateway import gateway_connection
from strogoff.mqtt import packets as p
from tests.harness.broker import PacketClient, connect

from .relay_harness import RelayHarness


def test_the_protocol_machine_ends_with_the_answer() -> None:
    """Afterwards the gateway has no timer, no session and no entry for the client but its relay."""
    cluster = RelayHarness()
    node = cluster[1].node
    opened = [each.node.env.counters.socket_open for each in cluster.nodes]
    client = cluster[1].client("c")
    assert len(node.connections) == 0
    (peer,) = node.gateways._peers.values()
    (relayed,) = peer.asked.values()
    assert relayed._connection.closed and relayed.opened and not node.gateways._waiting
    client.close()
    cluster.settle()
    counters = [each.node.env.counters for each in cluster.nodes]
    assert [each.socket_open - before for each, before in zip(counters, opened, strict=True)] == [1, 0]
    assert [each.socket_close for each in counters] == [1, 0], "the primary has no socket of the client"


def test_the_password_stays_at_the_gateway_and_the_transport_learns_of_the_welcome() -> None:
    cluster = RelayHarness()
    sent: list[bytes] = []
    links = cluster[1].host.member.links  # type: ignore[union-attr]
    tunnel = links.tunnel
    links.tunnel = lambda node, item: sent.append(item) or tunnel(node, item)  # type: ignore[func-returns-value,method-assign]
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    accepted: list[bool] = []
    client.pipe.accepted = lambda: accepted.append(True)  # type: ignore[method-assign]
    client.send(connect("c", 5, username="somebody", password=b"secret"))
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Connack] and accepted == [True]
    assert b"somebody" in b"".join(sent) and b"secret" not in b"".join(sent)


def test_bytes_before_the_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_connection, "PENDING_BYTES", 1000)
    cluster = RelayHarness(2, None)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, True, 600))
    cluster.settle()
    (waiting,) = cluster.gateways(1)._waiting.values()
    waiting.receive(bytes(1000))
    assert not client.closed
    waiting.receive(b"1")
    cluster.settle()
    assert client.closed and cluster.counts(1) == (0, 0, 0) and cluster[1].node.env.counters.socket_close == 1


def test_a_gateway_without_credit_asks_for_more() -> None:
    cluster = RelayHarness()
    client = cluster[1].client("c")
    (peer,) = cluster.gateways(1)._peers.values()
    (relayed,) = peer.asked.values()
    assert relayed.flow is not None and not client.pipe.to_node.paused
    relayed.flow.out.credit = 0
    client.send(p.Pingreq())
    cluster.loop.settle()
    assert [type(each) for each in client.take()] == [p.Pingresp], "the primary gives more"
