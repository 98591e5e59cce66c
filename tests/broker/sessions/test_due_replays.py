"""Which replays of retained messages a session owes its client: after SUBACK, UNSUBSCRIBE, and a lost connection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.mqtt.packets import Publish, Suback, Subscribe, Unsuback, Unsubscribe

from ...harness.broker import BrokerHarness, PacketClient, option

Received = Publish | Suback | Unsuback
TOPICS = [f"t/{number}" for number in range(8)]
ON_THEIR_WAY = 2
"""With a window of 1: a message without an answer, and another one in the queue."""


def with_retained() -> BrokerHarness:
    """A node with a retained message of each topic in `TOPICS`."""
    broker = BrokerHarness()
    publisher = broker.client("p")
    for number, topic in enumerate(TOPICS, 1):
        publisher.publish(topic, b"kept", 1, number, retain=True)
    return broker


def slow(broker: BrokerHarness) -> PacketClient:
    """The subscriber, which takes one message at a time."""
    return broker.persistent("s", 5, receive_maximum=1)


def subscribe(packet_id: int, handling: int) -> Subscribe:
    return Subscribe(packet_id, [option("t/#", 1, retain_handling=handling)], {"subscription_identifier": packet_id})


def drained(broker: BrokerHarness, client: PacketClient) -> list[Received]:
    """Everything that the client receives until nothing is left, in order; it answers each message."""
    found: list[Received] = []
    while True:
        broker.settle()
        came = client.take()
        if not came:
            return found
        for packet in came:
            found.append(packet)
            client.answer(packet)


def topics_of(packets: list[Received]) -> list[str]:
    return [each.topic for each in packets if isinstance(each, Publish)]


def after(packets: list[Received], packet_id: int) -> list[Received]:
    """What came after the SUBACK or UNSUBACK with this packet id."""
    found = [isinstance(each, Suback | Unsuback) and each.packet_id == packet_id for each in packets]
    return packets[found.index(True) + 1 :]


@pytest.mark.parametrize("held", [False, True])
def test_a_suback_from_before_unsubscribe_begins_no_replay(held: bool) -> None:
    """The later subscription asks for none [MQTT5-3.3.1-11]. `held`: all three answers leave together."""
    broker = with_retained()
    client = slow(broker)
    if held:
        broker.hold_disk()
    client.send(subscribe(1, 0), Unsubscribe(2, ["t/#"]), subscribe(3, 2))
    broker.settle()
    broker.free_disk()
    came = drained(broker, client)
    assert len(topics_of(after(came, 2))) <= ON_THEIR_WAY
    assert topics_of(after(came, 3)) == []


def test_a_suback_from_before_unsubscribe_does_not_begin_the_replay_of_the_next_subscription() -> None:
    """That replay comes once, after its own SUBACK."""
    broker = with_retained()
    client = slow(broker)
    broker.hold_disk()
    client.send(subscribe(1, 0), Unsubscribe(2, ["t/#"]), subscribe(3, 0))
    broker.settle()
    broker.free_disk()
    came = drained(broker, client)
    assert topics_of(came) == topics_of(after(came, 3)) == TOPICS


def test_two_subscribes_are_replayed_once_after_the_second_suback() -> None:
    broker = with_retained()
    client = slow(broker)
    broker.hold_disk()
    client.send(subscribe(1, 0), subscribe(2, 0))
    broker.settle()
    broker.free_disk()
    came = drained(broker, client)
    assert topics_of(came) == topics_of(after(came, 2)) == TOPICS


@pytest.mark.parametrize("handling", [0, 1, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_a_subscribe_without_suback_does_not_end_the_replay_of_an_earlier_one(handling: int, restart: bool) -> None:
    """The first SUBACK has left: the next connection gets the rest (P4)."""
    broker = with_retained()
    client = slow(broker)
    came = client.ask(subscribe(1, 0))
    assert topics_of(came) == TOPICS[:1]
    broker.hold_disk()
    assert client.ask(subscribe(2, handling)) == []
    if restart:
        broker.restart()
    else:
        client.vanish()
        broker.free_disk()
    assert set(topics_of(drained(broker, slow(broker)))) == set(TOPICS)


def test_a_replay_goes_on_after_two_lost_connections() -> None:
    """Each time a SUBSCRIBE is lost; the replay of the first one begins again, once."""
    broker = with_retained()
    client = slow(broker)
    client.ask(subscribe(1, 0))
    for _ in range(2):
        broker.hold_disk()
        client.ask(subscribe(2, 0))
        client.vanish()
        broker.free_disk()
        client = slow(broker)
    got = [each.topic for each in drained(broker, client) if isinstance(each, Publish) and not each.dup]
    assert got[-len(TOPICS) :] == TOPICS and len(got) <= len(TOPICS) + ON_THEIR_WAY


@pytest.mark.parametrize(("handling", "comes"), [(0, True), (1, True), (2, False)])
def test_a_lost_subscribe_begins_no_replay_and_the_next_one_is_new(handling: int, comes: bool) -> None:
    """The client does not know of its subscription."""
    broker = with_retained()
    client = slow(broker)
    broker.hold_disk()
    client.ask(subscribe(1, 0))
    client.vanish()
    broker.free_disk()
    client = slow(broker)
    assert drained(broker, client) == []
    assert broker.node.sessions.get("", "s").queue.replay is None  # type: ignore[union-attr]
    client.send(subscribe(2, handling))
    assert topics_of(drained(broker, client)) == (TOPICS if comes else [])


STEPS = st.sampled_from(["ask", "ask if new", "ask not", "unsubscribe", "hold", "free", "take", "lose"])
HANDLING = {"ask": 0, "ask if new": 1, "ask not": 2}


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_packets_after_the_last_unsubscribe_tell_what_comes(steps: list[str]) -> None:
    """On a disk that stalls, and over connections that are lost. If a SUBSCRIBE asks for the retained messages, and its
    SUBACK comes, all of them come. If none asks for them, no message comes for these SUBSCRIBEs."""
    broker = with_retained()
    client = slow(broker)
    came: list[Received] = []
    sent: dict[int, tuple[str, int]] = {}
    for number, step in enumerate(steps, 1):
        if step == "hold":
            broker.hold_disk()
        elif step == "free":
            broker.free_disk()
        elif step == "lose":
            client.vanish()
            broker.free_disk()
            client = slow(broker)
        elif step == "unsubscribe":
            sent.clear()
            client.send(Unsubscribe(number, ["t/#"]))
        elif step != "take":
            sent[number] = step, len(came)
            client.send(subscribe(number, HANDLING[step]))
        broker.settle()
        for packet in client.take():
            came.append(packet)
            if step == "take":
                client.answer(packet)
    broker.free_disk()
    came += client.take()
    client.vanish()
    came += drained(broker, slow(broker))
    answered = [each.packet_id for each in came if isinstance(each, Suback)]
    for number, (step, begin) in sent.items():
        if step == "ask" and number in answered:
            assert set(topics_of(came[begin:])) == set(TOPICS)
    if all(step == "ask not" for step, _ in sent.values()):
        assert not sent.keys() & {(each.properties or {}).get("subscription_identifier", [0])[0] for each in came}
