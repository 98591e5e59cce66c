"""The cluster adapter under load, and the reaction of the broker to changes of views and leases."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from strogoff.analytics.schema import MESSAGE, validate
from strogoff.broker.clustering.copy_codec import Begin, CopyAttempt
from strogoff.broker.clustering.copy_codec import encode as encode_copy
from strogoff.broker.clustering.forward_codec import Head, encode_forward, encode_head, encode_open_mids
from strogoff.broker.clustering.routes import encode_value, prefix_to_node, prefix_to_slot
from strogoff.broker.connection.subscribe import FILTERS_PER_TURN
from strogoff.broker.gateway.gateways import Gateways
from strogoff.broker.queues.message import Message, Origin
from strogoff.cluster.links.ports import Lane, Refuse
from strogoff.cluster.slots.table import Holder
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.reasons import ReasonCode
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import option, publish
from tests.harness.cluster import MAJORITY, ON, ClusterHarness

from .slot_cluster import SlotCluster


@pytest.fixture(scope="module")
def calm() -> ClusterHarness:
    """Three nodes without any fault."""
    return ClusterHarness(3)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_crosses_nodes(calm: ClusterHarness, qos: int) -> None:
    reader = calm[2].client(f"reader{qos}")
    assert reader.subscribe((f"q{qos}/+", qos))[0].reasons == [qos]
    writer = calm[1].client(f"writer{qos}")
    answers = writer.publish(f"q{qos}/x", b"hello", qos)
    assert [type(each) for each in answers] == {0: [], 1: [packets.Puback], 2: [packets.Pubrec]}[qos]
    assert reader.payloads() == [b"hello"]


def test_puback_waits_for_the_other_node(calm: ClusterHarness) -> None:
    reader = calm[2].client("slow-reader", clean=False, expiry_s=100)
    reader.subscribe(("slow/#", 1))
    writer = calm[1].client("quick-writer")
    calm[2].disks[0].stall_until = calm.loop.now_s + 0.3
    assert writer.publish("slow/x", b"1", 1) == []
    calm.pass_s(0.4)
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert reader.payloads() == [b"1"]


@pytest.mark.parametrize("lane", list(Lane))
def test_an_item_that_cannot_be_read_is_set_aside(calm: ClusterHarness, lane: Lane) -> None:
    """The receiver names the item and its sender in its log and in the event log; the lane continues."""
    member, there = calm[1].host.member, calm[2].host
    assert member is not None and there.member is not None
    reader = calm[2].client("reader of the rest")
    reader.subscribe(("rest/#", 1))
    lines, rows, boot = len(there.lines), len(there.events), there.member.links._in["n1"].peer
    member.links.send("n2", lane, encode_head(Head(0, True)) + b"junk")
    writer = calm[1].client("writer of the rest")
    answers = writer.publish("rest/x", b"1", 1, retain=True)
    calm.pass_s(1.0)
    assert [type(each) for each in answers + writer.take()] == [packets.Puback]
    assert reader.payloads() == [b"1"] and member.links.waiting_items("n2", lane) == 0
    (line,) = [text for level, text in there.lines[lines:] if level == "error"]
    assert (
        line.startswith("item ") and f"of lane {lane.name} from n1 (10 bytes) cannot be read and is set aside:" in line
    )
    (row,) = [row for row in there.events[rows:] if row["type"] == "fwd.drop"]
    assert (row["target"], row["source"], row["reason"], row["bytes"]) == ("n2", "n1", "unreadable", 10)
    assert validate(row) == [] and there.member.links._in["n1"].peer is boot


def _qos_2(**origin: Any) -> bytes:
    """A copy of a QoS 2 message for all slots, from this origin."""
    message = Message("", "rest/2", b"2", 2, False, None, 0, "p", Origin(**{"node": "n1", "boot": 1, **origin}), 1)
    return encode_head(Head(0, True)) + encode_forward(message, (), (0, 0))


@pytest.mark.parametrize(
    ("lane", "item"),
    [
        (Lane.REPLICA, encode_copy(Begin(CopyAttempt(300, 1, 1), 0))),
        (Lane.PUBLISH, _qos_2(boot=1 << 33)),
        (Lane.APPEND, _qos_2(boot=1 << 33)),
        (Lane.PUBLISH, _qos_2(node="#300")),
        (Lane.PUBLISH, encode_head(Head(0, True)) + encode_open_mids((1, 1), [], "#x")[0]),
    ],
)
def test_an_item_with_an_impossible_number_is_set_aside(calm: ClusterHarness, lane: Lane, item: bytes) -> None:
    """The stream stays open: the item must not come again on the next one."""
    member, there = calm[1].host.member, calm[2].host
    assert member is not None and there.member is not None
    calm[2].client("durable reader", clean=False, expiry_s=60).subscribe(("rest/2", 2))
    lines, peer = len(there.lines), there.member.links._in["n1"].peer
    member.links.send("n2", lane, item)
    calm.pass_s(1.0)
    (line,) = [text for level, text in there.lines[lines:] if level == "error"]
    assert f"of lane {lane.name} from n1" in line and "is set aside" in line
    assert there.member.links._in["n1"].peer is peer and member.links.waiting_items("n2", lane) == 0


def test_a_key_that_cannot_be_read_is_left_out(calm: ClusterHarness) -> None:
    """The rest of the message is applied, and the writing node gets its acknowledgement."""
    member, there = calm[1].host.member, calm[2].host
    assert member is not None
    metadata, lines = member.metadata, len(there.lines)
    metadata._namespaces[b"?"] = metadata._namespaces[b"t"]
    done: list[bool] = []
    metadata.barrier(metadata.put(b"?key", b"v"), done.append)
    calm.pass_s(1.0)
    assert done == [True]
    (line,) = [text for level, text in there.lines[lines:] if level == "error"]
    assert line == "metadata message of n1: key b'?key' is in no namespace of half 0; this key is skipped"


def test_a_refused_item_is_requested_again_with_the_next_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused item mostly belongs to a view that this node has not applied yet: the next view requests it at once."""
    cluster = ClusterHarness(3)
    writer, reader = cluster[1].client("writer"), cluster[2].client("reader")
    reader.subscribe(("t", 1))
    adapter, member = cluster[2].host.clustering, cluster[2].host.member
    assert adapter is not None and member is not None
    view, deliver = member.view.id, adapter.deliver

    def refuse(node: str, seq: int, payload: bytes) -> None:
        if member.view.id == view:
            raise Refuse("not in this view")
        deliver(node, seq, payload)

    monkeypatch.setattr(adapter, "deliver", refuse)
    writer.publish("t", b"1", 1)
    cluster.pass_s(5.0)  # a timer requests it every 2 s at this point
    assert reader.payloads() == []
    cluster[3].kill()
    cluster.until(lambda: member.view.id != view)
    cluster.pass_s(0.05)
    assert reader.payloads() == [b"1"]


