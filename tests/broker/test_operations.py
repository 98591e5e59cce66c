"""What operators do to a node: disconnect, unsubscribe, retained messages, and looking into queues."""

from __future__ import annotations

import pytest

from strogoff.broker import operations
from strogoff.broker.queues.durable_queue import DurableQueue
from strogoff.mqtt import packets
from strogoff.mqtt.reasons import ReasonCode

from ..harness.broker import BrokerHarness, PacketClient


@pytest.mark.parametrize("version", [4, 5])
def test_disconnect_closes_the_connection_and_keeps_the_session(version: int) -> None:
    stage = BrokerHarness()
    client = stage.persistent("c", version)
    client.subscribe(("a", 1))
    assert operations.disconnect(stage.node, "", "c", False)
    stage.settle()
    told = [packets.Disconnect(ReasonCode.ADMINISTRATIVE_ACTION)] if version == 5 else []
    assert client.take() == told
    session = stage.node.sessions.get("", "c")
    assert session is not None and not session.online
    assert list(session.subscriptions) == ["a"]


def test_cleanup_ends_the_session_and_sends_its_will() -> None:
    stage = BrokerHarness()
    watcher = stage.client("w")
    watcher.subscribe(("will", 0))
    will = packets.Will("will", b"gone", 0, False, {"will_delay_interval": 100})
    client = stage.client("c", 5, False, 1000, will=will)
    client.subscribe(("a", 1))
    assert operations.disconnect(stage.node, "", "c", True)
    stage.settle()
    assert stage.node.sessions.get("", "c") is None
    assert watcher.payloads() == [b"gone"]
    assert stage.keys(b"s") == stage.keys(b"b") == []


def test_cleanup_of_a_session_without_a_connection() -> None:
    stage = BrokerHarness()
    stage.persistent("c").leave()
    assert operations.disconnect(stage.node, "", "c", True)
    assert stage.node.sessions.get("", "c") is None
    assert not operations.disconnect(stage.node, "", "c", True)
    assert not operations.disconnect(stage.node, "other", "c", False)


def test_unsubscribe_is_for_good() -> None:
    stage = BrokerHarness()
    client = stage.persistent("c")
    client.subscribe(("a/#", 1), ("$share/g/b", 1))
    session = stage.node.sessions.get("", "c")
    assert session is not None
    assert operations.unsubscribe(stage.node, session, "$share/g/b")
    assert not operations.unsubscribe(stage.node, session, "b")
    stage.settle()
    assert [event["filter"] for event in stage.events("sub.del")] == ["$share/g/b"]
    stage.restart()
    found = stage.node.sessions.get("", "c")
    assert found is not None and list(found.subscriptions) == ["a/#"]


def retained_stage(count: int) -> BrokerHarness:
    stage = BrokerHarness()
    publisher = stage.client("p", 5)
    for number in range(count):
        publisher.publish(f"t/{number:04}", b"x", retain=True)
    return stage


def test_retained_messages_come_in_steps() -> None:
    stage = retained_stage(2 * operations.STEP + 10)
    assert stage.node.retained.mountpoints == [""]
    steps = list(operations.retained_messages(stage.node, ""))
    assert [len(step) for step in steps] == [operations.STEP, operations.STEP, 10]
    topics = [message.topic for step in steps for message in step]
    assert topics == [f"t/{number:04}" for number in range(2 * operations.STEP + 10)]
    assert operations.retained_bytes(stage.node) == stage.node.retained.table("").bytes > 0


def test_deleting_retained_messages() -> None:
    stage = retained_stage(2)
    assert operations.delete_retained(stage.node, "", "t/0000")
    assert not operations.delete_retained(stage.node, "", "t/0000")
    assert not operations.delete_retained(stage.node, "elsewhere", "t/0001")
    stage.settle()
    stage.restart()
    assert stage.node.retained.count == 1


def test_expired_retained_messages_are_not_shown_and_can_be_deleted() -> None:
    stage = BrokerHarness()
    publisher = stage.client("p", 5)
    publisher.publish("short", b"x", retain=True, message_expiry_interval=5)
    publisher.publish("long", b"x", retain=True, message_expiry_interval=500)
    assert list(operations.delete_expired_retained(stage.node)) == []
    stage.pass_s(10)
    assert [m.topic for step in operations.retained_messages(stage.node, "") for m in step] == ["long"]
    assert sum(operations.delete_expired_retained(stage.node)) == 1
    stage.settle()
    assert len(stage.keys(b"r")) == 1


def offline(stage: BrokerHarness, client_id: str, messages: int) -> DurableQueue:
    subscriber: PacketClient = stage.persistent(client_id)
    subscriber.subscribe(("q", 1))
    subscriber.leave()
    publisher = stage.client("p")
    for number in range(messages):
        publisher.publish("q", b"%d" % number, 1)
    session = stage.node.sessions.get("", client_id)
    assert session is not None and isinstance(session.queue, DurableQueue)
    return session.queue


def test_the_size_of_a_queue_that_nobody_has_counted() -> None:
    stage = BrokerHarness(max_offline_messages=-1)
    offline(stage, "c", 5)
    stage.restart()
    session = stage.node.sessions.get("", "c")
    assert session is not None
    assert list(operations.queue_size(session.queue)) == [5]
    assert session.queue.size == 5
    assert list(operations.queue_size(session.queue)) == [5]


def test_counting_takes_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_COUNT_STEP", 2)
    stage = BrokerHarness(max_offline_messages=-1)
    offline(stage, "c", 5)
    stage.restart()
    session = stage.node.sessions.get("", "c")
    assert session is not None
    assert list(operations.queue_size(session.queue)) == [None, None, 5]


def test_the_messages_of_a_queue() -> None:
    stage = BrokerHarness()
    queue = offline(stage, "c", operations.STEP + 1)
    steps = list(operations.queued_messages(queue))
    assert [len(step) for step in steps] == [0, operations.STEP, 1]
    first = steps[1][0]
    assert (first[0].payload, first[1:]) == (b"0", (1, False))


def test_the_messages_of_a_clean_session_and_of_one_in_flight() -> None:
    stage = BrokerHarness(max_inflight_messages=1)
    clean = stage.client("clean")
    kept = stage.persistent("kept")
    publisher = stage.client("p")
    for each in (clean, kept):
        each.subscribe(("q", 1))
    publisher.publish("q", b"1", 1)
    publisher.publish("q", b"2", 1)
    for client_id in ("clean", "kept"):
        session = stage.node.sessions.get("", client_id)
        assert session is not None
        found = [message.payload for step in operations.queued_messages(session.queue) for message, _, _ in step]
        assert found == [b"1", b"2"]


def test_an_unreadable_entry_is_left_out_and_logged() -> None:
    stage = BrokerHarness()
    queue = offline(stage, "c", 2)
    (key, *_) = stage.keys(b"q")
    stage.node.env.store.put(key, b"\xff")
    stage.settle()
    assert [len(step) for step in operations.queued_messages(queue)] == [0, 1]
    assert any("cannot be read" in line for line in map(str, stage.host.lines))
