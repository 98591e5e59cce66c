"""Shared subscriptions over several nodes: members leave while messages are on their way (H-07, H-12)."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


def test_a_relayed_message_is_not_confused_with_one_of_the_relay() -> None:
    """H-12: mids of two origins with the same boot and counter."""
    cluster = ClusterHarness(3)
    reader = cluster[3].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("$share/g/#", 2))
    before = cluster[2].client("before")
    writers = [cluster[number].client(f"writer{number}", clean=False, expiry_s=1000) for number in (1, 2)]
    # both origins use the same counter next: boot and counter of a mid alone do not tell the messages apart
    numbers = [cluster[number].node.env.numbers for number in (1, 2)]
    numbers[0].counter = numbers[1].counter = max(each.counter for each in numbers) + 10
    # the member at n2 leaves after n1 has chosen it
    reader.unsubscribe("$share/g/#")
    before.subscribe(("$share/g/#", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writers[0].send(publish("a", b"relayed", 2))
    cluster.settle()
    reader.subscribe(("$share/g/#", 2))
    before.unsubscribe("$share/g/#")
    cluster.settle()
    writers[1].send(publish("b", b"own", 2))
    cluster.pass_s(1.0)
    got = [each.payload for each in reader.drain()]
    assert sorted(got) == [b"own", b"relayed"]
    assert [type(each) for writer in writers for each in writer.take()] == [packets.Pubrec, packets.Pubrec]


def test_two_nodes_that_relay_to_each_other_do_not_deadlock() -> None:
    """H-15: the last members of two groups change nodes while messages are on their way to both."""
    cluster = ClusterHarness(2, shared_subscription_policy="random", **MAJORITY)
    one, two = cluster[1].client("one"), cluster[2].client("two")
    for each in (one, two):
        each.subscribe(("$share/g/g", 1), ("$share/h/h", 1))
    to_two, to_one = cluster[1].client("to-two"), cluster[2].client("to-one")
    cluster.network.delay("n1", "n2", 0.2)
    cluster.network.delay("n2", "n1", 0.2)
    cluster.pass_s(1.0)
    for number in range(1, 11):
        to_two.send(publish("h", b"h", 1, number))
        to_one.send(publish("g", b"g", 1, number))
    cluster.settle()
    one.send(packets.Unsubscribe(3, ["$share/g/g"], None))
    two.send(packets.Unsubscribe(3, ["$share/h/h"], None))
    cluster.pass_s(5.0)
    assert [len(each.messages()) for each in (one, two)] == [10, 10]
    assert [len(writer.take()) for writer in (to_one, to_two)] == [10, 10]


def test_messages_of_a_member_that_dies_with_its_node_go_to_another_member() -> None:
    """P1, H-07: the node of the chosen member took the message and never acknowledged it."""
    cluster = ClusterHarness(3, **MAJORITY)
    gone = cluster[2].client("gone")
    gone.subscribe(("$share/g/t", 1))
    writer = cluster[1].client("writer")
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"m", 1) == []
    cluster[2].kill()
    other = cluster[3].client("other")
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 1)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert other.payloads() == [b"m"]


@pytest.mark.parametrize("lost", ["message", "acknowledgement"])
@pytest.mark.parametrize("dies", [False, True])
def test_a_qos_2_message_waits_for_the_node_of_a_durable_member(lost: str, dies: bool) -> None:
    """No other member may get it [MQTT5-4.8.2-5]: the node that left the view may have taken it (5
    nodes, seed 1303).
    """
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(other=3)
    chosen = cluster[2].client("chosen", clean=False, expiry_s=1000)
    chosen.subscribe(("$share/g/t", 2))
    writer = cluster[1].client("writer")
    cluster.network.one_way(*(("n1", "n2") if lost == "message" else ("n2", "n1")))
    assert writer.publish("t", b"m", 2) == []
    if dies:
        cluster[2].kill()
    other = cluster[3].client("other", clean=False, expiry_s=1000)
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 2)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.pass_s(1.0)
    assert writer.take() == []
    cluster.network.heal()
    if dies:
        cluster[2].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    if dies:
        chosen = cluster[2].client("chosen", clean=False, expiry_s=1000)
    assert [(each.payload, each.dup) for each in chosen.drain()] == [(b"m", dies and lost == "acknowledgement")]
    assert other.payloads() == []


def test_the_handshake_names_the_member_here_that_gets_the_message_of_a_lost_one() -> None:
    """If another node takes over the slot of that member, a member gets the message again (H-46)."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(writer=1, absent=1)
    absent = cluster[1].client("absent", clean=False, expiry_s=600)
    absent.subscribe(("$share/g/t", 2))
    absent.leave()
    cluster[2].client("lost").subscribe(("$share/g/t", 2))
    cluster.pass_s(1.0)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster[2].kill()
    writer.send(publish("t", b"m", 2, 7))
    cluster.pass_s(10.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    session = cluster[1].node.sessions.get("", "writer")
    assert session is not None
    assert session.inbound.records[7].members == {"$share/g/t": slot_of("", "absent")}


def test_an_abandoned_group_message_is_taken_once_by_a_returning_node() -> None:
    """H-12: the node took the message, did not acknowledge it, and was chosen again (3 nodes, seed 370)."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("$share/g/t", 2))
    writer = cluster[1].client("writer")
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"m", 2) == []
    assert [each.payload for each in reader.messages()] == [b"m"]
    cluster[2].kill()
    writer.vanish()
    cluster[1].client("other").publish("u", b"", 1)
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[2].start()
    cluster.network.heal()
    cluster.pass_s(1.0)
    cluster.whole()
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"m", True)]


def test_a_restarted_node_refuses_a_message_for_its_lost_member() -> None:
    """P1: the new process has no member of the group, and does not know yet which node has one."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[2].client("first").subscribe(("$share/g/a", 1))
    cluster.network.delay("n3", "n2", 0.2)
    writer = cluster[3].client("writer")
    writer.send(publish("a", b"m", 1))
    cluster.settle()
    second = cluster[1].client("second")
    second.subscribe(("$share/g/a", 1))
    cluster.network.cut("n1", "n2")  # the leader learns of the start later
    cluster[2].kill()
    cluster[2].start()
    cluster.pass_s(1.0)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert [each.payload for each in second.drain()] == [b"m"]


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_not_yet_relayed_by_a_killed_node_are_sent_again(qos: int) -> None:
    """P1: a later message that is safe on the disk of the node proves nothing about the earlier one."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(writer=3)
    first, second = cluster[2].client("first"), cluster[1].client("second")
    for member in (first, second):
        member.subscribe(("$share/g/a", 2))
    cluster[2].client("reader", clean=False, expiry_s=600).subscribe(("b", 1))
    cluster.network.cut("n1", "n2")
    cluster.pass_s(1.2)
    cluster.network.delay("n3", "n2", 0.1)
    writer = cluster[3].client("writer")
    for number in range(1, 11):
        writer.send(publish("a", str(number).encode(), qos, number))
    writer.send(publish("b", b"kept", 1, 11))
    cluster.settle()
    first.close()
    cluster.pass_s(0.15)
    cluster[2].kill()
    cluster[2].start()
    cluster.pass_s(0.35)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert len(writer.take()) == 11
    assert {each.payload for each in second.drain()} == {str(number).encode() for number in range(1, 11)}
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    assert [each.payload for each in reader.drain()] == [b"kept"]


@pytest.mark.parametrize("lasts", [True, False])
def test_a_qos_2_message_relayed_back_to_its_origin_is_not_reassigned(lasts: bool) -> None:
    """P2: the chosen node had no member any more, relayed the message, and died before it reported the relay."""
    cluster = ClusterHarness(3, shared_subscription_policy="random", **MAJORITY)
    first = cluster[2].client("first")
    second = cluster[1].client("second", clean=not lasts, expiry_s=600 if lasts else None)
    for member in (first, second):
        member.subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writer = cluster[1].client("writer")
    for number in range(1, 11):
        writer.send(publish("a", str(number).encode(), 2, number))
    cluster.settle()
    first.unsubscribe("$share/g/a")
    own = [each.payload for each in second.drain()]
    cluster.pass_s(0.2)
    back = [each.payload for each in second.drain()]
    assert back
    cluster[2].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Pubrec] * 10
    again = [each.payload for each in second.drain()]
    assert sorted(int(each.decode()) for each in own + back + again) == list(range(1, 11))
    writer.send(publish("other", b"", 2, 11), *[packets.Pubrel(number) for number in range(1, 11)])
    cluster.settle()
    assert not list(cluster[1].node.env.store.scan(b"x", b"y"))


def test_a_resumed_handshake_does_not_reassign_a_message_relayed_back() -> None:
    """P2: the chosen node relayed the message to its origin and died; then the origin died."""
    cluster = ClusterHarness(3, shared_subscription_policy="random", **MAJORITY)
    first = cluster[2].client("first")
    second = cluster[1].client("second", clean=False, expiry_s=600)
    for member in (first, second):
        member.subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    handshakes = [publish("a", str(number).encode(), 2, number) for number in range(1, 11)]
    writer.send(*handshakes)
    cluster.settle()
    first.unsubscribe("$share/g/a")
    got = [each.payload for each in second.drain()]
    cluster.pass_s(0.2)
    back = [each.payload for each in second.drain()]
    assert back
    for number in (2, 1):
        cluster[number].kill()
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    second = cluster[1].client("second", clean=False, expiry_s=600)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(*[publish("a", each.payload, 2, each.packet_id, dup=True) for each in handshakes])
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Pubrec] * 10
    got += back + [each.payload for each in second.drain()]
    assert sorted(int(each.decode()) for each in got) == list(range(1, 11))


def test_a_relay_chooses_again_when_the_next_node_dies() -> None:
    """P1: the dead node had taken the message and delivered it to no member."""
    cluster = ClusterHarness(3, shared_subscription_policy="random", **MAJORITY)
    cluster.put(writer=1)
    first, second, third = cluster[2].client("first"), cluster[2].client("second"), cluster[3].client("third")
    for member in (first, third):
        member.subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    cluster.network.delay("n2", "n3", 0.2)
    cluster.network.delay("n1", "n3", 0.2)
    writer = cluster[1].client("writer")
    for number in range(1, 11):
        writer.send(publish("a", str(number).encode(), 2, number))
    cluster.settle()
    first.unsubscribe("$share/g/a")
    cluster.pass_s(0.3)
    got = [each.payload for each in third.drain()]
    cluster[3].kill()
    second.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.pass_s(1.0)
    assert len(writer.take()) == 10
    got += [each.payload for each in second.drain()]
    assert {int(each.decode()) for each in got} == set(range(1, 11))


def test_a_resumed_handshake_does_not_reassign_a_reassigned_message() -> None:
    """P2: the chosen node died, a session here got the message, and then the origin was killed."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[2].client("first").subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    second = cluster[1].connect_soon("second", clean=False, expiry_s=600)
    second.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    cluster[2].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.settle()
    assert [each.payload for each in second.drain()] == [b"m"]
    cluster[1].kill()
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    second = cluster[1].client("second", clean=False, expiry_s=600)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7, dup=True))
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert second.drain() == []
    writer.send(packets.Pubrel(7), publish("other", b"", 2, 8))
    cluster.settle()
    assert not list(cluster[1].node.env.store.scan(b"x", b"y"))


