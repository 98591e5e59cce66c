"""A client id stays with its gateway until other nodes have answered for what was published there (H-38).

The answers wait for the disk of n3, which has the session of a reader.
"""

from __future__ import annotations

import pytest

from strogoff.broker.gateway.local_clients import RESOLVE_MS
from strogoff.cluster.identity import slot_of
from tests.harness.broker import PacketClient, publish

from .relay_harness import RelayHarness


def made() -> RelayHarness:
    """Returns a cluster in which n2 registers the client `c`, and n3 has the reader."""
    cluster = RelayHarness(3, "n2")
    cluster.apply("n3", 2, "reader")
    cluster[3].client("reader").subscribe(("t", 1))
    cluster.pass_s(1)
    return cluster


def published(cluster: RelayHarness, client: PacketClient) -> None:
    """The client publishes and goes, without an answer."""
    client.send(publish("t", b"1", 1))
    cluster.settle()
    client.vanish()
    cluster.settle()


def unanswered(cluster: RelayHarness, number: int, stall_s: float = 1.0) -> None:
    """A client without durable state publishes at a node and goes. The disk hangs for so long."""
    client = cluster[number].client("c", expiry_s=None)
    cluster[3].disks[0].stall_until = cluster.loop.now_s + stall_s
    published(cluster, client)


def waits(cluster: RelayHarness, number: int, for_s: float) -> bool:
    """Whether a client that connects at a node is served in time, and not 0.3 s earlier."""
    client = cluster[number].connect_soon("c", expiry_s=0)
    cluster.pass_s(for_s - 0.3)
    early = client.take()
    cluster.pass_s(0.4)
    return not early and [each.reason for each in client.take()] == [0]


def test_connections_of_one_client_wait_together() -> None:
    """The registrar knows only the last connection, and the gateway keeps no list of them."""
    cluster = made()
    unanswered(cluster, 1)
    for turn in range(20):
        client = cluster[1].client("c", expiry_s=None)
        if turn % 2:
            published(cluster, client)
        client.vanish()
        cluster.settle()
        assert cluster.local(1) == cluster.registered(2) == 1
    assert waits(cluster, 2, 1.0)
    assert cluster.local(1) == cluster.registered(2) == 0


def test_a_connection_without_a_publish_begins_no_new_wait() -> None:
    cluster = made()
    unanswered(cluster, 1, 60)
    cluster.pass_s(RESOLVE_MS / 1000 - 0.5)
    cluster[1].client("c", expiry_s=None).vanish()
    assert waits(cluster, 2, 0.5) and cluster.local(1) == 0


@pytest.mark.parametrize(("gateway", "registrar"), [(2, "n2"), (1, "n1"), (2, "n1"), (1, "n3")])
def test_the_registrar_of_a_new_epoch_waits_for_an_ended_connection(gateway: int, registrar: str) -> None:
    """It is the former one, the gateway itself, or a node that has to ask the gateway."""
    cluster = made()
    unanswered(cluster, gateway)
    cluster.apply(registrar, 2, "c")
    assert cluster.registered(int(registrar[1])) == 1
    assert waits(cluster, 3 - gateway, 1.0) and cluster.local(gateway) == 0


def test_a_connection_ends_before_the_next_registrar_has_asked_for_it() -> None:
    """Its node has registered it itself, and does not register the slot any more."""
    cluster = made()
    client = cluster[2].client("c", expiry_s=None)
    cluster.tables["n2"].apply("n1", 2, [slot_of("", "c")])
    cluster[3].disks[0].stall_until = cluster.loop.now_s + 1
    published(cluster, client)
    cluster.apply("n1", 2, "c")
    assert waits(cluster, 3, 1.0)


def test_a_connection_that_has_ended_hides_none_that_goes_on() -> None:
    """It may have got its number later. A registrar takes the connection with the larger number for the later one."""
    cluster = made()
    unanswered(cluster, 1)
    cluster[1].client("c", expiry_s=None)
    local = cluster.gateways(1).registration.local
    (reported,), (ended,) = local.clients_in([slot_of("", "c")]), local.ended()
    assert reported[1] != ended[1]
