"""The queue of a clean session: window, order, limits, packet ids; random histories against a plain model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strogoff.mqtt import packets
from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec

from ...harness.broker import BrokerHarness, publish


def test_the_window_of_v5_is_its_receive_maximum() -> None:
    """No more unacknowledged QoS 1 and 2 messages than the client takes; other packets are not delayed by it.

    [MQTT5-3.3.4-9] [MQTT5-3.3.4-10] [MQTT5-4.9.0-1] [MQTT5-4.9.0-2] [MQTT5-4.9.0-3]
    """
    broker = BrokerHarness()
    subscriber = broker.client("s", 5, receive_maximum=2)
    subscriber.subscribe(("t", 2), ("zero", 0))
    publisher = broker.client("p")
    for number in range(1, 6):
        publisher.publish("t", b"%d" % number, 1 + number % 2, number)
    one, two = subscriber.messages()
    assert (one.payload, two.payload) == (b"1", b"2")
    assert subscriber.ask(packets.Pingreq()) == [packets.Pingresp()]
    suback = subscriber.subscribe(("more", 1), packet_id=9)
    assert suback == [packets.Suback(9, [1])]
    (three,) = subscriber.ask(Puback(two.packet_id))
    assert three.payload == b"3"
    assert subscriber.ask(Pubrec(one.packet_id)) == [packets.Pubrel(one.packet_id)]  # still counts (section 4.9)
    (four,) = subscriber.ask(Pubcomp(one.packet_id))
    assert four.payload == b"4"
    assert [packet.payload for packet in subscriber.ask(Pubrec(three.packet_id, 0x80))] == [b"5"]


@pytest.mark.parametrize(("window", "sent"), [(1, 1), (7, 7), (0, 50)])
def test_the_window_of_the_older_versions(window: int, sent: int) -> None:
    """`max_inflight_messages`; 0 means as many as there are packet ids."""
    broker = BrokerHarness(max_inflight_messages=window)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    broker.client("p").ask(*[publish("t", b"", 1, number) for number in range(1, 51)])
    assert len(subscriber.messages()) == sent


def test_receive_max_client_bounds_what_v5_asks_for() -> None:
    """The smaller of the client's Receive Maximum and the configuration's."""
    broker = BrokerHarness(receive_max_client=3)
    subscriber = broker.client("s", 5, receive_maximum=10)
    subscriber.subscribe(("t", 1))
    broker.client("p").ask(*[publish("t", b"", 1, number) for number in range(1, 9)])
    assert len(subscriber.messages()) == 3


@pytest.mark.parametrize("version", [3, 4, 5])
def test_in_order(version: int) -> None:
    """Messages of one publisher, topic and QoS come in the order in which they were taken, whatever the acks do.

    [MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT5-4.6.0-5] [MQTT5-4.6.0-6]
    """
    broker = BrokerHarness(max_inflight_messages=3, receive_max_client=3)
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p", version)
    seen: list[Publish] = []
    for number in range(1, 101):
        publisher.publish("t", b"%d" % number, 1, number)
        seen += subscriber.messages()
        if number % 3 == 0:
            for message in reversed(seen[-3:]):
                subscriber.send(Puback(message.packet_id))
    seen += subscriber.messages()
    seen += subscriber.drain()
    assert [m.payload for m in seen] == [b"%d" % number for number in range(1, 101)]


def test_qos_0_waits_its_turn() -> None:
    """A QoS 0 message waits behind QoS 1 messages that wait for the window."""
    broker = BrokerHarness(max_inflight_messages=1)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    publisher.ask(publish("t", b"1", 1, 1), publish("t", b"2", 1, 2), publish("t", b"0"), publish("t", b"3", 1, 3))
    assert [m.payload for m in subscriber.drain()] == [b"1", b"2", b"0", b"3"]


# -- limits


def test_a_full_queue_drops_the_newest_and_reports_it() -> None:
    """`max_online_messages` with fifo: event, counter by reason, hook (P8)."""
    told: list[Any] = []

    class Told:
        def auth_on_publish(self, *_: Any) -> bool:
            return True

        def auth_on_subscribe(self, *_: Any) -> bool:
            return True

        def on_message_drop(self, subscriber: Any, message: Any, reason: str) -> None:
            told.append((subscriber.client_id, message.payload, reason))

    broker = BrokerHarness(Told(), max_inflight_messages=1, max_online_messages=2)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    for number in range(1, 6):
        assert publisher.publish("t", b"%d" % number, 1, number) == [Puback(number)]
    assert [m.payload for m in subscriber.drain()] == [b"1", b"2", b"3"]
    assert broker.drops() == [("s", "t", "queue_full")] * 2
    assert told == [("s", b"4", "queue_full"), ("s", b"5", "queue_full")]
    assert broker.node.env.counters.drops_by_reason == {"queue_full": 2}


def test_lifo_drops_the_oldest_and_sends_the_newest_first() -> None:
    """`queue_type = lifo`."""
    broker = BrokerHarness(max_inflight_messages=1, max_online_messages=3, queue_type="lifo")
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    for number in range(1, 7):
        publisher.publish("t", b"%d" % number, 1, number)
    assert broker.drops() == [("s", "t", "queue_full")] * 2
    assert [m.payload for m in subscriber.drain()] == [b"1", b"6", b"5", b"4"]


def test_no_limit() -> None:
    """-1 means without limit."""
    broker = BrokerHarness(max_inflight_messages=1, max_online_messages=-1)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    broker.client("p").ask(*[publish("t", b"%d" % number, 1, number) for number in range(1, 2001)])
    assert len(subscriber.drain()) == 2000 and broker.drops() == []


def test_a_limit_of_zero() -> None:
    """0 means that no message waits: messages above the window are dropped."""
    broker = BrokerHarness(max_inflight_messages=1, max_online_messages=0)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    publisher.publish("t", b"1", 1, 1)
    publisher.publish("t", b"2", 1, 2)
    assert subscriber.payloads() == [b"1"] and len(broker.drops()) == 1


# -- packet ids


def test_packet_ids_wrap_around() -> None:
    """After 65535 comes 1, never 0 [MQTT-2.3.1-4] [MQTT5-2.2.1-4]."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    session = broker.node.sessions.get("", "s")
    assert session is not None
    session.queue.next_seq = 65533
    for number in range(1, 6):
        publisher.publish("t", b"", 1, number)
    assert [m.packet_id for m in subscriber.messages()] == [65534, 65535, 1, 2, 3]


