"""The queue of a persistent session: disk, memory window, limits, order, shared bodies, restarts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strogoff.broker.queues import shared_payloads
from strogoff.broker.queues.message import Message
from strogoff.broker.queues.records import Origins
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Puback, Publish, Pubrec, Pubrel

from ...harness.broker import BrokerHarness
from .numbered import fill, numbers, offline


@pytest.mark.parametrize("version", [3, 4, 5])
def test_messages_for_an_offline_session_are_kept(version: int) -> None:
    """QoS 1 and 2 messages are kept in order; QoS 0 messages are dropped and counted."""
    broker = BrokerHarness()
    offline(broker, "s", version)
    publisher = broker.client("p")
    for number in range(6):
        publisher.publish("t", b"%d" % number, number % 3, number)
    got = broker.persistent("s", version).messages()
    assert [(m.payload, m.qos, m.dup) for m in got] == [
        (b"1", 1, False),
        (b"2", 2, False),
        (b"4", 1, False),
        (b"5", 2, False),
    ]
    assert broker.node.env.counters.queue_message_unhandled == 2


@pytest.mark.parametrize("online", [True, False])
def test_what_a_former_primary_may_have_delivered_has_dup(online: bool) -> None:
    """H-51: at QoS 1, on disk and for a connected client. At QoS 2 the former primary had to wait."""
    broker = BrokerHarness()
    client = broker.persistent("s")
    client.subscribe(("t", 2))
    if not online:
        client.leave()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    for counter, (qos, again) in enumerate([(1, True), (2, True), (1, False)]):
        message = Message("", "t", b"%d" % qos, qos, False, None, 0, "p", broker.node.env.origin, counter, again=again)
        session.queue.push(message, qos, False, ())
    broker.settle()
    got = client.drain() if online else broker.persistent("s").messages()
    assert [(each.qos, each.dup) for each in got] == [(1, True), (2, False), (1, False)]


@pytest.mark.parametrize("ends", ["stays", "is released", "restarts"])
def test_only_what_a_former_primary_may_have_delivered_has_dup_when_the_client_comes(ends: str) -> None:
    """H-51: whatever happens to the session meanwhile. What waited before was not sent: it expires, and the limit of a
    client that is online applies to it."""
    broker = BrokerHarness(max_online_messages=3, idle_session_s=1 if ends == "is released" else 1000)
    broker.persistent("s").subscribe(("t", 1))
    broker.persistent("s").leave()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    origin, expires_at = broker.node.env.origin, broker.node.env.now + 10_000
    for number, expiry in enumerate([expires_at, 0, 0, 0, 0]):
        again = number == 3
        message = Message("", "t", b"%d" % number, 1, False, None, expiry, "p", origin, number, again=again)
        session.queue.push(message, 1, False, ())
    broker.pass_s(20)
    if ends == "is released":
        assert broker.node.sessions.known("", "s") is None
    elif ends == "restarts":
        broker.restart()
    got = broker.persistent("s", 5).drain()
    assert [(each.payload, each.dup) for each in got] == [(b"1", False), (b"3", True)]


@pytest.mark.parametrize("window", [1, 2, 7, 256])
def test_a_backlog_goes_to_disk_and_comes_back_in_order(window: int) -> None:
    """5,000 messages under load, acks out of order; memory holds a window, not the backlog."""
    broker = BrokerHarness(
        memory_window=window, max_inflight_messages=20, max_online_messages=-1, max_offline_messages=-1, seed=window
    )
    rng = Random(window)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    session = broker.node.sessions.get("", "s")
    assert session is not None
    seen: list[Publish] = []
    open_: list[Publish] = []
    for first in range(1, 5001, 250):
        fill(publisher, first, first + 249)
        publisher.take()
        assert len(session.queue.waiting) <= window
        for _ in range(6):
            came = subscriber.messages()
            seen += came
            open_ += came
            rng.shuffle(open_)
            subscriber.send(*[Puback(m.packet_id) for m in open_[:15]])
            del open_[:15]
    while len(seen) < 5000:
        subscriber.send(*[Puback(m.packet_id) for m in open_])
        open_ = subscriber.messages()
        assert open_
        seen += open_
    assert numbers(seen) == list(range(1, 5001))
    assert not any(m.dup for m in seen)
    subscriber.ask(*[Puback(m.packet_id) for m in open_])
    assert broker.keys(b"q") == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("window", [1, 3])
def test_qos_2_leaves_after_its_entry_is_safe(qos: int, window: int) -> None:
    """This includes an entry that did not fit into memory and was read back at once; QoS 1 may leave before."""
    broker = BrokerHarness(memory_window=window, max_inflight_messages=0)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    broker.hold_disk()
    fill(publisher, 1, 2, qos)
    fill(publisher, 3, 5, qos)
    assert numbers(subscriber.messages()) == ([1, 2, 3, 4, 5] if qos == 1 else [])
    broker.disk.stall_until = 0.0  # the first commit ends, and the second begins
    broker.loop.turn()
    broker.hold_disk()
    broker.settle()
    on_disk = {int.from_bytes(key[-8:], "big") + 1 for key in broker.keys(b"q")}
    got = numbers(subscriber.messages())
    assert qos == 1 or set(got) <= on_disk
    broker.free_disk()
    broker.pass_s(1)
    assert got + numbers(subscriber.messages()) == ([1, 2, 3, 4, 5] if qos == 2 else [])


# -- limits


@pytest.mark.parametrize("queue_type", ["fifo", "lifo"])
def test_max_offline_messages(queue_type: str) -> None:
    """fifo keeps the first messages, lifo the last and sends them newest first; every drop has an event (P8)."""
    broker = BrokerHarness(max_offline_messages=3, queue_type=queue_type)
    offline(broker)
    fill(broker.client("p"), 1, 8)
    assert broker.drops() == [("s", "t", "queue_full")] * 5
    got = numbers(broker.persistent("s").drain())
    assert got == ([1, 2, 3] if queue_type == "fifo" else [8, 7, 6])


def test_max_online_messages_counts_messages_behind_the_window() -> None:
    """It counts messages in memory and on disk."""
    broker = BrokerHarness(max_online_messages=5, max_inflight_messages=2, memory_window=2)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    fill(broker.client("p"), 1, 20)
    assert len(broker.drops()) == 13
    assert numbers(subscriber.drain()) == list(range(1, 8))


def test_a_limit_that_changes_while_the_client_is_absent() -> None:
    """An operator raises `max_offline_messages`: queues hold more at once. A plugin's limit stays."""

    class Limits:
        def auth_on_register(self, peer: object, subscriber: Any, *_: object) -> object:
            return {"max_offline_messages": 1} if subscriber.client_id == "limited" else True

        def auth_on_publish(self, *_: object) -> bool:
            return True

        auth_on_subscribe = auth_on_publish

    broker = BrokerHarness(Limits(), max_offline_messages=1, allow_anonymous=False)
    for name in ("s", "limited"):
        client = broker.persistent(name)
        client.subscribe(("t", 1))
        client.vanish()
    publisher = broker.client("p")
    for number in (1, 2):
        publisher.publish("t", b"%d" % number, 1, number)
    broker.node.options.max_offline_messages = 3
    for number in (3, 4, 5):
        publisher.publish("t", b"%d" % number, 1, number)
    assert broker.persistent("s").payloads() == [b"1", b"3", b"4"]
    assert broker.persistent("limited").payloads() == [b"1"]


