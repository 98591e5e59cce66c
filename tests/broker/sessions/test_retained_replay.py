"""Retained messages for new subscriptions in steps: none is lost, order is kept, no turn takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.sessions import retained_replay as replay_module
from strogoff.broker.sessions.retained_replay import HOLD, ReplayTurns
from strogoff.mqtt.packets import Puback, Publish, Suback, Subscribe

from ...harness.broker import BrokerHarness, PacketClient, connect, option

MANY = 3000
"""More than a queue takes (1000), and more than a turn does."""


def fill(broker: BrokerHarness, count: int = MANY, qos: int = 1, first: int = 0) -> list[str]:
    """Topics t/00000 and on, each with a retained message."""
    node = broker.node
    topics = [f"t/{number:05}" for number in range(first, first + count)]
    for topic in topics:
        node.retained.retain(
            Message("", topic, b"kept", qos, True, None, 0, "p", node.env.origin, node.env.numbers.next()), AckContext()
        )
    broker.settle()
    return topics


def topics_of(packets: list[Any]) -> list[str]:
    return [each.topic for each in packets if isinstance(each, Publish)]


def collect(client: PacketClient, into: list[Publish]) -> None:
    """Returns the received messages and answers them, without a pause or a turn."""
    for packet in client.take():
        if isinstance(packet, Publish):
            into.append(packet)
        client.answer(packet)


def before(packets: list[Publish], topic: str) -> list[bytes]:
    return [each.payload for each in packets if each.topic == topic]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("version", [4, 5])
def test_a_subscriber_gets_all_of_them(version: int, persistent: bool, qos: int) -> None:
    """This holds for any number and any limit of the queue: they do not count as a backlog."""
    broker = BrokerHarness(max_online_messages=5, max_offline_messages=5)
    topics = fill(broker, MANY if qos else 5000, qos)
    client = broker.persistent("s", version) if persistent else broker.client("s", version)
    first = client.subscribe(("t/#", qos))
    assert isinstance(first[0], Suback)
    for packet in first:
        client.answer(packet)
    came = first + client.drain()
    assert topics_of(came) == topics
    assert all(each.retain and each.qos == qos for each in came if isinstance(each, Publish))
    assert broker.drops() == []
    assert broker.node.sessions.get("", "s").queue.replay is None  # type: ignore[union-attr]


def test_a_slow_subscriber_holds_a_window_and_no_more() -> None:
    """Messages beyond the window stay in the table, and are neither copied nor written."""
    broker = BrokerHarness()
    topics = fill(broker)
    client = broker.persistent("s")
    came = client.subscribe(("t/#", 1))
    assert topics_of(came) == topics[:20]
    assert len(broker.keys(b"q")) <= 20 + HOLD
    for packet in came:
        client.answer(packet)
    assert topics_of(came) + topics_of(client.drain()) == topics


def test_the_work_of_a_turn_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wildcard subscriptions of many clients at once: the work of each turn is bounded."""
    broker = BrokerHarness()
    fill(broker)
    turns: list[int] = []
    run = ReplayTurns._run

    def measured(self: ReplayTurns) -> None:
        left = self._left
        run(self)
        turns.append(left - self._left)

    monkeypatch.setattr(ReplayTurns, "_run", measured)
    clients = [broker.client(f"s{number}") for number in range(5)]
    for client in clients:
        client.send(*[replayed(number) for number in range(4)])
    broker.settle()
    got = [len(topics_of(client.drain())) for client in clients]
    assert got == [4 * MANY] * 5
    assert max(turns) <= replay_module.TURN + replay_module.SLICE


def replayed(number: int) -> Any:
    return Subscribe(number + 1, [option(("t/#", "#", "+/#", "+/+")[number], 0)], None)


def test_a_repeated_filter_is_replayed_once() -> None:
    """In one SUBSCRIBE; with the options of the last one."""
    broker = BrokerHarness()
    topics = fill(broker, 10)
    client = broker.client("s", 5)
    came = client.subscribe(*[option("t/#", number % 2) for number in range(60)])
    assert topics_of(came) == topics
    assert {each.qos for each in came if isinstance(each, Publish)} == {1}


