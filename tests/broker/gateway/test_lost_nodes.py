"""A node with many relayed clients has gone: the others end these connections in steps (P8).

Until its step a connection must do nothing that one which has ended would not do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strogoff.broker.connection.connection import FAILOVER_GRACE_S
from strogoff.broker.gateway.gateway_connection import GatewayConnection
from strogoff.broker.gateway.local_clients import LATEST
from strogoff.broker.gateway.relayed_transport import RelayedTransport
from strogoff.broker.sessions import lost_connections
from strogoff.broker.sessions.lost_connections import LostConnections
from strogoff.broker.sessions.session import client_key_of
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets as p
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY

from .relay_harness import RelayHarness, Table

CLIENTS = 10
WILL = p.Will("will", b"gone")


@pytest.fixture
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are lost wait for ever, unless somebody needs them."""
    monkeypatch.setattr(LostConnections, "_plan", lambda self: None)


def sizes(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[int]:
    """Count how many connections each turn ends: the calls of this method while one step of a node runs."""
    monkeypatch.setattr(lost_connections, "STEP", 3)
    counts = [0]
    method: Callable[..., None] = getattr(kind, name)
    step = LostConnections._step

    def counted(self: Any, *arguments: Any) -> None:
        counts[-1] += 1
        method(self, *arguments)

    def stepped(self: LostConnections) -> None:
        counts.append(0)
        step(self)
        counts.append(0)

    monkeypatch.setattr(kind, name, counted)
    monkeypatch.setattr(LostConnections, "_step", stepped)
    return counts


def watched(cluster: RelayHarness, number: int) -> PacketClient:
    """Returns a client that gets the wills."""
    watcher = cluster[number].client("watcher", expiry_s=0)
    watcher.subscribe(("will", 0))
    return watcher


def break_tunnel(cluster: RelayHarness) -> None:
    """The tunnel between n1 and n2 breaks, and is open again."""
    tunnel = cluster[1].member.links._out["n2"].tunnel
    tunnel._restart("test")
    cluster.until(lambda: tunnel.open and cluster[2].member.links._out["n1"].tunnel.open)
    assert cluster[2].node.sessions.lost


@pytest.mark.parametrize("left", [False, True])
def test_the_clients_of_a_dead_gateway_end_in_steps(monkeypatch: pytest.MonkeyPatch, left: bool) -> None:
    cluster = RelayHarness(3)
    for number in range(CLIENTS):
        cluster[1].client(f"c{number}")
    counts = sizes(monkeypatch, RelayedTransport, "left" if left else "broken")
    if left:
        cluster.gateways(2).left("n1")
    else:
        cluster[1].kill()
    cluster.until(lambda: len(cluster[2].node.connections) == 0)
    assert [each for each in counts if each] == [3, 3, 3, 1]
    assert not any(session.online for session in cluster[2].node.sessions.in_memory())


@pytest.mark.parametrize("how", ["dies", "leaves", "has the slots no more"])
def test_the_sockets_of_the_clients_of_a_dead_primary_are_closed_in_steps(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    cluster = RelayHarness(3)
    clients = [cluster[1].client(f"c{number}") for number in range(CLIENTS)]
    counts = sizes(monkeypatch, GatewayConnection, "broken" if how == "dies" else "end")
    if how == "dies":
        cluster[2].kill()
    elif how == "leaves":
        cluster.gateways(1).left("n2")
    else:
        cluster.tables["n1"].apply("n3", 2)
    cluster.until(lambda: all(client.closed for client in clients))
    assert [each for each in counts if each][:4] == [3, 3, 3, 1]


def test_a_change_of_the_table_looks_once_for_each_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 50,000 clients relayed and as many served, looking for each client took 145 ms, and takes 15 ms."""
    cluster = RelayHarness(3)
    alike = [each for each in map(str, range(2_000)) if slot_of("", each) == 1]
    for client_id in alike:
        cluster[1].client(client_id)
    looked: list[int] = []
    primary_of = Table.primary_of

    def counted(table: Table, slot: int) -> str | None:
        looked.append(slot)
        return primary_of(table, slot)

    monkeypatch.setattr(Table, "primary_of", counted)
    for number in (1, 2):
        cluster.gateways(number).table_changed()
    assert len(alike) > 2 and looked == [1, 1] and cluster.counts(1)[0] == len(alike)


@pytest.mark.usefixtures("no_steps")
def test_a_lost_connection_sends_nothing_through_the_next_tunnel() -> None:
    """H-42: neither its messages nor its end, and the bytes of its client do not arrive."""
    cluster = RelayHarness(3)
    client = cluster[1].client("c")
    client.subscribe(("t", 0))
    other = cluster[3].client("other")
    break_tunnel(cluster)
    items: list[bytes] = []
    for number, peer in ((1, "n2"), (2, "n1")):
        links = cluster[number].member.links
        links.tunnel = lambda node, item, peer=peer: node != peer or items.append(item) or True  # type: ignore
    other.publish("t", b"lost", 0)
    client.send(publish("t", b"lost", 0))
    cluster.settle()
    assert cluster[2].node.sessions.lost and cluster[1].node.sessions.lost
    cluster[1].node.sessions.lost.end_all()
    cluster[2].node.sessions.lost.end_all()
    cluster.settle()
    assert items == [] and client.take() == [] and client.closed
    assert (cluster.counts(1), cluster.counts(2)) == ((0, 0, 0), (0, 1, 0)) and len(cluster[2].node.connections) == 1


@pytest.mark.usefixtures("no_steps")
@pytest.mark.parametrize("place", [1, 3])
@pytest.mark.parametrize("expiry_s", [600, 0])
def test_a_client_that_is_back_before_its_former_connection_has_ended_keeps_its_will(place: int, expiry_s: int) -> None:
    """H-39: through the same gateway, which lives, a takeover would publish the will."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = watched(cluster, 3)
    cluster[1].client("c", clean=False, expiry_s=600, will=WILL)
    break_tunnel(cluster)
    _, connack = cluster[place].connect("c", clean=not expiry_s, expiry_s=expiry_s)
    assert connack.session_present == bool(expiry_s) and not cluster[2].node.sessions.lost
    cluster.pass_s(3 * FAILOVER_GRACE_S)
    assert watcher.messages() == []


@pytest.mark.usefixtures("no_steps")
@pytest.mark.parametrize("how", ["stops", "must serve nobody"])
def test_a_primary_that_stops_does_not_publish_the_wills_of_lost_clients(how: str) -> None:
    """H-39: the cluster has ended these connections, the primary has not."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = watched(cluster, 3)
    cluster[1].client("c", clean=False, expiry_s=600, will=WILL)
    break_tunnel(cluster)
    if how == "stops":
        cluster[2].node.close()
    else:
        cluster[2].host.clustering.bar("a test")  # type: ignore[union-attr]
    cluster.settle()
    assert not cluster[2].node.sessions.lost and len(cluster[2].node.connections) == 0
    cluster.pass_s(FAILOVER_GRACE_S - 1)
    assert watcher.messages() == []


@pytest.mark.usefixtures("no_steps")
def test_a_waiting_client_of_a_broken_tunnel_asks_nobody_else() -> None:
    """It would be served, and then closed."""
    cluster = RelayHarness(3)
    cluster.network.delay("n2", "n1", 0.5)
    client = cluster[1].connect_soon("c")
    cluster.pass_s(0.1)
    assert client.take() == [] and not client.closed
    break_tunnel(cluster)
    cluster.apply("n3", 2)
    cluster.pass_s(1)
    assert client.take() == [] and cluster.counts(3) == (0, 0, 0)
    cluster[1].node.sessions.lost.end_all()
    cluster.settle()
    assert client.closed


@pytest.mark.usefixtures("no_steps")
def test_a_report_of_a_client_that_is_back_ends_its_lost_connection() -> None:
    """H-37: the gateway served it without a lease. It must not lose this connection to one that has ended."""
    cluster = RelayHarness(3)
    cluster[1].client("c", expiry_s=600)
    break_tunnel(cluster)
    registration = cluster.gateways(2).registration
    evicted: list[bytes] = []
    registration.evict = lambda client, _: evicted.append(client)  # type: ignore[assignment,method-assign]
    registration._reported("n3", 0, (client_key_of("", "c"), 5, LATEST, 0))
    assert evicted == [] and not cluster[2].node.sessions.lost
