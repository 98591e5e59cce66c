"""The sessions of a slot that moves: QoS 2 handshakes, numbers, deadlines, and the marks on disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.queues.records import RecordError
from strogoff.broker.sessions.slot_sessions import ARRIVED, ARRIVING, LEAVING
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.storage import keys
from tests.broker.clustering.moving_cluster import MovingCluster, resumed, subscriber
from tests.harness.broker import BrokerHarness, publish


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def kinds(found: list[Any]) -> list[str]:
    return [type(each).__name__ for each in found]


def test_a_qos_2_publisher_continues_its_handshake_at_the_new_node(cluster: MovingCluster) -> None:
    """Its message was routed before: a repeated PUBLISH only gets its PUBREC again."""
    reader = cluster[3].client("reader")
    reader.subscribe(("other", 2))
    client = subscriber(cluster)
    assert kinds(client.publish("other", b"1", 2, 9)) == ["Pubrec"]
    assert [each.payload for each in reader.drain()] == [b"1"]
    assert cluster.move(2) == ""
    writer = cluster[1].client("writer")  # with its message the other nodes learn that the former one has ended
    assert kinds(writer.publish("other", b"0", 2, 1)) == ["Pubrec"]
    assert [each.payload for each in reader.drain()] == [b"0"]
    again, connack = cluster[3].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert kinds(again.ask(publish("other", b"1", 2, 9, dup=True))) == ["Pubrec"]
    assert reader.drain() == []
    assert kinds(again.ask(packets.Pubrel(9))) == ["Pubcomp"]
    assert kinds(again.publish("other", b"2", 2, 9)) == ["Pubrec"], "the packet id is free again"
    assert [each.payload for each in reader.drain()] == [b"2"]
    assert kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"]
    assert not cluster[1].host.clustering.sender.handshakes.of("n1").open  # type: ignore[union-attr]


def test_a_handshake_that_nobody_repeated_since_a_restart_keeps_the_slot(cluster: MovingCluster) -> None:
    """Its receivers may lack the message, and only this node can send it again."""
    client = subscriber(cluster)
    assert "Pubrec" in kinds(client.publish("t", b"1", 2, 9))
    client.drain()
    cluster.restart(1)
    cluster.whole()
    cluster.until(lambda: cluster.homes() == {"n1"})
    reason = cluster.move(2)
    assert "client sub has a QoS 2 publish that not every receiver has acknowledged" in reason
    again = cluster[3].client("sub", clean=False, expiry_s=600)
    assert "Pubrec" in kinds(again.ask(publish("t", b"1", 2, 9, dup=True)))
    assert cluster.move(2) == ""


def test_a_message_of_the_former_node_is_not_taken_twice(cluster: MovingCluster) -> None:
    """A QoS 2 publisher of another slot had its message routed here; its node restarts after the move and sends the
    message again, now to the new node (H-12)."""
    subscriber(cluster, qos=2).leave()
    name = next(f"w{n}" for n in range(100) if slot_of("", f"w{n}") != cluster.slot)
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    assert kinds(writer.publish("t", b"1", 2, 5)) == ["Pubrec"]
    assert cluster.move(2) == ""
    cluster.restart(1)
    cluster.whole()
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    assert kinds(writer.ask(publish("t", b"1", 2, 5, dup=True))) == ["Pubrec"]
    assert kinds(writer.ask(packets.Pubrel(5))) == ["Pubcomp"]
    assert resumed(cluster, 3) == [b"1"]


def test_numbers_of_the_slot_go_on_behind_those_of_both_nodes(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()
    node = cluster[2].node
    counters = node.slot_sessions._counters
    for _ in range(1030):
        counters.next(cluster.slot)
    before = counters.next(cluster.slot) & 0xFFFFFFFF
    assert cluster.move(2) == ""
    after = counters.next(cluster.slot) & 0xFFFFFFFF
    assert after > before
    reserved = node.env.store.get(keys.reserved_key(cluster.slot))
    assert reserved is not None and int.from_bytes(reserved, "big") >= after


def test_the_new_node_ends_a_session_when_it_is_due(cluster: MovingCluster) -> None:
    client = cluster[1].client("sub", clean=False, expiry_s=60)
    client.leave()
    assert cluster.move(2) == ""
    cluster.until(lambda: not cluster.rows(1))
    cluster.pass_s(50)
    assert cluster[2].node.sessions.durable == 1
    cluster.pass_s(15)
    assert cluster[2].node.sessions.durable == 0


def test_a_due_session_does_not_end_on_its_way(cluster: MovingCluster) -> None:
    client = cluster[1].client("sub", clean=False, expiry_s=7)
    client.leave()
    cluster.pass_s(6)
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 1.9
    cluster.begin(2)
    cluster.pass_s(1.5)
    assert [key for key in cluster.rows(1) if key[:1] == b"s"] and not cluster.outcome
    assert cluster.ended() == ""
    cluster.until(lambda: not [key for number in (1, 2) for key in cluster.rows(number) if key[:1] == b"s"])


@pytest.mark.parametrize("mark", [LEAVING, ARRIVING, ARRIVED])
def test_a_restarted_node_makes_no_session_of_a_slot_with_a_mark(mark: bytes) -> None:
    broker = BrokerHarness()
    client = broker.client("sub", 5, clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    client.leave()
    slot = slot_of("", "sub")
    broker.node.slot_sessions.mark(slot, mark)
    broker.settle()
    broker.restart()
    sessions = broker.node.sessions
    assert broker.node.slot_sessions.marks == {slot: mark} and sessions.get("", "sub") is None
    assert broker.node.router.plans("").of("t").targets == ()
    broker.node.slot_sessions.open(slot)
    assert sessions.get("", "sub") is not None and len(broker.node.router.plans("").of("t").targets) == 1
    broker.settle()
    assert broker.node.env.store.get(keys.move_key(slot)) is None and not broker.node.slot_sessions.marks


def test_a_session_of_a_slot_with_a_mark_waits_for_its_end() -> None:
    """Its deadline stays on disk, for the node that gets the slot."""
    broker = BrokerHarness()
    client = broker.client("sub", 5, clean=False, expiry_s=60)
    client.leave()
    slot = slot_of("", "sub")
    broker.node.slot_sessions.mark(slot, LEAVING)
    broker.settle()
    broker.restart()
    broker.pass_s(100)
    assert len(broker.keys(b"e")) == len(broker.keys(b"s")) == 1
    broker.node.slot_sessions.open(slot)
    broker.pass_s(1)
    assert broker.keys(b"e") == broker.keys(b"s") == []


def test_rows_are_read_in_small_steps_while_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness()
    client = broker.client("sub", 5, clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    client.leave()
    writer = broker.client("writer")
    for number in range(12):
        writer.publish("t", bytes(100_000) if number < 6 else b"small", 1, number + 1)
    limits: list[int] = []
    store = broker.node.env.store

    def counted(start: bytes, stop: bytes, limit: int = 0, closed: bool = False) -> list[tuple[bytes, bytes]]:
        limits.append(limit)
        assert not closed
        return store.scan(start, stop, limit)

    monkeypatch.setattr(broker.node.env, "store", SimpleNamespace(scan=counted, get=store.get))
    found = list(broker.node.slot_sessions.rows(slot_of("", "sub")))
    monkeypatch.undo()
    assert sum(key[:1] == b"q" for key, _ in found) == 12 and sum(key[:1] == b"s" for key, _ in found) == 1
    assert max(limits) <= 8


def test_a_row_that_cannot_be_read_is_refused() -> None:
    broker = BrokerHarness()
    with pytest.raises(RecordError):
        broker.node.slot_sessions.apply(b"b" + keys.client_key(3, "", "c") + bytes(8) + b"t", b"\xc1")
    assert broker.node.env.store.get(b"b" + keys.client_key(3, "", "c") + bytes(8) + b"t") is None


def test_a_message_that_waited_for_the_slot_survives_a_kill(cluster: MovingCluster) -> None:
    """A QoS 2 publisher has no PUBREC yet. The slot stays, and its sessions are here when the publisher repeats."""
    subscriber(cluster, qos=2).leave()
    name = next(f"w{n}" for n in range(100) if slot_of("", f"w{n}") != cluster.slot)
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    cluster.cut_while_copying()
    assert writer.ask(publish("t", b"1", 2, 5)) == []
    cluster.restart(1)
    cluster.network.heal()
    cluster.whole()
    cluster.until(lambda: cluster.homes() == {"n1"})
    for _ in range(2):
        writer = cluster[1].client(name, clean=False, expiry_s=600)
        assert kinds(writer.ask(publish("t", b"1", 2, 5, dup=True))) == ["Pubrec"]
        cluster.restart(1)
        cluster.whole()
        cluster.until(lambda: cluster.homes() == {"n1"})
    assert resumed(cluster, 3) == [b"1"]


def test_a_message_that_never_reached_the_former_node_reaches_the_slot_here(cluster: MovingCluster) -> None:
    """Its origin is killed before n3 has it. Then the slot moves from n3 to the origin, and the publisher repeats."""
    cluster.give("sub", cluster[3])
    subscriber(cluster, 3, qos=2).leave()
    name = next(f"w{n}" for n in range(100) if slot_of("", f"w{n}") != cluster.slot)
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    cluster.network.cut("n1", "n3")
    assert writer.ask(publish("t", b"1", 2, 5)) == []
    cluster.restart(1)
    cluster.network.heal()
    cluster.whole()
    assert cluster.move(1, 3) == ""
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    assert kinds(writer.ask(publish("t", b"1", 2, 5, dup=True))) == ["Pubrec"]
    assert resumed(cluster, 2) == [b"1"]


def test_a_message_that_the_slot_brought_along_is_not_given_to_it_again(cluster: MovingCluster) -> None:
    cluster.give("sub", cluster[3])
    subscriber(cluster, 3, qos=2).leave()
    name = next(f"w{n}" for n in range(100) if slot_of("", f"w{n}") != cluster.slot)
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    assert kinds(writer.ask(publish("t", b"1", 2, 5))) == ["Pubrec"]
    cluster.restart(1)
    cluster.whole()
    assert cluster.move(1, 3) == ""
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    assert kinds(writer.ask(publish("t", b"1", 2, 5, dup=True))) == ["Pubrec"]
    assert resumed(cluster, 2) == [b"1"]


def elsewhere(*wanted: tuple[str, int]) -> BrokerHarness:
    """A node with the rows of client `sub`, whose slot is closed there."""
    broker = BrokerHarness()
    former = broker.client("sub", 5, clean=False, expiry_s=600)
    former.subscribe(*wanted)
    former.leave()
    broker.node.slot_sessions.mark(slot_of("", "sub"), LEAVING)
    broker.settle()
    broker.restart()
    return broker


def test_a_client_without_a_session_keeps_its_subscription_when_its_former_session_ends() -> None:
    """Its Clean Start was answered while the slot was elsewhere. The session that ends now has the same filter."""
    broker = elsewhere(("t", 1), ("u", 1))
    client = broker.client("sub", 5)
    client.subscribe(("t", 1))
    broker.node.slot_sessions.open(slot_of("", "sub"))
    broker.settle()
    assert broker.keys(b"s") == broker.keys(b"b") == []
    writer = broker.client("writer", 5)
    writer.publish("u", b"1", 1, 1)
    writer.publish("t", b"2", 1, 2)
    assert [each.payload for each in client.drain()] == [b"2"]


def test_a_client_that_was_here_without_a_session_takes_no_subscription_of_its_former_one() -> None:
    """It had the same filter, and has gone before the slot arrives: the former session continues."""
    broker = elsewhere(("t", 1))
    client = broker.client("sub", 5)
    client.subscribe(("t", 1))
    client.leave()
    broker.node.slot_sessions.open(slot_of("", "sub"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1, 1)
    back = broker.client("sub", 5, clean=False, expiry_s=600)
    assert [each.payload for each in back.drain()] == [b"1"]