def test_other_clients_are_served_during_a_replay() -> None:
    """No turn handles more than its share, so the next turn serves other clients."""
    broker = BrokerHarness()
    fill(broker, 5000, 0)
    reader = broker.client("s")
    reader.send(replayed(1))
    counts: list[int] = []
    while sum(counts) < 5000:
        assert broker.loop.turn()
        counts.append(len(topics_of(reader.take())))
    assert max(counts) <= replay_module.TURN // replay_module.MESSAGE + HOLD


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_live_message_is_not_overtaken_by_an_older_retained_one(persistent: bool, qos: int) -> None:
    """The retained message of the topic goes before it, and not once more when the replay comes to it."""
    broker = BrokerHarness()
    topics = fill(broker, qos=qos)
    client = broker.persistent("s") if persistent else broker.client("s")
    publisher = broker.client("p")
    came = [each for each in client.subscribe(("t/#", qos)) if isinstance(each, Publish)]
    if qos:
        assert topics[-1] not in topics_of(came)
    publisher.publish(topics[-1], b"live", qos, 1)
    for packet in came:
        client.answer(packet)
    came += client.drain()
    assert before(came, topics[-1]) == [b"kept", b"live"]
    assert sorted(topics_of(came)) == sorted([*topics, topics[-1]])


def test_a_newer_retained_message_comes_once() -> None:
    """It is sent as a live message: the message that it replaced is not retained any more, and the replay does not
    repeat it.
    """
    broker = BrokerHarness()
    topics = fill(broker)
    client, publisher = broker.client("s"), broker.client("p")
    came = [each for each in client.subscribe(("t/#", 1)) if isinstance(each, Publish)]
    publisher.publish(topics[-1], b"newer", 1, 1, retain=True)
    publisher.publish(topics[-2], b"", 1, 2, retain=True)
    for packet in came:
        client.answer(packet)
    came += client.drain()
    assert before(came, topics[-1]) == [b"newer"]
    assert before(came, topics[-2]) == [b""]


def test_a_live_message_before_the_suback() -> None:
    """The subscription counts from its acceptance: older retained messages still come first."""
    broker = BrokerHarness()
    fill(broker, 1)
    client, publisher = broker.persistent("s"), broker.client("p")
    broker.hold_disk()
    client.subscribe(("t/#", 0))
    publisher.publish("t/00000", b"live")
    broker.free_disk()
    assert [each.payload for each in client.take() if isinstance(each, Publish)] == [b"kept", b"live"]


def test_a_late_copy_older_than_the_retained_message() -> None:
    """A live message older than the retained one does not make the broker send the retained one first."""
    broker = BrokerHarness()
    fill(broker)
    client = broker.client("s")
    came = client.subscribe(("t/#", 1))
    node = broker.node
    late = Message("", "t/02999", b"late", 1, False, None, 0, "p", node.env.origin, node.env.numbers.next())
    node.retained.retain(
        Message("", "t/02999", b"newer", 1, True, None, 0, "p", node.env.origin, node.env.numbers.next()), AckContext()
    )
    node.router.route(late, node.router.plans(""), AckContext())
    for packet in came:
        client.answer(packet)
    assert before(client.drain(), "t/02999") == [b"late", b"newer"]


def test_live_messages_keep_their_limit() -> None:
    """Retained messages and live messages do not use up each other's limits."""
    broker = BrokerHarness(max_online_messages=100)
    topics = fill(broker)
    client, publisher = broker.client("s"), broker.client("p")
    came = client.subscribe(("#", 1))
    for number in range(300):
        publisher.publish(f"live/{number:03}", b"live", 1, 1)
    assert 100 <= 300 - len(broker.drops()) <= 100 + HOLD
    assert {topic[:5] for _, topic, _ in broker.drops()} == {"live/"}
    for packet in came:
        client.answer(packet)
    came += client.drain()
    assert [topic for topic in topics_of(came) if topic[0] == "t"] == topics


