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
def post() -> ForwardingHarness:
    return ForwardingHarness()


def kinds(answers: list[object]) -> list[str]:
    return [type(each).__name__ for each in answers]


def test_each_target_gets_one_copy_and_the_answer_waits_for_all(post: ForwardingHarness) -> None:
    post.route("t", live("n2"), durable("n3"))
    writer = post.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    assert (post.lanes.payloads("n2"), post.lanes.payloads("n3")) == ([b"1"], [b"1"])
    assert post.lanes.stamps("n2") == [7]
    post.acked("n2", 1)
    assert writer.take() == []
    post.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]
    assert post.sender.copies == 0


def test_answers_leave_in_the_order_of_the_packets(post: ForwardingHarness) -> None:
    post.route("slow", live("n2"))
    post.route("quick", live("n3"))
    writer = post.client("writer", 5)
    assert writer.publish("slow", b"1", 1, 1) == []
    assert writer.publish("quick", b"2", 1, 2) == []
    assert writer.publish("nowhere", b"3", 1, 3) == []
    post.acked("n3", 1)
    assert writer.take() == []
    post.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2, 3]


def test_acknowledgements_are_cumulative_and_an_old_one_changes_nothing(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    for number in (1, 2, 3):
        writer.publish("t", b"%d" % number, 1, number)
    post.acked("n2", 2)
    assert [each.packet_id for each in writer.take()] == [1, 2]
    post.acked("n2", 2)
    post.acked("n2", 1)
    assert writer.take() == []
    post.acked("n2", 3)
    assert [each.packet_id for each in writer.take()] == [3]


def test_qos_0_waits_for_nobody_and_goes_nowhere_where_it_is_crowded(post: ForwardingHarness) -> None:
    post.route("t", live("n2"), durable("n3", absent=True))
    writer = post.client("writer", 5)
    post.lanes.slow = ["n2"]
    writer.publish("t", b"1", 0)
    assert (post.lanes.payloads("n2"), post.lanes.payloads("n3")) == ([], [])
    post.lanes.slow = []
    writer.publish("t", b"2", 0)
    assert (post.lanes.payloads("n2"), post.lanes.payloads("n3")) == ([b"2"], [])
    assert kinds(writer.publish("nowhere", b"3", 1)) == ["Puback"]


def test_a_view_without_the_node_ends_what_is_for_its_clean_sessions_alone(post: ForwardingHarness) -> None:
    post.route("live", live("n2"))
    post.route("durable", durable("n2"))
    writer = post.client("writer", 5)
    writer.publish("durable", b"1", 1, 1)
    writer.publish("live", b"2", 1, 2)
    post.sender.away("n2")
    post.settle()
    assert writer.take() == []  # the durable session's message is owed, and it was first
    assert post.lanes.payloads("n2") == [b"1"]
    post.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2]


def test_who_left_for_good_is_owed_nothing(post: ForwardingHarness) -> None:
    post.route("t", durable("n2"), durable("n3"))
    writer = post.client("writer", 5)
    writer.publish("t", b"1", 1)
    post.sender.gone("n2")
    post.settle()
    assert writer.take() == []
    post.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]
    post.sender.gone("n2")
    post.sender.away("n2")


def member(node: str) -> RemoteMembers:
    return RemoteMembers("g", "t", node, 1, 0)


def test_a_group_on_a_node_that_is_gone_chooses_again_and_the_answer_waits_for_that(post: ForwardingHarness) -> None:
    post.route("t", groups=(member("n2"),))
    writer = post.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    assert post.lanes.sent["n2"][0][2].groups == ("$share/g/t",)
    assert not post.lanes.sent["n2"][0][2].plain
    post.route("t", groups=(member("n3"),))
    post.sender.away("n2")
    post.settle()
    assert writer.take() == []
    assert (post.lanes.payloads("n2"), post.lanes.payloads("n3")) == ([], [b"1"])
    post.acked("n2", 1)  # it was on its way, and its node is not gone after all
    assert writer.take() == []
    post.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]


