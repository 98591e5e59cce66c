"""Relayed clients while nodes die, links break, processes pause and the table changes."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.connection.connection import FAILOVER_GRACE_S
from strogoff.broker.connection.handshake import Admission
from strogoff.broker.connection.transport import ConnectionOrigin
from strogoff.broker.gateway.gateway_connection import OPEN_BOUND_MS
from strogoff.broker.gateway.messages import OPEN, OPEN_PART, PIECE_BYTES, REPORTED, encode_opening, head
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets as p
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient, connect, option, publish
from tests.harness.cluster import MAJORITY
from tests.harness.listeners import tcp
from tests.harness.thinning import thinned

from .relay_harness import RelayHarness, props

OPEN_BOUND_S = OPEN_BOUND_MS / 1000


def lines(cluster: RelayHarness, number: int) -> str:
    return "\n".join(line for _, line in cluster[number].host.lines)


def waiting(cluster: RelayHarness, client_id: str = "c", **fields: Any) -> PacketClient:
    """Returns a client of n1 that waits for its CONNACK."""
    client = cluster[1].connect_soon(client_id, **fields)
    assert client.take() == [] and not client.closed
    return client


def test_a_dead_gateway_ends_its_clients_at_the_primary() -> None:
    """H-32: as lost clients, whose wills are published."""
    cluster = RelayHarness(3)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 0))
    cluster[1].client("c", clean=False, expiry_s=600, will=p.Will("will", b"gone"))
    assert cluster.counts(2) == (0, 2, 0)
    cluster[1].kill()
    cluster.until(lambda: cluster.counts(2) == (0, 1, 0))
    cluster.pass_s(FAILOVER_GRACE_S - 1)
    assert watcher.messages() == []
    cluster.pass_s(2)
    assert [each.payload for each in watcher.messages()] == [b"gone"]
    assert not cluster[2].node.sessions.get("", "c").online  # type: ignore[union-attr]
    assert "relayed client connections with n1 end" in lines(cluster, 2)


def test_a_client_that_comes_back_from_a_dead_gateway_keeps_its_will() -> None:
    """H-39: the client is well, so nobody gets its will."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 0))
    cluster[1].client("c", clean=False, expiry_s=600, will=p.Will("will", b"gone"))
    cluster[1].kill()
    cluster.until(lambda: cluster.counts(2) == (0, 1, 0))
    cluster.until(lambda: "n1" not in cluster[2].host.member.view.nodes)  # type: ignore[union-attr]
    again, connack = cluster[3].connect("c", clean=False, expiry_s=600, will=p.Will("will", b"later"))
    assert connack.session_present
    cluster.pass_s(2 * FAILOVER_GRACE_S)
    assert watcher.messages() == []
    again.vanish()
    assert [each.payload for each in watcher.messages()] == [b"later"]


@pytest.mark.parametrize(("away_s", "present"), [(FAILOVER_GRACE_S - 2, True), (FAILOVER_GRACE_S + 1, False)])
def test_a_client_of_a_dead_gateway_has_time_to_come_back(away_s: int, present: bool) -> None:
    """H-39: its session expires after a second, but the cluster has ended its connection."""
    cluster = RelayHarness(3, **MAJORITY)
    cluster.pass_s(2 * FAILOVER_GRACE_S)  # no session expires soon after its node has got a lease
    cluster[1].client("c", clean=False, expiry_s=1, will=p.Will("will", b"gone"))
    cluster[1].kill()
    cluster.until(lambda: cluster.counts(2)[1] == 0)
    cluster.pass_s(away_s)
    _, connack = cluster[3].connect("c", clean=False, expiry_s=1)
    assert connack.session_present == present


def test_a_dead_primary_closes_the_sockets_without_a_reason() -> None:
    """A reason code would tell some clients not to come back."""
    cluster = RelayHarness(3, **MAJORITY)
    client = cluster[1].client("c")
    other = cluster[3].client("other")
    cluster[2].kill()
    cluster.until(lambda: client.closed and other.closed)
    assert client.take() == other.take() == [] and cluster.nothing_left()
    again = waiting(cluster)
    cluster.apply("n3", 2)
    cluster.until(lambda: "n2" not in cluster[3].host.member.view.nodes)  # type: ignore[union-attr]
    assert [type(each) for each in again.take()] == [p.Connack]
    assert cluster.counts(3) == (0, 1, 0)
    third = cluster[3].client("third")
    assert third.publish("t", b"", 1)[0].reason == 0x10