def test_a_publish_without_subscribers_gets_reason_0x10(calm: ClusterHarness) -> None:
    writer = calm[1].client("lonely")
    (puback,) = writer.publish("nobody/here", b"1", 1)
    assert puback.reason == 0x10


def test_a_retained_message_is_on_every_node_when_it_is_acknowledged(calm: ClusterHarness) -> None:
    writer = calm[1].client("retainer")
    writer.publish("kept/a", b"v1", 1, retain=True)
    reader = calm[3].client("late")
    _, message = reader.subscribe(("kept/+", 1))
    assert (message.payload, message.retain) == (b"v1", True)
    writer.publish("kept/a", b"", 1, retain=True)
    assert [type(each) for each in calm[2].client("later").subscribe(("kept/+", 1))] == [packets.Suback]


def test_a_repeated_deletion_is_acknowledged_after_all_nodes_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P4: the deletion by n2 is still on its way to n3. A client deletes the same message at n1, where none is left."""
    cluster = ClusterHarness(3)
    first, second = cluster[2].client("first"), cluster[1].client("second")
    first.publish("kept", b"v1", 1, retain=True)
    member = cluster[2].host.member
    assert member is not None
    speak = member.links.send
    assert cluster[3].client("early").subscribe(("kept", 1))[0].reasons == [1]

    def say(node: str, lane: Lane, data: bytes) -> int:
        return 0 if (node, lane) == ("n3", Lane.METADATA) else speak(node, lane, data)

    monkeypatch.setattr(member.links, "send", say)
    assert first.publish("other", b"v", 1, retain=True) == []
    assert first.publish("kept", b"", 1, 2, retain=True) == []
    assert [type(each) for each in second.publish("kept", b"", 1, retain=True)] == [packets.Puback]
    assert [type(each) for each in cluster[3].client("late").subscribe(("kept", 1))] == [packets.Suback]


def test_one_member_of_a_shared_subscription_gets_each_message(calm: ClusterHarness) -> None:
    readers = [calm[number].client(f"share{number}") for number in (1, 2, 3)]
    for reader in readers:
        reader.subscribe(("$share/g/sh/#", 1))
    writer = calm[1].client("share-writer")
    for number in range(30):
        writer.publish("sh/x", str(number).encode(), 1, packet_id=number + 1)
    got = [each.payload for reader in readers for each in reader.drain()]
    assert sorted(int(each) for each in got) == list(range(30))


def test_a_killed_node_leaves_the_view_and_its_clean_sessions_block_no_ack() -> None:
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority")
    cluster[2].client("reader").subscribe(("t", 1))
    cluster[3].client("other").subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster[2].kill()
    assert writer.publish("t", b"1", 1) == []  # for n1 the reader at n2 may still be alive
    took = cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    assert 1.5 < took < 4.5
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Puback]
    cluster[2].start()
    assert cluster.whole() < 2.0
    (puback,) = writer.publish("t", b"2", 1)
    assert puback.reason == 0


def test_messages_for_a_durable_session_wait_until_its_node_returns() -> None:
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority")
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster[2].kill()
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    for number in (1, 2):
        assert writer.publish("t", str(number).encode(), 1, packet_id=number) == []
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [(type(each), each.packet_id) for each in writer.take()] == [(packets.Puback, 1), (packets.Puback, 2)]
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    assert reader.payloads() == [b"1", b"2"]


def test_a_cut_off_node_promises_nothing_and_closes_clients_that_missed_messages() -> None:
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority")
    clean = cluster[3].client("clean")
    clean.subscribe(("t", 1))
    stuck = cluster[3].client("stuck")
    writer = cluster[1].client("writer")
    reader = cluster[1].client("reader")
    reader.subscribe(("u", 1))
    cluster.network.cut("n1", "n3")
    cluster.network.cut("n2", "n3")
    assert stuck.publish("u", b"x", 1) == []
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    assert writer.publish("t", b"missed", 1)[0].reason == 0x10
    cluster.network.heal()
    assert cluster.whole() < 3.0
    (goodbye,) = clean.take()
    assert isinstance(goodbye, packets.Disconnect)
    assert goodbye.reason == 0x83
    assert [type(each) for each in stuck.take()] == [packets.Disconnect]
    assert reader.payloads() == []  # the publisher may have sent a newer message since


def test_a_new_route_is_in_the_plan_in_the_same_turn(calm: ClusterHarness) -> None:
    """At the end of this turn the node acknowledges the route to its writer, whose client then gets SUBACK."""
    node, clustering = calm[1].host.node, calm[1].host.clustering
    assert node is not None and clustering is not None
    plans = node.router.plans("")
    calm[1].client("early-writer").publish("planned/x", b"1", 1)
    assert "planned/x" in plans.plans
    view = calm[1].host.member.view if calm[1].host.member is not None else None
    assert view is not None
    since = next(row.entered_in_view for row in view.rows if row.node == "n2")
    clustering.metadata_changed(prefix_to_node("", "n2") + b"planned/+", encode_value((since,)))
    assert [target.node for target in plans.of("planned/x").remote] == ["n2"]


def test_suback_waits_for_all_nodes_of_the_view() -> None:
    cluster = ClusterHarness(3, allow_subscribe_during_netsplit="majority")
    cluster.network.cut("n1", "n3")
    reader = cluster[1].client("reader")
    assert reader.subscribe(("t", 1)) == []
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    cluster.settle()
    assert [type(each) for each in reader.take()] == [packets.Suback]


def test_suback_waits_for_filters_of_all_turns_and_blocks_no_other_client() -> None:
    """The filters of the first turn are written, those of the second are refused; another client
    publishes in between.
    """
    cluster = ClusterHarness(3, allow_subscribe_during_netsplit="majority", topic_max_depth=2)
    reader, writer = cluster[1].client("reader"), cluster[1].client("writer")
    cluster.network.cut("n1", "n3")
    filters = [f"t/{number}" for number in range(FILTERS_PER_TURN)] + ["too/deep/for/it"]
    reader.send(packets.Subscribe(1, [option(text, 1) for text in filters]))
    while not cluster[1].node.env.counters.subscribe_received[True]:
        assert cluster.loop.turn()
    frame = encode(publish("nobody", b"x", 1, 7), 5)
    assert frame is not None and writer.pipe.to_node.deliver is not None
    writer.pipe.to_node.deliver(frame)
    cluster.settle()
    assert [packet.packet_id for packet in writer.take()] == [7]
    assert reader.take() == []
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    cluster.settle()
    assert [packet.reasons[-2:] for packet in reader.take()] == [[1, ReasonCode.TOPIC_FILTER_INVALID]]


def test_a_node_that_founds_a_cluster_keeps_serving() -> None:
    cluster = ClusterHarness(2, joined=False, level=1)
    cluster.settle()
    seen = {harness.node.policy.view_state for harness in cluster.nodes}
    problems: list[str] = []
    cluster[2].host.join("n1:1", problems.append)
    while not problems:
        cluster.pass_s(0.001)
        seen.add(cluster[1].node.policy.view_state)
    assert problems == [""]
    cluster.whole()
    assert seen == {ViewState.WHOLE}


def test_a_joining_node_learns_the_sessions_of_the_founder() -> None:
    cluster = ClusterHarness(2, joined=False)
    cluster[1].client("old").subscribe(("t/#", 1))
    cluster[1].client("old-writer").publish("r/1", b"kept", 1, retain=True)
    problems: list[str] = []
    cluster[2].host.join("n1:1", problems.append)
    cluster.until(lambda: bool(problems))
    cluster.whole()
    writer = cluster[2].client("writer")
    (puback,) = writer.publish("t/1", b"x", 1)
    assert puback.reason == 0
    _, retained = cluster[2].client("reader").subscribe(("r/#", 1))
    assert retained.payload == b"kept"


def test_an_acknowledgement_held_back_without_a_lease_is_not_in_the_event_log() -> None:
    """The acknowledgement was never sent: a checker of the log must not count it as a promise."""
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority")
    cluster[1].client("reader", clean=False, expiry_s=1000).subscribe(("u", 1))
    writer = cluster[3].client("writer")
    said: list[tuple[str, str]] = []
    events = cluster[3].node.env.events
    events.set_level(MESSAGE)
    events.add(lambda row: said.append((row["type"], row.get("client", ""))))
    assert [type(each) for each in writer.publish("u", b"1", 1)] == [packets.Puback]
    assert ("pub.ack", "writer") in said
    cluster.network.cut("n1", "n3")
    cluster.network.cut("n2", "n3")
    said.clear()
    assert writer.publish("u", b"2", 1, packet_id=2) == []
    cluster.state_of(3, ViewState.MINORITY)
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.network.heal()
    cluster.whole()
    assert [type(each) for each in writer.take()] == [packets.Disconnect]
    assert ("pub.recv", "writer") in said and ("pub.ack", "writer") not in said


def test_a_voided_publish_is_not_acknowledged_under_policy_on() -> None:
    """A publish just before a cut: the other nodes void that incarnation, so the publisher must send again."""
    cluster = ClusterHarness(3, allow_publish_during_netsplit="on")
    reader = cluster[1].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("u", 1))
    writer = cluster[3].client("writer", clean=False, expiry_s=1000)
    cluster.network.cut("n1", "n3")
    cluster.network.cut("n2", "n3")
    assert writer.publish("u", b"last", 1) == []
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    cluster.network.heal()
    cluster.whole()
    answers = writer.take()
    assert [type(each) for each in answers] == [packets.Disconnect] or b"last" in reader.payloads()


def test_the_event_log_says_by_which_right_a_node_acknowledges() -> None:
    """A lease, or without one the policy `on` of the client."""
    cluster = ClusterHarness(3, level=2, allow_publish_during_netsplit="on")
    writer = cluster[3].client("writer")
    writer.publish("u", b"1", 1)
    cluster.network.cut("n1", "n3")
    cluster.network.cut("n2", "n3")
    cluster.state_of(3, ViewState.MINORITY)
    writer.publish("u", b"2", 1, packet_id=2)
    assert [row["right"] for row in cluster[3].host.events if row["type"] == "pub.ack"] == ["lease", "policy"]


def test_what_a_node_accepted_without_a_lease_is_answered_by_the_policy_although_the_lease_is_back() -> None:
    """The answers wait for no other node. They leave when the disk has the message."""
    cluster = ClusterHarness(3, level=2, **ON)
    cluster.put(own=3, reader=1)
    cluster[1].client("reader", clean=False, expiry_s=600).subscribe(("u", 1))
    own = cluster[3].client("own", clean=False, expiry_s=600)
    own.subscribe(("u", 1))
    writer, other = cluster[3].client("writer"), cluster[3].client("other")
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    cluster[3].disks[0].stall_until = inf
    writer.send(publish("u", b"1", 1, 7))
    other.send(publish("u", b"2", 2, 8))
    own.send(packets.Subscribe(9, [option("v", 1)]), packets.Unsubscribe(10, ["u"]))
    cluster.settle()
    cluster.network.heal()
    cluster.state_of(3, ViewState.WHOLE)
    assert not writer.closed and not writer.take()
    cluster[3].disks[0].stall_until = 0
    cluster.pass_s(1)
    rows = [row for row in cluster[3].host.events if row["type"] in ("pub.ack", "sub.ack", "unsub.ack")][1:]
    assert sorted((row["type"], row["right"]) for row in rows) == [
        ("pub.ack", "policy"), ("pub.ack", "policy"), ("sub.ack", "policy"), ("unsub.ack", "policy"),
    ]  # fmt: skip
    writer.publish("u", b"3", 1, 11)
    assert cluster[3].host.events[-1]["right"] == "lease"


def test_the_answer_to_a_message_that_is_repeated_on_another_connection_has_the_right_of_its_acceptance() -> None:
    """The node accepted it without a lease, and has one again in the same view, since nobody was whole meanwhile. Its
    second PUBREC waits for no other node either."""
    cluster = ClusterHarness(3, level=2, **ON)
    cluster.put(writer=3)
    writer = cluster[3].client("writer", clean=False, expiry_s=600)
    for number in (1, 2, 3):
        cluster.isolate(number)
    cluster.state_of(3, ViewState.MINORITY)
    writer.send(publish("u", b"1", 2, 7))
    cluster.pass_s(1)
    cluster.network.heal()
    cluster.state_of(3, ViewState.WHOLE)
    again, connack = cluster[3].connect("writer", clean=False, expiry_s=600)
    assert connack.session_present
    again.send(publish("u", b"1", 2, 7, dup=True))
    cluster.pass_s(1)
    session = cluster[3].node.sessions.get("", "writer")
    assert session is not None
    session.inbound.cancel_forwards()  # the node has left the view: the message is accepted once more
    for _ in range(2):
        again.send(publish("u", b"1", 2, 7, dup=True))
        cluster.pass_s(1)
    again.send(packets.Pubrel(7))
    cluster.pass_s(1)
    again.publish("u", b"2", 2, 7)
    last, _ = cluster[3].connect("writer", clean=False, expiry_s=600)
    last.publish("u", b"2", 2, 7, dup=True)
    rights = [row["right"] for row in cluster[3].host.events if row["type"] == "pub.ack"]
    assert rights == ["policy", "policy", "lease", "lease", "lease", "lease"]


def test_what_a_node_accepted_with_a_lease_is_answered_by_the_policy_when_the_lease_has_gone() -> None:
    cluster = ClusterHarness(3, level=2, **ON)
    cluster.put(own=3)
    cluster[3].client("own", clean=False, expiry_s=600).subscribe(("u", 1))
    writer = cluster[3].client("writer")
    cluster[3].disks[0].stall_until = inf
    writer.send(publish("u", b"1", 1, 7))
    cluster.settle()
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    assert not writer.closed and not writer.take()
    cluster[3].disks[0].stall_until = 0
    cluster.pass_s(1)
    assert [row["right"] for row in cluster[3].host.events if row["type"] == "pub.ack"] == ["policy"]


def test_the_policy_is_not_named_for_the_answer_to_a_repetition_that_it_forbids() -> None:
    """The message was accepted with a lease, so the PUBREC waits for the other nodes and for the lease."""
    cluster = ClusterHarness(3, level=2, **{**MAJORITY, "allow_register_during_netsplit": "on"})
    cluster.put(reader=1, writer=3)
    cluster[1].client("reader", clean=False, expiry_s=600).subscribe(("u", 2))
    writer = cluster[3].client("writer", clean=False, expiry_s=600)
    cluster.isolate(3)
    assert writer.publish("u", b"1", 2, 7) == []
    cluster.state_of(3, ViewState.MINORITY)
    writer.vanish()
    writer = cluster[3].client("writer", clean=False, expiry_s=600)
    writer.send(publish("u", b"1", 2, 7, dup=True))
    cluster.settle()
    cluster.network.heal()
    cluster.until(lambda: bool(writer.take()))
    assert [row["right"] for row in cluster[3].host.events if row["type"] == "pub.ack"] == ["lease"]


def test_the_event_log_follows_a_message_from_node_to_node() -> None:
    cluster = ClusterHarness(2, level=2)
    cluster[2].client("reader", clean=False, expiry_s=100).subscribe(("t", 1))
    cluster[1].client("writer").publish("t", b"x", 1)
    rows = [[row for row in harness.host.events if "mid" in row] for harness in cluster.nodes]
    seen = [[row["type"] for row in each if row["type"] not in ("pub.route", "dlv.send", "q.durable")] for each in rows]
    assert seen == [["pub.recv", "fwd.send", "fwd.ack", "pub.ack"], ["fwd.recv", "q.enq"]]
    routes = [[row for row in each if row["type"] == "pub.route"] for each in rows]
    assert [[(row["targets"], row.get("nodes")) for row in each] for each in routes] == [
        [([], ["n2"])],
        [(["reader"], None)],
    ]
    assert len({tuple(row["mid"]) for each in rows for row in each}) == 1
    assert rows[1][0]["hlc"] > rows[0][0]["hlc"]


def test_the_event_log_names_the_node_of_the_chosen_member() -> None:
    cluster = ClusterHarness(2, level=2)
    cluster[2].client("member").subscribe(("$share/g/t", 1))
    cluster[1].client("writer").publish("t", b"x", 1)
    rows = [[row for row in harness.host.events if row["type"] == "pub.route"] for harness in cluster.nodes]
    assert [(row["targets"], row.get("nodes"), row.get("group")) for row in rows[0]] == [
        ([], None, None),
        ([], ["n2"], "$share/g/t"),
    ]
    assert [(row["targets"], row.get("group")) for row in rows[1]] == [(["member"], "$share/g/t")]


@pytest.mark.parametrize("text", ["t", "$share/g/t"])
def test_a_message_that_expires_between_nodes_is_not_delivered(text: str) -> None:
    """[MQTT5-3.3.2-5] also if the message waited for the network and not in a queue."""
    cluster = ClusterHarness(2)
    reader = cluster[2].client("reader")
    reader.subscribe((text, 1))
    writer = cluster[1].client("writer")
    cluster.network.one_way("n1", "n2")
    assert writer.publish("t", b"stale", 1, message_expiry_interval=1) == []
    cluster.pass_s(1.2)
    cluster.network.heal()
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert reader.payloads() == []
    assert [row["client"] for row in cluster[2].host.events if row["type"] == "q.expire"] == ["reader"]


def test_a_primary_without_a_lease_removes_no_route_to_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node may be primary now, and may have written the route. With the lease it is removed."""
    cluster = SlotCluster(2)
    cluster.whole()
    members = [harness.host.member for harness in cluster.nodes]
    clustering = cluster[1].host.clustering
    assert members[0] is not None and members[1] is not None and clustering is not None
    key = prefix_to_slot("", 5) + b"t"
    monkeypatch.setattr(members[0], "leased", lambda: False)
    members[1].metadata.put(key, encode_value((members[1].view.id, "n2")))
    cluster.pass_s(2)
    assert [member.metadata.get(key) is not None for member in members if member is not None] == [True, True]
    monkeypatch.undo()
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.WHOLE)
    clustering.advertiser.try_again()
    cluster.until(lambda: not any(member.metadata.get(key) for member in members if member is not None))


