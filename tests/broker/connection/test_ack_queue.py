"""Acknowledgements leave in order, whatever each waits for, and none leaves without the lease that it needs."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics.schema import MESSAGE, SESSION
from strogoff.broker.connection.ack_queue import (
    OPERATION_BITS,
    PUBLISH,
    REGISTER,
    SUBSCRIBE,
    UNSUBSCRIBE,
    count_operations,
)
from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.refusal import give_up
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.pending_acks import PendingAcks
from strogoff.mqtt import packets
from strogoff.netsplit.policy import FLAGS
from tests.harness.broker import BrokerHarness, PacketClient, option, publish
from tests.harness.forwarding import ForwardingHarness, durable, live


def connection_of(broker: BrokerHarness, client_id: str = "c") -> ClientConnection:
    session = broker.node.sessions.get("", client_id)
    assert session is not None
    assert isinstance(session.connection, ClientConnection)
    return session.connection


class Pen:
    """The acknowledgements of one connection; replies are noted as numbers in the order of sending."""

    def __init__(self) -> None:
        self.broker = BrokerHarness()
        self.client: PacketClient = self.broker.client("c", 5)
        self.connection = connection_of(self.broker)
        self.acks = self.connection.acks
        self.left: list[int] = []
        self.owed: dict[int, PendingAcks] = {}
        self.broker.hold_disk()

    def reply(self, number: int, disk: bool, others: bool) -> None:
        owed = self.owed[number] = PendingAcks().add() if others else PendingAcks()
        if disk:
            self.broker.node.env.store.put(b"nx%d" % number, b"")
        self.acks.reply(lambda: self.left.append(number), disk, 1, owed, PUBLISH)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8), st.integers(0, 1 << 30))
def test_answers_leave_in_order_and_only_when_their_waits_are_over(wanted: list[tuple[bool, bool]], seed: int) -> None:
    pen, rng = Pen(), Random(seed)
    for number, (disk, others) in enumerate(wanted):
        pen.reply(number, disk, others)
    pen.broker.settle()
    todo = ["disk", *[number for number, (_, others) in enumerate(wanted) if others]]
    rng.shuffle(todo)
    done: set[object] = set()
    for each in todo:
        done.add(each)
        if each == "disk":
            pen.broker.free_disk()
        else:
            assert isinstance(each, int)
            pen.owed[each].complete()
        ready = 0
        for number, (disk, others) in enumerate(wanted):
            if (disk and "disk" not in done) or (others and number not in done):
                break
            ready += 1
        assert pen.left == list(range(ready))
        assert pen.acks.unacked >= len(wanted) - ready - sum(1 for each in wanted[ready:] if each == (False, False))
    assert pen.left == list(range(len(wanted)))
    assert pen.acks.unacked == 0


def test_an_answer_without_a_wait_leaves_at_once_but_in_order() -> None:
    pen = Pen()
    pen.reply(0, disk=False, others=False)
    assert pen.left == [0]
    pen.reply(1, disk=False, others=True)
    pen.reply(2, disk=False, others=False)
    assert pen.left == [0]
    pen.owed[1].complete()
    assert pen.left == [0, 1, 2]


def test_a_failed_wait_closes_the_connection_without_an_answer() -> None:
    pen = Pen()
    pen.reply(0, disk=False, others=True)
    assert pen.acks.owes_answers()
    pen.owed[0].fail(lambda _: None)
    assert pen.left == []
    assert pen.connection.closed
    assert not pen.acks.owes_answers()


def test_a_closed_connection_is_not_answered() -> None:
    pen = Pen()
    pen.reply(0, disk=False, others=True)
    pen.client.vanish()
    pen.owed[0].complete()
    assert pen.left == []
    assert not pen.acks.owes_answers()


def test_the_wait_of_each_puback_is_counted_once_it_leaves() -> None:
    pen = Pen()
    waits = pen.broker.node.env.counters.puback_wait
    pen.reply(0, disk=False, others=False)
    assert (waits.at_once, waits.total_s) == (1, 0)
    pen.reply(1, disk=False, others=True)
    pen.broker.pass_s(0.7)
    pen.broker.node.env.tick()
    pen.reply(2, disk=False, others=False)
    pen.broker.pass_s(0.2)
    assert (waits.at_once, waits.total_s) == (1, 0)
    pen.owed[1].complete()
    assert (waits.at_once, waits.cumulated[-1]) == (1, 3)
    assert waits.total_s == pytest.approx(0.9 + 0.2)


def test_only_answers_that_leave_and_are_pubacks_are_counted() -> None:
    pen = Pen()
    waits = pen.broker.node.env.counters.puback_wait
    owed = PendingAcks().add()
    pen.acks.reply(lambda: None, False)
    pen.acks.reply(lambda: None, False, 0, owed, SUBSCRIBE)
    owed.complete()
    pen.reply(0, disk=False, others=True)
    pen.client.vanish()
    pen.owed[0].complete()
    assert waits.cumulated[-1] == 0


@pytest.mark.parametrize("level", [SESSION, MESSAGE])
def test_the_puback_of_a_message_that_nobody_gets_has_not_waited(level: int) -> None:
    broker = BrokerHarness(level=level)
    client = broker.client("c")
    for qos in (0, 1, 2):
        client.publish("t", b"", qos, 5)
    waits = broker.node.env.counters.puback_wait
    assert (waits.at_once, waits.cumulated[-1]) == (1, 1)


def test_a_puback_that_waits_for_the_disk_is_counted_with_its_wait() -> None:
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    publisher = broker.client("p")
    broker.hold_disk()
    publisher.publish("t", b"", 1, 5)
    broker.pass_s(3)
    broker.free_disk()
    waits = broker.node.env.counters.puback_wait
    assert (waits.at_once, waits.cumulated[-1]) == (0, 1)
    assert waits.total_s == pytest.approx(3, abs=0.1)


def test_an_acceptance_takes_the_waits_of_its_context() -> None:
    pen = Pen()
    context = AckContext()
    pending = context.need().add()
    pen.acks.accept(lambda: pen.left.append(1), False, context)
    assert context.pending is None
    pen.acks.accept(lambda: pen.left.append(2), False, context)
    pending.complete()
    assert pen.left == [1, 2]


def test_the_operations_are_those_of_the_policies() -> None:
    assert sorted(OPERATION_BITS.values()) == [PUBLISH, SUBSCRIBE, UNSUBSCRIBE, REGISTER]
    assert len(FLAGS) == 3  # off, majority, on: for each of the operations
    assert sorted(OPERATION_BITS) == ["publish", "register", "subscribe", "unsubscribe"]


class Guarded(ForwardingHarness):
    """An acknowledgement queue whose lease the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = True
        self.asked: list[int] = []
        self.cluster.may_acknowledge_hook = self._may_acknowledge

    def _may_acknowledge(self, connection: ClientConnection, operations: int) -> bool:
        self.asked.append(operations)
        if not self.lease:
            later = self.node.env.after_turn
            later(partial(self._meanwhile, connection, operations))
        return self.lease

    def _meanwhile(self, connection: ClientConnection, operations: int) -> None:
        self.lease = True
        self.node.env.after_turn(partial(self._end, connection, operations))
        connection.output.write(b"\xd0\x00")

    def _end(self, connection: ClientConnection, operations: int) -> None:
        connection.output.write(b"\xd0\x00")
        give_up(connection, operations, "no lease")


