"""Turns: the node serves flooding clients round robin, and they do not delay other clients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.turns import (
    COPIES_PER_TURN,
    PACKETS_PER_ROUND,
    PACKETS_PER_TURN,
    ROUND_MS,
    TURN_MS,
    TURNS_BETWEEN,
    Turns,
    next_size,
)
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Pingreq, Pingresp, Puback
from tests.harness.thinning import thinned

from ...harness.broker import BrokerHarness, publish
from ...harness.transcript import PendingHooks

MANY = 20 * PACKETS_PER_TURN


class Crowd:
    """Connections for `Turns`; each has `packets_left` and takes at most `PACKETS_PER_TURN` at a time."""

    def __init__(self, packets_left: list[int], each_ms: int = 0) -> None:
        self.each_ms = each_ms
        self.work: list[Callable[[], None]] = []
        self.now_ms = 0
        self.turns = Turns(lambda work: self.work.append(work), lambda: self.now_ms)
        self.left = packets_left
        self.order: list[int] = []
        for number in range(len(packets_left)):
            self.turns.add(Member(self, number))

    def run_round(self) -> list[int]:
        """Run the loop until the next round; returns the connections that had a turn."""
        self.order = []
        for _ in range(TURNS_BETWEEN + 1):
            assert self.order == [], "the links of the node have the turns in between"
            work, self.work = self.work, []
            assert len(work) == 1
            work[0]()
        return self.order


class Member:
    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd, self.number = crowd, number

    def next_turn(self) -> int:
        crowd = self.crowd
        handled = min(crowd.left[self.number], PACKETS_PER_TURN)
        crowd.left[self.number] -= handled
        crowd.order.append(self.number)
        crowd.now_ms += crowd.each_ms
        if crowd.left[self.number]:
            crowd.turns.add(self)
        return handled


def test_connections_take_turns_round_robin() -> None:
    """Each connection gets one turn before any gets a second; a round ends when it has handled enough packets."""
    crowd = Crowd([MANY] * 20)
    a_round = PACKETS_PER_ROUND // PACKETS_PER_TURN
    seen: list[int] = []
    for _ in range(5):
        found = crowd.run_round()
        assert len(found) == a_round
        seen += found
    assert seen == [number % 20 for number in range(5 * a_round)]


def test_a_connection_gets_one_turn_per_round() -> None:
    """A connection that comes back waits for the next turn of the loop, in which other clients are read first."""
    crowd = Crowd([MANY])
    assert crowd.run_round() == [0]
    assert crowd.run_round() == [0]


def test_a_round_takes_a_bounded_time() -> None:
    """The time does not depend on the number of waiting connections: the loop runs other work in between."""
    crowd = Crowd([MANY] * 1000, each_ms=ROUND_MS)
    assert crowd.run_round() == [0]
    assert crowd.run_round() == [1]


def test_the_size_of_a_turn() -> None:
    """It is halved when a turn takes too long, and grows again later."""
    assert [next_size(PACKETS_PER_TURN, took) for took in (0, TURN_MS, TURN_MS + 1)] == [256, 256, 128]
    assert next_size(1, 1000) == 1
    assert next_size(8, 0) == 16 and next_size(8, TURN_MS) == 8


def test_nothing_is_scheduled_when_no_connection_waits() -> None:
    """The last turn ends the scheduling."""
    crowd = Crowd([1, 2])
    assert crowd.run_round() == [0, 1]
    assert crowd.work == [] and len(crowd.turns) == 0


# -- on a node


def connection_of(broker: BrokerHarness, client_id: str) -> ClientConnection:
    (connection,) = (each for each in broker.node.connections.values() if each.client_id == client_id)
    return connection


FRAMES = {
    "publish": lambda version: encode(publish("t"), version),
    "qos1": lambda version: encode(publish("t", b"", 1, 7), version),
    "ping": lambda version: encode(Pingreq(), version),
    "puback": lambda version: encode(Puback(1), version),
    "subscribe": lambda version: encode(packets.Subscribe(1, [packets.SubscribeOptions("a")]), version),
}


@pytest.mark.parametrize("kind", thinned(FRAMES, 4))
def test_a_quiet_client_does_not_wait_for_a_flood(kind: str) -> None:
    """Its answer comes after one or two turns of each flooding client, not after all their packets."""
    broker = BrokerHarness()
    polite = broker.client("polite", 5)
    flooding = [broker.client(f"flood{number}") for number in range(8)]

    def handled() -> int:
        counters = broker.node.env.counters
        own = {"qos1": "publish", "ping": "pingreq"}.get(kind, kind)
        return sum(getattr(counters, f"{own}_received")) if kind != "puback" else counters.puback_received

    found: list[int] = []
    polite.pipe.write = lambda data: found.append(handled())
    for number in range(len(flooding)):
        connection_of(broker, f"flood{number}").receive(FRAMES[kind](4) * MANY)
    connection_of(broker, "polite").receive(encode(publish("x", b"", 1, 1), 5))
    broker.settle()
    assert found[0] <= len(flooding) * PACKETS_PER_TURN + PACKETS_PER_ROUND + PACKETS_PER_TURN
    assert handled() >= len(flooding) * MANY  # and nothing of the flood is lost


@pytest.mark.parametrize("kind", [packets.Subscribe, packets.Unsubscribe])
def test_many_filters_count_as_many_packets(kind: type) -> None:
    """A turn ends after a packet with many filters; the answers are complete, in order."""
    broker = BrokerHarness(max_filters_per_packet=0)
    polite, client = broker.client("polite"), broker.client("c")
    filters = [f"t{number}" for number in range(PACKETS_PER_TURN)]
    wanted = filters if kind is packets.Unsubscribe else [packets.SubscribeOptions(each) for each in filters]
    counters, found = broker.node.env.counters, []

    def handled() -> int:
        return sum(counters.subscribe_received) + sum(counters.unsubscribe_received)

    original = polite.pipe.write

    def write(data: bytes) -> None:
        found.append(handled())
        original(data)

    polite.pipe.write = write
    connection_of(broker, "c").receive(b"".join(encode(kind(number, wanted), 4) for number in range(1, 21)))
    connection_of(broker, "polite").receive(encode(Pingreq(), 4))
    broker.settle()
    assert found == [1]
    assert [each.packet_id for each in client.take()] == list(range(1, 21)) and handled() == 20


SUBSCRIBERS = 300


def copies_of_turns(broker: BrokerHarness, all_of_them: int) -> list[int]:
    """Run the loop until queues have this number of copies; returns how many each turn has put there."""
    counters, began_s = broker.node.env.counters, broker.loop.now_s
    copies = [0]
    while counters.router_matches_local < all_of_them:
        before = counters.router_matches_local
        assert broker.loop.turn() and broker.loop.now_s < began_s + 1
        copies.append(counters.router_matches_local - before)
    broker.settle()
    return copies


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_turn_ends_after_many_copies(qos: int, durable: bool) -> None:
    """256 packets in one segment go to 300 sessions: no turn handles all of them. The answers keep their order."""
    broker = BrokerHarness()
    for number in range(SUBSCRIBERS):
        client = broker.persistent(f"s{number}") if durable else broker.client(f"s{number}")
        client.subscribe(("t", qos))
        if durable:
            client.leave()
    publisher = broker.client("p")
    publisher.send(*[publish("t", b"%d" % number, qos, number + 1 if qos else 0) for number in range(PACKETS_PER_TURN)])
    publisher.send(Pingreq())
    copies = copies_of_turns(broker, SUBSCRIBERS * PACKETS_PER_TURN)
    assert sum(copies) == SUBSCRIBERS * PACKETS_PER_TURN
    assert COPIES_PER_TURN <= max(copies) < COPIES_PER_TURN + SUBSCRIBERS
    answers = [each.packet_id for each in publisher.take() if not isinstance(each, Pingresp)]
    assert answers == (list(range(1, PACKETS_PER_TURN + 1)) if qos else [])


def test_a_connection_can_end_between_its_turns_for_copies() -> None:
    """What was not routed has no answer: the client sends it again, and each subscriber gets it once."""
    broker = BrokerHarness()
    subscribers = [broker.persistent(f"s{number}") for number in range(SUBSCRIBERS)]
    for each in subscribers:
        each.subscribe(("t", 2))
    publisher = broker.persistent("p")
    counters = broker.node.env.counters
    publisher.send(*[publish("t", b"%d" % number, 2, number + 1) for number in range(20)])
    while not counters.router_matches_local:
        assert broker.loop.turn()
    assert counters.router_matches_local < 20 * SUBSCRIBERS
    publisher.vanish()
    broker.settle()
    again = broker.persistent("p")
    again.send(*[publish("t", b"%d" % number, 2, number + 1, dup=True) for number in range(20)])
    broker.settle()
    assert sorted(each.packet_id for each in again.take()) == list(range(1, 21))
    assert [each.payload for each in subscribers[0].drain()] == [b"%d" % number for number in range(20)]


class Thinking:
    """A plugin that answers later."""

    async def auth_on_subscribe(self, *_: object) -> bool:
        return True


def test_large_retained_messages_count_as_many_packets() -> None:
    """In a cluster other connections wait behind these messages: a connection handles at most two
    of 100 KiB per turn.
    """
    broker = BrokerHarness(max_inflight_messages=0)
    client = broker.client("writer")
    client.send(*[publish(f"large/{number}", bytes(100 << 10), 1, number + 1, True) for number in range(20)])
    kept = [len(broker.node.retained.table(""))]
    while len(broker.node.retained.table("")) < 20:
        assert broker.loop.turn()
        kept.append(len(broker.node.retained.table("")))
    assert max(after - before for before, after in pairwise(kept)) <= 2
    broker.settle()
    assert [packet.packet_id for packet in client.take()] == list(range(1, 21))


def test_a_turn_can_end_while_a_plugin_decides() -> None:
    """The connection continues when the answer is there."""
    broker = BrokerHarness(Thinking())
    questions = PendingHooks(broker)
    client = broker.client("c")
    wanted = [packets.SubscribeOptions(f"t{number}") for number in range(PACKETS_PER_TURN)]
    client.send(packets.Subscribe(1, wanted), Pingreq(), packets.Subscribe(2, wanted), Pingreq())
    for _ in range(2):
        broker.settle()
        assert len(questions) == 1
        questions.answer()
    broker.settle()
    assert [type(each).__name__ for each in client.take()] == ["Suback", "Pingresp"] * 2


class Slow:
    """A plugin whose answer takes 2 ms each time."""

    def __init__(self) -> None:
        self.broker: BrokerHarness | None = None

    def auth_on_publish(self, *_: object) -> bool:
        assert self.broker is not None
        self.broker.loop.now_s += 0.002
        return True


def test_turns_of_expensive_packets_are_small() -> None:
    """The connection's turn shrinks until it takes a few milliseconds, and grows when its packets are cheap again."""
    plugin = Slow()
    plugin.broker = broker = BrokerHarness(plugin)
    client = broker.client("c")
    connection = connection_of(broker, "c")
    connection.receive(encode(publish("t"), 4) * 2000)
    broker.settle()
    assert connection.flow.turn_size == connection.flow.per_turn <= 4
    connection.receive(encode(Pingreq(), 4) * 2000)
    broker.settle()
    assert connection.flow.turn_size == connection.flow.per_turn == PACKETS_PER_TURN and len(client.take()) == 2000