def test_a_limit_that_changes_while_the_client_is_connected() -> None:
    broker = BrokerHarness(max_online_messages=1, max_inflight_messages=1)
    client = broker.persistent("s")
    client.subscribe(("t", 1))
    publisher = broker.client("p")
    for number in (1, 2, 3):
        publisher.publish("t", b"%d" % number, 1, number)
    broker.node.options.max_online_messages = 2
    publisher.publish("t", b"4", 1, 4)
    got = client.messages()
    for _ in range(3):
        got += client.ask(Puback(got[-1].packet_id))
    assert [each.payload for each in got] == [b"1", b"2", b"4"]


@pytest.mark.parametrize("limit", [0, 3])
@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_what_only_waits_for_its_commit_is_not_above_the_limit(limit: int, order: str) -> None:
    """The window has room for 4 messages of QoS 2: they leave with the commit, and `limit` others may wait."""
    broker = BrokerHarness(max_online_messages=limit, max_inflight_messages=4, queue_type=order)
    client = broker.persistent("s")
    session = broker.node.sessions.get("", "s")
    assert session is not None
    broker.hold_disk()
    for number in range(8):
        message = Message("", "t", b"%d" % number, 2, False, None, 0, "p", broker.node.env.origin, number)
        session.queue.push(message, 2, False, ())
    assert session.queue.full and session.queue.size == 4 + limit and len(broker.drops()) == 4 - limit
    broker.free_disk()
    broker.settle()
    assert len(session.queue.inflight) == 4 and session.queue.size == limit
    assert session.queue.full
    got = [int(each.payload) for each in client.drain()]
    first = 0 if order == "fifo" else 8 - 4 - limit
    assert sorted(got) == list(range(first, first + 4 + limit))


