"""Copies follow their slots: the present node of a slot gets them once, in order, and the answer waits for it."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.forward_receiver import ForwardReceiver
from strogoff.broker.clustering.forward_sender import ForwardSender
from strogoff.broker.clustering.slot_gate import SlotGate
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import MOVING, RemoteMembers, RemoteTarget
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.forwarding import ForwardingHarness, live


@pytest.fixture
def broker() -> ForwardingHarness:
    return ForwardingHarness()


def kinds(answers: list[object]) -> list[str]:
    return [type(each).__name__ for each in answers]


def slots(node: str, *numbers: int) -> RemoteTarget:
    return RemoteTarget(node, False, numbers)


def paused(broker: ForwardingHarness) -> list[str]:
    """The clients that are not read because of another node."""
    return [each.client_id for each in broker.node.connections.values() if "cluster" in each.flow.paused_for]


def heads(broker: ForwardingHarness, node: str) -> list[tuple[tuple[int, ...], int]]:
    """Slots and routing number of the copies that a node would get."""
    void = broker.links.voided.get(node, [])
    return [(head.slots, head.number) for seq, head, _ in broker.links.sent.get(node, []) if seq not in void]


def test_copies_for_slots_are_numbered_and_name_the_table(broker: ForwardingHarness) -> None:
    broker.sender.follow(41, {})
    broker.route("a", slots("n2", 1, 2), slots("n3", 9))
    broker.route("b", live("n2"))
    writer = broker.client("writer", 5)
    for number, topic in enumerate(("a", "b", "a"), 1):
        writer.publish(topic, b"%d" % number, 1, number)
    assert heads(broker, "n2") == [((1, 2), 1), ((), 0), ((1, 2), 3)]
    assert heads(broker, "n3") == [((9,), 2), ((9,), 4)]
    assert {head.table for _, head, _ in broker.links.sent["n3"]} == {41}


def test_a_slot_that_moves_takes_its_copies_along(broker: ForwardingHarness) -> None:
    """The present node gets them under the same numbers, in their order and before anything newer."""
    broker.route("both", slots("n2", 1, 2))
    broker.route("one", slots("n2", 1))
    writer = broker.client("writer", 5)
    writer.publish("both", b"1", 1, 1)
    writer.publish("one", b"2", 1, 2)
    broker.sender.follow(7, {1: ("n2", "n3")})
    broker.route("one", slots("n3", 1))
    writer.publish("one", b"3", 1, 3)
    assert heads(broker, "n3") == [((1,), 1), ((1,), 2), ((1,), 3)]
    assert broker.links.payloads("n2") == [b"1"], "nobody at n2 gets the second one any more"
    broker.acked("n3", 3)
    assert [each.packet_id for each in writer.take()] == [], "slot 2 has not answered"
    broker.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2, 3]


def test_an_answer_of_a_node_with_a_later_table_counts_when_this_node_follows_it(broker: ForwardingHarness) -> None:
    """The node may have skipped a slot that had left it: that slot is sent to its present node first."""
    broker.route("t", slots("n2", 1))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    broker.sender.acked("n2", 1, True, 8)
    broker.settle()
    assert writer.take() == []
    broker.sender.follow(8, {1: ("n2", "n3")})
    broker.sender.proven()
    broker.settle()
    assert writer.take() == [] and heads(broker, "n3") == [((1,), 1)]
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]


def test_copies_that_wait_for_a_lane_move_too(broker: ForwardingHarness) -> None:
    broker.route("other", live("n2"))
    broker.route("t", slots("n2", 1, 2))
    broker.route("one", slots("n2", 1))
    writer = broker.client("writer", 5)
    broker.client("other", 5).publish("other", b"other", 1)
    broker.links.full = {"n2"}
    broker.cluster.present = True
    writer.publish("t", b"1", 1, 1)
    writer.publish("one", b"2", 1, 2)
    broker.sender.follow(7, {1: ("n2", "n3")})
    assert broker.links.payloads("n3") == [b"1", b"2"] and len(broker.sender._waiting) == 1
    broker.acked("n3", 2)
    broker.links.full = set()
    broker.room("n2")
    assert broker.links.payloads("n2") == [b"other", b"1"]
    broker.acked("n2", 2)
    assert [each.packet_id for each in writer.take()] == [1, 2]


@pytest.mark.parametrize("full", [False, True])
def test_receivers_keep_a_mid_while_a_copy_may_follow_its_slot(full: bool) -> None:
    """Without a lease, and with the policy `on`, the handshake is over before its copy has arrived. There may be an
    earlier copy of a connection before. The lane to their first node may be full."""
    broker = ForwardingHarness(allow_publish_during_netsplit="on")
    broker.route("t", slots("n2", 1))
    broker.route("other", slots("n3", 9))
    if full:
        broker.links.full, broker.cluster.present = {"n2"}, True
    writer, other = broker.client("writer", 5), broker.client("other", 5)
    broker.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 2, 1)) == ["Pubrec"]
    assert kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"]
    other.publish("other", b"2", 2, 1)
    other.ask(packets.Pubrel(1))
    broker.sender.follow(7, {1: ("n2", "n3")})
    copies = [each for _, _, each in broker.links.sent["n3"]]
    assert [each.message.payload for each in copies] == [b"2", b"1"]
    mid = copies[1].message.origin.boot, copies[1].message.counter
    assert [each.qos2_stable for each in copies] == [mid] * 2
    broker.acked("n3", 2)
    other.publish("other", b"3", 2, 2)
    assert broker.links.sent["n3"][-1][2].qos2_stable > mid


def test_a_copy_that_a_former_primary_may_have_delivered_says_so(broker: ForwardingHarness) -> None:
    """That of the lane does, also after it has followed the slot twice. That which waited for the lane does not."""

    def again(node: str) -> list[tuple[bytes, bool]]:
        return [(each.message.payload, head.again) for _, head, each in broker.links.sent[node]]

    broker.route("t", slots("n2", 1))
    broker.cluster.present = True
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1, 1)
    broker.links.full = {"n2"}
    writer.publish("t", b"2", 1, 2)
    assert again("n2") == [(b"1", False)]
    broker.links.full = {"n2", "n3"}
    broker.sender.follow(7, {1: ("n2", "n3")})
    assert again("n3") == [(b"1", True)]
    broker.links.full = set()
    broker.sender.follow(8, {1: ("n3", "n4")})
    assert again("n4") == [(b"1", True), (b"2", False)]


def test_a_copy_of_a_message_that_may_have_been_delivered_says_so(broker: ForwardingHarness) -> None:
    """A primary goes on with a will of its predecessor: that may have sent the will to a former primary of the slot. So
    a copy that has waited says it, too, also at the node to which the slot has gone."""
    broker.route("t", slots("n2", 1))
    broker.cluster.present = True
    origin = broker.node.env.origins.get("#7", 1)
    for again in (False, True):
        message = Message("", "t", b"%d" % again, 1, False, None, 0, "p", origin, 1 + again, again=again)
        broker.links.full = {"n2"} if again else set()
        broker.node.router.route(message, broker.node.router.plans(""), AckContext())
    broker.sender.follow(7, {1: ("n2", "n3")})
    sent = {
        node: [(each.message.payload, head.again) for _, head, each in broker.links.sent[node]] for node in ("n2", "n3")
    }
    assert sent == {"n2": [(b"0", False)], "n3": [(b"0", True), (b"1", True)]}


@pytest.mark.parametrize("waits", ["n2", MOVING])
def test_a_copy_of_a_publisher_whose_slot_was_lost_ends_none_of_its_mids(broker: ForwardingHarness, waits: str) -> None:
    """The copy has waited for a lane, or for a slot that was moving. This node does not speak for the publisher's slot
    any more, and knows no open mid of it (H-47)."""
    gate = SlotGate(broker.node.env.store, lambda slot: 0)
    receiver = ForwardReceiver(broker.node, lambda origin, seq, boot: None, lambda: True, gate)
    sender = ForwardSender(broker.node, broker.links, receiving=receiver)
    broker.cluster.slot_epoch = lambda slot: 9  # type: ignore[method-assign]
    broker.cluster.present = True
    homes = {7: broker.node.name}
    sender.origins.home_of = receiver.origins.home_of = lambda slot: homes[slot]
    origin = broker.node.env.origins.get("#7", 5)
    taken, waiting = [Message("", "t", b"m", 2, False, None, 0, "p", origin, counter) for counter in (1, 2)]
    assert receiver.take_own(taken, [3]) == [3]
    sender.opened(taken.mid)
    broker.links.full = {"n2"}
    sender.forward(waiting, (slots(waits, 1),), [], AckContext())
    assert not broker.links.sent and sender.copies == 1
    homes[7] = "n4"
    sender.handshakes.forget("#7")
    sender.follow(7, {1: ("n2", "n3")})
    sender.unpark({1: "n3"})
    assert broker.links.payloads("n3") == [b"m"]
    assert "n3" not in broker.links.told_open
    assert receiver.take_own(taken, [3]) == [], "another node may send it again"


def test_qos_0_does_not_follow_a_slot(broker: ForwardingHarness) -> None:
    broker.route("t", slots("n2", 1))
    broker.client("writer", 5).publish("t", b"1", 0)
    broker.sender.follow(7, {1: ("n2", "n3")})
    assert heads(broker, "n3") == [] and heads(broker, "n2") == []


def test_a_slot_that_comes_to_this_node_takes_its_copies_here(broker: ForwardingHarness) -> None:
    taken: list[tuple[tuple[int, ...], int, bytes]] = []
    broker.sender.here = lambda copy: taken.append((copy.slots, copy.number, copy.message.payload))
    broker.route("t", slots("n2", 1, 2))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    broker.sender.follow(7, {1: ("n2", broker.node.name), 2: ("n2", broker.node.name)})
    broker.settle()
    assert taken == [((1, 2), 1, b"1")] and heads(broker, "n2") == []
    assert kinds(writer.take()) == ["Puback"]


def test_copies_wait_for_a_slot_that_is_moving_away(broker: ForwardingHarness) -> None:
    """Each slot gets its copies when it has a node again, in order; the answer waits for all of them."""
    broker.route("both", slots(MOVING, 1, 2))
    broker.route("one", slots(MOVING, 1))
    writer = broker.client("writer", 5)
    writer.publish("both", b"1", 1, 1)
    writer.publish("one", b"2", 1, 2)
    assert not broker.links.sent and broker.sender.parked and broker.sender.copies == 2
    broker.sender.unpark({1: "n2", 7: "n3"})
    assert broker.links.payloads("n2") == [b"1", b"2"] and broker.sender.parked
    broker.acked("n2", 2)
    assert writer.take() == [], "answers leave in order"
    broker.sender.unpark({2: "n3"})
    assert broker.links.payloads("n3") == [b"1"] and not broker.sender.parked
    broker.acked("n3", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2]


def test_what_waits_for_a_moving_slot_is_not_of_its_publishers(broker: ForwardingHarness) -> None:
    broker.route("away", slots(MOVING, 1))
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    slot = slot_of("", "writer")
    writer.publish("away", b"1", 1, 1)
    assert broker.sender.publishes_of(slot) == ""
    writer.publish("t", b"2", 1, 2)
    assert broker.sender.publishes_of(slot) == "n2" and broker.sender.publishes_of(slot + 1) == ""
    broker.acked("n2", 1)
    assert broker.sender.publishes_of(slot) == ""


def test_a_client_is_read_again_when_its_copies_have_followed_their_slots(broker: ForwardingHarness) -> None:
    """It is not read because too much waits for the disk of the former node, which may never get a message again."""
    broker.links.window_bytes = 500
    broker.route("one", slots("n2", 1))
    broker.route("two", slots("n2", 2))
    writer = broker.client("writer", 5)
    writer.publish("one", bytes(100), 1, 1)
    writer.publish("two", bytes(100), 1, 2)
    assert paused(broker) == ["writer"]
    broker.sender.follow(7, {1: ("n2", "n3")})
    assert paused(broker) == ["writer"], "164 bytes are more than a quarter of a window"
    broker.sender.follow(8, {2: ("n2", "n4")})
    assert paused(broker) == []
    broker.route("one", slots("n3", 1))
    assert kinds(writer.publish("one", b"3", 0)) == [] and broker.links.payloads("n3") == [bytes(100), b"3"]


def test_a_client_whose_group_is_in_a_moving_slot_is_read_again_when_the_slot_has_a_node(
    broker: ForwardingHarness,
) -> None:
    broker.links.window_bytes = 300
    broker.route("t", groups=(RemoteMembers("g", "t", MOVING, 1, 0, 1, (1,)),))
    broker.client("writer", 5).publish("t", bytes(200), 1, 1)
    assert paused(broker) == ["writer"]
    broker.route("t", groups=(RemoteMembers("g", "t", "n2", 1, 0, 1, (1,)),))
    broker.sender.unpark({1: "n2"})
    assert paused(broker) == [] and broker.links.payloads("n2") == [bytes(200)]