def test_a_group_chooses_again_on_this_node_and_the_disk_has_it_before_the_answer(post: ForwardingHarness) -> None:
    post.route("t", groups=(member("n2"),))
    writer = post.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    mine = post.persistent("mine", 5)
    mine.subscribe(("$share/g/t", 1))
    post.route("t")
    post.hold_disk()
    post.sender.away("n2")
    post.settle()
    assert writer.take() == []
    post.free_disk()
    assert kinds(writer.take()) == ["Puback"]
    assert mine.payloads() == [b"1"]


def chosen_again(post: ForwardingHarness) -> PacketClient:
    """The publisher of a QoS 2 message: its target leaves, and the next one is chosen while the disk writes nothing."""
    post.route("t", groups=(member("n2"),))
    writer = post.persistent("writer", 5)
    assert writer.publish("t", b"1", 2) == []
    post.route("t", groups=(member("n3"),))
    post.hold_disk()
    post.sender.away("n2")
    return writer


def test_who_is_chosen_again_for_a_handshake_is_on_the_disk_before_the_copy_leaves(post: ForwardingHarness) -> None:
    """H-12: whoever goes on with the handshake after a restart sends it to the same node."""
    writer = chosen_again(post)
    post.settle()
    assert post.lanes.payloads("n3") == []
    post.free_disk()
    assert post.lanes.payloads("n3") == [b"1"]
    [record] = post.handshakes("writer")
    assert record.elsewhere == [("g", "t", "n3")]
    assert writer.take() == []
    post.acked("n3", 1)
    assert kinds(writer.take()) == ["Pubrec"]


def test_who_is_chosen_again_and_goes_before_that_is_on_the_disk_gets_nothing(post: ForwardingHarness) -> None:
    writer = chosen_again(post)
    mine = post.client("mine", 5)
    mine.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 2)], None))
    post.route("t")
    post.sender.away("n3")
    post.free_disk()
    assert post.lanes.payloads("n3") == []
    assert mine.payloads() == [b"1"]
    assert kinds(writer.take()) == ["Pubrec"]
    [record] = post.handshakes("writer")
    assert record.elsewhere == []


@pytest.mark.parametrize("here", [True, False])
def test_who_is_chosen_when_a_handshake_goes_on_is_on_the_disk_before_the_copy_leaves(
    post: ForwardingHarness, here: bool
) -> None:
    """H-12: the node that was chosen before has nobody left."""
    post.route("t", groups=(member("n2"),))
    writer = post.persistent("writer", 5)
    assert writer.publish("t", b"1", 2) == []
    session = post.node.sessions.get("", "writer")
    assert session is not None
    post.sender.void_all()
    session.inbound.cancel_forwards()
    writer.vanish()
    mine = post.persistent("mine", 5)
    mine.subscribe(("$share/g/t" if here else "other", 2))
    post.route("t", groups=() if here else (member("n3"),))
    again = post.persistent("writer", 5)
    post.hold_disk()
    assert again.publish("t", b"1", 2, dup=True) == []
    assert post.lanes.payloads("n3") == []
    post.free_disk()
    assert post.lanes.payloads("n3") == ([] if here else [b"1"])
    assert [record.elsewhere for record in session.inbound.records.values()] == [[] if here else [("g", "t", "n3")]]
    if not here:
        assert again.take() == []
        post.acked("n3", 1)
    assert kinds(again.take()) == ["Pubrec"]
    assert mine.payloads() == ([b"1"] if here else [])


def test_one_copy_carries_groups_and_ordinary_subscriptions(post: ForwardingHarness) -> None:
    post.route("t", live("n2"), groups=(member("n2"),))
    writer = post.client("writer", 5)
    writer.publish("t", b"1", 1)
    ((_, _, forwarded),) = post.lanes.sent["n2"]
    assert (forwarded.plain, forwarded.groups) == (True, ("$share/g/t",))


