"""A full lane to a node: copies wait, publishers take turns, and what becomes of copies that have no number yet."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering import forward_sender as module
from strogoff.broker.clustering.waiting_room import SAY_AGAIN_MS
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.forwarding import ForwardingHarness, durable, live


@pytest.fixture
def post() -> ForwardingHarness:
    """The lane to n2 is full."""
    return filled(ForwardingHarness())


def filled(post: ForwardingHarness) -> ForwardingHarness:
    post.cluster.present = True
    post.lanes.full = ["n2"]
    post.lanes.ahead_bytes = 4  # the lane gets one message after another
    post.route("t", live("n2"))
    post.route("kept", durable("n2"))
    return post


def kinds(answers: list[object]) -> list[str]:
    return [type(each).__name__ for each in answers]


def paused(post: ForwardingHarness) -> list[str]:
    """The clients that are not read because of another node."""
    return [
        connection.client_id for connection in post.node.connections.values() if "cluster" in connection.flow.paused_for
    ]


def test_a_message_leaves_although_many_of_another_publisher_wait(post: ForwardingHarness) -> None:
    flood, other = post.client("flood", 5), post.client("other", 5)
    flood.send(*[publish("t", b"flood %d" % number) for number in range(1000)])
    post.settle()
    other.publish("t", b"other", 1)
    assert post.lanes.payloads("n2") == [] and post.sender.copies == 1001
    assert post.lanes.waiting["n2"][0] == 1001
    post.room("n2", 3)
    assert b"other" in post.lanes.payloads("n2") and len(post.lanes.payloads("n2")) == 3
    post.room("n2")
    flooded = [payload for payload in post.lanes.payloads("n2") if payload != b"other"]
    assert flooded == [b"flood %d" % number for number in range(1000)]
    assert post.lanes.waiting["n2"] == (0, 0)
    post.acked("n2", 1001)
    assert kinds(other.take()) == ["Puback"] and post.sender.copies == 0


def test_what_a_publisher_sends_never_overtakes_what_it_sent_before(post: ForwardingHarness) -> None:
    """Also its will, and also when the lane has room again for a moment."""
    writer = post.client("writer", 5, will=packets.Will("t", b"will", 0))
    for number in range(6):
        writer.publish("t", b"%d" % number)
        if number == 3:
            post.room("n2", 2)
    writer.vanish()
    post.client("other", 5).publish("t", b"other")
    assert post.lanes.payloads("n2") == [b"0", b"1"]
    post.room("n2", 2)
    assert post.lanes.payloads("n2") == [b"0", b"1", b"other", b"2"]
    post.room("n2")
    assert post.lanes.payloads("n2") == [b"0", b"1", b"other", b"2", b"3", b"4", b"5", b"will"]
    post.client("third", 5).publish("t", b"straight")
    assert post.lanes.payloads("n2")[-1] == b"straight"


def test_what_no_client_has_published_shares_a_turn(post: ForwardingHarness) -> None:
    origin, counter = post.node.env.origin, post.node.env.numbers
    for number in range(10):
        text = b"plugin %d" % number
        message = Message("", "t", text, 0, False, None, 0, "", origin, counter.next())
        post.node.router.route(message, post.node.router.plans(""), AckContext())
    post.client("other", 5).publish("t", b"other")
    post.room("n2", 2)
    assert post.lanes.payloads("n2") == [b"plugin 0", b"other"]


def test_for_a_node_that_is_away_nothing_waits_for_its_turn(post: ForwardingHarness) -> None:
    """Its lane has a bound of its own. But nothing overtakes what waits."""
    writer = post.client("writer", 5)
    post.route("kept", durable("n2", absent=True))
    post.cluster.present = False
    writer.publish("kept", b"1", 1, 1)
    assert post.lanes.payloads("n2") == [b"1"]
    post.cluster.present = True
    writer.publish("kept", b"2", 1, 2)
    post.cluster.present = False
    writer.publish("kept", b"3", 1, 3)
    assert post.lanes.payloads("n2") == [b"1"]
    post.room("n2")
    assert post.lanes.payloads("n2") == [b"1", b"2", b"3"]


def test_a_view_without_the_node_ends_what_waits_for_its_clean_sessions_alone(post: ForwardingHarness) -> None:
    writer, other = post.client("writer", 5), post.client("other", 5)
    writer.publish("t", b"live", 1)
    writer.publish("kept", b"kept", 1, 2)
    other.publish("kept", b"other", 1)
    assert post.sender.disk_bytes["n2"] > 0
    assert post.sender.away("n2")
    post.settle()
    assert kinds(writer.take()) == ["Puback"] and other.take() == []
    assert post.lanes.voided["n2"] == [] and sorted(post.lanes.payloads("n2")) == [b"kept", b"other"]
    post.acked("n2", 2)
    assert kinds(writer.take()) == kinds(other.take()) == ["Puback"] and post.sender.copies == 0
    assert post.sender.disk_bytes == {"n2": 0}


def test_what_waits_for_a_node_that_is_gone_is_owed_no_more_and_groups_choose_again(post: ForwardingHarness) -> None:
    post.route("g", groups=(RemoteMembers("g", "g", "n2", 1, 0),))
    writer, other = post.client("writer", 5), post.client("other", 5)
    writer.publish("g", b"1", 2)
    other.publish("kept", b"2", 1)
    post.route("g", groups=(RemoteMembers("g", "g", "n3", 1, 0),))
    post.sender.gone("n2")
    post.settle()
    assert kinds(other.take()) == ["Puback"] and writer.take() == []
    assert post.lanes.payloads("n2") == [] and post.lanes.payloads("n3") == [b"1"]
    post.acked("n3", 1)
    assert kinds(writer.take()) == ["Pubrec"] and post.lanes.waiting["n2"] == (0, 0)
    assert post.sender.disk_bytes == {"n2": 0}
    mid = post.lanes.sent["n3"][0][2].message
    assert post.sender._open_mids == {(mid.origin.boot, mid.counter): 1}
    assert kinds(writer.ask(packets.Pubrel(1))) == ["Pubcomp"] and post.sender._open_mids == {}


def test_what_waits_is_void_after_a_cut_and_what_has_to_arrive_is_not(post: ForwardingHarness) -> None:
    writer = post.client("writer", 5)
    gone = post.client("gone", 5, will=packets.Will("t", b"will", 1, False, None))
    writer.publish("t", b"1", 1)
    gone.vanish()
    assert post.sender.passing_on(lambda name: name == "n2")
    assert not post.sender.passing_on(lambda name: name == "n3")
    post.sender.void_all()
    assert post.lanes.payloads("n2") == [b"will"] and post.sender.copies == 1
    post.room("n2")
    assert post.lanes.payloads("n2") == [b"will"] and post.lanes.stamps("n2") == [0]
    post.acked("n2", 1)
    assert writer.take() == [] and post.sender.copies == 0


def test_a_message_that_waits_goes_to_another_member_if_the_node_has_none(post: ForwardingHarness) -> None:
    group = RemoteMembers("g", "g", "n2", 1, 0)
    post.route("g", groups=(group,))
    writer = post.client("writer", 5)
    writer.publish("g", b"1", 2)
    [copy] = post.sender._waiting.copies("n2")
    post.route("g", groups=(RemoteMembers("g", "g", "n3", 1, 0),))
    assert post.sender.returned(copy.message, group.text, "n2")
    assert post.lanes.payloads("n3") == [b"1"] and copy.groups == []


def overtaken(post: ForwardingHarness) -> tuple[int, int]:
    """The mid of a QoS 2 message that waits behind what others send from now on, and whose handshake is over."""
    gone = post.client("gone", 5)
    gone.publish("t", b"0" * 100_000)
    gone.publish("t", b"1", 2)
    _, copy = post.sender._waiting.copies("n2")
    gone.leave()
    post.room("n2", 1)
    return copy.message.origin.boot, copy.message.counter


def test_a_mid_is_open_while_its_copy_waits(post: ForwardingHarness) -> None:
    """Its handshake may be over before: who is overtaken must not be taken for one that comes again."""
    mid = overtaken(post)
    other = post.client("other", 5)
    other.publish("t", b"2", 1, 1)
    post.room("n2", 1)
    assert post.lanes.payloads("n2")[1:] == [b"2"] and post.lanes.sent["n2"][1][2].qos2_stable == mid
    post.room("n2", 1)
    other.publish("t", b"3", 1, 2)
    post.room("n2")
    assert post.lanes.payloads("n2")[1:] == [b"2", b"1", b"3"]
    assert post.lanes.sent["n2"][3][2].qos2_stable > mid and post.sender._open_mids == {}


def test_a_list_of_open_handshakes_has_those_that_wait(
    post: ForwardingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TELL_OPEN_EVERY", 2)
    mid = overtaken(post)
    other = post.client("other", 5)
    for number in range(2, 20):
        other.publish("t", b"2", 2, 1)
        post.room("n2", 1)
        post.sender.acked_early("n2", [number])
        post.settle()
        assert kinds(other.take()) == ["Pubrec"] and kinds(other.ask(packets.Pubrel(1))) == ["Pubcomp"]
    assert len(post.lanes.told_open["n2"]) > 2 and b"1" not in post.lanes.payloads("n2")
    for told in post.lanes.told_open["n2"]:
        assert mid in told.mids


def narrow(post: ForwardingHarness) -> None:
    post.lanes.ahead_bytes, post.lanes.behind_bytes = 1000, 4000


def test_only_who_has_much_waiting_is_not_read(post: ForwardingHarness) -> None:
    """And is read again when half of its own part is gone, whatever waits of others. Its QoS 0 is not dropped."""
    narrow(post)
    first, second, other = post.client("first", 5), post.client("second", 5), post.client("other", 5)
    for number in range(30):
        first.publish("t", b"1 %d" % number + bytes(100))
        second.publish("t", b"2 %d" % number + bytes(100))
        if number % 10 == 0:
            other.publish("t", b"other %d" % number)
    assert paused(post) == ["first", "second"] and post.drops() == []
    assert post.lanes.waiting["n2"][1] < 4000 + 400
    waited = post.sender._waiting.queues["n2"]
    assert [waited.waits_of(("", name)) > 1000 for name in ("first", "second", "other")] == [True, True, False]
    while "first" in paused(post):
        assert waited.waits_of(("", "first")) > 500
        post.room("n2", 1)
    while waited.items:
        post.room("n2", 10)
    payloads = post.lanes.payloads("n2")
    for name in (b"1 ", b"2 "):
        assert [text for text in payloads if text.startswith(name)] == [
            name + b"%d" % number + bytes(100) for number in range(30)
        ]
    assert paused(post) == []


def test_clients_of_the_same_name_are_told_apart(post: ForwardingHarness) -> None:
    narrow(post)
    writer = post.client("writer", 5)
    writer.publish("t", bytes(5000))
    assert paused(post) == ["writer"]
    assert post.sender.congested("", "writer") == "n2" and post.sender.congested("other", "writer") == ""


@pytest.mark.parametrize("over", ["away", "gone", "void_all", "room"])
def test_who_is_not_read_is_read_again_when_nothing_waits(post: ForwardingHarness, over: str) -> None:
    narrow(post)
    writer = post.client("writer", 5)
    writer.publish("t", bytes(5000), 1)
    assert paused(post) == ["writer"]
    post.lanes.full = []
    getattr(post.sender, over)(*(() if over == "void_all" else ("n2",)))
    post.settle()
    assert paused(post) == [] and post.sender._waiting.queues == {}


def test_a_qos_2_publisher_is_not_read_either(post: ForwardingHarness) -> None:
    """Its copy leaves when the packet id is safe, after the packet was handled."""
    narrow(post)
    writer = post.client("writer", 5, clean=False, expiry_s=60)
    writer.publish("t", bytes(5000), 2, 1)
    post.client("other", 5).publish("t", b"2")
    assert paused(post) == []
    writer.publish("nowhere", b"1")
    assert paused(post) == ["writer"]


def test_the_log_says_who_is_held_back_and_when_that_is_over(post: ForwardingHarness) -> None:
    narrow(post)
    first, second = post.client("first", 5), post.client("second", 5)
    for number in range(5):
        first.publish("t", bytes(5000))
        second.publish("t", bytes(5000))
        assert paused(post) == ["first", "second"]
        post.room("n2")
        assert paused(post) == []
        post.lanes.full = ["n2"]
        post.pass_s(SAY_AGAIN_MS / 2000 if number < 4 else 0)
    said = [text for _, text in post.host.lines if "n2" in text]
    assert [text.split(":")[0] for text in said] == ["client first publishes more for n2 than the link takes"]
    post.pass_s(SAY_AGAIN_MS / 500)
    said = [text for _, text in post.host.lines if "n2" in text]
    assert said[1:] == ["nobody is held back for n2 any more; these were: first, second"]


def test_without_a_lease_what_waits_is_never_void() -> None:
    post = filled(ForwardingHarness(allow_publish_during_netsplit="on"))
    writer = post.client("writer", 5)
    post.node.policy.view_state = ViewState.MINORITY
    assert kinds(writer.publish("t", b"1", 1)) == ["Puback"]
    post.sender.void_all()
    assert post.lanes.payloads("n2") == [b"1"] and post.lanes.stamps("n2") == [0]