def test_a_client_is_not_read_while_its_packets_wait() -> None:
    """The rest of a flood stays with its sender."""
    broker = BrokerHarness()
    client = broker.client("c")
    seen: list[bool] = []
    original = broker.node.services.turns.add

    def add(connection: object) -> None:
        seen.append(client.pipe.to_node.paused)
        original(connection)  # type: ignore[arg-type]

    broker.node.services.turns.add = add  # type: ignore[method-assign]
    client.send(encode(publish("t"), 4) * MANY)
    broker.settle()
    assert len(seen) >= MANY // PACKETS_PER_TURN - 1 and all(seen)
    assert not client.pipe.to_node.paused


def test_turns_change_neither_order_nor_answers() -> None:
    """A long chunk with a SUBSCRIBE in its middle is handled packet by packet."""
    broker = BrokerHarness(max_online_messages=-1, max_inflight_messages=0)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    client = broker.client("p")
    sent = [publish("t", b"%d" % number, 1, number % 60_000 + 1) for number in range(MANY)]
    client.send(*sent, Pingreq())
    broker.settle()
    answers = client.take()
    assert [each.packet_id for each in answers if isinstance(each, Puback)] == [each.packet_id for each in sent]
    assert answers.count(Pingresp()) == 1
    assert [each.payload for each in subscriber.drain()] == [each.payload for each in sent]


