"""Shared subscriptions: the choice of the member, and the messages of a member that leaves."""

from __future__ import annotations

from collections import Counter

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues import durable_queue
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.router import AFTER_COMMIT, DELIVERED, NO_SLOT
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Puback, Publish, Pubrec, Pubrel, Will

from ...harness.broker import BrokerHarness, PacketClient, connect, publish

VERSIONS = (3, 4, 5)


def members(broker: BrokerHarness, version: int, count: int = 3, qos: int = 2) -> list[PacketClient]:
    """Members of `$share/g/t`, all connected, with sessions that last."""
    found = [broker.persistent(f"m{number}", version) for number in range(count)]
    for client in found:
        client.subscribe(("$share/g/t", qos))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_one_member_gets_each_message(version: int) -> None:
    """All of them get some messages; other groups and ordinary subscriptions get theirs as well (section 4.8.2)."""
    broker = BrokerHarness()
    group = members(broker, version)
    other = broker.client("other", version)
    other.subscribe(("$share/h/t", 0), ("t", 1))
    publisher = broker.client("p", version)
    for number in range(60):
        publisher.publish("t", b"%d" % number, 0)
    got = [client.payloads() for client in group]
    assert sorted(payload for each in got for payload in each) == sorted(b"%d" % number for number in range(60))
    assert all(got)
    assert Counter(other.payloads()) == Counter([b"%d" % number for number in range(60)] * 2)


def test_the_router_knows_the_slots_of_the_members_that_got_the_last_message_alone() -> None:
    """Clients choose the names of groups: what it knew of each would have no bound."""
    broker = BrokerHarness()
    broker.persistent("durable", 5).subscribe(("$share/g/t", 1), ("$share/h/u", 1))
    broker.client("clean", 5).subscribe(("$share/i/v", 1))
    publisher, slot = broker.client("p", 5), slot_of("", "durable")
    for topic, known in (("t", {"$share/g/t": slot}), ("u", {"$share/h/u": slot}), ("v", {})):
        publisher.publish(topic, b"", 1)
        assert broker.node.router.slots_of_members == known
    publisher.publish("v", b"", 2, 7)
    assert broker.node.router.slots_of_members == {"$share/i/v": NO_SLOT}


def test_a_shared_delivery_keeps_to_the_members_qos() -> None:
    """Each delivery has the QoS of its member [MQTT5-4.8.2-3]."""
    broker = BrokerHarness()
    clients = [broker.client(f"m{qos}", 5) for qos in range(3)]
    for qos, client in enumerate(clients):
        client.subscribe(("$share/g/t", qos))
    publisher = broker.client("p", 5)
    for number in range(1, 41):
        publisher.publish("t", b"", 2, number)
        publisher.ask(Pubrel(number))
    for qos, client in enumerate(clients):
        got = client.drain()
        assert got and {m.qos for m in got} == {qos}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("polite", [False, True])
def test_messages_of_a_disconnected_member_go_to_others(version: int, polite: bool) -> None:
    """Unanswered messages go to connected members: QoS 1 also if it was sent already.

    QoS 2 that was sent waits for this member and is completed with it [MQTT5-4.8.2-4].
    """
    broker = BrokerHarness(max_inflight_messages=2, receive_max_client=2)
    (first,) = members(broker, version, 1)
    publisher = broker.client("p", 5)
    for number, qos in enumerate((1, 2, 1, 2), 1):
        publisher.publish("t", b"%d" % number, qos, number)
    one, two = first.messages()
    (second,) = (broker.persistent("late", version),)
    second.subscribe(("$share/g/t", 2))
    first.leave() if polite else first.vanish()
    got = second.drain()
    assert sorted((m.payload, m.qos, m.dup) for m in got) == [(b"1", 1, False), (b"3", 1, False), (b"4", 2, False)]
    first = broker.persistent("m0", version)
    (again,) = first.messages()
    assert (again.payload, again.packet_id, again.dup) == (b"2", two.packet_id, True)
    assert first.ask(Pubrec(two.packet_id)) == [Pubrel(two.packet_id)]
    assert one.payload == b"1"


def test_a_sent_qos_2_message_of_an_ended_member_is_dropped() -> None:
    """[MQTT5-4.8.2-5]: the message was sent, not completed, and the session has ended."""
    broker = BrokerHarness()
    first, second = members(broker, 5, 2)
    publisher = broker.client("p", 5)
    for number in range(1, 21):
        publisher.publish("t", b"%d" % number, 2, number)
    mine = {m.payload for m in first.messages()}
    theirs = {m.payload for m in second.drain()}
    assert mine and theirs
    first.vanish()
    broker.client("m0", 5).leave()  # clean start ends the old session
    assert second.drain() == []
    assert broker.keys(b"q") == []