def test_what_nobody_acknowledged_is_void_after_a_cut(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    writer.publish("t", b"1", 1, 1)
    post.acked("n2", 1)
    writer.take()
    writer.publish("t", b"2", 1, 2)
    post.sender.void_all()
    assert post.lanes.payloads("n2") == [b"1"]
    post.acked("n2", 2)
    assert writer.take() == []
    assert any(connection.acks.owes_answers() for connection in post.node.connections.values())


def test_what_was_accepted_without_a_lease_is_never_void(post: ForwardingHarness) -> None:
    post = ForwardingHarness(allow_publish_during_netsplit="on")
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    post.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 1)) == ["Puback"]
    assert post.lanes.stamps("n2") == [0]
    post.sender.void_all()
    assert post.lanes.payloads("n2") == [b"1"]


def test_a_will_that_a_cut_kept_from_leaving_is_not_void(post: ForwardingHarness) -> None:
    """Nobody sends it again: its client is gone (P5; H-19)."""
    post.route("w", live("n2"))
    client = post.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    client.vanish()
    assert post.lanes.stamps("n2") == [0]
    post.sender.void_all()
    assert post.lanes.payloads("n2") == [b"gone"]


def test_a_will_for_a_node_that_is_away_holds_up_nobody_else(post: ForwardingHarness) -> None:
    post.route("w", durable("n2", absent=True))
    client = post.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    writer = post.client("writer", 5)
    client.vanish()
    assert kinds(writer.publish("nowhere", b"1", 1)) == ["Puback"]


def test_what_another_origin_waits_for_is_not_void(post: ForwardingHarness) -> None:
    node = post.node
    post.route("t", groups=(member("n3"),))
    message = post_message(post, "n9")
    context = AckContext()
    node.router.route_group(message, SharedGroup("g", "t", (), (member("n3"),)), context)
    owed = context.take()
    assert owed is not None
    assert owed.open == 1
    post.sender.void_all()
    assert post.lanes.payloads("n3") == [b"relayed"]
    assert post.lanes.stamps("n3") == [0]
    post.acked("n3", 1)
    assert owed.open == 0


def test_a_relay_without_a_lease_is_still_owed(post: ForwardingHarness) -> None:
    post.node.policy.view_state = ViewState.MINORITY
    post.route("t", groups=(member("n3"),))
    context = AckContext()
    post.node.router.route_group(post_message(post, "n9"), SharedGroup("g", "t", (), (member("n3"),)), context)
    assert context.pending is not None
    assert context.pending.open == 1


def post_message(post: ForwardingHarness, origin: str) -> Message:

    node = post.node
    return Message("", "t", b"relayed", 1, False, None, 0, "p", node.env.origins.get(origin, 1), 1)


def paused(post: ForwardingHarness) -> list[str]:
    """The clients that are not read because of another node."""
    return [
        connection.client_id for connection in post.node.connections.values() if "cluster" in connection.flow.paused_for
    ]


def test_only_who_publishes_for_a_slow_node_is_paused(post: ForwardingHarness) -> None:
    """Also if the node is away. Who publishes for others goes on, until the other node is slow, too."""
    post.route("slow", durable("n2", absent=True))
    post.route("other", live("n3"))
    writer, other = post.client("writer", 5), post.client("other", 5)
    post.lanes.slow = ["n2"]
    other.publish("other", b"1", 1, 1)
    writer.publish("slow", b"1", 1, 1)
    other.publish("other", b"2", 1, 2)
    assert paused(post) == ["writer"]
    assert writer.publish("slow", b"2", 1, 2) == [] and post.lanes.payloads("n2") == [b"1"]
    assert post.lanes.payloads("n3") == [b"1", b"2"]
    post.sender.relieved("n3")
    assert paused(post) == ["writer"]
    post.lanes.slow = ["n3"]
    post.sender.relieved("n2")
    post.settle()
    assert paused(post) == [] and post.lanes.payloads("n2") == [b"1", b"2"]
    other.publish("other", b"3", 1, 3)
    assert paused(post) == ["other"]


def test_what_a_will_sends_to_a_slow_node_pauses_nobody_else(post: ForwardingHarness) -> None:
    post.route("slow", durable("n2", absent=True))
    post.route("other", live("n3"))
    post.lanes.slow = ["n2"]
    gone = post.client("gone", 5, will=packets.Will("slow", b"will", 1))
    other = post.client("other", 5)
    gone.vanish()
    other.publish("other", b"1", 1)
    assert post.lanes.payloads("n2") == [b"will"] and paused(post) == []


