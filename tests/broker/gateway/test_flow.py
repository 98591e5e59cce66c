"""Credit of relayed clients: bounded memory at both nodes, and clients that do not hold up each other (H-31)."""

from __future__ import annotations

import pytest

from strogoff.broker.gateway import credit
from strogoff.broker.gateway.credit import BASE_BYTES, MOST_BYTES
from strogoff.broker.gateway.gateway_connection import REST_BOUND_MS, GatewayConnection
from strogoff.broker.gateway.relayed_transport import RelayedTransport
from strogoff.mqtt import packets as p
from tests.harness.broker import PacketClient, publish

from .relay_harness import RelayHarness


def at_gateway(cluster: RelayHarness, number: int = 1) -> list[GatewayConnection]:
    return [each for peer in cluster.gateways(number)._peers.values() for each in peer.asked.values()]


def at_primary(cluster: RelayHarness) -> list[RelayedTransport]:
    return [each for peer in cluster.gateways(2)._peers.values() for each, _ in peer.served.values()]


def subscriber(cluster: RelayHarness, client_id: str, topic: str = "t") -> PacketClient:
    client = cluster[1].client(client_id)
    client.subscribe((topic, 0))
    return client


def test_a_client_that_never_reads_holds_its_window_and_no_more() -> None:
    """The gateway keeps the window and the socket's buffer, the primary the queue of the session (P8)."""
    cluster = RelayHarness(max_online_messages=20)
    deaf, other = subscriber(cluster, "deaf"), subscriber(cluster, "other")
    deaf.pipe.to_client.pause()
    pub = cluster[2].client("pub")
    for number in range(300):
        pub.publish("t", b"%d" % number + bytes(10_000))
        assert len(other.take()) == 1
    cluster.settle()
    gateway = next(each for each in at_gateway(cluster) if each._connection.client_id == "deaf")
    assert gateway.flow is not None
    assert gateway.flow.window.left == 0 and gateway.flow.unpassed <= MOST_BYTES
    primary = next(each for each in at_primary(cluster) if each.out.stuck)
    assert primary.out.waiting <= 2 * 10_100
    assert deaf.pipe.to_client.under_way <= 2 * MOST_BYTES
    assert len(cluster[2].host.events) >= 0 and cluster[2].node.env.counters.drops_by_reason
    cluster.pass_s(2)
    deaf.pipe.to_client.resume()
    cluster.pass_s(1)
    pauses = [row for row in cluster[2].host.events if row["type"] in ("dlv.pause", "dlv.resume")]
    assert [(row["type"], row["client"]) for row in pauses] == [("dlv.pause", "deaf"), ("dlv.resume", "deaf")]
    taken = len(deaf.take())
    assert taken > 20
    pub.publish("t", b"last")
    assert [each.payload for each in deaf.messages()] == [b"last"] and not primary.out.stuck
    deaf.close()
    other.close()
    cluster.settle()
    assert cluster.nothing_left()


def test_clients_that_do_not_read_take_nothing_from_the_base_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """H-31: the budget is used up, and a new client has its 16 KiB all the same."""
    monkeypatch.setattr(credit.Budget.__init__, "__defaults__", (100_000,))
    cluster = RelayHarness(max_online_messages=50)
    deaf = [subscriber(cluster, f"deaf{number}") for number in range(10)]
    for client in deaf:
        client.pipe.to_client.pause()
    pub = cluster[2].client("pub")
    for _ in range(60):
        pub.publish("t", bytes(10_000))
    (peer,) = cluster.gateways(1)._peers.values()
    assert peer.node.room_down.free == 0
    late = subscriber(cluster, "late", "u")
    for number in range(20):
        pub.publish("u", b"%d" % number + bytes(12_000))
        assert len(late.take()) == 1
    assert [type(each) for each in late.publish("v", bytes(50_000), 1)] == [p.Puback]


def test_the_window_of_a_fast_publisher_grows_and_is_given_back() -> None:
    cluster = RelayHarness()
    client = cluster[1].client("c")
    client.send(*[publish("t", bytes(10_000)) for _ in range(100)])
    cluster.settle()
    (primary,) = at_primary(cluster)
    grown = primary.window.size
    assert BASE_BYTES < grown <= MOST_BYTES
    assert cluster.gateways(2).counts["relay_window_growth"] == grown - BASE_BYTES
    (gateway,) = at_gateway(cluster)
    assert gateway.flow is not None and gateway.flow.out.credit + primary.window._passed == grown
    cluster.pass_s(12)
    assert primary.window.size == BASE_BYTES and not primary.window.grown
    assert cluster.gateways(2).counts["relay_window_growth"] == 0
    assert gateway.flow.out.credit + primary.window._passed == BASE_BYTES
    client.send(*[publish("t", bytes(10_000)) for _ in range(10)], p.Pingreq())
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Pingresp]