def test_each_operation_is_checked_once_per_turn() -> None:
    broker = Guarded()
    client = broker.client("c", 5)
    assert broker.asked == [REGISTER]
    client.ask(
        packets.Subscribe(1, [packets.SubscribeOptions("t", 1)], None),
        packets.Publish("nowhere", b"1", 1, False, False, 2, None),
        packets.Unsubscribe(3, ["t"]),
    )
    assert broker.asked[1:] == [SUBSCRIBE | PUBLISH | UNSUBSCRIBE]


@pytest.mark.parametrize("qos", [1, 2])
def test_without_a_lease_at_the_end_of_the_turn_no_promise_leaves(qos: int) -> None:
    """Routing took place with a lease, and the lease ended before the answer was sent: H-04 (c)."""
    broker = Guarded()
    broker.route("t", live("n2"))
    client = broker.client("c", 5)
    types: list[str] = []
    broker.node.env.events.add(lambda row: types.append(row["type"]))
    broker.node.env.events.set_level(MESSAGE)
    assert client.publish("t", b"1", qos, 1) == []
    broker.lease = False
    broker.acked("n2", 1)
    assert [type(each) for each in client.take()] == [packets.Disconnect]
    assert client.closed
    assert "pub.recv" in types and "pub.ack" not in types


def test_a_suback_that_may_not_leave_is_not_in_the_event_log() -> None:
    """The lease ended while the SUBACK waited for the disk."""
    broker = Guarded()
    client = broker.persistent("c", 5)
    broker.hold_disk()
    client.subscribe(("t", 1))
    broker.lease = False
    broker.free_disk()
    assert [type(each) for each in client.take()] == [packets.Disconnect]
    assert broker.events("sub.add") and not broker.events("sub.ack")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_client_whose_connack_may_not_leave_is_refused(version: int) -> None:
    """CONNACK is the first packet [MQTT-3.2.0-1]: neither a message nor a DISCONNECT may come before it."""
    broker = Guarded()
    expiry_s = 100 if version == 5 else None
    broker.client("c", version, clean=False, expiry_s=expiry_s).subscribe(("t", 1))
    broker.client("writer", 5).publish("t", b"1", 1)
    broker.lease = False
    will = packets.Will("t", b"nobody hears that it is accepted", 1)
    client, answer = broker.connect("c", version, clean=False, expiry_s=expiry_s, will=will)
    assert (answer.reason, answer.session_present) == (0x88 if version == 5 else 3, False)
    assert client.take() == []
    assert client.closed
    broker.lease = True
    again, _ = broker.connect("c", version, clean=False, expiry_s=expiry_s)
    assert again.payloads() == [b"1"]