@pytest.mark.parametrize("over", ["away", "gone"])
def test_who_is_paused_for_a_node_goes_on_when_it_leaves(post: ForwardingHarness, over: str) -> None:
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    post.lanes.slow = ["n2"]
    writer.publish("t", b"1", 1)
    assert paused(post) == ["writer"]
    post.lanes.slow = []
    getattr(post.sender, over)("n2")
    assert paused(post) == []


def test_only_what_is_for_a_disk_waits_for_a_disk(post: ForwardingHarness) -> None:
    """From half a window on. What is for clean sessions goes on, and so does what is for a node that is away, which has
    a bound of its own."""
    lasting = RemoteMembers("g", "shared", "n2", 1, 0, 1)
    post.route("clean", live("n2"))
    post.route("kept", durable("n2"))
    post.route("shared", groups=(lasting,))
    post.route("away", durable("n3", absent=True))
    writers = [post.client(name, 5) for name in ("clean", "kept", "shared", "away")]
    post.lanes.window_bytes = 1000
    for writer, topic in zip(writers, ("clean", "kept", "shared", "away"), strict=True):
        for packet_id in (1, 2, 3):
            writer.publish(topic, bytes(200), 1, packet_id)
    assert paused(post) == ["kept", "shared"]
    post.acked("n2", 4)
    assert paused(post) == ["kept", "shared"]
    post.acked("n2", 6)  # both go on with what waited at their sockets
    assert paused(post) == ["shared"]
    post.acked("n2", 8)
    assert paused(post) == []


def test_a_node_that_is_relieved_before_its_publisher_is_paused_pauses_nobody(post: ForwardingHarness) -> None:
    """A QoS 2 message leaves when its packet id is safe, after its packet was handled."""
    post.route("kept", durable("n2"))
    post.route("other", live("n3"))
    writer = post.client("writer", 5, clean=False, expiry_s=60)
    post.lanes.window_bytes = 300
    writer.publish("kept", bytes(200), 2, 1)
    assert post.sender.disk_bytes == {"n2": 264} and paused(post) == []
    post.acked("n2", 1)
    writer.publish("other", b"1", 1, 2)
    assert paused(post) == []


@pytest.mark.parametrize("over", ["gone", "void_all", "acked_early"])
def test_what_waits_for_a_disk_no_more_is_not_counted(post: ForwardingHarness, over: str) -> None:
    post.route("kept", durable("n2"))
    writer = post.client("kept", 5)
    post.lanes.window_bytes = 300
    writer.publish("kept", bytes(200), 1)
    assert paused(post) == ["kept"]
    getattr(post.sender, over)(*{"gone": ("n2",), "void_all": (), "acked_early": ("n2", [1])}[over])
    assert paused(post) == [] and post.sender.disk_bytes == {"n2": 0}


@pytest.mark.parametrize("leased", [True, False])
def test_what_needs_no_disk_is_acknowledged_before_what_does(post: ForwardingHarness, leased: bool) -> None:
    """Without a lease it is proof of nothing until that is back."""
    post.route("clean", live("n2"))
    post.route("kept", durable("n2"))
    clean, kept = post.client("clean", 5), post.client("kept", 5)
    assert kept.publish("kept", b"1", 1) == clean.publish("clean", b"2", 1) == []
    post.sender.acked_early("n2", [2], leased)
    post.settle()
    if not leased:
        assert clean.take() == []
        post.sender.proven()
        post.settle()
    assert kinds(clean.take()) == ["Puback"] and kept.take() == [] and post.sender.copies == 1
    post.acked("n2", 2)
    assert kinds(kept.take()) == ["Puback"] and clean.take() == []