@pytest.mark.parametrize("version", [4, 5])
def test_a_client_waits_for_a_primary_and_is_refused_with_the_reason(version: int) -> None:
    cluster = RelayHarness(2, None)
    client = waiting(cluster, version=version)
    cluster.pass_s(OPEN_BOUND_S - 1)
    assert client.take() == []
    cluster.pass_s(1.5)
    (connack,) = client.take()
    assert connack.reason == (0x88 if version == 5 else 3) and client.closed
    if version == 5:
        slot = slot_of("", "c")
        assert props(connack)["reason_string"] == f"no node serves this client id now: slot {slot} has no primary"
    assert cluster.counts(1) == (0, 0, 0)


def test_a_client_that_waits_is_served_when_a_primary_is_there() -> None:
    cluster = RelayHarness(2, None)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, True, 600), p.Subscribe(1, [option("t")]))
    cluster.settle()
    client.send(p.Pingreq())
    cluster.pass_s(5)
    assert client.take() == [] and cluster.counts(1) == (0, 0, 1)
    cluster.apply("n2", 2)
    cluster.pass_s(0.1)
    assert {type(each) for each in client.take()} == {p.Connack, p.Suback, p.Pingresp}
    assert cluster.counts(1) == (1, 0, 0)


def test_a_client_that_waits_may_be_served_by_its_own_node() -> None:
    cluster = RelayHarness(2, None)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, True, 600), p.Subscribe(1, [option("t")]))
    cluster.settle()
    client.send(p.Pingreq())
    cluster.settle()
    cluster.apply("n1", 2)
    cluster.pass_s(0.1)
    assert {type(each) for each in client.take()} == {p.Connack, p.Suback, p.Pingresp}
    assert cluster.counts(1) == (0, 0, 0) and len(cluster[1].node.sessions) == 1
    assert {type(each) for each in client.publish("t", b"x", 1)} == {p.Publish, p.Puback}


def test_a_client_that_goes_while_it_waits_is_forgotten() -> None:
    cluster = RelayHarness(2, None)
    client = waiting(cluster)
    client.break_off()
    cluster.settle()
    assert cluster.counts(1) == (0, 0, 0) and len(cluster[1].node.connections) == 0
    cluster.apply("n2", 2)
    assert len(cluster[2].node.sessions) == 0


def test_a_client_without_an_answer_is_closed_when_the_tunnel_breaks() -> None:
    """[MQTT-3.2.2-2] The primary may have made the session for it, and may publish its will. A second attempt for the
    same CONNECT would find that session, and report one that the client does not know of."""
    cluster = RelayHarness()
    cluster.network.delay("n2", "n1", 0.5)
    client = waiting(cluster, clean=False)
    cluster.pass_s(0.1)
    assert cluster.counts(2) == (0, 1, 0) and client.take() == []
    cluster[1].node.gateways.tunnel_broken("n2", "test")
    cluster.settle()
    assert client.closed and client.take() == [] and cluster.counts(1) == (0, 0, 0)


def test_a_node_that_may_have_made_the_session_is_not_asked_again() -> None:
    """The slot had no primary for a while, and the node that was asked before has it again."""
    cluster = RelayHarness()
    cluster.network.delay("n2", "n1", 0.5)
    client = waiting(cluster, clean=False)
    cluster.pass_s(0.1)
    assert cluster.counts(2) == (0, 1, 0)
    cluster.tables["n1"].apply(None, 1)
    cluster.settle()
    assert not client.closed
    cluster.apply("n2", 2)
    cluster.pass_s(2)
    (connack,) = client.take()
    assert not connack.session_present and client.closed and cluster.counts(1) == (0, 0, 0)


def test_no_node_is_asked_while_another_one_may_have_made_the_session() -> None:
    """H-35: the gateway reads the log again, so its table names n3 and then n2, which was asked at first."""
    cluster = RelayHarness(3)
    cluster.apply("n2", 3)
    cluster.tables["n1"].apply("n2", 1)
    cluster.network.delay("n2", "n1", 0.5)
    client = waiting(cluster, clean=False)
    cluster.tables["n1"].apply("n3", 2)
    cluster.pass_s(0.1)
    assert cluster.counts(2) == (0, 1, 0) and cluster.counts(1) == (1, 0, 1)
    cluster.tables["n1"].apply("n2", 3)
    cluster.pass_s(2)
    (connack,) = client.take()
    assert not connack.session_present and cluster.counts(1) == (1, 0, 0)
    cluster.tables["n1"].apply("n2", 3)  # some other slot has changed
    client.send(p.Pingreq())
    cluster.pass_s(1)
    assert [type(each) for each in client.take()] == [p.Pingresp]


