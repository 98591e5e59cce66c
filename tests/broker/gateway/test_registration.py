"""Messages of gateways and registrars that are wrong, too many, or too late."""

from __future__ import annotations

from strogoff.broker.gateway.messages import ASK, FROM_PRIMARY, REPORT, encode_clients, encode_slots, head
from strogoff.broker.gateway.registration import QUESTIONS_MOST
from strogoff.cluster.identity import SLOTS, slot_of

from .relay_harness import RelayHarness


def send(cluster: RelayHarness, sender: int, kind: int, number: int, body: bytes) -> None:
    """A node sends a message to n1."""
    member = cluster[sender].host.member
    assert member is not None
    member.links.tunnel("n1", head(kind, number, len(body)) + body)
    cluster.settle()


def test_malformed_messages_are_logged_and_change_nothing() -> None:
    cluster = RelayHarness(2, "n1")
    for kind in (ASK | FROM_PRIMARY, REPORT):
        send(cluster, 2, kind, 1, b"garbage")
    lines = [line for level, line in cluster[1].host.lines if level == "error"]
    assert ["ASK of 7 bytes" in lines[0], "REPORT of 7 bytes" in lines[1]] == [True, True]
    assert cluster[2].client("c", expiry_s=None).ask() == [] and cluster.registered(1) == 1


def test_a_report_that_nobody_asked_for_is_ignored() -> None:
    cluster = RelayHarness(2, "n1")
    send(cluster, 2, REPORT, 1 << 40, encode_clients([(b"\x05\0\0\0\x01a", 7, 1, 0)]))
    assert cluster.registered(1) == 0


def test_questions_about_a_table_that_never_comes_are_bounded() -> None:
    cluster = RelayHarness(2)
    for number in range(QUESTIONS_MOST + 10):
        send(cluster, 2, ASK | FROM_PRIMARY, 1000 + number, encode_slots({5: 99}))
    assert list(cluster.gateways(1).registration._questions["n2"]) == list(range(1010, 1010 + QUESTIONS_MOST))


def test_a_registrar_learns_of_all_clients_although_too_many_of_its_questions_waited() -> None:
    """n2 registers a slot that n1 does not give it yet; its question about that slot is forgotten."""
    cluster = RelayHarness(2)
    cluster[1].client("c", expiry_s=None)
    slot = slot_of("", "c")
    cluster.tables["n2"].apply("n2", 2)
    cluster.settle()
    for number in range(QUESTIONS_MOST):
        send(cluster, 2, ASK | FROM_PRIMARY, 1000 + number, encode_slots({slot: 2}))
    assert not cluster.gateways(2).registration.registrar.is_complete(slot)
    cluster.tables["n1"].apply("n2", 2)
    cluster.settle()
    assert cluster.gateways(2).registration.registrar.is_complete(slot) and cluster.registered(2) == 1


def test_a_report_of_many_clients_comes_in_parts() -> None:
    cluster = RelayHarness(2)
    names = [f"{number}-{'x' * 90}" for number in range(250)]
    for name in names:
        cluster[1].client(name, expiry_s=None)
    assert cluster.registered(2) == 250
    cluster.apply("n2", 2)
    cluster.settle()
    assert cluster.registered(2) == 250 and cluster.local(1) == 250


def test_a_client_id_of_the_largest_size_does_not_break_the_tunnel() -> None:
    cluster = RelayHarness(2, max_client_id_size=65_535)
    name = "x" * 65_520  # a longer one does not fit into a CONNECT
    first = cluster[1].client(name, expiry_s=None)
    cluster.apply("n2", 2)
    assert cluster.registered(2) == 1 and not first.closed
    second = cluster[2].client(name, expiry_s=None)
    assert first.closed and second.ask() == []


def test_a_report_that_is_larger_than_the_tunnel_does_not_break_it() -> None:
    """With `outgoing_clustering_buffer_size = 10000`, as in VerneMQ's configuration, a tunnel breaks at 1 MiB."""
    cluster = RelayHarness(2, max_client_id_size=65_535)
    member = cluster[1].host.member
    assert member is not None
    member.links._out["n2"].tunnel._most_bytes = 1 << 20
    session = cluster[1].client("session", clean=False, expiry_s=600)
    clients = [cluster[1].client(f"{number}-{'x' * 60_000}", expiry_s=None) for number in range(40)]
    others = [slot for slot in range(SLOTS) if slot != slot_of("", "session")]
    cluster.network.delay("n1", "n2", 0.1)
    for table in cluster.tables.values():
        table.apply("n2", 2, others)
    cluster.until(lambda: bool(cluster.gateways(1)._peers["n2"].node.blocked))
    clients[-1].vanish()  # nothing is said of it yet
    cluster.until(lambda: cluster.gateways(2).registration.registrar.incomplete == 0)
    assert cluster.registered(2) == cluster.local(1) == 39
    assert not session.closed and session.ask() == []