def test_answers_without_a_promise_need_no_lease() -> None:
    broker = Guarded()
    client = broker.client("c", 5)
    client.subscribe(("t", 1))
    broker.lease = False
    assert [type(each) for each in client.ask(packets.Pingreq())] == [packets.Pingresp]
    client.send(packets.Publish("t", b"1", 0, False, False, 0, None))
    assert client.payloads() == [b"1"]


def test_deliveries_dropped_with_an_answer_of_the_same_turn_are_not_lost() -> None:
    broker = Guarded()
    client = broker.client("c", 5, clean=False, expiry_s=100)
    client.subscribe(("t", 1))
    broker.lease = False
    came = [type(each) for each in client.publish("t", b"1", 1, 9)]
    assert packets.Puback not in came
    assert came[-1] is packets.Disconnect
    broker.lease = True
    again, _ = broker.connect("c", 5, clean=False, expiry_s=100)
    assert again.payloads() == [b"1"]


def test_a_copy_for_an_absent_node_delays_only_its_own_connection() -> None:
    broker = ForwardingHarness()
    broker.route("t", durable("n2", absent=True))
    first, second = broker.client("a", 5), broker.client("b", 5)
    assert first.publish("t", b"1", 1) == []
    assert [type(each) for each in second.publish("nowhere", b"2", 1)] == [packets.Puback]


def test_an_answer_that_waits_again_keeps_its_place() -> None:
    pen = Pen()
    store = pen.broker.node.env.store

    def again() -> None:
        store.put(b"nagain", b"")
        pen.acks.requeue(lambda: pen.left.append(1))

    store.put(b"nfirst", b"")
    pen.acks.reply(again, True)
    pen.reply(2, True, False)
    pen.reply(3, False, False)
    pen.broker.free_disk()
    pen.broker.settle()
    assert pen.left == [1, 2, 3]


def test_a_message_that_waits_again_counts_until_it_is_routed() -> None:
    """Later messages of the client wait for it."""
    pen, seen = Pen(), []
    store = pen.broker.node.env.store

    def again() -> None:
        store.put(b"nagain", b"")
        pen.acks.requeue(lambda: seen.append(pen.acks.unrouted))
        seen.append(pen.acks.unrouted)

    store.put(b"nfirst", b"")
    pen.acks.route(again, True)
    pen.broker.free_disk()
    pen.broker.settle()
    assert (seen, pen.acks.unrouted) == ([2, 1], 0)
    pen.broker.hold_disk()
    store.put(b"nsecond", b"")
    pen.acks.reply(lambda: pen.acks.requeue_all([lambda: seen.append(pen.acks.unrouted)]), True)
    pen.broker.free_disk()
    pen.broker.settle()
    assert (seen, pen.acks.unrouted) == ([2, 1, 1], 0)