def test_another_node_is_asked_when_the_first_one_has_made_no_session() -> None:
    """H-35: the slot goes to n3 while OPEN is on its way to n2."""
    cluster = RelayHarness(3)
    cluster.network.delay("n1", "n2", 0.5)
    client = waiting(cluster, clean=False)
    cluster.apply("n3", 2)
    cluster.pass_s(0.1)
    assert client.take() == [] and len(cluster[3].node.sessions) == 0
    cluster.pass_s(1)
    (connack,) = client.take()
    assert not connack.session_present and not client.closed
    assert cluster.counts(2) == (0, 0, 0) and cluster.counts(3) == (0, 1, 0)


def test_a_client_without_an_answer_is_closed_when_the_asked_node_leaves_the_view() -> None:
    """H-35: that node may have made the session. The tunnel may still be open."""
    cluster = RelayHarness(3)
    cluster.network.delay("n2", "n1", 0.5)
    client = waiting(cluster, clean=False)
    cluster.gateways(1).left("n2")
    cluster.settle()
    assert client.closed and client.take() == [] and cluster.counts(1) == (0, 0, 0)


def test_a_client_stays_at_its_gateway_when_the_present_registrar_knows_it() -> None:
    """The slot has another registrar when the answer of the former one arrives."""
    cluster = RelayHarness(3)
    cluster.network.delay("n2", "n1", 0.5)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, False))
    cluster.pass_s(0.1)
    assert client.take() == [] and cluster.registered(2) == 1
    cluster.apply("n3", 2)
    cluster.pass_s(2)
    (connack,) = client.take()
    assert not connack.session_present
    assert (cluster.local(1), cluster.registered(2), cluster.registered(3)) == (1, 0, 1)


def test_a_refusal_names_the_node_that_did_not_answer() -> None:
    """It waits for a table that the log does not bring."""
    cluster = RelayHarness(3)
    cluster.tables["n1"].apply("n2", 2)
    client = waiting(cluster, clean=False)
    cluster.tables["n1"].apply("n3", 3)
    cluster.pass_s(OPEN_BOUND_S + 1)
    (connack,) = client.take()
    assert props(connack)["reason_string"] == "n2 was asked to serve this client id, and did not answer within 10 s"


@pytest.mark.parametrize("breaks", [False, True])
def test_the_last_bytes_of_a_client_are_dropped_when_the_primary_has_closed_the_connection(breaks: bool) -> None:
    """They wait for credit, which nobody gives any more."""
    cluster = RelayHarness(max_message_size=0)
    client = cluster[1].client("c")
    ((transport, _),) = cluster[2].node.gateways._peers["n1"].served.values()
    transport.pause_reading()
    client.send(publish("t", bytes(600_000), 1, 1))
    cluster.settle()
    client.break_off()
    cluster.settle()
    ((number, connection),) = cluster[1].node.gateways._peers["n2"].asked.items()
    assert connection.over and connection.flow is not None and connection.flow.out.waiting > 0
    if breaks:
        cluster[1].node.gateways.tunnel_broken("n2", "test")
    else:
        cluster[2].client("c")
    cluster.settle()
    assert cluster.counts(1) == (0, 0, 0) and connection.flow.out.waiting == 0
    assert number not in cluster[1].node.gateways._peers["n2"].asked


def test_a_node_that_is_not_the_primary_is_asked_once_for_each_table() -> None:
    """H-36: the gateway asks again when its own table changes, not before."""
    cluster = RelayHarness(3)
    cluster.tables["n2"].apply("n3", 2)
    sent: list[bytes] = []
    tunnel = cluster[1].host.member.links.tunnel  # type: ignore[union-attr]
    cluster[1].host.member.links.tunnel = lambda node, item: sent.append(item) or tunnel(node, item)  # type: ignore
    client = waiting(cluster)
    cluster.pass_s(5)
    assert [each[0] for each in sent] == [OPEN] and client.take() == []
    cluster.tables["n3"].apply("n3", 2)
    cluster.tables["n1"].apply("n3", 2)
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Connack]
    assert [each[0] for each in sent if each[0] != REPORTED] == [OPEN, OPEN]