def test_a_resumed_handshake_uses_the_node_of_the_last_choice() -> None:
    """P2: the node that was chosen first has a member again (3 nodes, seed 42375)."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(second=3, writer=1)
    cluster[2].client("first").subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    cluster[2].kill()
    cluster.network.delay("n3", "n1", 0.2)
    cluster.until(lambda: [each.payload for each in second.drain()] == [b"m"])
    cluster[1].kill()
    cluster.network.delay("n1", "n2", 0.0)
    cluster.network.delay("n3", "n1", 0.0)
    for number in (1, 2):
        cluster[number].start()
    cluster.whole()
    third = cluster[2].client("third")
    third.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7, dup=True))
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert third.payloads() == []
    assert second.drain() == []


@pytest.mark.parametrize("lasts", [True, False])
def test_an_open_handshake_waits_for_a_durable_member(lasts: bool) -> None:
    """[MQTT5-4.8.2-5]: the origin was restarted, and the node that it had chosen is away."""
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first", clean=not lasts, expiry_s=600 if lasts else None)
    first.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    assert isinstance(writer.publish("a", b"m", 2)[0], packets.Pubrec)
    assert [each.payload for each in first.drain()] == [b"m"]
    second = cluster[3].client("second")
    second.subscribe(("$share/g/a", 2))
    cluster[1].kill()
    cluster.isolate(2)
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    answers = writer.publish("a", b"m", 2, dup=True)
    cluster.pass_s(1.0)
    assert [each.payload for each in second.drain()] == ([] if lasts else [b"m"])
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in [*answers, *writer.take()]] == [packets.Pubrec]
    assert [each.payload for each in first.drain()] == []


@pytest.mark.parametrize("qos", [1, 2])
def test_what_an_ended_member_leaves_behind_waits_for_the_node_of_the_last_one(qos: int) -> None:
    """H-56: that node has left the view before the session of the member ends."""
    cluster = ClusterHarness(3, **MAJORITY)
    for number, name in ((3, "away"), (1, "ended")):
        member = cluster[number].client(name, clean=False, expiry_s=1000)
        member.subscribe(("$share/g/t", 2))
        member.leave()
    cluster[3].kill()
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    (answer,) = cluster[1].client("writer").publish("t", b"m", qos)
    assert not answer.reason
    cluster[1].client("ended", clean=True).leave()
    cluster.settle()
    cluster[3].start()
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.WHOLE)
    cluster.pass_s(1)
    away = cluster[3].client("away", clean=False, expiry_s=1000)
    assert [each.payload for each in away.drain()] == [b"m"]
