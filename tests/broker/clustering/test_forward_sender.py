"""The origin of forwards: one copy for each node. The answer waits until every copy is acknowledged or void."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from strogoff.broker.clustering.forward_codec import Head
from strogoff.broker.clustering.open_handshakes import TELL_OPEN_EVERY
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
    assert broker.links.since("n2") == [7]
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


def test_qos_0_is_not_acknowledged_and_is_dropped_on_a_slow_link(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"), durable("n3", absent=True))
    writer = broker.client("writer", 5)
    broker.links.slow = ["n2"]
    writer.publish("t", b"1", 0)
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([], [])
    broker.links.slow = []
    writer.publish("t", b"2", 0)
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([b"2"], [])
    assert kinds(writer.publish("nowhere", b"3", 1)) == ["Puback"]


def test_a_view_without_the_node_ends_only_copies_for_its_clean_sessions(broker: ForwardingHarness) -> None:
    broker.route("live", live("n2"))
    broker.route("durable", durable("n2"))
    writer = broker.client("writer", 5)
    writer.publish("durable", b"1", 1, 1)
    writer.publish("live", b"2", 1, 2)
    broker.sender.away("n2")
    broker.settle()
    assert writer.take() == []  # the durable session has not confirmed its message, which came first
    assert broker.links.payloads("n2") == [b"1"]
    broker.acked("n2", 1)
    assert [each.packet_id for each in writer.take()] == [1, 2]


def test_no_copy_waits_for_a_removed_node(broker: ForwardingHarness) -> None:
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


def test_the_answer_waits_for_the_new_member_of_a_group_whose_node_left(broker: ForwardingHarness) -> None:
    broker.route("t", groups=(member("n2"),))
    writer = broker.client("writer", 5)
    assert writer.publish("t", b"1", 1) == []
    assert broker.links.sent["n2"][0][2].groups == ("$share/g/t",)
    assert broker.links.sent["n2"][0][1] == Head(7, False)
    broker.route("t", groups=(member("n3"),))
    broker.sender.away("n2")
    broker.settle()
    assert writer.take() == []
    assert (broker.links.payloads("n2"), broker.links.payloads("n3")) == ([], [b"1"])
    broker.acked("n2", 1)  # the acknowledgement was on its way, and the node is not gone after all
    assert writer.take() == []
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Puback"]


def test_the_answer_waits_for_the_commit_of_a_new_local_member(broker: ForwardingHarness) -> None:
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
    """The publisher of a QoS 2 message: its target leaves, and the next target is chosen while the
    disk writes nothing.
    """
    broker.route("t", groups=(member("n2"),))
    writer = broker.persistent("writer", 5)
    assert writer.publish("t", b"1", 2) == []
    broker.route("t", groups=(member("n3"),))
    broker.hold_disk()
    broker.sender.away("n2")
    return writer


def test_a_new_member_for_a_handshake_is_on_disk_before_its_copy_is_sent(broker: ForwardingHarness) -> None:
    """H-12: a restarted origin sends the message of the handshake to the same node."""
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


def test_a_new_member_that_leaves_before_the_commit_gets_no_copy(broker: ForwardingHarness) -> None:
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
def test_a_member_for_a_resumed_handshake_is_on_disk_before_its_copy_is_sent(
    broker: ForwardingHarness, here: bool
) -> None:
    """H-12: the node that was chosen before has no member left."""
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
    ((_, head, forwarded),) = broker.links.sent["n2"]
    assert (head.live, forwarded.groups) == (True, ("$share/g/t",))


def test_unacknowledged_copies_are_void_after_a_cut(broker: ForwardingHarness) -> None:
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


def test_copies_accepted_without_a_lease_are_never_void(broker: ForwardingHarness) -> None:
    broker = ForwardingHarness(allow_publish_during_netsplit="on")
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    broker.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 1)) == ["Puback"]
    assert broker.links.since("n2") == [0]
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"1"]


def test_a_will_held_up_by_a_cut_is_not_void(broker: ForwardingHarness) -> None:
    """No client sends a will again: its client is gone (P5; H-19)."""
    broker.route("w", live("n2"))
    client = broker.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    client.vanish()
    assert broker.links.since("n2") == [0]
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"gone"]


def test_a_will_for_an_absent_node_delays_no_other_client(broker: ForwardingHarness) -> None:
    broker.route("w", durable("n2", absent=True))
    client = broker.client("with-will", 5, will=packets.Will("w", b"gone", 1, False, None))
    writer = broker.client("writer", 5)
    client.vanish()
    assert kinds(writer.publish("nowhere", b"1", 1)) == ["Puback"]


def test_a_relay_for_another_origin_is_not_void(broker: ForwardingHarness) -> None:
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
    assert broker.links.since("n3") == [0]
    broker.acked("n3", 1)
    assert owed.open == 0


def test_a_relay_without_a_lease_stays_pending(broker: ForwardingHarness) -> None:
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
    """Returns the clients that are not read because of another node."""
    return [
        connection.client_id
        for connection in broker.node.connections.values()
        if "cluster" in connection.flow.paused_for
    ]


def test_only_publishers_for_a_slow_node_are_paused(broker: ForwardingHarness) -> None:
    """This also holds for an absent node. Publishers for other nodes are read until those nodes are slow as well."""
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
    broker.sender.slow.relieved("n3")
    assert paused(broker) == ["writer"]
    broker.links.slow = ["n3"]
    broker.sender.slow.relieved("n2")
    broker.settle()
    assert paused(broker) == [] and broker.links.payloads("n2") == [b"1", b"2"]
    other.publish("other", b"3", 1, 3)
    assert paused(broker) == ["other"]


def test_a_will_for_a_slow_node_pauses_no_other_client(broker: ForwardingHarness) -> None:
    broker.route("slow", durable("n2", absent=True))
    broker.route("other", live("n3"))
    broker.links.slow = ["n2"]
    gone = broker.client("gone", 5, will=packets.Will("slow", b"will", 1))
    other = broker.client("other", 5)
    gone.vanish()
    other.publish("other", b"1", 1)
    assert broker.links.payloads("n2") == [b"will"] and paused(broker) == []


@pytest.mark.parametrize("over", ["away", "gone"])
def test_a_paused_client_is_read_again_when_the_node_leaves(broker: ForwardingHarness, over: str) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    broker.links.slow = ["n2"]
    writer.publish("t", b"1", 1)
    assert paused(broker) == ["writer"]
    broker.links.slow = []
    getattr(broker.sender, over)("n2")
    assert paused(broker) == []


def test_only_copies_for_durable_sessions_wait_for_a_disk(broker: ForwardingHarness) -> None:
    """The limit is half a window. Copies for clean sessions are not limited, nor copies for an absent node, which have
    another bound.
    """
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
    broker.acked("n2", 6)  # both clients continue with the packets in their sockets
    assert paused(broker) == ["shared"]
    broker.acked("n2", 8)
    assert paused(broker) == []


def test_a_node_that_catches_up_before_the_pause_pauses_no_client(broker: ForwardingHarness) -> None:
    """A QoS 2 message is sent when its packet id is safe, after its packet was handled."""
    broker.route("kept", durable("n2"))
    broker.route("other", live("n3"))
    writer = broker.client("writer", 5, clean=False, expiry_s=60)
    broker.links.window_bytes = 300
    writer.publish("kept", bytes(200), 2, 1)
    assert broker.sender.slow.disk_bytes == {"n2": 264} and paused(broker) == []
    broker.acked("n2", 1)
    writer.publish("other", b"1", 1, 2)
    assert paused(broker) == []


@pytest.mark.parametrize("over", ["gone", "void_all", "acked_early"])
def test_copies_that_no_longer_wait_for_a_disk_are_not_counted(broker: ForwardingHarness, over: str) -> None:
    broker.route("kept", durable("n2"))
    writer = broker.client("kept", 5)
    broker.links.window_bytes = 300
    writer.publish("kept", bytes(200), 1)
    assert paused(broker) == ["kept"]
    getattr(broker.sender, over)(*{"gone": ("n2",), "void_all": (), "acked_early": ("n2", [1])}[over])
    assert paused(broker) == [] and broker.sender.slow.disk_bytes == {"n2": 0}


@pytest.mark.parametrize("leased", [True, False])
def test_copies_for_clean_sessions_are_acknowledged_before_durable_ones(
    broker: ForwardingHarness, leased: bool
) -> None:
    """Without a lease the acknowledgement proves nothing until the lease is back."""
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
    """`qos2_stable` never passes an open handshake (H-12)."""
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
    """Run a complete handshake whose copy has this number in the lane."""
    writer.publish("t", b"x", 2, 9)
    broker.acked("n2", number)
    writer.ask(packets.Pubrel(9))


def test_receivers_get_the_open_handshakes_while_one_stays_open(broker: ForwardingHarness) -> None:
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


def test_no_list_of_open_handshakes_is_sent_when_all_finish(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    for number in range(1, 3 * TELL_OPEN_EVERY):
        _handshake(broker, writer, number)
    assert broker.links.told_open == {}


def test_an_open_handshake_of_an_earlier_boot_is_sent_with_the_first_message(broker: ForwardingHarness) -> None:
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


def test_a_handshake_voided_by_a_cut_sends_the_same_mid_again(broker: ForwardingHarness) -> None:
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5, clean=False, expiry_s=100)
    assert writer.publish("t", b"1", 2, 1) == []
    broker.sender.void_all()
    (session,) = broker.node.sessions.in_memory()
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


def test_a_stopped_sender_with_pending_copies_is_garbage_collected() -> None:
    broker = ForwardingHarness()
    broker.route("t", live("n2"))
    assert broker.client("writer", 5).publish("t", b"1", 1) == []
    remains = ref(broker.sender)
    del broker
    gc.collect()
    assert remains() is None


def test_an_acknowledgement_counts_once_the_lease_is_back(broker: ForwardingHarness) -> None:
    """The other nodes may have removed this node from the view and skip its messages: their acknowledgement proves
    nothing.
    """
    broker.route("t", live("n2"))
    writer = broker.client("writer", 5)
    writer.publish("t", b"1", 1)
    broker.sender.acked("n2", 1, leased=False)
    broker.settle()
    assert writer.take() == [] and broker.sender.copies == 1
    broker.sender.proven()
    broker.settle()
    assert kinds(writer.take()) == ["Puback"] and broker.sender.copies == 0
