"""A queue that sends its newest messages first."""

from __future__ import annotations

import pytest

from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel

from ...harness.broker import BrokerHarness
from .numbered import fill, finish, numbers, offline


@pytest.mark.parametrize("window", [1, 2, 50])
def test_lifo_sends_the_newest_first_from_memory_and_disk(window: int) -> None:
    """Each message is sent once, also if it was spilled to disk while others were in flight."""
    broker = BrokerHarness(queue_type="lifo", memory_window=window, max_inflight_messages=2, max_online_messages=-1)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    seen: list[Publish] = []
    held: list[Publish] = []
    for step in range(1, 41):
        fill(publisher, 3 * step - 2, 3 * step)
        came = subscriber.messages()
        seen += came
        held += came
        if len(held) > 1 and step % 3:
            subscriber.send(Puback(held.pop().packet_id))
            came = subscriber.messages()
            seen += came
            held += came
    subscriber.send(*[Puback(m.packet_id) for m in held])
    seen += subscriber.drain()
    assert sorted(numbers(seen)) == list(range(1, 121))
    assert broker.keys(b"q") == []


def test_lifo_after_a_reconnect() -> None:
    """Newest first, once each, marked DUP if they may have been sent before."""
    broker = BrokerHarness(queue_type="lifo", memory_window=3, max_inflight_messages=2, max_offline_messages=-1)
    offline(broker)
    fill(broker.client("p"), 1, 20)
    subscriber = broker.persistent("s")
    assert numbers(subscriber.messages()) == [20, 19]
    subscriber.vanish()
    subscriber = broker.persistent("s")
    assert numbers(subscriber.drain()) == list(range(20, 0, -1))


@pytest.mark.parametrize("shared", [False, True])
def test_lifo_knows_which_messages_were_sent(shared: bool) -> None:
    """Only these come with DUP, and are completed although they have expired. The others have not been sent."""
    broker = BrokerHarness(queue_type="lifo", max_inflight_messages=2, receive_max_client=2, max_offline_messages=4)
    offline(broker, "s", 5)
    if shared:
        offline(broker, "s226", 5)  # a session of the same slot
    publisher = broker.client("p", 5)
    for number in range(1, 5):
        expiry_s = 10 if number in (1, 4) else 1000
        publisher.publish("t", b"%d" % number, 2, number, message_expiry_interval=expiry_s)
    for _ in range(2):
        subscriber = broker.persistent("s", 5)
        assert numbers(subscriber.messages()) == [4, 3]
        subscriber.vanish()
    broker.pass_s(20)
    publisher.publish("t", b"5", 2, 5, message_expiry_interval=1000)
    assert broker.node.env.counters.queue_message_expired == (3 if shared else 1), "1, which was not sent, makes room"
    got = broker.persistent("s", 5).drain()
    assert [(each.payload, each.dup) for each in got] == [(b"5", False), (b"4", True), (b"3", True), (b"2", False)]
    assert shared or broker.keys(b"q") == []


def test_lifo_counts_all_messages_as_sent_after_a_kill() -> None:
    """The process that sent some of them could not write which ones."""
    broker = BrokerHarness(queue_type="lifo", max_inflight_messages=2)
    offline(broker)
    fill(broker.client("p"), 1, 3)
    assert numbers(broker.persistent("s").messages()) == [3, 2]
    broker.restart()
    fill(broker.client("p"), 4, 4)
    got = broker.persistent("s").drain()
    assert [(each.payload, each.dup) for each in got] == [(b"4", False), (b"3", True), (b"2", True), (b"1", True)]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_lifo_completes_an_open_message_before_a_newer_one_with_its_packet_id(released: bool, where: str) -> None:
    """The client would take the newer one for the one that it has (H-11)."""
    broker = BrokerHarness(queue_type="lifo", max_inflight_messages=1)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    fill(publisher, 1, 1, 2)
    (first,) = subscriber.messages()
    if released:
        broker.hold_disk()
        subscriber.send(Pubrec(first.packet_id))
        broker.free_disk()
    subscriber.vanish()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    if where == "memory":
        fill(publisher, 2, 2, 2)
        subscriber = broker.persistent("s")
        assert numbers(subscriber.messages()) == [2]
    session.queue.next_seq += 65535 - (2 if where == "memory" else 1)
    fill(publisher, 3, 3, 2)
    if where == "memory":
        subscriber.send(Pubrec(2), Pubcomp(2))
    else:
        subscriber = broker.persistent("s")
    broker.settle()
    (came,) = [each for each in subscriber.take() if each.packet_id == 1]
    assert came == (Pubrel(1) if released else Publish("t", b"1", 2, dup=True, packet_id=1))
    subscriber.answer(came)
    got = subscriber.drain()
    assert numbers(got) == [3] and got[0].packet_id == 1
    assert broker.keys(b"q") == [] and session.queue.size == 0


# -- restarts


@pytest.mark.parametrize("qos", [1, 2])
def test_lifo_does_not_read_back_messages_in_flight(qos: int) -> None:
    """6 was sent before 5 and 7 were spilled, so it lies between them on disk: it is sent once and counted once."""
    broker = BrokerHarness(queue_type="lifo", memory_window=2, max_inflight_messages=2, max_online_messages=-1)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", qos))
    publisher = broker.client("p")
    fill(publisher, 1, 6)
    first, second = subscriber.messages()
    finish(subscriber, first)
    (six,) = subscriber.messages()
    fill(publisher, 7, 9)
    finish(subscriber, second)
    seen = [first, second, six]
    while came := subscriber.messages():
        seen += came
        finish(subscriber, *came)
    session = broker.node.sessions.get("", "s")
    assert session is not None and session.queue.size == 0
    finish(subscriber, six)
    seen += subscriber.messages()
    assert numbers(seen) == [1, 2, 6, 9, 8, 7, 5, 4, 3]
    assert broker.keys(b"q") == []


def test_lifo_does_not_drop_messages_in_flight() -> None:
    """The oldest waiting message is dropped, not an older one that the client already has."""
    broker = BrokerHarness(queue_type="lifo", memory_window=1, max_inflight_messages=2, max_online_messages=3)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    fill(publisher, 1, 4)
    first, second = subscriber.messages()
    finish(subscriber, first, second)
    held = subscriber.messages()
    assert numbers(held) == [4, 3]
    fill(publisher, 5, 9)
    assert len(broker.drops()) == 2
    assert broker.node.sessions.get("", "s").queue.size == 3  # type: ignore[union-attr]
    assert len(broker.keys(b"q")) == 5
    finish(subscriber, *held)
    assert numbers(subscriber.drain()) == [9, 8, 7]


def test_lifo_drops_what_has_expired_before_the_oldest() -> None:
    broker = BrokerHarness(queue_type="lifo", max_offline_messages=3)
    offline(broker, "s", 5)
    publisher = broker.client("p", 5)
    for number in range(1, 4):
        publisher.publish("t", b"%d" % number, 1, number, message_expiry_interval=10 if number == 2 else 1000)
    broker.pass_s(20)
    fill(publisher, 4, 4)
    assert numbers(broker.persistent("s", 5).drain()) == [4, 3, 1]
    assert broker.node.env.counters.queue_message_expired == 1