def leaves_many(monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[BrokerHarness, PacketClient]:
    """A member with many messages in its queue has just left; the other member is there. A step takes ten."""
    monkeypatch.setattr(durable_queue, "HAND_OVER_STEP", 10)
    limits = {"max_online_messages": -1, "max_offline_messages": -1}
    broker = BrokerHarness(receive_max_client=1, max_inflight_messages=1, **limits)
    (first,) = members(broker, 5, 1, 1)
    publisher = broker.client("p", 5)
    publisher.ask(*[publish("t", b"%d" % number, 1, number + 1) for number in range(count)])
    other = broker.persistent("m1", 5)
    other.subscribe(("$share/g/t", 1))
    broker.hold_disk()
    first.vanish()
    return broker, other


def test_a_long_queue_goes_to_the_other_members_in_steps_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """One turn for all of it would stop the node. What is published meanwhile follows it."""
    broker, other = leaves_many(monkeypatch, 95)
    queue = broker.node.sessions.get("", "m1").queue  # type: ignore[union-attr]
    assert queue.size + len(queue.inflight) == 10
    broker.client("late", 5).send(publish("t", b"95", 1, 1))
    broker.settle()
    assert queue.size + len(queue.inflight) == 10
    broker.free_disk()
    broker.client("later", 5).publish("t", b"96", 1, 1)
    assert [int(each.payload) for each in other.drain()] == list(range(97))
    broker.client("later", 5).publish("t", b"97", 1, 1)
    assert other.payloads() == [b"97"], "it does not wait for the absent member"
    assert broker.node.router._behind == {}


@pytest.mark.parametrize("end", ["back", "ended", "moved"])
def test_a_member_that_is_back_keeps_the_rest_of_its_queue(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """If it ends instead, the others get the rest, and if its slot moves, the next primary has it."""
    broker, other = leaves_many(monkeypatch, 40)
    session = broker.node.sessions.get("", "m0")
    assert session is not None and not session.releasable
    if end == "moved":
        broker.node.sessions.drop(session)
    elif end == "ended":
        session.end("expired")
    else:
        again = PacketClient(broker, 5)
        again.send(connect("m0", 5, False, 1000))
    broker.free_disk()
    if end == "back":
        rest = [each.payload for each in again.drain() if isinstance(each, Publish)]
    else:
        rest = []
    got = [int(each.payload) for each in other.drain()]
    assert got == list(range(40 if end == "ended" else 10))
    assert [int(each) for each in rest] == list(range(10, 40) if end == "back" else [])
    assert broker.node.router._behind == {}


@pytest.mark.parametrize("how", ["clean start", "expiry"])
def test_queued_messages_of_a_session_that_ends(how: str) -> None:
    """Messages never sent go to the other members, also to offline ones that can hold them."""
    broker = BrokerHarness(receive_max_client=1)
    first = broker.client("m0", 5, False, 50)
    first.subscribe(("$share/g/t", 2))
    publisher = broker.client("p", 5)
    for number, qos in enumerate((2, 2, 1, 2), 1):
        publisher.publish("t", b"%d" % number, qos, number)
    assert first.payloads() == [b"1"]
    first.vanish()
    second = broker.persistent("m1", 5)
    second.subscribe(("$share/g/t", 2))
    second.vanish()
    if how == "expiry":
        broker.pass_s(60)
    else:
        broker.client("m0", 5).leave()
    assert sorted(m.payload for m in broker.persistent("m1", 5).drain()) == [b"2", b"3", b"4"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_that_has_unsubscribed_leaves_messages_behind_too(version: int, restart: bool) -> None:
    """Its waiting messages may still be delivered; if its session ends first, other members get
    them (section 4.8.2).
    """
    broker = BrokerHarness(max_inflight_messages=1, receive_max_client=1)
    (first,) = members(broker, version, 1)
    publisher = broker.client("p", 5)
    for number in (1, 2, 3):
        publisher.publish("t", b"%d" % number, 2, number)
    assert first.payloads() == [b"1"]
    second = broker.persistent("m1", version)
    second.subscribe(("$share/g/t", 2))
    first.unsubscribe("$share/g/t")
    if restart:
        second.vanish()
        first.vanish()
        broker.restart()
        second = broker.persistent("m1", version)
    broker.client("m0", version).leave()
    assert [m.payload for m in second.drain()] == [b"2", b"3"]


@pytest.mark.parametrize("queue_type", ["fifo", "lifo"])
@pytest.mark.parametrize("third", [False, True])
def test_no_message_moves_into_a_full_queue(third: bool, queue_type: str) -> None:
    """P1: messages that the leaving member would have kept are not dropped; a member with room is chosen first."""
    broker = BrokerHarness(max_online_messages=3, receive_max_client=1, queue_type=queue_type)
    first = broker.client("m0", 5, False, 50)
    first.subscribe(("$share/g/t", 1))
    publisher = broker.client("p", 5)
    for number in range(1, 4):
        publisher.publish("t", b"%d" % number, 1, number)
    assert len(first.payloads()) == 1
    second = broker.persistent("m1", 5)
    second.subscribe(("$share/g/t", 1), ("u", 1))
    for number in range(1, 5):
        publisher.publish("u", b"u", 1, number)
    assert second.payloads() == [b"u"]
    if third:
        heir = broker.client("m2", 5)
        heir.subscribe(("$share/g/t", 1))
    first.vanish()
    assert broker.drops() == []
    if not third:
        heir = broker.client("m0", 5, False, 50)
    assert sorted(m.payload for m in heir.drain()) == [b"1", b"2", b"3"]


class Leavings(Standalone):
    """A cluster with copies of slots. `came`: what members here have from an earlier process."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.told: list[tuple[bytes, str, bool]] = []

    def came_back(self, message: Message, text: str) -> bool:
        return text in self.came

    def given(self, message: Message, text: str, wait: bool) -> None:
        self.told.append((message.payload, text, wait))


def leave(broker: BrokerHarness, number: int) -> int:
    """A member of `$share/g/t` has left a message behind."""
    env = broker.node.env
    message = Message("", "t", b"%d" % number, 1, False, None, 0, "p", env.origins.get("#7", 1), number)
    return broker.node.router.route_left(message, "$share/g/t", AckContext())


def test_what_was_left_behind_goes_to_a_member_whose_queue_has_room() -> None:
    broker = BrokerHarness(max_online_messages=3, receive_max_client=1)
    broker.node.env.cluster = cluster = Leavings()
    full = broker.persistent("m0", 5)
    full.subscribe(("$share/g/t", 1))
    for number in range(4):
        assert leave(broker, number) == AFTER_COMMIT
    roomy = broker.client("m1", 5)
    roomy.subscribe(("$share/g/t", 1))
    for number in range(4, 8):
        assert leave(broker, number) == DELIVERED
    assert broker.drops() == []
    assert cluster.told == [(b"%d" % number, "$share/g/t", number < 4) for number in range(8)]
    leave(broker, 8)  # no queue has room
    assert broker.drops() == [("m0", "t", "queue_full")]


def test_the_cluster_hears_which_groups_have_a_message_of_a_slot_from_this_node() -> None:
    """Another node may get the slot, and choose this node once more (H-47)."""
    broker = BrokerHarness()
    broker.node.env.cluster = cluster = Leavings()
    broker.persistent("durable", 5).subscribe(("$share/g/t", 2))
    broker.client("clean", 5).subscribe(("$share/h/t", 2))
    router, message = broker.node.router, Message("", "t", b"m", 2, False, None, 0, "p", Origin("#7", 1), 1)
    router.route_inherited(message, router.plans(""), None, AckContext())
    assert cluster.told == [(b"m", "$share/g/t", False), (b"m", "$share/h/t", False)]
    cluster.told.clear()
    cluster.came = ["$share/g/t", "$share/h/t"]
    router.route_inherited(message, router.plans(""), None, AckContext())
    assert cluster.told == [], "none of these is from this process"
    cluster.came = []
    assert router.select_those_again(message, router.plans(""), [("g", "t", "")]) == ([], True)
    assert cluster.told == [(b"m", "$share/g/t", False)]


def test_what_a_member_has_from_an_earlier_process_is_not_given_again() -> None:
    broker = BrokerHarness()
    broker.node.env.cluster = cluster = Leavings()
    member = broker.persistent("m0", 5)
    member.subscribe(("$share/g/t", 1))
    cluster.came = ["$share/g/t"]
    assert leave(broker, 1) == DELIVERED
    cluster.came = ["$share/h/t"]
    assert leave(broker, 2) == AFTER_COMMIT
    assert [each.payload for each in member.drain()] == [b"2"]


def test_clean_sessions_hand_over_too() -> None:
    """A member with a clean session: unanswered messages are handed over, except QoS 2 that was sent."""
    broker = BrokerHarness(max_inflight_messages=2)
    first = broker.client("m0")
    first.subscribe(("$share/g/t", 2))
    publisher = broker.client("p")
    for number, qos in enumerate((1, 2, 1, 2), 1):
        publisher.publish("t", b"%d" % number, qos, number)
    second = broker.client("m1")
    second.subscribe(("$share/g/t", 2))
    first.vanish()
    assert sorted(m.payload for m in second.drain()) == [b"1", b"3", b"4"]


class Copied(Standalone):
    """A cluster in which another node has a copy of each slot."""

    def is_copied(self, slot: int) -> bool:
        return True


@pytest.mark.parametrize("will", [None, Will("w", b"", 0, False)])
def test_what_a_clean_member_leaves_behind_waits_for_an_absent_one(will: Will | None) -> None:
    """Also if the cluster has ended its connection, and a will of the ended session waits (H-39)."""
    broker = BrokerHarness()
    broker.node.env.cluster = Copied()
    broker.client("m0", will=will).subscribe(("$share/g/t", 1))
    absent = broker.persistent("m1")
    absent.subscribe(("$share/g/t", 1))
    absent.leave()
    broker.client("p").publish("t", b"m", 1)
    session = broker.node.sessions.get("", "m0")
    assert session is not None and session.connection is not None
    session.connection.moved()
    broker.settle()
    assert [each.payload for each in broker.persistent("m1").drain()] == [b"m"]


def test_a_refused_shared_message_is_not_reassigned() -> None:
    """[MQTT5-4.8.2-6]"""
    broker = BrokerHarness()
    first, second = members(broker, 5, 2)
    publisher = broker.client("p", 5)
    for number in range(1, 11):
        publisher.publish("t", b"%d" % number, 1 + number % 2, number)
    for message in first.messages():
        kind = Puback if message.qos == 1 else Pubrec
        assert first.ask(kind(message.packet_id, 0x83)) == []
    got = {m.payload for m in second.drain()}
    first.vanish()
    assert second.drain() == [] and len(got) < 10
    assert broker.keys(b"q") == []


def test_a_message_that_no_member_can_take_is_dropped() -> None:
    """QoS 0 while all members are offline: the message is dropped with an event that names the group (P8)."""
    broker = BrokerHarness()
    (member,) = members(broker, 5, 1)
    member.vanish()
    broker.client("p", 5).publish("t", b"x")
    assert broker.drops() == [("$share/g/t", "t", "no_member")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_publisher_learns_that_no_member_can_take_its_message(version: int) -> None:
    """PUBACK and PUBREC have 0x10: the only member has QoS 0, and is offline (MQTT 5.0 section 3.4.2.1)."""
    broker = BrokerHarness()
    (member,) = members(broker, version, 1, 0)
    publisher = broker.client("p", version)
    assert publisher.publish("t", b"1", 1, 1) + publisher.publish("t", b"2", 2, 2) == [Puback(1), Pubrec(2)]
    member.vanish()
    code = 0x10 if version == 5 else 0
    assert publisher.publish("t", b"3", 1, 3) + publisher.publish("t", b"4", 2, 4) == [Puback(3, code), Pubrec(4, code)]
    broker.client("other", version).subscribe(("t", 0))
    assert publisher.publish("t", b"5", 1, 5) + publisher.publish("t", b"6", 2, 6) == [Puback(5), Pubrec(6)]


def test_an_offline_member_keeps_messages_that_no_other_member_takes() -> None:
    """An online member is always preferred."""
    broker = BrokerHarness()
    first, second = members(broker, 5, 2)
    first.vanish()
    publisher = broker.client("p", 5)
    for number in range(1, 21):
        publisher.publish("t", b"%d" % number, 1, number)
    assert len(second.drain()) == 20
    second.vanish()
    publisher.publish("t", b"kept", 1, 30)
    assert broker.persistent("m0", 5).payloads() + broker.persistent("m1", 5).payloads() == [b"kept"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_handover_survives_a_kill(version: int) -> None:
    """One batch moves the message from one queue to the other: it is never lost, and QoS 2 never doubled."""
    for seed in range(4):
        broker = BrokerHarness(max_inflight_messages=1, receive_max_client=1, seed=seed)
        (first,) = members(broker, version, 1)
        publisher = broker.client("p", 5)
        for number in range(1, 6):
            publisher.publish("t", b"%d" % number, 2, number)
        (sent,) = first.messages()
        second = broker.persistent("m1", version)
        second.subscribe(("$share/g/t", 2))
        broker.hold_disk()
        first.vanish()
        broker.restart()
        clients = [broker.persistent("m0", version), broker.persistent("m1", version)]
        got: list[Publish] = []
        for _ in range(3):
            for client in clients:
                got += client.drain()
        assert sorted(m.payload for m in got) == [b"1", b"2", b"3", b"4", b"5"], seed
        assert sent.payload == b"1"