def test_a_gateway_with_an_old_table_says_so_in_the_refusal() -> None:
    cluster = RelayHarness()
    cluster.tables["n2"].apply("n1", 2)
    client = waiting(cluster)
    cluster.pass_s(OPEN_BOUND_S + 1)
    (connack,) = client.take()
    assert props(connack)["reason_string"] == "n2 has another table: it does not serve this client id"


def test_a_primary_with_an_old_table_keeps_the_request_until_it_has_the_new_one() -> None:
    cluster = RelayHarness(2, "n1")
    cluster.tables["n1"].apply("n2", 2)
    client = waiting(cluster)
    gone = waiting(cluster, "gone")
    cluster.pass_s(1)
    gone.break_off()
    cluster.settle()
    cluster.tables["n2"].apply("n2", 2)
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Connack]
    assert cluster.counts(2) == (0, 1, 0) and [each.client_id for each in cluster[2].node.sessions.in_memory()] == ["c"]


@pytest.mark.parametrize(
    "change",
    [
        {"modifiers": {"properties": {"user_property": [5]}}},
        {"modifiers": {"session_expiry_interval": "soon"}},
        {"modifiers": {"session_expiry_interval": [1]}},
        {"modifiers": {"allow_register": "sometimes"}},
        {"mountpoint": "m" * 70_000},
    ],
)
def test_a_client_with_decisions_that_make_no_sense_is_refused_alone(change: dict[str, Any]) -> None:
    """The gateway has a bug: its other clients stay connected."""
    cluster = RelayHarness()
    other = cluster[1].client("other")
    streams = [each.member.links._in["n1"].peer for each in cluster.nodes[1:] if each.member]
    facts: dict[str, Any] = {"mountpoint": "", "client_id": "c", "username": None, "modifiers": {}, "auth_method": None}
    facts |= {"message_limit": 0, "packet_limit": 0, "problem_information": True}
    data = encode_opening(1, ConnectionOrigin("h", 5, tcp()), p.Connect("c", 5), Admission(**(facts | change)))
    member = cluster[1].host.member
    assert member is not None
    for at in range(0, len(data), PIECE_BYTES):
        piece = data[at : at + PIECE_BYTES]
        member.links.tunnel("n2", head(OPEN_PART, 1 << 40, len(piece)) + piece)
    member.links.tunnel("n2", head(OPEN, 1 << 40, 0))
    cluster.settle()
    assert f"relayed client connection {1 << 40} with n1 is closed" in lines(cluster, 2)
    assert [each.member.links._in["n1"].peer for each in cluster.nodes[1:] if each.member] == streams
    assert other.subscribe(("t", 1)) and cluster.counts(2)[1] == 1


def test_when_a_slot_gets_another_primary_its_clients_are_closed() -> None:
    """Also when the same node is primary again: its sessions may have changed in between."""
    cluster = RelayHarness(3)
    moved, stays = cluster[1].client("moved"), cluster[1].client("stays")
    cluster.apply("n3", 2, "moved")
    assert moved.closed and moved.take() == [] and not stays.closed
    again = cluster[1].client("moved")
    assert cluster.counts(3)[1] == 1
    cluster.apply("n3", 3, "moved")
    assert again.closed and not stays.closed
    stays.close()
    cluster.settle()
    assert cluster.nothing_left()


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_either_end_of_a_relay_ends_it_when_its_own_table_changes(node: str) -> None:
    """H-35: the other end has not applied the new table yet."""
    cluster = RelayHarness(3)
    client = cluster[1].client("c")
    cluster.tables[node].apply("n3", 2)
    cluster.settle()
    assert client.closed and cluster.nothing_left()


def test_a_stopping_primary_takes_no_client() -> None:
    cluster = RelayHarness()
    cluster.gateways(2).close()
    client = waiting(cluster)
    cluster.apply("n1", 2)
    assert [type(each) for each in client.take()] == [p.Connack]


def test_a_node_that_leaves_the_view_is_reported_to_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = RelayHarness(3)
    gone: list[str] = []
    monkeypatch.setattr(cluster.gateways(2), "left", gone.append)
    cluster.isolate(1)
    cluster.until(lambda: gone)
    assert gone == ["n1"]