def test_a_client_that_does_not_read_has_no_window_beyond_the_limit() -> None:
    """Its messages would wait, although the window has room for them."""
    broker = BrokerHarness(max_online_messages=0)
    broker.persistent("s")
    session = broker.node.sessions.get("", "s")
    assert session is not None
    (connection,) = broker.node.connections.values()
    connection.writable(False)
    message = Message("", "t", b"", 2, False, None, 0, "p", broker.node.env.origin, 1)
    session.queue.push(message, 2, False, ())
    assert session.queue.size == 0 and len(broker.drops()) == 1


def test_a_connected_client_gets_qos_2_although_no_message_may_wait() -> None:
    broker = BrokerHarness(max_online_messages=0)
    client, publisher = broker.persistent("s"), broker.client("p")
    client.subscribe(("t", 2))
    for number in range(1, 4):
        publisher.publish("t", b"%d" % number, 2, number)
    assert numbers(client.drain()) == [1, 2, 3] and broker.drops() == []


@pytest.mark.parametrize("override", [False, True])
def test_a_backlog_above_max_online_messages(override: bool) -> None:
    """The backlog is cut with events when the client connects, unless `override_max_online_messages` is on."""
    broker = BrokerHarness(
        max_online_messages=4, max_offline_messages=10, override_max_online_messages=override, max_inflight_messages=2
    )
    offline(broker)
    fill(broker.client("p"), 1, 12)
    assert len(broker.drops()) == 2
    got = numbers(broker.persistent("s").drain())
    assert got == list(range(1, 11 if override else 5))
    assert len(broker.drops()) == (2 if override else 8)


