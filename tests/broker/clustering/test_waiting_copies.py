"""A full lane to a node: copies wait without a number, and publishers take turns."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering import open_handshakes as module
from strogoff.broker.clustering.waiting_copies import SAY_AGAIN_MS
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.forwarding import ForwardingHarness, durable, live


@pytest.fixture
def broker() -> ForwardingHarness:
    """A broker whose lane to n2 is full."""
    return filled(ForwardingHarness())


def filled(broker: ForwardingHarness) -> ForwardingHarness:
    broker.cluster.present = True
    broker.links.full = ["n2"]
    broker.links.ahead_bytes = 4  # the lane gets one message after another
    broker.route("t", live("n2"))
    broker.route("kept", durable("n2"))
    return broker


def kinds(answers: list[object]) -> list[str]:
    return [type(each).__name__ for each in answers]


def paused(broker: ForwardingHarness) -> list[str]:
    """Returns the clients that are not read because of another node."""
    return [
        connection.client_id
        for connection in broker.node.connections.values()
        if "cluster" in connection.flow.paused_for
    ]


def test_a_message_passes_the_waiting_messages_of_another_publisher(broker: ForwardingHarness) -> None:
    flood, other = broker.client("flood", 5), broker.client("other", 5)
    flood.send(*[publish("t", b"flood %d" % number) for number in range(1000)])
    broker.settle()
    other.publish("t", b"other", 1)
    assert broker.links.payloads("n2") == [] and broker.sender.copies == 1001
    assert broker.links.waiting["n2"][0] == 1001
    broker.room("n2", 3)
    assert b"other" in broker.links.payloads("n2") and len(broker.links.payloads("n2")) == 3
    broker.room("n2")
    flooded = [payload for payload in broker.links.payloads("n2") if payload != b"other"]
    assert flooded == [b"flood %d" % number for number in range(1000)]
    assert broker.links.waiting["n2"] == (0, 0)
    broker.acked("n2", 1001)
    assert kinds(other.take()) == ["Puback"] and broker.sender.copies == 0


def test_messages_of_one_publisher_keep_their_order(broker: ForwardingHarness) -> None:
    """This includes its will, and holds also when the lane has room again for a moment."""
    writer = broker.client("writer", 5, will=packets.Will("t", b"will", 0))
    for number in range(6):
        writer.publish("t", b"%d" % number)
        if number == 3:
            broker.room("n2", 2)
    writer.vanish()
    broker.client("other", 5).publish("t", b"other")
    assert broker.links.payloads("n2") == [b"0", b"1"]
    broker.room("n2", 2)
    assert broker.links.payloads("n2") == [b"0", b"1", b"other", b"2"]
    broker.room("n2")
    assert broker.links.payloads("n2") == [b"0", b"1", b"other", b"2", b"3", b"4", b"5", b"will"]
    broker.client("third", 5).publish("t", b"straight")
    assert broker.links.payloads("n2")[-1] == b"straight"


def test_messages_of_the_broker_share_one_turn(broker: ForwardingHarness) -> None:
    origin, counter = broker.node.env.origin, broker.node.env.numbers
    for number in range(10):
        text = b"plugin %d" % number
        message = Message("", "t", text, 0, False, None, 0, "", origin, counter.next())
        broker.node.router.route(message, broker.node.router.plans(""), AckContext())
    broker.client("other", 5).publish("t", b"other")
    broker.room("n2", 2)
    assert broker.links.payloads("n2") == [b"plugin 0", b"other"]


def test_copies_for_an_absent_node_take_no_turns(broker: ForwardingHarness) -> None:
    """The lane to an absent node has its own bound. But no message overtakes the waiting ones."""
    writer = broker.client("writer", 5)
    broker.route("kept", durable("n2", absent=True))
    broker.cluster.present = False
    writer.publish("kept", b"1", 1, 1)
    assert broker.links.payloads("n2") == [b"1"]
    broker.cluster.present = True
    writer.publish("kept", b"2", 1, 2)
    broker.cluster.present = False
    writer.publish("kept", b"3", 1, 3)
    assert broker.links.payloads("n2") == [b"1"]
    broker.room("n2")
    assert broker.links.payloads("n2") == [b"1", b"2", b"3"]


def test_a_view_without_the_node_ends_only_waits_for_its_clean_sessions(broker: ForwardingHarness) -> None:
    writer, other = broker.client("writer", 5), broker.client("other", 5)
    writer.publish("t", b"live", 1)
    writer.publish("kept", b"kept", 1, 2)
    other.publish("kept", b"other", 1)
    assert broker.sender.slow.disk_bytes["n2"] > 0
    assert broker.sender.away("n2")
    broker.settle()
    assert kinds(writer.take()) == ["Puback"] and other.take() == []
    assert broker.links.voided["n2"] == [] and sorted(broker.links.payloads("n2")) == [b"kept", b"other"]
    broker.acked("n2", 2)
    assert kinds(writer.take()) == kinds(other.take()) == ["Puback"] and broker.sender.copies == 0
    assert broker.sender.slow.disk_bytes == {"n2": 0}


def test_copies_for_a_removed_node_are_dropped_and_groups_choose_again(broker: ForwardingHarness) -> None:
    broker.route("g", groups=(RemoteMembers("g", "g", "n2", 1, 0),))
    writer, other = broker.client("writer", 5), broker.client("other", 5)
    writer.publish("g", b"1", 2)
    other.publish("kept", b"2", 1)
    broker.route("g", groups=(RemoteMembers("g", "g", "n3", 1, 0),))
    broker.sender.gone("n2")
    broker.settle()
    assert kinds(other.take()) == ["Puback"] and writer.take() == []
    assert broker.links.payloads("n2") == [] and broker.links.payloads("n3") == [b"1"]
    broker.acked("n3", 1)
    assert kinds(writer.take()) == ["Pubrec"] and broker.links.waiting["n2"] == (0, 0)
    assert broker.sender.slow.disk_bytes == {"n2": 0}
    mid = broker.links.sent["n3"][0][2].message
    assert broker.sender.handshakes.of(broker.node.name).open == {(mid.origin.boot, mid.counter): 1}
    assert (
        kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"] and broker.sender.handshakes.of(broker.node.name).open == {}
    )


def test_waiting_publishes_are_void_after_a_cut_and_wills_are_not(broker: ForwardingHarness) -> None:
    writer = broker.client("writer", 5)
    gone = broker.client("gone", 5, will=packets.Will("t", b"will", 1, False, None))
    writer.publish("t", b"1", 1)
    gone.vanish()
    assert broker.sender.passing_on(lambda name: name == "n2")
    assert not broker.sender.passing_on(lambda name: name == "n3")
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"will"] and broker.sender.copies == 1
    broker.room("n2")
    assert broker.links.payloads("n2") == [b"will"] and broker.links.since("n2") == [0]
    broker.acked("n2", 1)
    assert writer.take() == [] and broker.sender.copies == 0


def test_a_waiting_message_moves_if_its_node_has_no_member_left(broker: ForwardingHarness) -> None:
    group = RemoteMembers("g", "g", "n2", 1, 0)
    broker.route("g", groups=(group,))
    writer = broker.client("writer", 5)
    writer.publish("g", b"1", 2)
    [copy] = broker.sender._waiting.copies("n2")
    broker.route("g", groups=(RemoteMembers("g", "g", "n3", 1, 0),))
    assert broker.sender.returned(copy.message, group.text, "n2", False)
    assert broker.links.payloads("n3") == [b"1"] and copy.groups == []


def overtaken(broker: ForwardingHarness) -> tuple[int, int]:
    """Make a QoS 2 message whose handshake is over and that waits behind later messages of others. Returns its mid."""
    gone = broker.client("gone", 5)
    gone.publish("t", b"0" * 100_000)
    gone.publish("t", b"1", 2)
    _, copy = broker.sender._waiting.copies("n2")
    gone.leave()
    broker.room("n2", 1)
    return copy.message.origin.boot, copy.message.counter


def test_a_mid_is_open_while_its_copy_waits(broker: ForwardingHarness) -> None:
    """The handshake may be over before the copy is sent: the target must not take the overtaken
    copy for a duplicate.
    """
    mid = overtaken(broker)
    other = broker.client("other", 5)
    other.publish("t", b"2", 1, 1)
    broker.room("n2", 1)
    assert broker.links.payloads("n2")[1:] == [b"2"] and broker.links.sent["n2"][1][2].qos2_stable == mid
    broker.room("n2", 1)
    other.publish("t", b"3", 1, 2)
    broker.room("n2")
    assert broker.links.payloads("n2")[1:] == [b"2", b"1", b"3"]
    assert broker.links.sent["n2"][3][2].qos2_stable > mid and broker.sender.handshakes.of(broker.node.name).open == {}


def test_a_list_of_open_handshakes_has_the_waiting_ones(
    broker: ForwardingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TELL_OPEN_EVERY", 2)
    mid = overtaken(broker)
    other = broker.client("other", 5)
    for number in range(2, 20):
        other.publish("t", b"2", 2, 1)
        broker.room("n2", 1)
        broker.sender.acked_early("n2", [number])
        broker.settle()
        assert kinds(other.take()) == ["Pubrec"] and kinds(other.ask(packets.Pubrel(1))) == ["Pubcomp"]
    assert len(broker.links.told_open["n2"]) > 2 and b"1" not in broker.links.payloads("n2")
    for told in broker.links.told_open["n2"]:
        assert mid in told.mids


def narrow(broker: ForwardingHarness) -> None:
    broker.links.ahead_bytes, broker.links.behind_bytes = 1000, 4000


def test_only_clients_with_many_waiting_bytes_are_paused(broker: ForwardingHarness) -> None:
    """It is read again when half of its own share is gone, whatever waits of others. Its QoS 0 messages are not
    dropped.
    """
    narrow(broker)
    first, second, other = broker.client("first", 5), broker.client("second", 5), broker.client("other", 5)
    for number in range(30):
        first.publish("t", b"1 %d" % number + bytes(100))
        second.publish("t", b"2 %d" % number + bytes(100))
        if number % 10 == 0:
            other.publish("t", b"other %d" % number)
    assert paused(broker) == ["first", "second"] and broker.drops() == []
    assert broker.links.waiting["n2"][1] < 4000 + 400
    waited = broker.sender._waiting.queues["n2"]
    assert [waited.waits_of(("", name)) > 1000 for name in ("first", "second", "other")] == [True, True, False]
    while "first" in paused(broker):
        assert waited.waits_of(("", "first")) > 500
        broker.room("n2", 1)
    while waited.items:
        broker.room("n2", 10)
    payloads = broker.links.payloads("n2")
    for name in (b"1 ", b"2 "):
        assert [text for text in payloads if text.startswith(name)] == [
            name + b"%d" % number + bytes(100) for number in range(30)
        ]
    assert paused(broker) == []


def test_clients_of_the_same_name_are_distinguished_by_mountpoint(broker: ForwardingHarness) -> None:
    narrow(broker)
    writer = broker.client("writer", 5)
    writer.publish("t", bytes(5000))
    assert paused(broker) == ["writer"]
    assert broker.sender.congested("", "writer") == "n2" and broker.sender.congested("other", "writer") == ""


@pytest.mark.parametrize("over", ["away", "gone", "void_all", "room"])
def test_a_paused_client_is_read_again_when_nothing_waits(broker: ForwardingHarness, over: str) -> None:
    narrow(broker)
    writer = broker.client("writer", 5)
    writer.publish("t", bytes(5000), 1)
    assert paused(broker) == ["writer"]
    broker.links.full = []
    getattr(broker.sender, over)(*(() if over == "void_all" else ("n2",)))
    broker.settle()
    assert paused(broker) == [] and broker.sender._waiting.queues == {}


def test_a_qos_2_publisher_is_paused_as_well(broker: ForwardingHarness) -> None:
    """Its copy is sent when the packet id is safe, after the packet was handled."""
    narrow(broker)
    writer = broker.client("writer", 5, clean=False, expiry_s=60)
    writer.publish("t", bytes(5000), 2, 1)
    broker.client("other", 5).publish("t", b"2")
    assert paused(broker) == []
    writer.publish("nowhere", b"1")
    assert paused(broker) == ["writer"]


def test_the_log_names_a_paused_client_and_the_end_of_the_pause(broker: ForwardingHarness) -> None:
    narrow(broker)
    first, second = broker.client("first", 5), broker.client("second", 5)
    for number in range(5):
        first.publish("t", bytes(5000))
        second.publish("t", bytes(5000))
        assert paused(broker) == ["first", "second"]
        broker.room("n2")
        assert paused(broker) == []
        broker.links.full = ["n2"]
        broker.pass_s(SAY_AGAIN_MS / 2000 if number < 4 else 0)
    said = [text for _, text in broker.host.lines if "n2" in text]
    assert [text.split(":")[0] for text in said] == ["client first publishes more for n2 than the link takes"]
    broker.pass_s(SAY_AGAIN_MS / 500)
    said = [text for _, text in broker.host.lines if "n2" in text]
    assert said[1:] == ["no client is held back for n2 any more; these were: first, second"]


def test_copies_accepted_without_a_lease_are_never_void_while_they_wait() -> None:
    broker = filled(ForwardingHarness(allow_publish_during_netsplit="on"))
    writer = broker.client("writer", 5)
    broker.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 1)) == ["Puback"]
    broker.sender.void_all()
    assert broker.links.payloads("n2") == [b"1"] and broker.links.since("n2") == [0]
