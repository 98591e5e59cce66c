"""Operations by operators: disconnect, unsubscribe, retained messages, and the content of queues."""

from __future__ import annotations

import pytest

from strogoff.broker import operations
from strogoff.broker.queues.durable_queue import DurableQueue
from strogoff.mqtt import packets
from strogoff.mqtt.reasons import ReasonCode

from ..harness.broker import BrokerHarness, PacketClient


@pytest.mark.parametrize("version", [4, 5])
def test_disconnect_closes_the_connection_and_keeps_the_session(version: int) -> None:
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("a", 1))
    assert operations.disconnect(broker.node, "", "c", False)
    broker.settle()
    told = [packets.Disconnect(ReasonCode.ADMINISTRATIVE_ACTION)] if version == 5 else []
    assert client.take() == told
    session = broker.node.sessions.get("", "c")
    assert session is not None and not session.online
    assert list(session.subscriptions) == ["a"]


def test_cleanup_ends_the_session_and_sends_its_will() -> None:
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    will = packets.Will("will", b"gone", 0, False, {"will_delay_interval": 100})
    client = broker.client("c", 5, False, 1000, will=will)
    client.subscribe(("a", 1))
    assert operations.disconnect(broker.node, "", "c", True)
    broker.settle()
    assert broker.node.sessions.get("", "c") is None
    assert watcher.payloads() == [b"gone"]
    assert broker.keys(b"s") == broker.keys(b"b") == []


def test_cleanup_of_a_session_without_a_connection() -> None:
    broker = BrokerHarness()
    broker.persistent("c").leave()
    assert operations.disconnect(broker.node, "", "c", True)
    assert broker.node.sessions.get("", "c") is None
    assert not operations.disconnect(broker.node, "", "c", True)
    assert not operations.disconnect(broker.node, "other", "c", False)


def test_unsubscribe_is_for_good() -> None:
    broker = BrokerHarness()
    client = broker.persistent("c")
    client.subscribe(("a/#", 1), ("$share/g/b", 1))
    session = broker.node.sessions.get("", "c")
    assert session is not None
    assert operations.unsubscribe(broker.node, session, "$share/g/b")
    assert not operations.unsubscribe(broker.node, session, "b")
    broker.settle()
    assert [event["filter"] for event in broker.events("sub.del")] == ["$share/g/b"]
    broker.restart()
    found = broker.node.sessions.get("", "c")
    assert found is not None and list(found.subscriptions) == ["a/#"]


def retained_stage(count: int) -> BrokerHarness:
    broker = BrokerHarness()
    publisher = broker.client("p", 5)
    for number in range(count):
        publisher.publish(f"t/{number:04}", b"x", retain=True)
    return broker


def test_retained_messages_come_in_steps() -> None:
    broker = retained_stage(2 * operations.STEP + 10)
    assert broker.node.retained.mountpoints == [""]
    steps = list(operations.retained_messages(broker.node, ""))
    assert [len(step) for step in steps] == [operations.STEP, operations.STEP, 10]
    topics = [message.topic for step in steps for message in step]
    assert topics == [f"t/{number:04}" for number in range(2 * operations.STEP + 10)]
    assert operations.retained_bytes(broker.node) == broker.node.retained.table("").bytes > 0


def test_deleting_retained_messages() -> None:
    broker = retained_stage(2)
    assert operations.delete_retained(broker.node, "", "t/0000")
    assert not operations.delete_retained(broker.node, "", "t/0000")
    assert not operations.delete_retained(broker.node, "elsewhere", "t/0001")
    broker.settle()
    broker.restart()
    assert broker.node.retained.count == 1


def test_expired_retained_messages_are_not_shown_and_can_be_deleted() -> None:
    broker = BrokerHarness()
    publisher = broker.client("p", 5)
    publisher.publish("short", b"x", retain=True, message_expiry_interval=5)
    publisher.publish("long", b"x", retain=True, message_expiry_interval=500)
    assert list(operations.delete_expired_retained(broker.node)) == []
    broker.pass_s(10)
    assert [m.topic for step in operations.retained_messages(broker.node, "") for m in step] == ["long"]
    assert sum(operations.delete_expired_retained(broker.node)) == 1
    broker.settle()
    assert len(broker.keys(b"r")) == 1


def offline(broker: BrokerHarness, client_id: str, messages: int) -> DurableQueue:
    subscriber: PacketClient = broker.persistent(client_id)
    subscriber.subscribe(("q", 1))
    subscriber.leave()
    publisher = broker.client("p")
    for number in range(messages):
        publisher.publish("q", b"%d" % number, 1)
    session = broker.node.sessions.get("", client_id)
    assert session is not None and isinstance(session.queue, DurableQueue)
    return session.queue


def test_the_size_of_an_uncounted_queue() -> None:
    broker = BrokerHarness(max_offline_messages=-1)
    offline(broker, "c", 5)
    broker.restart()
    session = broker.node.sessions.get("", "c")
    assert session is not None
    assert list(operations.queue_size(session.queue)) == [5]
    assert session.queue.size == 5
    assert list(operations.queue_size(session.queue)) == [5]


def test_counting_takes_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_COUNT_STEP", 2)
    broker = BrokerHarness(max_offline_messages=-1)
    offline(broker, "c", 5)
    broker.restart()
    session = broker.node.sessions.get("", "c")
    assert session is not None
    assert list(operations.queue_size(session.queue)) == [None, None, 5]


def test_the_messages_of_a_queue() -> None:
    broker = BrokerHarness()
    queue = offline(broker, "c", operations.STEP + 1)
    steps = list(operations.queued_messages(queue))
    assert [len(step) for step in steps] == [0, operations.STEP, 1]
    first = steps[1][0]
    assert (first[0].payload, first[1:]) == (b"0", (1, False))


def test_the_messages_of_a_clean_session_and_of_one_in_flight() -> None:
    broker = BrokerHarness(max_inflight_messages=1)
    clean = broker.client("clean")
    kept = broker.persistent("kept")
    publisher = broker.client("p")
    for each in (clean, kept):
        each.subscribe(("q", 1))
    publisher.publish("q", b"1", 1)
    publisher.publish("q", b"2", 1)
    for client_id in ("clean", "kept"):
        session = broker.node.sessions.get("", client_id)
        assert session is not None
        found = [message.payload for step in operations.queued_messages(session.queue) for message, _, _ in step]
        assert found == [b"1", b"2"]


def test_an_unreadable_entry_is_left_out_and_logged() -> None:
    broker = BrokerHarness()
    queue = offline(broker, "c", 2)
    (key, *_) = broker.keys(b"q")
    broker.node.env.store.put(key, b"\xff")
    broker.settle()
    assert [len(step) for step in operations.queued_messages(queue)] == [0, 1]
    assert any("cannot be read" in line for line in map(str, broker.host.lines))


def test_the_messages_of_a_queue_with_a_shared_payload() -> None:
    broker = BrokerHarness()
    for name in ("s", "s226"):  # in one slot
        client = broker.persistent(name)
        client.subscribe(("t", 1))
        client.leave()
    broker.client("p").publish("t", bytes(1000), 1)
    assert len(broker.keys(b"p")) == 1
    for session in broker.node.sessions.in_memory():
        if session.client_id != "p":
            (((message, qos, dup),),) = [step for step in operations.queued_messages(session.queue) if step]
            assert (message.payload, qos, dup) == (bytes(1000), 1, False)