def test_an_id_in_flight_is_not_reused() -> None:
    """The queue waits for it; order is kept [MQTT-2.3.1-4] [MQTT5-2.2.1-4] [MQTT5-4.3.2-1] [MQTT5-4.3.3-1]."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    publisher.publish("t", b"old", 1, 1)
    (old,) = subscriber.messages()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    session.queue.next_seq = 65534
    for payload in (b"65535", b"waits", b"too"):
        publisher.publish("t", payload, 1, 1)
    assert [(m.payload, m.packet_id) for m in subscriber.messages()] == [(b"65535", 65535)]
    got = subscriber.ask(Puback(old.packet_id))
    assert [(m.payload, m.packet_id) for m in got] == [(b"waits", 1), (b"too", 2)]


# -- a clean session keeps nothing


def test_a_clean_session_ends_with_its_connection() -> None:
    """Messages in flight and waiting messages are gone; nothing was ever written."""
    broker = BrokerHarness(max_inflight_messages=1)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    publisher.publish("t", b"1", 1, 1)
    publisher.publish("t", b"2", 2, 2)
    subscriber.vanish()
    assert broker.keys(b"q") == [] and broker.keys(b"s") == []
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 2))
    assert subscriber.messages() == []


class QueueMachine(RuleBasedStateMachine):
    """Messages, answers in any order and limits at random, against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = BrokerHarness(max_inflight_messages=2, max_online_messages=4, max_offline_messages=4)
        self.subscriber = self.broker.client("s")
        self.subscriber.subscribe(("t", 2))
        self.publisher = self.broker.client("p")
        self.count = 0
        self.sent: dict[int, Publish] = {}
        self.released: set[int] = set()
        self.waiting: list[tuple[bytes, int]] = []
        self.expected: list[tuple[bytes, int]] = []
        self.seen: list[tuple[bytes, int]] = []
        self.drops = 0

    def _pump(self) -> None:
        while self.waiting and (not self.waiting[0][1] or len(self.sent) + len(self.released) < 2):
            self.expected.append(self.waiting.pop(0))
            self._look()

    def _look(self) -> None:
        for message in self.subscriber.messages():
            self.seen.append((message.payload, message.qos))
            if message.qos:
                assert message.packet_id not in self.sent and message.packet_id not in self.released
                assert not message.dup
                self.sent[message.packet_id] = message

    @rule(qos=st.integers(0, 2))
    def push(self, qos: int) -> None:
        self.count += 1
        payload = b"%d" % self.count
        full = len(self.sent) + len(self.released) >= 2
        if self.waiting or (qos and full):
            if len(self.waiting) < 4:
                self.waiting.append((payload, qos))
            else:
                self.drops += 1
        else:
            self.expected.append((payload, qos))
        self.publisher.publish("t", payload, qos, self.count)
        if qos == 2:
            self.publisher.ask(packets.Pubrel(self.count))
        self._look()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        packet_id = data.draw(st.sampled_from(sorted(self.sent)))
        message = self.sent.pop(packet_id)
        if message.qos == 1:
            self.subscriber.send(Puback(packet_id))
            self._pump()
        else:
            assert self.subscriber.ask(Pubrec(packet_id)) == [packets.Pubrel(packet_id)]
            self.released.add(packet_id)

    @precondition(lambda self: self.released)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        packet_id = data.draw(st.sampled_from(sorted(self.released)))
        self.released.remove(packet_id)
        self.subscriber.send(Pubcomp(packet_id))
        self._pump()

    @invariant()
    def same(self) -> None:
        self._look()
        assert self.seen == self.expected
        assert len(self.broker.drops()) == self.drops


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_wait_in_the_queue_is_counted_when_a_message_is_first_sent() -> None:
    broker = BrokerHarness()
    subscriber = broker.client("s", 5, receive_maximum=1)
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    waits = broker.node.env.counters.queue_wait
    publisher.publish("t", b"1", 1, 1)
    (one,) = subscriber.messages()
    assert waits.cumulated[-1] == 0  # it was sent at once
    publisher.publish("t", b"2", 1, 2)
    broker.pass_s(0.4)
    publisher.publish("t", b"3", 0)
    broker.pass_s(0.2)
    two, three = subscriber.ask(Puback(one.packet_id))
    assert (two.payload, three.payload) == (b"2", b"3")
    assert waits.cumulated[-1] == 2
    assert waits.total_s == pytest.approx(0.6 + 0.2)


def test_a_message_that_expires_in_the_queue_has_no_wait() -> None:
    broker = BrokerHarness()
    subscriber = broker.client("s", 5, receive_maximum=1)
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p", 5)
    publisher.publish("t", b"1", 1, 1)
    (one,) = subscriber.messages()
    publisher.publish("t", b"2", 1, 2, message_expiry_interval=1)
    broker.pass_s(2)
    assert subscriber.ask(Puback(one.packet_id)) == []
    assert broker.node.env.counters.queue_wait.cumulated[-1] == 0
