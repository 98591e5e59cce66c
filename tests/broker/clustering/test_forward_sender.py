"""The origin's side: one copy per node, and an answer that waits for all of them, until each is done for or void."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from strogoff.broker.clustering.forward_sender import TELL_OPEN_EVERY
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.broker.routing.shared import SharedGroup
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient, connect
from tests.harness.forwarding import ForwardingHarness, durable, live


@pytest.fixture
def broker() -> ForwardingHarness:
    return ForwardingHarness()


def kinds(answers: list[object]) -> list[str]:
    return [type(each).__name__ for each in answers]


def test_each_target_gets_one_copy_and_the_answer_waits_for_all(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"), durable("n3"))
    writer = broker.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([b"1"], [b"1"])
    assert broker.links.stamps("n2") == [7]
    broker.acked("n2", 1)
    assert writer.take() == []
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]
    assert broker.sender.copies == 0


def test_answers_leave_in_the_order_of_the_packets(broker: ForwardingHarness) -> None:
    broker.route("slow", live("n2"))
    broker.route("quick", live("n3"))
    writer = broker.client("writer", 5)
    assert writer.publish("slow", b"1", 1, 1) == []
    assert writer.publish("quick", b"2", 1, 2) == []
    assert writer.publish("nowhere", b"3", 1, 3) == []
    broker.acked("n3", 1)
    assert writer.take() == []
    broker.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2, 3]


def test_acknowledgements_are_cumulative_and_an_old_one_changes_nothing(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    for number in (1, 2, 3):
        writer.publish("t", b"%d" % number, 1, number)
    broker.acked("n2", 2)
    assert [each.packet_id for each in writer.take()] == [1, 2]
    broker.acked("n2", 2)
    broker.acked("n2", 1)
    assert writer.take() == []
    broker.acked("n2", 3)
    assert [each.packet_id for each in writer.take()] == [3]


def test_qos_0_waits_for_nobody_and_goes_nowhere_where_it_is_crowded(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"), durable("n3", absent=True))
    writer = broker.client("writer", 5)
    broker.links.slow = ["n2"]
    writer.publish("t", b"1", 0)
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([], [])
    broker.links.slow = []
    writer.publish("t", b"2", 0)
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([b"2"], [])
    assert kinds(writer.publish("nowhere", b"3", 1)) == ["Puback"]


def test_a_view_without_the_node_ends_what_is_for_its_clean_sessions_alone(broker: ForwardingHarness) -> None:
    broker.route("live", live("n2"))
    broker.route("durable", durable("n2"))
    writer = broker.client("writer", 5)
    writer.publish("durable", b"1", 1, 1)
    writer.publish("live", b"2", 1, 2)
    broker.sender.away("n2")
    broker.settle()
    assert writer.take() == []  # the durable session's message is owed, and it was first
    assert broker.links.payloads("n2") == [b"1"]
    broker.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2]


def test_who_left_for_good_is_owed_nothing(broker: ForwardingHarness) -> None:
    broker.route("t", durable("n2"), durable("n3"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    broker.sender.gone("n2")
    broker.settle()
    assert writer.take() == []
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]
    broker.sender.gone("n2")
    broker.sender.away("n2")


def member(node: str) -> RemoteMembers:
    return RemoteMembers("g", "t", node, 1, 0)


def test_a_group_on_a_node_that_is_gone_chooses_again_and_the_answer_waits_for_that(broker: ForwardingHarness) -> None:
    broker.route("t", groups=(member("n2"),))
    writer = broker.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    assert broker.links.sent["n2"][0][2].groups == ("$share/g/t",)
    assert not broker.links.sent["n2"][0][2].plain
    broker.route("t", groups=(member("n3"),))
    broker.sender.away("n2")
    broker.settle()
    assert writer.take() == []
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([], [b"1"])
    broker.acked("n2", 1)  # it was on its way, and its node is not gone after all
    assert writer.take() == []
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]


def test_a_group_chooses_again_on_this_node_and_the_disk_has_it_before_the_answer(broker: ForwardingHarness) -> None:
    broker.route("t", groups=(member("n2"),))
    writer = broker.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    mine = broker.persistent("mine", 5)
    mine.subscribe(("$share/g/t", 1))
    broker.route("t")
    broker.hold_disk()
    broker.sender.away("n2")
    broker.settle()
    assert writer.take() == []
    broker.free_disk()
    assert kinds(writer.take()) == ["Puback"]
    assert mine.payloads() == [b"1"]


def chosen_again(broker: ForwardingHarness) -> PacketClient:
    """The publisher of a QoS 2 message: its target leaves, and the next one is chosen while the disk writes nothing."""
    broker.route("t", groups=(member("n2"),))
    writer = broker.persistent("writer", 5)
    assert writer.publish("t", b"1", 2) == []
    broker.route("t", groups=(member("n3"),))
    broker.hold_disk()
    broker.sender.away("n2")
    return writer


def test_who_is_chosen_again_for_a_handshake_is_on_the_disk_before_the_copy_leaves(broker: ForwardingHarness) -> None:
    """H-12: whoever goes on with the handshake after a restart sends it to the same node."""
    writer = chosen_again(broker)
    broker.settle()
    assert broker.links.payloads("n3") == []
    broker.free_disk()
    assert broker.links.payloads("n3") == [b"1"]
    [record] = broker.handshakes("writer")
    assert record.elsewhere == [("g", "t", "n3")]
    assert writer.take() == []
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Pubrec"]


def test_who_is_chosen_again_and_goes_before_that_is_on_the_disk_gets_nothing(broker: ForwardingHarness) -> None:
    writer = chosen_again(broker)
    mine = broker.client("mine", 5)
    mine.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 2)], None))
    broker.route("t")
    broker.sender.away("n3")
    broker.free_disk()
    assert broker.links.payloads("n3") == []
    assert mine.payloads() == [b"1"]
    assert kinds(writer.take()) == ["Pubrec"]
    [record] = broker.handshakes("writer")
    assert record.elsewhere == []


@pytest.mark.parametrize("here", [True, False])
def test_who_is_chosen_when_a_handshake_goes_on_is_on_the_disk_before_the_copy_leaves(
    broker: ForwardingHarness, here: bool
) -> None:
    """H-12: the node that was chosen before has nobody left."""
    broker.route("t", groups=(member("n2"),))
    writer = broker.persistent("writer", 5)
    assert writer.publish("t", b"1", 2) == []
    session = broker.node.sessions.get("", "writer")
    assert session is not None
    broker.sender.void_all()
    session.inbound.cancel_forwards()
    writer.vanish()
    mine = broker.persistent("mine", 5)
    mine.subscribe(("$share/g/t" if here else "other", 2))
    broker.route("t", groups=() if here else (member("n3"),))
    again = broker.persistent("writer", 5)
    broker.hold_disk()
    assert again.publish("t", b"1", 2, dup=True) == []
    assert broker.links.payloads("n3") == []
    broker.free_disk()
    assert broker.links.payloads("n3") == ([] if here else [b"1"])
    assert [record.elsewhere for record in session.inbound.records.values()] == [[] if here else [("g", "t", "n3")]]
    if not here:
        assert again.take() == []
        broker.acked("n3", 1)
    assert kinds(again.take()) == ["Pubrec"]
    assert mine.payloads() == ([b"1"] if here else [])


def test_one_copy_carries_groups_and_ordinary_subscriptions(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"), groups=(member("n2"),))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    ((_, _, forwarded),) = broker.links.sent["n2"]
    assert (forwarded.plain, forwarded.groups) == (True, ("$share/g/t",))


def test_what_nobody_acknowledged_is_void_after_a_cut(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1, 1)
    broker.acked("n2", 1)
    writer.take()
    writer.publish("t", b"2", 1, 2)
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"1"]
    broker.acked("n2", 2)
    assert writer.take() == []
    assert any(connection.acks.owes_answers() for connection in broker.node.connections.values())


def test_what_was_accepted_without_a_lease_is_never_void(broker: ForwardingHarness) -> None:
    broker = ForwardingHarness(allow_publish_during_netsplit="on")
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    broker.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 1)) == ["Puback"]
    assert broker.links.stamps("n2") == [0]
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"1"]


def test_a_will_that_a_cut_kept_from_leaving_is_not_void(broker: ForwardingHarness) -> None:
    """Nobody sends it again: its client is gone (P5; H-19)."""
    broker.route("w", live("n2"))
    client = broker.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    client.vanish()
    assert broker.links.stamps("n2") == [0]
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"gone"]


def test_a_will_for_a_node_that_is_away_holds_up_nobody_else(broker: ForwardingHarness) -> None:
    broker.route("w", durable("n2", absent=True))
    client = broker.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    writer = broker.client("writer", 5)
    client.vanish()
    assert kinds(writer.publish("nowhere", b"1", 1)) == ["Puback"]


def test_what_another_origin_waits_for_is_not_void(broker: ForwardingHarness) -> None:
    node = broker.node
    broker.route("t", groups=(member("n3"),))
    message = post_message(broker, "n9")
    context = AckContext()
    node.router.route_group(message, SharedGroup("g", "t", (), (member("n3"),)), context)
    owed = context.take()
    assert owed is not None
    assert owed.open == 1
    broker.sender.void_all()
    assert broker.links.payloads("n3") == [b"relayed"]
    assert broker.links.stamps("n3") == [0]
    broker.acked("n3", 1)
    assert owed.open == 0


def test_a_relay_without_a_lease_is_still_owed(broker: ForwardingHarness) -> None:
    broker.node.policy.view_state = ViewState.MINORITY
    broker.route("t", groups=(member("n3"),))
    context = AckContext()
    broker.node.router.route_group(post_message(broker, "n9"), SharedGroup("g", "t", (), (member("n3"),)), context)
    assert context.pending is not None
    assert context.pending.open == 1


def post_message(broker: ForwardingHarness, origin: str) -> Message:

    node = broker.node
    return Message("", "t", b"relayed", 1, False, None, 0, "p", node.env.origins.get(origin, 1), 1)


def paused(broker: ForwardingHarness) -> list[str]:
    """The clients that are not read because of another node."""
    return [
        connection.client_id
        for connection in broker.node.connections.values()
        if "cluster" in connection.flow.paused_for
    ]


def test_only_who_publishes_for_a_slow_node_is_paused(broker: ForwardingHarness) -> None:
    """Also if the node is away. Who publishes for others goes on, until the other node is slow, too."""
    broker.route("slow", durable("n2", absent=True))
    broker.route("other", live("n3"))
    writer, other = broker.client("writer", 5), broker.client("other", 5)
    broker.links.slow = ["n2"]
    other.publish("other", b"1", 1, 1)
    writer.publish("slow", b"1", 1, 1)
    other.publish("other", b"2", 1, 2)
    assert paused(broker) == ["writer"]
    assert writer.publish("slow", b"2", 1, 2) == [] and broker.links.payloads("n2") == [b"1"]
    assert broker.links.payloads("n3") == [b"1", b"2"]
    broker.sender.relieved("n3")
    assert paused(broker) == ["writer"]
    broker.links.slow = ["n3"]
    broker.sender.relieved("n2")
    broker.settle()
    assert paused(broker) == [] and broker.links.payloads("n2") == [b"1", b"2"]
    other.publish("other", b"3", 1, 3)
    assert paused(broker) == ["other"]


def test_what_a_will_sends_to_a_slow_node_pauses_nobody_else(broker: ForwardingHarness) -> None:
    broker.route("slow", durable("n2", absent=True))
    broker.route("other", live("n3"))
    broker.links.slow = ["n2"]
    gone = broker.client("gone", 5, will=packets.Will("slow", b"will", 1))
    other = broker.client("other", 5)
    gone.vanish()
    other.publish("other", b"1", 1)
    assert broker.links.payloads("n2") == [b"will"] and paused(broker) == []


@pytest.mark.parametrize("over", ["away", "gone"])
def test_who_is_paused_for_a_node_goes_on_when_it_leaves(broker: ForwardingHarness, over: str) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    broker.links.slow = ["n2"]
    writer.publish("t", b"1", 1)
    assert paused(broker) == ["writer"]
    broker.links.slow = []
    getattr(broker.sender, over)("n2")
    assert paused(broker) == []


def test_only_what_is_for_a_disk_waits_for_a_disk(broker: ForwardingHarness) -> None:
    """From half a window on. What is for clean sessions goes on, and so does what is for a node that is away, which has
    a bound of its own."""
    lasting = RemoteMembers("g", "shared", "n2", 1, 0, 1)
    broker.route("clean", live("n2"))
    broker.route("kept", durable("n2"))
    broker.route("shared", groups=(lasting,))
    broker.route("away", durable("n3", absent=True))
    writers = [broker.client(name, 5) for name in ("clean", "kept", "shared", "away")]
    broker.links.window_bytes = 1000
    for writer, topic in zip(writers, ("clean", "kept", "shared", "away"), strict=True):
        for packet_id in (1, 2, 3):
            writer.publish(topic, bytes(200), 1, packet_id)
    assert paused(broker) == ["kept", "shared"]
    broker.acked("n2", 4)
    assert paused(broker) == ["kept", "shared"]
    broker.acked("n2", 6)  # both go on with what waited at their sockets
    assert paused(broker) == ["shared"]
    broker.acked("n2", 8)
    assert paused(broker) == []


def test_a_node_that_is_relieved_before_its_publisher_is_paused_pauses_nobody(broker: ForwardingHarness) -> None:
    """A QoS 2 message leaves when its packet id is safe, after its packet was handled."""
    broker.route("kept", durable("n2"))
    broker.route("other", live("n3"))
    writer = broker.client("writer", 5, clean=False, expiry_s=60)
    broker.links.window_bytes = 300
    writer.publish("kept", bytes(200), 2, 1)
    assert broker.sender.disk_bytes == {"n2": 264} and paused(broker) == []
    broker.acked("n2", 1)
    writer.publish("other", b"1", 1, 2)
    assert paused(broker) == []


@pytest.mark.parametrize("over", ["gone", "void_all", "acked_early"])
def test_what_waits_for_a_disk_no_more_is_not_counted(broker: ForwardingHarness, over: str) -> None:
    broker.route("kept", durable("n2"))
    writer = broker.client("kept", 5)
    broker.links.window_bytes = 300
    writer.publish("kept", bytes(200), 1)
    assert paused(broker) == ["kept"]
    getattr(broker.sender, over)(*{"gone": ("n2",), "void_all": (), "acked_early": ("n2", [1])}[over])
    assert paused(broker) == [] and broker.sender.disk_bytes == {"n2": 0}


@pytest.mark.parametrize("leased", [True, False])
def test_what_needs_no_disk_is_acknowledged_before_what_does(broker: ForwardingHarness, leased: bool) -> None:
    """Without a lease it is proof of nothing until that is back."""
    broker.route("clean", live("n2"))
    broker.route("kept", durable("n2"))
    clean, kept = broker.client("clean", 5), broker.client("kept", 5)
    assert kept.publish("kept", b"1", 1) == clean.publish("clean", b"2", 1) == []
    broker.sender.acked_early("n2", [2], leased)
    broker.settle()
    if not leased:
        assert clean.take() == []
        broker.sender.proven()
        broker.settle()
    assert kinds(clean.take()) == ["Puback"] and kept.take() == [] and broker.sender.copies == 1
    broker.acked("n2", 2)
    assert kinds(kept.take()) == ["Puback"] and clean.take() == []


def test_receivers_keep_qos_2_mids_until_the_handshake_is_over(broker: ForwardingHarness) -> None:
    """`qos2_stable` never goes beyond an open handshake (H-12)."""
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 2, 1)
    first = broker.links.sent["n2"][0][2]
    mid = (first.message.origin.boot, first.message.counter)
    other = broker.client("other", 5)
    other.publish("t", b"2", 1, 1)
    assert broker.links.sent["n2"][1][2].qos2_stable == mid
    broker.acked("n2", 2)
    assert kinds(writer.take()) == ["Pubrec"]
    assert kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"]
    other.publish("t", b"3", 1, 2)
    assert broker.links.sent["n2"][2][2].qos2_stable > mid


def _handshake(broker: ForwardingHarness, writer: PacketClient, number: int) -> None:
    """A whole one, of which the copy is number `number` in the lane."""
    writer.publish("t", b"x", 2, 9)
    broker.acked("n2", number)
    writer.ask(packets.Pubrel(9))


def test_receivers_are_told_which_handshakes_are_open_while_one_stays_so(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    slow, writer = broker.client("slow", 5, clean=False, expiry_s=100), broker.client("writer", 5)
    slow.publish("t", b"1", 2, 1)
    open_mid = broker.links.sent["n2"][0][2].message
    number = 1
    while "n2" not in broker.links.told_open:
        number += 1
        assert number <= TELL_OPEN_EVERY + 2
        _handshake(broker, writer, number)
    (told,) = broker.links.told_open["n2"]
    last = broker.links.sent["n2"][-1][2].message
    assert told.mids == [(open_mid.origin.boot, open_mid.counter)]
    assert told.first == (0, 0) and told.end == (last.origin.boot, last.counter)


def test_nobody_is_told_of_open_handshakes_where_none_stays_so(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    for number in range(1, 3 * TELL_OPEN_EVERY):
        _handshake(broker, writer, number)
    assert broker.links.told_open == {}


def test_a_handshake_of_the_start_before_is_told_with_the_first_message(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    slow = broker.client("slow", 5, clean=False, expiry_s=100)
    slow.publish("t", b"1", 2, 1)
    mid = broker.links.sent["n2"][0][2].message
    broker.restart()
    broker.wire()
    broker.node.reopen_handshakes()
    broker.route("t", live("n2"))
    broker.client("writer", 5).publish("t", b"2", 2, 1)
    (told,) = broker.links.told_open["n2"]
    assert told.mids == [(mid.origin.boot, mid.counter)]


def test_a_qos_2_handshake_that_a_cut_voided_sends_the_same_mid_again(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5, clean=False, expiry_s=100)
    assert writer.publish("t", b"1", 2, 1) == []
    broker.sender.void_all()
    (session,) = list(broker.node.sessions)
    session.inbound.cancel_forwards()
    writer.vanish()
    again, connack = broker.connect("writer", 5, clean=False, expiry_s=100)
    assert connack.session_present
    assert again.publish("t", b"1", 2, 1, dup=True) == []
    first, second = [each[2].message.mid for each in broker.links.sent["n2"]]
    assert first == second
    broker.acked("n2", 2)
    assert kinds(again.take()) == ["Pubrec"]


def test_connections_without_a_will_send_nothing(broker: ForwardingHarness) -> None:
    assert connect("x").will is None
    broker.client("x").vanish()
    assert broker.links.sent == {}


def test_a_node_that_ends_with_copies_under_way_leaves_nothing_in_memory() -> None:
    broker = ForwardingHarness()
    broker.route("t", live("n2"))
    assert broker.client("writer", 5).publish("t", b"1", 1) == []
    remains = ref(broker.sender)
    del broker
    gc.collect()
    assert remains() is None


def test_an_acknowledgement_to_a_node_without_a_lease_counts_when_the_lease_is_back(broker: ForwardingHarness) -> None:
    """The others may have taken this node out of the view, and skip what it sends: that they have it says nothing."""
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    broker.sender.acked("n2", 1, leased=False)
    broker.settle()
    assert writer.take() == [] and broker.sender.copies == 1
    broker.sender.proven()
    broker.settle()
    assert kinds(writer.take()) == ["Puback"] and broker.sender.copies == 0
