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
    opened = node.env.counters.socket_open
    client = cluster[1].client("c")
    assert len(node.connections) == 0
    (peer,) = node.gateways._peers.values()
    (relayed,) = peer.asked.values()
    assert relayed._connection.closed and relayed.opened and not node.gateways._waiting
    client.close()
    cluster.settle()
    assert node.env.counters.socket_open - opened == 1 == node.env.counters.socket_close


def test_bytes_before_the_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_connection, "PENDING_BYTES", 1000)
    cluster = RelayHarness(2, None)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5))
    cluster.settle()
    (waiting,) = cluster.gateways(1)._waiting
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