def test_receivers_keep_qos_2_mids_until_the_handshake_is_over(post: ForwardingHarness) -> None:
    """`qos2_stable` never goes beyond an open handshake (H-12)."""
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    writer.publish("t", b"1", 2, 1)
    first = post.lanes.sent["n2"][0][2]
    mid = (first.message.origin.boot, first.message.counter)
    other = post.client("other", 5)
    other.publish("t", b"2", 1, 1)
    assert post.lanes.sent["n2"][1][2].qos2_stable == mid
    post.acked("n2", 2)
    assert kinds(writer.take()) == ["Pubrec"]
    assert kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"]
    other.publish("t", b"3", 1, 2)
    assert post.lanes.sent["n2"][2][2].qos2_stable > mid


def _handshake(post: ForwardingHarness, writer: PacketClient, number: int) -> None:
    """A whole one, of which the copy is number `number` in the lane."""
    writer.publish("t", b"x", 2, 9)
    post.acked("n2", number)
    writer.ask(packets.Pubrel(9))


def test_receivers_are_told_which_handshakes_are_open_while_one_stays_so(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    slow, writer = post.client("slow", 5, clean=False, expiry_s=100), post.client("writer", 5)
    slow.publish("t", b"1", 2, 1)
    open_mid = post.lanes.sent["n2"][0][2].message
    number = 1
    while "n2" not in post.lanes.told_open:
        number += 1
        assert number <= TELL_OPEN_EVERY + 2
        _handshake(post, writer, number)
    (told,) = post.lanes.told_open["n2"]
    last = post.lanes.sent["n2"][-1][2].message
    assert told.mids == [(open_mid.origin.boot, open_mid.counter)]
    assert told.first == (0, 0) and told.end == (last.origin.boot, last.counter)


def test_nobody_is_told_of_open_handshakes_where_none_stays_so(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    for number in range(1, 3 * TELL_OPEN_EVERY):
        _handshake(post, writer, number)
    assert post.lanes.told_open == {}


def test_a_handshake_of_the_start_before_is_told_with_the_first_message(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    slow = post.client("slow", 5, clean=False, expiry_s=100)
    slow.publish("t", b"1", 2, 1)
    mid = post.lanes.sent["n2"][0][2].message
    post.restart()
    post.wire()
    post.node.reopen_handshakes()
    post.route("t", live("n2"))
    post.client("writer", 5).publish("t", b"2", 2, 1)
    (told,) = post.lanes.told_open["n2"]
    assert told.mids == [(mid.origin.boot, mid.counter)]


def test_a_qos_2_handshake_that_a_cut_voided_sends_the_same_mid_again(post: ForwardingHarness) -> None:
    post.route("t", live("n2"))
    writer = post.client("writer", 5, clean=False, expiry_s=100)
    assert writer.publish("t", b"1", 2, 1) == []
    post.sender.void_all()
    (session,) = list(post.node.sessions)
    session.inbound.cancel_forwards()
    writer.vanish()
    again, connack = post.connect("writer", 5, clean=False, expiry_s=100)
    assert connack.session_present
    assert again.publish("t", b"1", 2, 1, dup=True) == []
    first, second = [each[2].message.mid for each in post.lanes.sent["n2"]]
    assert first == second
    post.acked("n2", 2)
    assert kinds(again.take()) == ["Pubrec"]


def test_connections_without_a_will_send_nothing(post: ForwardingHarness) -> None:
    assert connect("x").will is None
    post.client("x").vanish()
    assert post.lanes.sent == {}


def test_a_node_that_ends_with_copies_under_way_leaves_nothing_in_memory() -> None:
    post = ForwardingHarness()
    post.route("t", live("n2"))
    assert post.client("writer", 5).publish("t", b"1", 1) == []
    remains = ref(post.sender)
    del post
    gc.collect()
    assert remains() is None


def test_an_acknowledgement_to_a_node_without_a_lease_counts_when_the_lease_is_back(post: ForwardingHarness) -> None:
    """The others may have taken this node out of the view, and skip what it sends: that they have it says nothing."""
    post.route("t", live("n2"))
    writer = post.client("writer", 5)
    writer.publish("t", b"1", 1)
    post.sender.acked("n2", 1, leased=False)
    post.settle()
    assert writer.take() == [] and post.sender.copies == 1
    post.sender.proven()
    post.settle()
    assert kinds(writer.take()) == ["Puback"] and post.sender.copies == 0