def test_sent_messages_are_never_dropped() -> None:
    """Unanswered messages are sent again whatever the limits: only messages never sent may be dropped."""
    broker = BrokerHarness(max_online_messages=2, max_offline_messages=2, max_inflight_messages=5)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    fill(publisher, 1, 7)
    assert numbers(subscriber.messages()) == [1, 2, 3, 4, 5]
    subscriber.vanish()
    assert len(broker.drops()) == 2
    fill(publisher, 8, 9)
    assert len(broker.drops()) == 4
    broker.restart()
    assert numbers(broker.persistent("s").drain()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("limit", [-1, 0])
def test_a_limit_of_minus_one_and_of_zero(limit: int) -> None:
    """-1 keeps everything, 0 nothing."""
    broker = BrokerHarness(max_offline_messages=limit, max_online_messages=-1)
    offline(broker)
    fill(broker.client("p"), 1, 3000)
    got = broker.persistent("s").drain()
    assert len(got) == (3000 if limit else 0)
    assert len(broker.drops()) == (0 if limit else 3000)


def test_limits_count_after_a_restart() -> None:
    """The backlog is counted when a limit applies; limits that a plugin set for the session are kept (P7)."""

    class Limits:
        def auth_on_register(self, *_: object) -> dict[str, int]:
            return {"max_offline_messages": 4}

        def auth_on_publish(self, *_: object) -> bool:
            return True

        def auth_on_subscribe(self, *_: object) -> bool:
            return True

    broker = BrokerHarness(Limits(), allow_anonymous=False)
    offline(broker)
    fill(broker.client("p"), 1, 3)
    broker.restart()
    fill(broker.client("p"), 4, 6)
    assert len(broker.drops()) == 2
    assert numbers(broker.persistent("s").drain()) == [1, 2, 3, 4]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("version", [4, 5])
def test_in_flight_messages_survive_a_kill(version: int, power: bool) -> None:
    """The same packet ids, DUP set, in order; QoS 2 handshakes continue (P7) [MQTT-4.6.0-1] [MQTT-3.3.1-1]."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s", version)
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    for number, qos in enumerate((1, 2, 2, 1, 2), 1):
        publisher.publish("t", b"%d" % number, qos, number)
    first = subscriber.messages()
    assert subscriber.ask(Pubrec(first[1].packet_id), Puback(first[3].packet_id)) == [Pubrel(first[1].packet_id)]
    broker.restart(power)
    subscriber = broker.persistent("s", version)
    again = subscriber.take()
    assert again[1] == Pubrel(first[1].packet_id)
    del again[1]
    assert [(m.payload, m.packet_id, m.dup) for m in again] == [
        (m.payload, m.packet_id, True) for m in (first[0], first[2], first[4])
    ]


def test_packet_ids_continue_after_a_restart() -> None:
    """A packet id that the client may use gets no new message: sequence numbers are reserved before use."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    fill(publisher, 1, 5)
    used = {m.packet_id for m in subscriber.messages()}
    for _ in range(3):
        broker.restart()
        subscriber = broker.persistent("s")
        assert {m.packet_id for m in subscriber.messages()} == used
        fill(broker.client("p"), 6, 6)
        (new,) = subscriber.messages()
        assert new.packet_id not in used and not new.dup
        used.add(new.packet_id)


def test_packet_ids_wrap_around_an_id_in_flight() -> None:
    """Over the end of the numbers, on disk and in memory, with an old id still open [MQTT-2.3.1-4] [MQTT5-2.2.1-4]."""
    broker = BrokerHarness(max_inflight_messages=5, memory_window=4, max_online_messages=-1)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    fill(publisher, 1, 1)
    (old,) = subscriber.messages()
    assert old.packet_id == 1
    session = broker.node.sessions.get("", "s")
    assert session is not None
    session.queue.next_seq = 65530
    fill(publisher, 2, 30)
    got: list[Publish] = []
    while came := subscriber.messages():
        got += came
        subscriber.send(*[Puback(m.packet_id) for m in came])
    assert [m.packet_id for m in got] == list(range(65531, 65536))
    subscriber.send(Puback(1))
    got += subscriber.drain()
    assert numbers(got) == list(range(2, 31))
    assert [m.packet_id for m in got[5:8]] == [1, 2, 3]


def test_expiry_deadlines_survive() -> None:
    """A message that expires while the node is down is dropped with an event (P7) [MQTT5-3.3.2-5]."""
    broker = BrokerHarness()
    offline(broker, "s", 5)
    publisher = broker.client("p", 5)
    publisher.publish("t", b"1", 1, 1, message_expiry_interval=5)
    publisher.publish("t", b"2", 1, 2)
    broker.restart()
    broker.pass_s(6)
    assert broker.persistent("s", 5).payloads() == [b"2"]
    assert len(broker.events("q.expire")) == 1


def test_a_damaged_entry_is_logged_and_the_rest_is_delivered() -> None:
    """One unreadable record costs one message, and its key is logged (P9)."""
    broker = BrokerHarness()
    offline(broker)
    fill(broker.client("p"), 1, 3)
    key = broker.keys(b"q")[1]
    broker.node.env.store.put(key, b"\xc1 no record")
    broker.settle()
    assert numbers(broker.persistent("s").drain()) == [1, 3]
    assert any(level == "error" and repr(key) in line for level, line in broker.host.lines)
    assert broker.keys(b"q") == []


def two_queues(second: str, qos: int = 1) -> BrokerHarness:
    """A broker with a large message in the queues of `s` and another client."""
    broker = BrokerHarness()
    for name in ("s", second):
        offline(broker, name)
    publisher = broker.client("p")
    publisher.publish("t", bytes(1000), qos, 1)
    if qos == 2:
        publisher.ask(Pubrel(1))
    return broker


def test_queues_of_one_slot_share_a_body() -> None:
    assert slot_of("", "s") == slot_of("", "s226") == 121
    broker = two_queues("s226")
    assert [key[1] for key in broker.keys(b"p") + broker.keys(b"u")] == [121, 121]
    assert [each.payload for each in broker.persistent("s").drain()] == [bytes(1000)]
    assert len(broker.keys(b"p")) == 1
    broker.restart()
    assert [each.payload for each in broker.persistent("s226").drain()] == [bytes(1000)]
    assert broker.keys(b"p") == broker.keys(b"u") == broker.keys(b"q") == []


def test_a_slot_with_one_queue_stores_the_body_in_the_entry() -> None:
    broker = two_queues("r")
    assert len(broker.keys(b"q")) == 2 and broker.keys(b"p") == broker.keys(b"u") == []
    broker.restart()
    for name in ("s", "r"):
        assert [each.payload for each in broker.persistent(name).drain()] == [bytes(1000)]
    assert broker.keys(b"q") == []


@pytest.mark.parametrize("qos", [1, 2])
def test_only_entries_that_share_a_body_let_it_go(qos: int) -> None:
    """An entry with its own copy does not count: the end of the entry leaves the body to the other queues."""
    broker = two_queues("r", qos)
    queue: Any = broker.node.sessions.get("", "s").queue  # type: ignore[union-attr]
    (entry,) = queue.live_entries()
    mid = shared_payloads.hold(broker.node.env.store, 121, entry.message)
    assert [each.payload for each in broker.persistent("s").drain()] == [bytes(1000)]
    assert shared_payloads.load(broker.node.env.store, 121, mid, "", Origins()).payload == bytes(1000)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_wait_of_a_client_that_was_away_is_counted(restarts: bool) -> None:
    """The record has the time, so a restart of the node does not hide it. What is sent again counts no second time."""
    broker = BrokerHarness()
    offline(broker)
    broker.client("p").publish("t", b"1", 1, 1)
    if restarts:
        broker.restart()
    broker.pass_s(7200)
    client = broker.persistent("s")
    assert [message.payload for message in client.messages()] == [b"1"]
    waits = broker.node.env.counters.queue_wait
    assert waits.cumulated[-1] == 1
    assert waits.total_s == pytest.approx(7200, abs=5)
    client.vanish()
    (again,) = broker.persistent("s").messages()
    assert again.dup
    assert waits.cumulated[-1] == 1


@pytest.mark.parametrize("qos", [0, 1])
def test_the_wait_behind_a_full_window_is_counted(qos: int) -> None:
    broker = BrokerHarness()
    client = broker.persistent("s", 5, receive_maximum=1)
    client.subscribe(("t", 1))
    publisher = broker.client("p")
    publisher.publish("t", b"1", 1, 1)
    (one,) = client.messages()
    publisher.publish("t", b"2", 1, 2)
    publisher.publish("t", b"3", qos, 3)
    broker.pass_s(0.5)
    client.send(Puback(one.packet_id))
    assert len(client.drain()) == 2
    waits = broker.node.env.counters.queue_wait
    assert waits.cumulated[-1] == 2
    assert waits.total_s == pytest.approx(1)