def test_live_messages_do_not_block_a_replay() -> None:
    """A client whose queue is full all the time gets retained messages between the live ones."""
    broker = BrokerHarness(max_online_messages=50)
    fill(broker, 400)
    client, publisher = broker.client("s"), broker.client("p")
    got: list[Publish] = []
    client.subscribe(("none", 1))
    client.send(replayed_at_qos_1())
    broker.settle()
    for number in range(4000):
        publisher.publish("live", b"%d" % number, 1, 1)
        packet = next((each for each in client.received if isinstance(each, Publish)), None)
        if packet is not None:
            client.received.remove(packet)
            got.append(packet)
            client.answer(packet)
            broker.settle()
    retained = [each for each in got if each.retain]
    assert len(retained) > 300
    assert len(broker.drops()) > 0


def replayed_at_qos_1() -> Any:
    return Subscribe(9, [option("#", 1)], None)


@pytest.mark.parametrize("power", [False, True])
def test_a_restart_in_the_middle(power: bool) -> None:
    """The SUBACK is valid: the next connection gets the rest, each message once (QoS 2)."""
    broker = BrokerHarness()
    topics = fill(broker, 500, 2)
    client = broker.persistent("s")
    came: list[Publish] = []
    client.send(subscribe_at(2))
    while len(came) < 200:
        collect(client, came)
        assert broker.loop.turn()
    broker.restart(power)
    client = broker.persistent("s")
    came += client.drain()
    first = [each for each in came if not each.dup]
    assert len({each.topic for each in came}) == len(topics)
    assert sorted(topics_of(first)) == sorted(set(topics_of(first)))
    client.leave()
    broker.restart()
    assert broker.persistent("s").drain() == []


def subscribe_at(qos: int) -> Any:
    return Subscribe(9, [option("t/#", qos)], None)


def test_a_lost_connection_in_the_middle() -> None:
    """The next connection of the session continues the replay, also after a takeover."""
    broker = BrokerHarness()
    topics = fill(broker, 500)
    came: list[Publish] = []
    client = broker.persistent("s")
    client.send(subscribe_at(1))
    for wanted in (100, 200, 300):
        while len(came) < wanted:
            collect(client, came)
            assert broker.loop.turn()
        if wanted == 100:
            client.vanish()
        client = broker.persistent("s")
    came += client.drain()
    assert set(topics_of(came)) == set(topics)
    assert len(came) <= len(topics) + 3 * (20 + HOLD)


def test_a_live_message_after_a_reconnect_in_the_middle() -> None:
    """The next connection's live messages wait for the retained ones of their topics as well."""
    broker = BrokerHarness()
    topics = fill(broker, 500)
    client = broker.persistent("s")
    client.send(subscribe_at(1))
    came: list[Publish] = []
    while len(came) < 100:
        collect(client, came)
        assert broker.loop.turn()
    client.break_off()
    client = PacketClient(broker, 4)
    client.send(connect("s", 4, False))
    seen = len(came)
    while len(came) < seen + 50:
        collect(client, came)
        assert broker.loop.turn()
    node = broker.node
    session = node.sessions.get("", "s")
    assert session is not None and session.queue.direct is None
    live = Message("", topics[-1], b"live", 1, False, None, 0, "p", node.env.origin, node.env.numbers.next())
    node.router.route(live, node.router.plans(""), AckContext())
    came += client.drain()
    assert before(came, topics[-1]) == [b"kept", b"live"]


def test_live_messages_for_an_absent_session_keep_their_order() -> None:
    """The retained message of their topic is queued before them, also after a restart."""
    broker = BrokerHarness()
    topics = fill(broker, 500)
    client, publisher = broker.persistent("s"), broker.client("p")
    came = [each for each in client.subscribe(("t/#", 1)) if isinstance(each, Publish)]
    client.vanish()
    publisher.publish(topics[-1], b"one", 1, 1)
    broker.restart()
    publisher = broker.client("p")
    publisher.publish(topics[-2], b"two", 1, 1)
    came = broker.persistent("s").drain()
    assert before(came, topics[-2]) == [b"kept", b"two"]
    assert before(came, topics[-1])[:2] == [b"kept", b"one"]