def test_an_answer_to_an_earlier_attempt_is_dropped() -> None:
    """H-35: the first primary answers after the table has named another one; only the second one serves the client."""
    cluster = RelayHarness(3)
    cluster.apply("n3", 2, "watcher")
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("t", 0))
    cluster.network.delay("n2", "n1", 0.5)
    client = waiting(cluster, will=p.Will("t", b"will"))
    cluster.pass_s(0.1)
    assert cluster.counts(2) == (0, 1, 0)
    cluster.tables["n1"].apply("n3", 3)
    cluster.tables["n3"].apply("n3", 3)
    cluster.pass_s(2)
    assert cluster.counts(2) == (0, 0, 0) and client.take() == []
    cluster.tables["n2"].apply("n3", 3)
    cluster.pass_s(1)
    assert [type(each) for each in client.take()] == [p.Connack] and not client.closed
    assert cluster.counts(2) == (0, 0, 0) and cluster.counts(3) == (0, 1, 0)
    assert [type(each) for each in client.ask(p.Pingreq())] == [p.Pingresp]
    cluster.pass_s(2 * FAILOVER_GRACE_S)
    assert watcher.messages() == []


@pytest.mark.parametrize("turns", thinned(range(0, 40, 2), 10))
@pytest.mark.parametrize("fault", ["cut", "drop", "kill gateway", "kill primary"])
def test_a_fault_at_each_step_of_open(turns: int, fault: str) -> None:
    """H-30, H-32: whatever the step, the client gets one CONNACK or is closed, and no node keeps a part of it."""
    cluster = RelayHarness(3)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, False, 600))
    for _ in range(turns):
        cluster.loop._turn(cluster.loop.now_s)
    if fault == "kill gateway":
        cluster[1].kill()
    elif fault == "kill primary":
        cluster[2].kill()
    elif fault == "cut":
        cluster.network.cut("n1", "n2")
    else:
        cluster.network.drop("n1", "n2")
    cluster.pass_s(4)
    cluster.network.heal()
    cluster.pass_s(OPEN_BOUND_S + 5)
    assert [type(each) for each in client.take()] in ([], [p.Connack])
    if fault == "drop":
        assert client.closed is (cluster.counts(1)[0] == 0)
    up = [harness for harness in cluster.nodes if harness.host.up]
    client.close()
    cluster.settle()
    for harness in up:
        assert harness.node.gateways.counts["relay_waiting_connects"] == 0
        session = harness.node.sessions.get("", "c")
        assert session is None or not session.online
    assert cluster.nothing_left()


def test_gone_comes_after_open() -> None:
    """H-30: a client that connects and closes at once leaves nothing at the primary."""
    cluster = RelayHarness()
    for number in range(20):
        client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
        client.send(connect(f"c{number}", 5))
        for _ in range(number):
            cluster.loop._turn(cluster.loop.now_s)
        client.close()
    cluster.pass_s(1)
    assert cluster.nothing_left() and len(cluster[2].node.connections) == 0


def test_keep_alive_is_measured_at_the_gateway() -> None:
    """H-34: the primary stands still for longer than the interval, and the client has sent all the time."""
    cluster = RelayHarness(3)
    client = cluster[1].client("c", keepalive_s=1)
    cluster[2].pause_process()
    for _ in range(3):
        client.send(p.Pingreq())
        cluster.pass_s(0.4)
    cluster[2].resume_process()
    cluster.pass_s(0.5)
    assert [type(each) for each in client.take()] == [p.Pingresp] * 3 and not client.closed


def test_bytes_on_their_way_to_the_primary_are_no_silence() -> None:
    """H-34: the client pings in time, and the primary gets the bytes after the interval."""
    cluster = RelayHarness()
    client = cluster[1].client("c", keepalive_s=1)
    cluster.network.delay("n1", "n2", 0.4)
    cluster.pass_s(1.3)
    client.send(p.Pingreq())
    cluster.pass_s(0.6)
    assert [type(each) for each in client.take()] == [p.Pingresp] and not client.closed


def test_a_silent_client_is_closed_by_the_primary() -> None:
    """[MQTT-3.1.2-24] [MQTT5-3.1.2-22]"""
    cluster = RelayHarness()
    client = cluster[1].client("c", keepalive_s=10)
    cluster.pass_s(14)
    assert [type(each) for each in client.ask(p.Pingreq())] == [p.Pingresp]
    cluster.pass_s(14)
    assert not client.closed
    cluster.pass_s(2)
    assert [each.reason for each in client.take()] == [0x8D] and client.closed
    assert "keep alive expired" in lines(cluster, 2) and cluster.nothing_left()