def test_answers_released_by_an_item_leave_after_it() -> None:
    """Routing a QoS 2 message may show that the node has its lease again, and then more answers may leave."""
    pen = Pen()

    def first() -> None:
        pen.owed[2].complete()
        pen.acks.requeue_all([])
        pen.left.append(1)

    pen.broker.node.env.store.put(b"nfirst", b"")
    pen.acks.reply(first, True)
    pen.reply(2, True, True)
    pen.reply(3, True, False)
    pen.broker.free_disk()
    pen.broker.settle()
    assert pen.left == [1, 2, 3]


def test_the_operations_that_frames_answer() -> None:
    """Frames of deliveries need no operation, also if their bytes look like an answer; frames with promises do."""
    puback, pubrec, suback = b"\x40\x02\x00\x01", b"\x50\x03\x00\x02\x10", b"\x90\x03\x00\x03\x01"
    publish, payload = b"\x32\x09\x00\x01t\x00\x07abcd", b"\x40 looks like an answer"
    out = [puback, publish, pubrec, puback, suback, payload]
    assert count_operations(out, PUBLISH) == {"publish": 3}
    assert count_operations(out, PUBLISH | SUBSCRIBE) == {"publish": 3, "subscribe": 1}
    assert count_operations([b""], REGISTER | UNSUBSCRIBE) == {"unsubscribe": 1, "register": 1}
    assert count_operations(out, 0) == {}


@pytest.mark.parametrize(("version", "qos"), [(4, 1), (4, 2), (5, 1)])
def test_a_client_with_many_packets_that_wait_for_answers_is_not_read(version: int, qos: int) -> None:
    """The node keeps each packet until the absent node has it: the number of packets is bounded
    (P8), and none is lost.
    """
    broker = ForwardingHarness(max_unanswered_packets=20)
    broker.route("t", durable("n2", absent=True))
    client = broker.client("c", version)
    for number in range(1, 101):
        client.send(publish("t", b"%d" % number, qos, number))
        broker.settle()
    assert 20 <= len(connection_of(broker).acks.waiting) < 25 and len(broker.links.sent["n2"]) < 25
    answers = []
    for _ in range(200):
        broker.acked("n2", len(broker.links.sent["n2"]))
        answers += client.take()
    assert [each.packet_id for each in answers] == list(range(1, 101))
    assert [each.message.payload for _, _, each in broker.links.sent["n2"]] == [b"%d" % each for each in range(1, 101)]


def test_a_client_with_many_subscriptions_that_wait_for_the_disk_is_not_read() -> None:
    """P8: the bound is for all packets that wait, not only for PUBLISH."""
    broker = BrokerHarness(max_unanswered_packets=20)
    client = broker.persistent("c")
    broker.hold_disk()
    for number in range(1, 101):
        client.send(packets.Subscribe(number, [option(f"t/{number}", 1)]))
        broker.settle()
    assert 20 <= len(connection_of(broker).acks.waiting) < 45
    broker.free_disk()
    broker.settle()
    assert [each.packet_id for each in client.take()] == list(range(1, 101))


def test_a_client_that_sends_pubrel_late_is_read_for_that() -> None:
    """Handshakes whose PUBREC has left wait for the client: the client can continue them only if it is read."""
    broker = ForwardingHarness(max_unanswered_packets=5)
    client = broker.client("c", 4)
    for number in range(1, 31):
        assert [type(each) for each in client.publish("t", b"", 2, number)] == [packets.Pubrec]
    for number in range(1, 31):
        assert client.ask(packets.Pubrel(number)) == [packets.Pubcomp(number)]


def test_a_client_that_is_not_read_for_long_is_logged() -> None:
    broker = ForwardingHarness(max_unanswered_packets=10)
    broker.route("t", durable("n2", absent=True))
    client = broker.client("c", 4)
    client.send(*[publish("t", b"", 1, number) for number in range(1, 16)])
    broker.pass_s(1)
    assert not broker.events("conn.pause")
    broker.pass_s(5)
    (row,) = broker.events("conn.pause")
    assert (row["client"], row["reason"], row["count"]) == ("c", "unanswered", 15)
    broker.acked("n2", 15)
    client.send(*[publish("t", b"", 1, number) for number in range(16, 20)])
    broker.pass_s(10)
    assert len(broker.events("conn.pause")) == 1
