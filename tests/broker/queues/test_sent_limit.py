"""How far a queue may send before its session record says more, and what counts as sent after a kill."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from strogoff.broker.queues.records import ALL, SessionRecord, decode_session, encode
from strogoff.broker.queues.sent_limit import AHEAD, SentLimit
from strogoff.mqtt.packets import Publish, Pubrec

from ...harness.broker import BrokerHarness, PacketClient
from .numbered import fill, finish, numbers, offline


class Record:
    """The owner of a queue: the number of its record's writes. `limit` is what it writes."""

    mountpoint = client_id = ""
    incarnation = epoch = 0
    durable = True
    lost = False

    def __init__(self, broker: BrokerHarness) -> None:
        self.broker = broker
        self.saved = 0
        self.limit = SentLimit(broker.node.env, self)

    def save(self) -> None:
        self.saved += 1
        self.broker.node.env.store.put(b"x", b"%d" % self.limit.seq)

    def queue_unreadable(self, error: Exception) -> None:
        raise error


def begun(broker: BrokerHarness, seq: int = 0) -> Record:
    """A limit whose first record is safe."""
    record = Record(broker)
    record.limit.begin(seq)
    record.save()
    broker.settle()
    return record


def test_a_slow_client_has_a_short_limit() -> None:
    """Its record says about few messages too much."""
    broker = BrokerHarness()
    record = begun(broker)
    for seq in range(100):
        broker.pass_s(1)
        broker.node.env.tick()
        assert record.limit.allows(seq)
        assert seq < record.limit.seq <= seq + AHEAD
        broker.settle()
    assert record.saved <= 1 + 100 / (AHEAD // 2)


def test_a_quick_client_needs_few_writes() -> None:
    broker = BrokerHarness(memory_window=256)
    record = begun(broker)
    for seq in range(10_000):
        assert record.limit.allows(seq)
        assert seq < record.limit.seq <= seq + 256
        broker.settle()
    assert record.saved < 90


def test_an_entry_waits_for_the_record_of_its_own_limit() -> None:
    broker = BrokerHarness(memory_window=4)
    record = begun(broker, 10)
    broker.hold_disk()
    assert [record.limit.allows(seq) for seq in range(10, 18)] == 4 * [True] + 4 * [False]
    broker.free_disk()
    assert record.limit.allows(14) and record.limit.allows(15)


def test_an_entry_of_the_open_batch_need_not_wait() -> None:
    broker = BrokerHarness(memory_window=4)
    record = begun(broker)
    for seq in range(4):
        record.limit.include(seq)
    assert record.saved == 1
    record.limit.include(4)
    assert record.saved == 2 and record.limit.commit == broker.node.env.store.open_commit and record.limit.seq > 4


def test_a_record_of_a_former_version_has_no_limit() -> None:
    record = SessionRecord("", "c", 1, True, 5, None, 60, True, 0, None, 0, 0, 4096, 7, {})
    former = encode([*msgspec.structs.astuple(record)][: SessionRecord.__struct_fields__.index("sent_limit")])
    assert decode_session(b"", former).sent_limit == ALL


def deaf(broker: BrokerHarness, qos: int, messages: int, **fields: Any) -> PacketClient:
    """A client that takes one message and answers nothing."""
    offline(broker, "s", 5, qos)
    client = broker.persistent("s", 5, receive_maximum=1)
    publisher = broker.client("p", 5)
    for number in range(messages):
        publisher.publish("t", b"%d" % number, qos, number + 1, **fields)
    return client


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_sent_comes_again_after_a_kill_and_the_rest_expires(qos: int) -> None:
    """[MQTT5-3.3.2-5] [MQTT5-4.3.3-7]"""
    broker = BrokerHarness(memory_window=1)
    client = deaf(broker, qos, 10, message_expiry_interval=5)
    for number in range(3):
        (message,) = client.messages()
        assert numbers([message]) == [number]
        if number < 2:
            finish(client, message)
    broker.commit_late_writes()
    broker.restart()
    broker.pass_s(10)
    got = broker.persistent("s", 5).drain()
    assert numbers(got) == [2]
    assert got[0].dup


def test_with_lifo_what_is_newer_than_all_that_was_sent_expires_after_a_kill() -> None:
    """What is older may have been sent."""
    broker = BrokerHarness(memory_window=1, queue_type="lifo")
    client = deaf(broker, 1, 10, message_expiry_interval=5)
    (message,) = client.messages()
    finish(client, message)
    assert numbers([message, *client.messages()]) == [0, 9]
    fill(broker.client("p"), 20, 20)
    publisher = broker.client("p", 5)
    for number in range(10, 15):
        publisher.publish("t", b"%d" % number, 1, number + 1, message_expiry_interval=5)
    broker.commit_late_writes()
    broker.restart()
    broker.pass_s(10)
    got = broker.persistent("s", 5).drain()
    assert numbers(got) == [20, *range(9, 0, -1)]
    assert [each.dup for each in got] == [False] + 9 * [True]


@pytest.mark.parametrize("kind", ["fifo", "lifo"])
def test_what_left_at_once_comes_again_after_a_kill(kind: str) -> None:
    broker = BrokerHarness(memory_window=1, queue_type=kind)
    client = broker.persistent("s", 5)
    client.subscribe(("t", 1))
    fill(broker.client("p"), 0, 9)
    assert numbers(client.messages()) == list(range(10))
    broker.restart()
    got = broker.persistent("s", 5).drain()
    assert sorted(numbers(got)) == list(range(10))
    assert all(each.dup for each in got)


def test_the_limit_of_the_queue_drops_what_was_never_sent_after_a_kill() -> None:
    broker = BrokerHarness(memory_window=1, max_offline_messages=3)
    deaf(broker, 1, 10)
    broker.restart()
    fill(broker.client("p"), 100, 101)
    assert [reason for _, _, reason in broker.drops()] == 2 * ["queue_full"]


def test_a_full_disk_delivers_what_is_stored() -> None:
    """docs/promises.md: with QoS 1; a handshake of QoS 2 cannot be completed."""
    broker = BrokerHarness(memory_window=1)
    client = deaf(broker, 1, 10)
    (message,) = client.messages()
    broker.disk.full = True
    finish(client, message)
    assert numbers(client.drain()) == list(range(1, 10))


def test_a_full_disk_keeps_messages_of_qos_2() -> None:
    """H-11: after a kill nobody would know that their packet ids are in use."""
    broker = BrokerHarness(memory_window=1)
    client = deaf(broker, 2, 10)
    (message,) = client.messages()
    broker.disk.full = True
    client.send(Pubrec(message.packet_id, 0x80))
    assert client.messages() == []
    broker.disk.full = False
    broker.pass_s(2)
    assert numbers(client.drain()) == list(range(1, 10))


@pytest.mark.parametrize("seed", range(30))
def test_after_any_kill_all_that_was_sent_has_dup_and_little_else(seed: int) -> None:
    rng = Random(seed)
    memory = rng.choice((1, 2, 4, 20))
    broker = BrokerHarness(memory_window=memory, max_inflight_messages=rng.choice((1, 2, 5, 20)))
    offline(broker, "s", 4, 2)
    client, publisher = broker.persistent("s"), broker.client("p")
    sent: set[int] = set()
    seen: list[Publish] = []
    published, kills, wrong = 0, 0, 0

    def take() -> None:
        nonlocal wrong
        for message in client.messages():
            (number,) = numbers([message])
            assert message.dup or number not in sent
            wrong += message.dup and number not in sent
            sent.add(number)
            seen.append(message)

    for _ in range(300):
        step = rng.random()
        if step < 0.3:
            many = rng.choice((1, 1, 3, 30))
            fill(publisher, published + 1, published + many, rng.choice((1, 2)))
            published += many
        elif step < 0.7:
            finish(client, *[seen.pop(0) for _ in range(min(len(seen), rng.choice((1, 2, 10))))])
        elif step < 0.8:
            broker.hold_disk()
        elif step < 0.9:
            broker.free_disk()
        elif step < 0.93:
            broker.restart()
            client, publisher, seen = broker.persistent("s"), broker.client("p"), []
            kills += 1
        elif step < 0.96:
            broker.free_disk()
            take()
            client.vanish()
            client, seen = broker.persistent("s"), []
        take()
    assert kills and wrong <= kills * memory