def test_time_that_is_set_ahead_is_no_silence() -> None:
    """The gateway follows the time of another node, a minute ahead of its own."""
    cluster = RelayHarness()
    client = cluster[1].client("c", keepalive_s=10)
    env = cluster[1].node.env
    before = env.tick()
    env.clock.ask_cluster()
    env.follow(before + 60_000 - cluster[1].host._mono_ms())
    assert env.now >= before + 60_000
    cluster.pass_s(14)
    assert [type(each) for each in client.ask(p.Pingreq())] == [p.Pingresp]
    cluster.pass_s(16)
    assert client.closed and f"silent_ms={15_000}" in lines(cluster, 2)


def test_a_silent_client_is_closed_without_an_answer_of_the_primary() -> None:
    cluster = RelayHarness(3)
    client = cluster[1].client("c", keepalive_s=1)
    cluster[2].pause_process()
    cluster.pass_s(1.6)
    assert not client.closed
    cluster.pass_s(6)
    assert client.closed and cluster.counts(1) == (0, 0, 0)


def test_a_gateway_that_leaves_the_view_ends_its_clients() -> None:
    cluster = RelayHarness(3)
    cluster[1].client("c")
    for other in ("n2", "n3"):
        cluster.network.cut("n1", other)
    cluster.until(lambda: cluster.counts(2) == (0, 0, 0))
    assert cluster.until(lambda: cluster.nothing_left(), 10) >= 0


@pytest.mark.parametrize("place", [1, 2])
def test_a_view_without_the_other_node_ends_the_clients_at_both(place: int) -> None:
    """The tunnel may still be open."""
    cluster = RelayHarness(3)
    client = cluster[1].client("c")
    cluster.gateways(place).left(f"n{3 - place}")
    cluster.settle()
    assert client.closed and cluster.nothing_left() and len(cluster[2].node.connections) == 0
    cluster.gateways(place).left("n9")


def test_a_client_that_the_policy_refuses_is_refused_at_the_gateway() -> None:
    cluster = RelayHarness(3)
    cluster.isolate(1)
    cluster.pass_s(6)
    _, connack = cluster[1].connect("c")
    assert connack.reason == 0x88 and props(connack)["reason_string"] == "the cluster is not complete"


@pytest.mark.parametrize("clean", [True, False])
def test_a_client_that_the_policy_of_the_primary_refuses_is_refused_at_once(clean: bool) -> None:
    """The primary sees that the cluster is not complete before the gateway does."""
    cluster = RelayHarness(3)
    cluster[2].node.policy.view_state = ViewState.MAJORITY
    client = cluster[1].connect_soon("c", clean=clean)
    cluster.pass_s(0.5)
    (connack,) = client.take()
    assert connack.reason == 0x88 and props(connack)["reason_string"] == "the cluster is not complete"
    assert client.closed and cluster.nothing_left()


def test_a_connect_that_the_policy_of_the_primary_refuses_ends_nothing() -> None:
    """Neither the session of a client that asks for a clean start, nor the connection at another gateway."""
    cluster = RelayHarness(3)
    cluster[1].client("kept", clean=False).leave()
    local = cluster[3].client("local", expiry_s=0)
    assert cluster.local(3) == 1
    cluster[2].node.policy.view_state = ViewState.MAJORITY
    for client_id in ("kept", "local"):
        client = cluster[1].connect_soon(client_id, expiry_s=0)
        cluster.pass_s(0.5)
        assert [each.reason for each in client.take()] == [0x88]
    assert cluster[2].node.sessions.get("", "kept") is not None
    assert not local.closed and cluster.local(3) == 1


def test_the_number_of_waiting_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strogoff.broker.gateway.gateways.WAITING_MOST", 2)
    cluster = RelayHarness(2, None)
    for number in range(2):
        waiting(cluster, f"c{number}")
    _, connack = cluster[1].connect("c2")
    assert connack.reason == 0x88 and "too many clients wait" in props(connack)["reason_string"]


def test_publishes_of_a_relayed_client_survive_its_gateway() -> None:
    """An acknowledged message is at the primary; the client sends the other one again."""
    cluster = RelayHarness(3)
    sub = cluster[3].client("sub", clean=False, expiry_s=600)
    sub.subscribe(("t", 1))
    pub = cluster[1].client("pub")
    assert [each.reason for each in pub.ask(publish("t", b"1", 1, 1))] == [0]
    cluster[1].kill()
    cluster.pass_s(5)
    assert [each.payload for each in sub.messages()] == [b"1"]
