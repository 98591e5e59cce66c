"""A PUBLISH for many absent clients waits for their sessions, which are made some in each turn (P8)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.plugins.hooks import Allow
from strogoff.broker.routing.waking import PER_TURN
from strogoff.mqtt.packets import Disconnect, Puback, Pubrec
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import BrokerHarness, PacketClient, publish
from tests.harness.sleepers import asleep, messages_waiting, most_made, sleepers, slow_steps, turn

COUNT = 4 * PER_TURN + 20


def connection_of(broker: BrokerHarness, client_id: str) -> ClientConnection:
    return next(each for each in broker.node.connections.values() if each.client_id == client_id)


def held(broker: BrokerHarness) -> list[str]:
    """The clients whose packets wait for a plan."""
    return [each.client_id for each in broker.node.connections.values() if "plan" in each.flow.held_for]


def without_majority() -> tuple[BrokerHarness, PacketClient, PacketClient]:
    """Returns a broker that sees no majority, with many absent clients of `news`, a reader of all, and a publisher."""
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    reader, publisher = broker.persistent("r"), broker.persistent("p")
    reader.subscribe(("#", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    return broker, reader, publisher


@pytest.mark.parametrize("group", ["", "$share/g/"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_one_message_for_many_absent_clients_makes_their_sessions_in_steps(qos: int, group: str) -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, (f"{group}news", 1))
    publisher = broker.client("p")
    publisher.send(publish("news", b"x", qos))
    assert 0 < most_made(broker) <= PER_TURN
    assert asleep(broker) == 0
    assert publisher.take() == [[], [Puback(1)], [Pubrec(1)]][qos]
    if qos == 1:
        got = messages_waiting(broker, COUNT)
        assert sum(map(len, got)) == (1 if group else COUNT)


def test_nothing_of_the_connection_overtakes_and_others_go_on() -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    reader, publisher = broker.client("r"), broker.client("p")
    broker.client("other")
    reader.subscribe(("#", 1))
    publisher.send(publish("news", b"1", 1, 1), publish("a", b"2"), publish("news", b"3", 1, 3), publish("b", b"4"))
    while not held(broker):
        assert turn(broker)
    connection_of(broker, "other").process([publish("own", b"mine", 1, 9)])
    assert reader.payloads() == [b"mine", b"1", b"2", b"3", b"4"]
    assert publisher.take() == [Puback(1), Puback(3)]
    assert messages_waiting(broker, COUNT) == [[b"1", b"3"]] * COUNT


def test_the_packets_behind_have_a_turn_of_their_own() -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    broker.client("p").send(publish("news", b"x", 1), publish("behind"))
    while not held(broker):
        assert turn(broker)
    while held(broker):
        assert turn(broker)
    assert len(broker.node.services.turns) == 1


def test_publishers_of_one_topic_share_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    publishers = [broker.client(f"p{number}") for number in range(3)]
    made = list[bytes]()
    make = broker.node.sessions.wake

    def wake(client: bytes) -> Any:
        made.append(client)
        return make(client)

    monkeypatch.setattr(broker.node.sessions, "wake", wake)
    for publisher in publishers:
        publisher.send(publish("news", b"x", 1))
    broker.settle()
    assert len(made) == len(set(made)) == COUNT
    assert [publisher.take() for publisher in publishers] == [[Puback(1)]] * 3


@pytest.mark.parametrize("topics", [1, 3])
def test_many_topics_of_one_segment_share_what_a_turn_may_make(topics: int) -> None:
    """Each topic by itself has so few absent clients that its message need not wait."""
    broker = BrokerHarness()
    for number in range(topics):
        sleepers(broker, PER_TURN, (f"t/{number}", 1), prefix=f"s{number}/")
    publisher = broker.client("p")
    publisher.send(*[publish(f"t/{number}", b"x", 1, 1 + number) for number in range(topics)])
    turn(broker)
    assert asleep(broker) == PER_TURN * (topics - 1)
    assert most_made(broker) <= PER_TURN
    assert asleep(broker) == 0
    assert publisher.take() == [Puback(1 + number) for number in range(topics)]


def test_a_publisher_that_disconnects_meanwhile_has_published() -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    reader = broker.client("r")
    reader.subscribe(("news", 0))
    publisher = broker.client("p")
    publisher.send(publish("news", b"last"), Disconnect())
    publisher.close()
    assert reader.payloads() == [b"last"]
    assert broker.host.events[-1]["type"] != "will.fire"
    assert asleep(broker) == 0 and not held(broker)


def test_a_connection_that_is_taken_over_meanwhile_publishes_nothing() -> None:
    """Its PUBLISH has no answer, and the client sends it again on the new connection."""
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    first = broker.persistent("p")
    first.send(publish("news", b"x", 1, 7))
    while not held(broker):
        assert turn(broker)
    session = broker.node.sessions.known("", "p")
    assert session is not None
    broker.node.sessions.take_over(session)
    broker.settle()
    assert first.take() == []
    assert broker.persistent("p").publish("news", b"x", 1, 7, dup=True) == [Puback(7)]
    assert messages_waiting(broker, 1) == [[b"x"]]


@pytest.mark.parametrize("dup", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_lease_that_is_lost_meanwhile_forbids_the_publish(cached: bool, dup: bool) -> None:
    """A repeated PUBLISH waits for the lease: a subscriber may have the message (H-13)."""
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    publisher = broker.client("p", 5)
    if cached:
        publisher.publish("other")
        permitted = broker.node.connections[next(reversed(broker.node.connections))].publishing.permitted
        permitted["news"] = permitted["other"]
    publisher.send(publish("news", b"x", 1, dup=dup))
    while not held(broker):
        assert turn(broker)
    broker.node.policy.view_state = ViewState.MINORITY
    broker.settle()
    answers = publisher.take()
    assert [each.reason for each in answers] == ([] if dup else [0x83])
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert publisher.take() == ([Puback(1)] if dup else [])
    assert messages_waiting(broker, 1) == [[b"x"]] * dup or [[]]


def test_deferred_packets_stay_in_order_while_the_first_waits() -> None:
    """The lease is back, and a deferred PUBLISH is for many absent clients."""
    broker, reader, publisher = without_majority()
    sent = [publish(topic, topic.encode(), 1, 1 + number) for number, topic in enumerate(("a", "news", "b", "news/c"))]
    assert publisher.ask(*sent[:3]) == []
    broker.pass_s(200)
    broker.node.policy.view_state = ViewState.WHOLE
    while not held(broker):
        assert turn(broker)
    publisher.send(sent[3])
    assert most_made(broker) <= PER_TURN
    assert reader.payloads() == [b"a", b"news", b"b", b"news/c"]
    assert publisher.take() == [Puback(1 + number) for number in range(4)]
    assert not held(broker)


def test_sessions_that_the_disk_fails_to_return_stop_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    lost = 2 * PER_TURN
    wake = broker.node.sessions.wake
    bad = {f"s{number}".encode() for number in range(lost)}
    monkeypatch.setattr(
        broker.node.sessions,
        "wake",
        lambda client: None if any(client.endswith(each) for each in bad) else wake(client),
    )
    publisher = broker.client("p")
    publisher.send(publish("news", b"1", 1, 1), publish("news", b"2", 1, 2))
    broker.settle()
    assert publisher.take() == [Puback(1), Puback(2)]
    monkeypatch.undo()
    assert messages_waiting(broker, COUNT) == [[]] * lost + [[b"1", b"2"]] * (COUNT - lost)


def test_sessions_that_leave_memory_again_meanwhile_get_the_message() -> None:
    broker = BrokerHarness(idle_sessions=PER_TURN)
    sleepers(broker, COUNT, ("news", 1))
    publisher = broker.client("p")
    assert publisher.publish("news", b"x", 1) == [Puback(1)]
    assert messages_waiting(broker, COUNT) == [[b"x"]] * COUNT


def test_a_node_that_stops_meanwhile_forgets_who_waits() -> None:
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    publisher = broker.client("p")
    publisher.send(publish("news", b"x", 1))
    while not held(broker):
        assert turn(broker)
    waking = broker.node.router.waking
    broker.node.env.store.close()
    broker.settle()
    assert len(waking) == 0
    assert publisher.take() == []


class Moving:
    """Publishes `away` in another mountpoint."""

    def auth_on_register(self, *_: Any) -> Any:
        who = _[1]
        return Allow(modifiers={"subscriber_id": ("m", who.client_id)}) if who.client_id.startswith("s") else True

    def auth_on_publish(self, _user: Any, _who: Any, _qos: int, topic: str, *_: Any) -> Any:
        return Allow(modifiers={"mountpoint": "m"}) if topic == "away" else True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


def test_the_message_keeps_the_mountpoint_that_a_plugin_gave_it() -> None:
    broker = BrokerHarness(Moving(), allow_anonymous=False)
    sleepers(broker, COUNT, ("#", 1))
    publisher = broker.client("p")
    publisher.send(publish("away", b"x", 1, 1), publish("here", b"y", 1, 2))
    broker.settle()
    assert publisher.take() == [Puback(1), Puback(2)]
    assert messages_waiting(broker, COUNT) == [[b"x"]] * COUNT


def test_a_client_whose_packets_wait_is_not_silent() -> None:
    """Its keep alive interval passes while its own node does not read."""
    broker = BrokerHarness()
    sleepers(broker, COUNT, ("news", 1))
    publisher = broker.client("p", 4, keepalive_s=2)
    slow_steps(broker, 5)
    publisher.send(publish("news", b"x", 1))
    broker.pass_s(4)
    assert held(broker) == ["p"]
    publisher.send(publish("news", b"y", 1, 2))
    broker.pass_s(21.5)
    assert publisher.take() == [Puback(1), Puback(2)]


def test_the_lease_comes_back_while_a_later_packet_waits() -> None:
    """Packets that were deferred before go first, and wait for no session."""
    broker, reader, publisher = without_majority()
    assert publisher.ask(publish("news", b"1", 1, 1)) == []
    broker.pass_s(200)
    slow_steps(broker)
    assert publisher.ask(publish("news", b"2", 1, 2)) == []
    assert held(broker) == ["p"]
    broker.node.policy.view_state = ViewState.WHOLE
    broker.pass_s(5)
    assert reader.payloads() == [b"1", b"2"]
    assert publisher.take() == [Puback(1), Puback(2)]
    assert not held(broker)