def test_a_primary_that_gives_a_slot_away_removes_no_route_to_it() -> None:
    cluster = SlotCluster(2)
    clustering = cluster[1].host.clustering
    assert clustering is not None
    assert clustering.slots.is_primary(5)
    row = clustering._member.slots.row(5)
    clustering.slots.handover._handover.close(row, Holder("n2", "disk", 1))
    assert not clustering.slots.is_primary(5)


def test_what_waited_for_the_lease_goes_on_at_the_end_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may look at its lease in the middle of other work (H-43)."""
    cluster = ClusterHarness(3)
    node, clustering = cluster[1].node, cluster[1].host.clustering
    assert clustering is not None
    went_on: list[int] = []
    monkeypatch.setattr(Gateways, "lease_is_back", lambda gateways: went_on.append(gateways.env.now))
    clustering.lease_changed()
    now, node.env.now = node.env.now, 0
    assert went_on == []
    cluster.settle()
    assert went_on == [now]


@pytest.mark.parametrize("stopped_s", [1.42, 1.46, 1.5])
def test_an_answer_that_waited_for_a_lease_counts_although_the_node_stood_still(stopped_s: float) -> None:
    """n2 got a lease, and stood still before that turn was over. It reads the next lease when this one is over."""
    cluster = ClusterHarness(3)
    cluster.put(reader=3)
    cluster[3].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    writer = cluster[2].client("writer")
    assert [type(each) for each in writer.publish("t", b"0", 1, 1)] == [packets.Puback]
    cluster.network.delay("n1", "n2", 0.3)
    cluster.pass_s(5)
    host, clustering = cluster[2].host, cluster[2].host.clustering
    assert clustering is not None and cluster[1].leads
    lease_changed = clustering.lease_changed
    stops = [True]

    def stops_then() -> None:
        lease_changed()
        if stops and cluster[2].node.policy.view_state is not ViewState.MINORITY:
            stops.clear()
            cluster[2].pause_process()
            cluster.network.delay("n1", "n2", 0.0)
            cluster.loop.call_later(stopped_s, cluster[2].resume_process)

    clustering.lease_changed = stops_then  # type: ignore[method-assign]
    host.wall_ahead_ms += 500  # the machine stood still, too: its lease is lost
    writer.send(publish("t", b"1", 1, 2))
    cluster.pass_s(30)
    assert not stops
    answers = writer.take()
    assert [type(each) for each in [*answers, *writer.publish("t", b"2", 1, 3)]] == [packets.Puback] * 2