def test_unsubscribe_ends_a_replay() -> None:
    """No message is added for delivery any more [MQTT5-3.10.4-2]."""
    broker = BrokerHarness()
    fill(broker)
    client = broker.client("s")
    came = client.subscribe(("t/#", 1))
    came += client.unsubscribe("t/#")
    for packet in came:
        client.answer(packet)
    came += client.drain()
    assert len(topics_of(came)) <= 20 + HOLD
    assert broker.node.sessions.get("", "s").queue.replay is None  # type: ignore[union-attr]


@pytest.mark.parametrize(("handling", "twice"), [(0, True), (1, False), (2, False)])
def test_subscribing_again_in_the_middle(handling: int, twice: bool) -> None:
    """0 requests all of them again; 1 and 2 do not change the running replay [MQTT5-3.3.1-9] [MQTT5-3.3.1-10]."""
    broker = BrokerHarness()
    topics = fill(broker, 500)
    client = broker.client("s", 5, receive_maximum=20)
    came = client.subscribe(option("t/#", 1))
    again = client.subscribe(option("t/#", 1, retain_handling=handling), packet_id=2)
    for packet in came + again:
        client.answer(packet)
    got = topics_of(came + again + client.drain())
    assert set(got) == set(topics)
    assert (len(got) > len(topics)) is twice


@pytest.mark.parametrize("handling", [1, 2])
def test_a_replay_that_goes_on_has_the_options_of_the_new_subscription(handling: int) -> None:
    """No message has more than its maximum QoS [MQTT5-3.8.4-8], and each has its identifier."""
    broker = BrokerHarness()
    topics = fill(broker)
    client = broker.persistent("s", 5, receive_maximum=20)
    came = client.subscribe(("t/#", 1), subscription_identifier=7)
    again = client.subscribe(option("t/#", 0, retain_handling=handling), packet_id=2, subscription_identifier=8)
    for packet in came + again:
        client.answer(packet)
    rest = client.drain()
    assert topics_of(came + again + rest) == topics
    last = rest[2 * HOLD :]
    assert {each.qos for each in last} == {0}
    assert all(each.properties == {"subscription_identifier": [8]} for each in last)


def test_a_filter_that_begins_later_waits_for_the_one_before() -> None:
    broker = BrokerHarness()
    topics = fill(broker, 100)
    client = broker.client("s", 5, receive_maximum=10)
    came = client.subscribe(("t/#", 1), subscription_identifier=1)
    came += client.subscribe(("t/00000", 1), packet_id=2, subscription_identifier=2)
    for packet in came:
        client.answer(packet)
    came += client.drain()
    assert topics_of(came) == [*topics, "t/00000"]
    given = [each.properties or {} for each in came if isinstance(each, Publish)]
    identifiers = [properties["subscription_identifier"] for properties in given]
    assert identifiers == [[1]] * 100 + [[2]]


def test_messages_that_the_client_cannot_take_are_skipped() -> None:
    """[MQTT5-3.1.2-25]"""
    broker = BrokerHarness()
    fill(broker, 100)
    client = broker.client("s", 5, maximum_packet_size=12)
    came = client.subscribe(("t/#", 1))
    assert topics_of(came) == []
    assert broker.node.sessions.get("", "s").queue.replay is None  # type: ignore[union-attr]


def test_an_end_of_the_session_in_the_middle() -> None:
    broker = BrokerHarness()
    fill(broker)
    client = broker.persistent("s")
    client.subscribe(("t/#", 1))
    other = broker.client("s")
    broker.settle()
    assert other.take() == [] and client.closed
    assert isinstance(other.publish("x", qos=1)[0], Puback)


def test_turns_are_shared() -> None:
    """The replays share the slice of a turn; when it is used up, the rest waits for the next turn."""
    later: list[Callable[[], None]] = []
    turns = ReplayTurns(later.append, lambda: None)
    worked: list[str] = []

    class Endless:
        def __init__(self, name: str) -> None:
            self.name, self.listed = name, False

        def step(self, work: int) -> int:
            worked.append(self.name)
            turns.add(self)  # type: ignore[arg-type]
            return work

    for name in "ab":
        turns.soon(Endless(name))  # type: ignore[arg-type]
    assert worked == [] and len(later) == 1
    later.pop()()
    assert worked == ["a", "b"] * (replay_module.TURN // replay_module.SLICE // 2) and len(later) == 1