def test_a_primary_that_does_not_read_stops_the_socket_at_the_gateway() -> None:
    cluster = RelayHarness()
    client = cluster[1].client("c")
    (served,) = cluster[2].node.connections.values()
    served.flow.pause("test")
    for _ in range(100):
        client.send(publish("t", bytes(10_000), 1))
        cluster.settle()
    (primary,), (gateway,) = at_primary(cluster), at_gateway(cluster)
    arrived = sum(map(len, primary._arrived))
    assert arrived <= MOST_BYTES and primary.window.left == 0
    assert gateway.flow is not None and gateway.flow.out.waiting <= 20_000 and client.pipe.to_node.paused
    cluster.pass_s(1)
    served.flow.unpause("test")
    cluster.pass_s(1)
    assert [type(each) for each in client.take()] == [p.Puback] * 100
    assert not client.pipe.to_node.paused and not primary._arrived


def test_a_socket_that_is_not_read_is_no_silence() -> None:
    """H-34: the gateway has stopped reading, so the client could not send."""
    cluster = RelayHarness()
    client = cluster[1].client("c", keepalive_s=1)
    (served,) = cluster[2].node.connections.values()
    served.flow.pause("test")
    client.send(publish("t", bytes(300_000), 1))
    cluster.pass_s(5)
    assert client.pipe.to_node.paused and not client.closed
    served.flow.unpause("test")
    cluster.pass_s(0.5)
    assert [type(each) for each in client.take()] == [p.Puback] and not client.closed


def test_a_paused_client_that_goes_is_lost_behind_its_bytes() -> None:
    """The primary still gets the DISCONNECT that waits: no will."""
    cluster = RelayHarness()
    watcher = cluster[2].client("watcher")
    watcher.subscribe(("will", 0))
    client = cluster[1].client("c", will=p.Will("will", b""))
    served = next(each for each in cluster[2].node.connections.values() if each.client_id == "c")
    served.flow.pause("test")
    client.send(publish("t", bytes(30_000), 1), p.Disconnect())
    client.close()
    cluster.pass_s(1)
    assert not served.closed
    served.flow.unpause("test")
    cluster.settle()
    assert served.closed and watcher.messages() == [] and cluster.nothing_left()


def test_the_last_bytes_of_a_client_do_not_wait_for_ever() -> None:
    cluster = RelayHarness()
    client = cluster[1].client("c")
    (served,) = cluster[2].node.connections.values()
    served.flow.pause("test")
    client.send(publish("t", bytes(600_000), 1))
    cluster.settle()
    client.break_off()
    cluster.pass_s(REST_BOUND_MS / 1000 - 1)
    assert cluster.counts(1) == (1, 0, 0)
    cluster.pass_s(2)
    assert cluster.counts(1) == (0, 0, 0)
    served.flow.unpause("test")
    cluster.pass_s(1)
    assert served.closed and cluster.nothing_left()


def test_a_full_tunnel_stops_the_sockets_and_loses_nothing() -> None:
    cluster = RelayHarness()
    cluster.network.delay("n1", "n2", 0.05)
    clients = [cluster[1].connect_soon(f"c{number}") for number in range(40)]
    cluster.pass_s(1)
    for client in clients:
        assert [type(each) for each in client.take()] == [p.Connack]
    links = cluster[1].host.member.links  # type: ignore[union-attr]
    links._out["n2"].tunnel.full_bytes = 20_000
    most = 0
    for client in clients:
        client.send(*[publish("t", bytes(4000), 1, number) for number in range(1, 11)])
    for _ in range(2000):
        cluster.loop.run_for(0.005)
        most = max(most, links._out["n2"].tunnel.waiting_bytes)
    assert most < 100_000
    for client in clients:
        assert [each.packet_id for each in client.take()] == [*range(1, 11)]
        client.close()
    cluster.pass_s(1)
    assert cluster.nothing_left()


def test_more_bytes_than_the_credit_close_the_connection() -> None:
    cluster = RelayHarness()
    client, other = cluster[1].client("c"), cluster[1].client("other")
    gateway = next(each for each in at_gateway(cluster) if each._connection.client_id == "c")
    assert gateway.flow is not None
    gateway.flow.out.credit += 1 << 20
    served = next(each for each in cluster[2].node.connections.values() if each.client_id == "c")
    served.flow.pause("test")
    client.send(publish("t", bytes(100_000)))
    cluster.pass_s(1)
    assert client.closed and not other.closed and cluster.counts(2) == (0, 1, 0)
    assert any("bytes more than the credit" in line for _, line in cluster[2].host.lines)


def test_a_wide_connect_with_a_large_will() -> None:
    """OPEN goes in parts."""
    cluster = RelayHarness()
    watcher = cluster[2].client("watcher")
    watcher.subscribe(("will/#", 0))
    will = p.Will("will/" + "x" * 60_000, bytes(65_000))
    cluster[1].client("c", will=will).close()
    cluster.settle()
    assert [len(each.payload) for each in watcher.messages()] == [65_000]
