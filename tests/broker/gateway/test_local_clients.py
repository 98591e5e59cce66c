"""Clients without durable state: they stay at their gateway, and one client id is served once (P3)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.gateway.gateway_connection import OPEN_BOUND_MS
from strogoff.broker.gateway.local_clients import RESOLVE_MS
from strogoff.cluster.node import ClusterNode
from strogoff.mqtt import packets as p
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient, connect, publish
from tests.harness.cluster import MAJORITY, ON
from tests.harness.thinning import thinned

from .relay_harness import RelayHarness, props

TAKEN_OVER = 0x8E


def clean(cluster: RelayHarness, number: int, client_id: str = "c", **fields: Any) -> PacketClient:
    """Returns a connected client without durable state at a node."""
    return cluster[number].client(client_id, expiry_s=None, **fields)


def soon(
    cluster: RelayHarness, number: int, *more: Any, client_id: str = "c", expiry_s: int = 0, clean: bool = True
) -> PacketClient:
    """Returns a client that has just sent its CONNECT to a node."""
    client = PacketClient(cluster[number], 5)  # type: ignore[arg-type]
    client.send(connect(client_id, 5, clean, expiry_s), *more)
    return client


def reasons(client: PacketClient) -> list[tuple[type, int]]:
    """Returns the packets that came, CONNACK and DISCONNECT with their reasons."""
    return [(type(each), getattr(each, "reason", -1)) for each in client.take()]


EVICTED = [(p.Disconnect, TAKEN_OVER)]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_client_without_durable_state_stays_at_its_gateway(version: int) -> None:
    cluster = RelayHarness(3)
    client = PacketClient(cluster[1], version)  # type: ignore[arg-type]
    client.send(connect("c", version))
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Connack]
    assert cluster.counts(1) == cluster.counts(2) == (0, 0, 0)
    assert (cluster.local(1), cluster.registered(2)) == (1, 1) and len(cluster[1].node.connections) == 1
    client.leave()
    assert (cluster.local(1), cluster.registered(2)) == (0, 0) and cluster.nothing_left()


def test_a_client_that_connects_again_at_its_gateway_takes_over_there() -> None:
    cluster = RelayHarness(3)
    first = clean(cluster, 1)
    second = clean(cluster, 1)
    assert reasons(first) == EVICTED and first.closed and not second.closed
    assert (cluster.local(1), cluster.registered(2)) == (1, 1)
    third = clean(cluster, 3)
    assert reasons(second) == EVICTED and not third.closed and cluster.local(1) == 0


@pytest.mark.parametrize("places", [(1, 3), (1, 2), (2, 1)])
def test_one_client_id_is_served_once(places: tuple[int, int]) -> None:
    """n2 is the registrar, and a gateway as well."""
    cluster = RelayHarness(3)
    client = clean(cluster, places[0])
    for turn in range(6):
        other = clean(cluster, places[(turn + 1) % 2])
        assert reasons(client) == EVICTED and client.closed
        assert [type(each) for each in other.ask(p.Pingreq())] == [p.Pingresp]
        client = other
    client.leave()
    assert [cluster.local(number) + cluster.registered(number) for number in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.parametrize("places", [(1, 3), (1, 1), (1, 2), (2, 1)])
def test_a_clean_start_elsewhere_ends_the_durable_session(places: tuple[int, int]) -> None:
    cluster = RelayHarness(3)
    durable = cluster[places[0]].client("c")
    durable.subscribe(("t", 1))
    other = clean(cluster, places[1])
    assert reasons(durable) == EVICTED and durable.closed
    assert cluster[2].node.sessions.known("", "c") is None or places[1] == 2
    cluster[2].kill()
    cluster[2].start()
    cluster.pass_s(5)
    assert not len(cluster[2].node.sessions)
    assert other.closed is (places[1] == 2)


@pytest.mark.parametrize("places", [(1, 3), (1, 1), (1, 2), (2, 1)])
def test_a_durable_session_takes_the_client_id_from_a_gateway(places: tuple[int, int]) -> None:
    cluster = RelayHarness(3)
    first = clean(cluster, places[0])
    durable, connack = cluster[places[1]].connect("c")
    assert reasons(first) == EVICTED and connack.reason == 0 and not connack.session_present
    durable.leave()
    assert [cluster.local(number) + cluster.registered(number) for number in (1, 2, 3)] == [0, 0, 0]


def test_a_client_that_keeps_nothing_resumes_a_session_that_is_there() -> None:
    """A version 5 client without Clean Start and without expiry continues its session at the primary."""
    cluster = RelayHarness(3)
    cluster[1].client("c").leave()
    client, connack = cluster[3].connect("c", clean=False, expiry_s=0)
    assert connack.session_present and cluster.counts(3) == (1, 0, 0)
    client.leave()
    client, connack = cluster[3].connect("c", clean=False, expiry_s=0)
    assert not connack.session_present and cluster.counts(3) == (0, 0, 0) and cluster.local(3) == 1


def test_the_deletion_of_the_durable_session_is_safe_before_the_client_is_served() -> None:
    """A restart of the primary would bring the session back."""
    cluster = RelayHarness(3)
    cluster[1].client("c").leave()
    cluster.pass_s(1)
    disk = cluster[2].disks[0]
    disk.stall_until = cluster.loop.now_s + 2
    client = soon(cluster, 3)
    cluster.pass_s(1)
    assert client.take() == []
    cluster.pass_s(2)
    assert reasons(client) == [(p.Connack, 0)]


# -- another registrar


def test_a_new_registrar_learns_the_clients_of_all_gateways() -> None:
    cluster = RelayHarness(3)
    clients = [clean(cluster, number, f"c{number}") for number in (1, 2, 3)]
    cluster.apply("n3", 2)
    assert not any(client.closed for client in clients) and cluster.registered(3) == 2 and cluster.registered(2) == 0
    for number, client in zip((1, 2, 3), clients, strict=True):
        assert not client.closed
        clean(cluster, number % 3 + 1, f"c{number}")
        assert reasons(client) == EVICTED


def test_a_new_registrar_answers_nobody_before_it_knows_all_gateways() -> None:
    """H-37: n1 has the client, and applies the table late."""
    cluster = RelayHarness(3)
    first = clean(cluster, 1)
    for number in (2, 3):
        cluster.tables[f"n{number}"].apply("n3", 2)
    cluster.settle()
    second = soon(cluster, 2)
    third = soon(cluster, 3)
    cluster.pass_s(1)
    assert second.take() == third.take() == [] and not first.closed
    cluster.tables["n1"].apply("n3", 2)
    cluster.settle()
    assert reasons(first) == EVICTED
    assert sorted([second.closed, third.closed]) == [False, True]


def test_an_answer_of_a_former_registrar_is_dropped() -> None:
    """H-37: n2 leaves the client to n1, and n1 has told n3 before that it has no client."""
    cluster = RelayHarness(3)
    cluster.network.delay("n2", "n1", 0.5)
    client = soon(cluster, 1)
    cluster.pass_s(0.1)
    assert cluster.registered(2) == 1 and client.take() == []
    cluster.apply("n3", 2)
    cluster.pass_s(0.1)
    other = clean(cluster, 3) if not client.take() else None
    cluster.pass_s(3)
    live = [each for each in (client, other) if each is not None and not each.closed]
    assert len(live) == 1 and cluster.registered(3) + cluster.local(1) in (0, 2)


def test_a_registrar_that_restarts_asks_again() -> None:
    cluster = RelayHarness(3, **MAJORITY)
    client = clean(cluster, 1)
    cluster[2].kill()
    cluster[2].start()
    cluster.relay(cluster[2], "n2")
    cluster.until(lambda: cluster.registered(2) == 1)
    assert not client.closed
    cluster.whole()
    clean(cluster, 3)
    assert reasons(client) == EVICTED


def test_a_broken_tunnel_costs_nobody_the_connection() -> None:
    """The end of a client while the tunnel is broken is found afterwards."""
    cluster = RelayHarness(3)
    stays, goes = clean(cluster, 1, "stays"), clean(cluster, 1, "goes")
    assert cluster.registered(2) == 2
    cluster.network.drop("n1", "n2")
    goes.leave()
    cluster.until(lambda: cluster.registered(2) == 1)
    assert not stays.closed
    clean(cluster, 3, "goes")
    clean(cluster, 3, "stays")
    assert reasons(stays) == EVICTED


def test_a_dead_gateway_frees_its_clients() -> None:
    cluster = RelayHarness(3, **MAJORITY)
    clean(cluster, 1)
    cluster[1].kill()
    cluster.pass_s(0.1)
    client = soon(cluster, 3)
    cluster.until(lambda: bool(client.received) or bool(client.take()))
    assert not client.closed and cluster.registered(2) == 1
    assert "n1" not in cluster[2].host.member.view.nodes  # type: ignore[union-attr]


# -- a slot without primary


def test_a_deputy_serves_clients_without_state_and_no_others() -> None:
    cluster = RelayHarness(3)
    cluster.give_deputy("n3", 2)
    client = clean(cluster, 1)
    assert cluster.registered(3) == 1
    durable = soon(cluster, 1, client_id="d", expiry_s=600)
    resumes = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    resumes.send(connect("r", 5, False, 0))
    cluster.settle()
    assert durable.take() == resumes.take() == []
    cluster.pass_s(OPEN_BOUND_MS / 1000 + 1)
    (connack,) = durable.take()
    assert connack.reason == 0x88 and "has no primary" in props(connack)["reason_string"]
    assert [each.reason for each in resumes.take()] == [0x88] and not client.closed


def test_a_deputy_makes_no_session_although_the_gateway_has_an_older_table() -> None:
    cluster = RelayHarness(3)
    cluster.give_deputy("n3", 3)
    cluster.tables["n1"].apply("n3", 2)
    durable = soon(cluster, 1, expiry_s=600)
    cluster.pass_s(1)
    assert durable.take() == [] and cluster.counts(3) == (0, 0, 0) and not len(cluster[3].node.sessions)


def test_a_primary_that_comes_back_ends_the_sessions_that_were_discarded_meanwhile() -> None:
    cluster = RelayHarness(3)
    cluster[1].client("c").leave()
    cluster.give_deputy("n3", 2)
    client = clean(cluster, 1)
    assert len(cluster[2].node.sessions) == 1
    cluster.apply("n2", 3)
    cluster.settle()
    assert not client.closed and len(cluster[2].node.sessions) == 0 and cluster.registered(2) == 1


@pytest.mark.parametrize(("end", "wills"), [("gateway dies", []), ("client vanishes", [b"gone"])])
def test_a_primary_that_comes_back_cancels_the_will_of_a_client_that_is_well(end: str, wills: list[bytes]) -> None:
    """H-39: its gateway had died, and the client was back while its slot had no primary."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = clean(cluster, 3, "watcher")
    watcher.subscribe(("will", 0))
    will = p.Will("will", b"gone", 0, False, {"will_delay_interval": 60})
    client = cluster[1].client("c", will=will)
    if end == "gateway dies":
        cluster[1].kill()
        cluster.until(lambda: cluster.counts(2) == (0, 0, 0))
    else:
        client.vanish()
        cluster.settle()
    cluster.give_deputy("n3", 2)
    clean(cluster, 3)
    cluster.apply("n2", 3)
    cluster.pass_s(1)
    assert cluster[2].node.sessions.known("", "c") is None
    assert [each.payload for each in watcher.messages()] == wills


