"""Turns: clients that flood the node are served round robin, and nobody else waits for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.broker.front import Front
from strogoff.broker.turns import PACKETS_PER_ROUND, PACKETS_PER_TURN, Turns
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Pingreq, Pingresp, Puback

from .stage import Stage, publish

MANY = 20 * PACKETS_PER_TURN


class Crowd:
    """Connections for `Turns`; each has `packets_left` and takes at most `PACKETS_PER_TURN` at a time."""

    def __init__(self, packets_left: list[int]) -> None:
        self.work: list[Callable[[], None]] = []
        self.turns = Turns(lambda work: self.work.append(work))
        self.left = packets_left
        self.order: list[int] = []
        for number in range(len(packets_left)):
            self.turns.add(Member(self, number))

    def run_round(self) -> list[int]:
        """One turn of the loop; who had a turn in it."""
        work, self.work = self.work, []
        self.order = []
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
        if crowd.left[self.number]:
            crowd.turns.add(self)
        return handled


def test_turns_go_round() -> None:
    """Each gets one turn before anybody gets a second one, and a round is over when it has handled enough."""
    crowd = Crowd([MANY] * 20)
    a_round = PACKETS_PER_ROUND // PACKETS_PER_TURN
    seen: list[int] = []
    for _ in range(5):
        found = crowd.run_round()
        assert len(found) == a_round
        seen += found
    assert seen == [number % 20 for number in range(5 * a_round)]


def test_a_round_gives_nobody_two_turns() -> None:
    """Whoever comes back waits for the next turn of the loop, in which others are heard first."""
    crowd = Crowd([MANY])
    assert crowd.run_round() == [0]
    assert crowd.run_round() == [0]


def test_nothing_is_scheduled_when_nobody_waits() -> None:
    """The last turn ends it."""
    crowd = Crowd([1, 2])
    assert crowd.run_round() == [0, 1]
    assert crowd.work == [] and len(crowd.turns) == 0


# -- on a node


def front_of(stage: Stage, client_id: str) -> Front:
    (front,) = (each for each in stage.node.fronts.values() if each.client_id == client_id)
    return front


FRAMES = {
    "publish": lambda version: encode(publish("t"), version),
    "qos1": lambda version: encode(publish("t", b"", 1, 7), version),
    "ping": lambda version: encode(Pingreq(), version),
    "puback": lambda version: encode(Puback(1), version),
    "subscribe": lambda version: encode(packets.Subscribe(1, [packets.SubscribeOptions("a")]), version),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_polite_client_does_not_wait_for_a_flood(kind: str) -> None:
    """Its answer comes after a turn or two of each flooding client, not after all that they have sent."""
    stage = Stage()
    polite = stage.client("polite", 5)
    flooding = [stage.client(f"flood{number}") for number in range(8)]

    def handled() -> int:
        counters = stage.node.counters
        own = {"qos1": "publish", "ping": "pingreq"}.get(kind, kind)
        return sum(getattr(counters, f"{own}_received")) if kind != "puback" else counters.puback_received

    found: list[int] = []
    polite.pipe.write = lambda data: found.append(handled())
    for number in range(len(flooding)):
        front_of(stage, f"flood{number}").receive(FRAMES[kind](4) * MANY)
    front_of(stage, "polite").receive(encode(publish("x", b"", 1, 1), 5))
    stage.settle()
    assert found[0] <= len(flooding) * PACKETS_PER_TURN + PACKETS_PER_ROUND + PACKETS_PER_TURN
    assert handled() >= len(flooding) * MANY  # and nothing of the flood is lost


def test_a_client_is_not_read_while_its_packets_wait() -> None:
    """The rest of a flood stays with its sender."""
    stage = Stage()
    client = stage.client("c")
    seen: list[bool] = []
    original = stage.node.turns.add

    def add(connection: object) -> None:
        seen.append(client.pipe.to_node.paused)
        original(connection)  # type: ignore[arg-type]

    stage.node.turns.add = add  # type: ignore[method-assign]
    client.send(encode(publish("t"), 4) * MANY)
    stage.settle()
    assert len(seen) >= MANY // PACKETS_PER_TURN - 1 and all(seen)
    assert not client.pipe.to_node.paused


def test_order_and_answers_are_those_without_turns() -> None:
    """A long chunk, with a subscription in its middle, is handled as packet after packet."""
    stage = Stage(max_online_messages=-1, max_inflight_messages=0)
    subscriber = stage.persistent("s")
    subscriber.subscribe(("t", 1))
    client = stage.client("p")
    sent = [publish("t", b"%d" % number, 1, number % 60_000 + 1) for number in range(MANY)]
    client.send(*sent, Pingreq())
    stage.settle()
    answers = client.take()
    assert [each.packet_id for each in answers if isinstance(each, Puback)] == [each.packet_id for each in sent]
    assert answers.count(Pingresp()) == 1
    assert [each.payload for each in subscriber.drain()] == [each.payload for each in sent]


def test_a_bad_packet_behind_many() -> None:
    """Everything before it counts."""
    stage = Stage(max_online_messages=-1)
    subscriber = stage.client("s")
    subscriber.subscribe(("t", 0))
    client = stage.client("p", 5)
    client.send(encode(publish("t"), 5) * MANY, b"\x00\x00")
    stage.settle()
    assert [each.reason for each in client.take()] == [0x81] and client.closed
    assert len(subscriber.messages()) == MANY


def test_a_lost_connection_still_gets_its_turns() -> None:
    """What came before the connection was lost counts, in turns; only then the session is without a connection."""
    stage = Stage(max_online_messages=-1)
    subscriber = stage.client("s")
    subscriber.subscribe(("t", 0))
    client = stage.client("p")
    front = front_of(stage, "p")
    front.receive(encode(publish("t"), 4) * MANY)
    client.break_off()
    assert not front.closed
    stage.settle()
    assert len(subscriber.messages()) == MANY
    assert front.closed and [each.client_id for each in stage.node.fronts.values()] == ["s"]


def test_a_connection_that_is_closed_meanwhile() -> None:
    """Its packets are forgotten: nothing is handled for a session that is somebody else's."""
    stage = Stage()
    client = stage.client("p")
    (front,) = stage.node.fronts.values()
    front.receive(encode(publish("t"), 4) * MANY)
    before = stage.node.counters.publish_received[0]
    front.drop("test")
    stage.settle()
    assert client.closed and stage.node.counters.publish_received[0] == before
    assert len(stage.node.turns) == 0


def test_packets_wait_while_the_rate_is_used_up() -> None:
    """`max_message_rate` holds for packets that came in one piece, too, and it counts all but acknowledgements."""
    stage = Stage(max_message_rate=10)
    client = stage.client("p", 5)
    client.send(b"".join([encode(Puback(1), 5)] * 50 + [encode(Pingreq(), 5)] * 45))
    stage.settle()
    counts = [len(client.take())]
    for _ in range(4):
        stage.pass_s(1)
        counts.append(len(client.take()))
    assert counts == [11, 11, 11, 11, 1]