def test_a_bad_packet_behind_many() -> None:
    """The packets before it are handled."""
    broker = BrokerHarness(max_online_messages=-1)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 0))
    client = broker.client("p", 5)
    client.send(encode(publish("t"), 5) * MANY, b"\x00\x00")
    broker.settle()
    assert [each.reason for each in client.take()] == [0x81] and client.closed
    assert len(subscriber.messages()) == MANY


def test_a_lost_connection_still_gets_its_turns() -> None:
    """Packets that came before the loss are handled, in turns; only then the session is offline."""
    broker = BrokerHarness(max_online_messages=-1)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 0))
    client = broker.client("p")
    connection = connection_of(broker, "p")
    connection.receive(encode(publish("t"), 4) * MANY)
    client.break_off()
    assert not connection.closed
    broker.settle()
    assert len(subscriber.messages()) == MANY
    assert connection.closed and [each.client_id for each in broker.node.connections.values()] == ["s"]


def test_packets_of_a_closed_connection_are_dropped() -> None:
    """Its packets are dropped: the session may belong to another connection by now."""
    broker = BrokerHarness()
    client = broker.client("p")
    (connection,) = broker.node.connections.values()
    connection.receive(encode(publish("t"), 4) * MANY)
    before = broker.node.env.counters.publish_received[0]
    connection.drop("test")
    broker.settle()
    assert client.closed and broker.node.env.counters.publish_received[0] == before
    assert len(broker.node.services.turns) == 0


def test_packets_wait_while_the_rate_is_used_up() -> None:
    """`max_message_rate` holds also for packets that arrived in one piece, and counts all but acknowledgements."""
    broker = BrokerHarness(max_message_rate=10)
    client = broker.client("p", 5)
    client.send(b"".join([encode(Puback(1), 5)] * 50 + [encode(Pingreq(), 5)] * 45))
    broker.settle()
    counts = [len(client.take())]
    for _ in range(4):
        broker.pass_s(1)
        counts.append(len(client.take()))
    assert counts == [11, 11, 11, 11, 1]