def test_a_client_that_was_served_without_a_lease_is_registered_when_the_lease_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first lease is over in the same turn."""
    cluster = RelayHarness(3, **ON)
    node, clustering = cluster[1].node, cluster[1].host.clustering
    assert clustering is not None
    node.policy.view_state = ViewState.MINORITY
    client = clean(cluster, 1)
    assert cluster.registered(2) == 0
    clustering.lease_changed()
    monkeypatch.setattr(ClusterNode, "leased", lambda member: False)
    cluster.settle()
    assert cluster.registered(2) == 0
    monkeypatch.undo()
    clustering.lease_changed()
    cluster.settle()
    assert cluster.registered(2) == 1 and not client.closed
    clean(cluster, 3)
    assert client.closed and cluster.registered(2) == 1


@pytest.mark.parametrize("expiry_s", [None, 600])
def test_a_registrar_that_serves_a_client_without_a_lease_ends_the_former_connection(expiry_s: int | None) -> None:
    """H-37: it knows that the client is at n1. Neither a view nor a tunnel ends, so nobody asks n1 again."""
    cluster = RelayHarness(3, **ON)
    node, clustering = cluster[2].node, cluster[2].host.clustering
    assert clustering is not None
    other, former = clean(cluster, 1, "other"), clean(cluster, 1)
    node.policy.view_state = ViewState.MINORITY
    newer = cluster[2].client("c", expiry_s=expiry_s)
    clustering.lease_changed()
    cluster.settle()
    assert reasons(former) == EVICTED and not newer.closed and not other.closed
    assert cluster.local(1) == cluster.registered(2) == 1


@pytest.mark.parametrize("policy", [MAJORITY, ON])
def test_a_client_that_changed_sides_and_left_before_the_heal(policy: dict[str, Any]) -> None:
    """No node knows any more that it was there. Its former connection ends as any other one (docs/netsplit.md)."""
    cluster = RelayHarness(3, **policy)
    moves, stays = clean(cluster, 1, "moves", keepalive_s=60), clean(cluster, 1, "stays", keepalive_s=60)
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    cluster.state_of(3, ViewState.MAJORITY)
    for each in (clean(cluster, 3, "moves"), clean(cluster, 3, "stays")):
        each.leave()
    for other in ("n2", "n3"):
        cluster.network.heal("n1", other)
    cluster.whole()
    cluster.settle()
    assert not moves.closed and not stays.closed and cluster.registered(2) == 2
    clean(cluster, 3, "moves")
    assert reasons(moves) == EVICTED
    cluster.pass_s(90)
    assert reasons(stays) == [(p.Disconnect, 0x8D)] and cluster.registered(2) == 1


def test_a_session_that_was_discarded_without_a_lease_does_not_continue() -> None:
    """H-37: the client discards its session at n1, and asks for it there before n2 knows that."""
    cluster = RelayHarness(3, **ON)
    node, clustering = cluster[1].node, cluster[1].host.clustering
    assert clustering is not None
    cluster[1].client("c").leave()
    cluster.tables["n1"].holds = lambda slot: False  # type: ignore[method-assign]
    node.policy.view_state = ViewState.MINORITY
    client = clean(cluster, 1)
    durable = soon(cluster, 1, clean=False)
    cluster.pass_s(1)
    assert durable.take() == [] and not client.closed
    clustering.lease_changed()
    cluster.settle()
    assert [each.session_present for each in durable.take()] == [False]
    assert client.closed
    durable.leave()
    assert cluster.nothing_left()


def test_a_client_that_its_registrar_knows_is_relayed_without_a_lease() -> None:
    cluster = RelayHarness(3, **ON)
    client = clean(cluster, 1)
    cluster.tables["n1"].holds = lambda slot: False  # type: ignore[method-assign]
    cluster[1].node.policy.view_state = ViewState.MINORITY
    clean(cluster, 1, "unknown")
    _, connack = cluster[1].connect("c", clean=False)
    assert not connack.session_present and reasons(client) == EVICTED


def test_a_client_whose_node_gets_no_lease_learns_why_it_waits() -> None:
    cluster = RelayHarness(3, **ON)
    cluster.tables["n1"].holds = lambda slot: False  # type: ignore[method-assign]
    cluster[1].node.policy.view_state = ViewState.MINORITY
    clean(cluster, 1)
    durable = soon(cluster, 1, clean=False)
    cluster.pass_s(OPEN_BOUND_MS / 1000 + 1)
    connack = durable.take()[0]
    assert connack.reason == 0x88 and "this node has no lease" in props(connack)["reason_string"]


# -- messages on their way


def test_a_connect_that_waits_ends_when_its_client_is_served_without_a_lease() -> None:
    """H-37: with the lease n1 would serve the older CONNECT as well, and end the newer connection for it."""
    cluster = RelayHarness(3, **ON)
    cluster.isolate(1)
    older = soon(cluster, 1)
    cluster.state_of(1, ViewState.MINORITY)
    assert not older.closed and cluster.counts(1)[2] == 1
    newer = clean(cluster, 1)
    assert older.closed and older.take() == [] and cluster.counts(1) == (0, 0, 0)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(2)
    assert not newer.closed and cluster.registered(2) == 1


def test_a_connect_that_waits_for_a_former_primary_ends_when_its_client_connects_again() -> None:
    """H-37: n2 says late that it has made no session, and n3 would serve the older CONNECT after the newer one."""
    cluster = RelayHarness(3)
    cluster.network.delay("n1", "n2", 0.5)
    older = soon(cluster, 1, clean=False, expiry_s=600)
    cluster.settle()
    cluster.apply("n3", 2)
    newer, connack = cluster[1].connect("c", clean=False)
    assert connack.reason == 0 and older.closed and older.take() == []
    cluster.pass_s(2)
    assert not newer.closed and cluster.counts(1) == (1, 0, 0) and cluster.counts(2) == (0, 0, 0)


def test_a_taken_over_client_is_served_elsewhere_when_its_publishes_have_arrived() -> None:
    """H-38: else a message of its next connection could overtake them."""
    cluster = RelayHarness(3)
    reader = clean(cluster, 3, "reader")
    reader.subscribe(("t", 1))
    first = clean(cluster, 1)
    cluster.network.delay("n1", "n3", 0.3)
    first.send(publish("t", b"1", 1))
    cluster.settle()
    second = soon(cluster, 2)
    cluster.pass_s(0.2)
    assert reasons(first) == EVICTED and second.take() == []
    cluster.pass_s(1)
    assert reasons(second) == [(p.Connack, 0)]
    second.publish("t", b"2", 1)
    assert reader.payloads() == [b"1", b"2"]


@pytest.mark.parametrize("places", [(1, 2), (2, 1), (2, 3)])
def test_a_client_that_left_is_served_elsewhere_when_its_publishes_have_arrived(places: tuple[int, int]) -> None:
    cluster = RelayHarness(3)
    reader = clean(cluster, 3, "reader")
    reader.subscribe(("t", 1))
    first = clean(cluster, places[0])
    cluster.network.delay(f"n{places[0]}", "n3", 0.3)
    first.send(publish("t", b"1", 1))
    cluster.settle()
    first.vanish()
    second = soon(cluster, places[1])
    cluster.pass_s(0.2)
    assert second.take() == []
    cluster.pass_s(1)
    assert reasons(second) == [(p.Connack, 0)]
    assert reader.payloads() == [b"1"]


def test_a_new_registrar_leaves_a_client_alone_that_has_connected_again() -> None:
    """The former connection of the client still counts at the same gateway."""
    cluster = RelayHarness(3)
    reader = clean(cluster, 3, "reader")
    reader.subscribe(("t", 1))
    first = clean(cluster, 1)
    cluster.network.delay("n1", "n3", 1.0)
    first.send(publish("t", b"1", 1))
    cluster.settle()
    first.vanish()
    second = clean(cluster, 1)
    assert cluster.local(1) == 2
    cluster.apply("n3", 2, "c")
    cluster.pass_s(5)
    assert not second.closed and cluster.registered(3) == 1


def test_publishes_for_an_absent_node_hold_nobody_for_long() -> None:
    cluster = RelayHarness(3, **MAJORITY)
    cluster[3].client("reader", expiry_s=None)  # local
    durable = cluster[2].client("durable")
    durable.subscribe(("t", 1))
    first = clean(cluster, 1)
    cluster.network.delay("n1", "n2", 60.0)
    first.send(publish("t", b"1", 1))
    cluster.settle()
    first.vanish()
    assert cluster.local(1) == 1
    cluster.pass_s(RESOLVE_MS / 1000 + 0.5)
    assert cluster.local(1) == 0


def test_a_client_whose_gateway_has_no_answer_yet_can_lose_its_client_id() -> None:
    """The deletion of its durable session is not safe yet when the client id connects elsewhere."""
    cluster = RelayHarness(3)
    cluster[1].client("c").leave()
    cluster.pass_s(1)
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 2
    first = soon(cluster, 3)
    cluster.pass_s(0.5)
    second = soon(cluster, 1)
    cluster.pass_s(0.5)
    assert first.closed and first.take() == second.take() == []
    cluster.pass_s(2)
    assert reasons(second) == [(p.Connack, 0)]


# -- many at once, and faults


def test_of_many_connects_at_once_one_is_served_in_the_end() -> None:
    cluster = RelayHarness(3)
    clients = [soon(cluster, number % 3 + 1, expiry_s=600 * (number % 4 == 3)) for number in range(40)]
    cluster.pass_s(2)
    live = [client for client in clients if not client.closed]
    assert len(live) == 1 and reasons(live[0]) == [(p.Connack, 0)]
    for client in clients:
        if client is not live[0]:
            assert reasons(client) in ([(p.Connack, 0), *EVICTED], [])
    clean(cluster, 2)
    assert live[0].closed


@pytest.mark.parametrize("turns", thinned(range(0, 40, 2), 10))
@pytest.mark.parametrize("fault", ["cut", "drop", "kill old", "kill new", "kill registrar"])
def test_a_fault_at_each_step_of_a_takeover(turns: int, fault: str) -> None:
    """Whatever the step, one connection is left at most, and the client id is not stuck."""
    cluster = RelayHarness(4, **MAJORITY)
    old = clean(cluster, 1)
    new = soon(cluster, 3)
    for _ in range(turns):
        cluster.loop._turn(cluster.loop.now_s)
    if fault == "kill old":
        cluster[1].kill()
    elif fault == "kill new":
        cluster[3].kill()
    elif fault == "kill registrar":
        cluster[2].kill()
        for harness in cluster.nodes:
            if harness.host.up:
                cluster.tables[harness.host.name].apply("n4", 2)
    elif fault == "cut":
        cluster.network.cut("n1", "n2")
        cluster.network.cut("n3", "n2")
    else:
        cluster.network.drop("n1", "n2")
    cluster.pass_s(2)
    cluster.network.heal()
    cluster.pass_s(10)
    served = [each for each in (old, new) if not each.closed]
    assert len(served) <= 1 or fault == "kill new"
    again = soon(cluster, 4)
    cluster.pass_s(6)
    assert reasons(again) == [(p.Connack, 0)] and not again.closed
    assert all(each.closed for each in served)
