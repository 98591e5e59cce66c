"""A1: acknowledged messages that are lost. More cases are in tests/testing/log_audit."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.anomalies.a01_lost_acked import Lane as JudgedLane
from strogoff.judge.anomalies.a01_lost_acked import judge_queue
from strogoff.judge.findings import Finding
from strogoff.judge.lanes import Entry, lane_order, queue_order
from strogoff.judge.message import Lane
from strogoff.judge.rows import NEVER

from ...testing.log_audit.log_builder import NODE, Log, two_nodes
from .found import findings, kinds, proof, split

LANE: Lane = (NODE, 1, "tx", 1, "t", 1)


def entry(number: int, first_sent: int = -1, owed: bool = True, resumed: int = NEVER, queued: bool = True) -> Entry:
    return Entry(
        session=((NODE, "", "rx"), 1),
        lane=LANE,
        message=(NODE, 1, number),
        accepted=number,
        acked=number,
        first_sent=first_sent,
        last_sent=first_sent,
        ordered=True,
        owed=owed,
        queued=queued,
        resumed=resumed,
    )


def lost(*entries: Entry) -> list[tuple[str, int]]:
    lane = JudgedLane()
    judged = [lane.judge(each) for each in lane_order(entries)]
    return [(each.kind, each.subject.message[2]) for each in judged if each is not None and each.subject.message]


def test_what_later_messages_of_a_lane_say() -> None:
    """Only a newer message that was sent says that this one will not be."""
    sent = entry(5, first_sent=50, owed=False)
    assert lost(entry(4), sent) == [("overtaken", 4)]
    assert lost(entry(6), sent) == []
    assert lost(entry(4, queued=False), sent) == []
    assert lost(entry(4, first_sent=10, resumed=20), sent) == [("not-resent", 4)]
    assert lost(entry(4, first_sent=10, resumed=60), sent) == []
    assert lost(entry(4), entry(5)) == []


def test_what_the_depth_of_a_queue_says() -> None:
    """It counts if it is younger than the last entry of the queue. The oldest are named."""
    waiting = [entry(3), entry(1), entry(2), entry(9, queued=False)]

    def gone(depth: tuple[int, int], queued: int = 5) -> list[int]:
        judged = [*judge_queue(queue_order(waiting), depth, queued)]
        assert len(judged) == len(waiting)
        found = [each.subject.message for each in judged if isinstance(each, Finding)]
        return sorted(each[2] for each in found if each)

    assert gone((6, 1)) == [1, 2]
    assert gone((6, 3)) == gone((6, 4)) == gone((5, 0)) == gone((-1, 0), -1) == []


def test_a_finding_names_the_rows_that_prove_it() -> None:
    log = Log()
    log.subscriber()
    mid = log.accept()
    log.route(mid)
    log.ack(mid)
    (found,) = findings(log)
    assert found.subject.message == mid and proof(found, log) == ["pub.recv", "pub.ack"]


@pytest.mark.parametrize("mountpoint", ["", "m"])
def test_only_subscriptions_of_the_mountpoint_are_owed(mountpoint: str) -> None:
    """The publisher's connection has the mountpoint."""
    log = Log()
    log.subscriber()
    log.say("conn.open", client="tx", conn=50, mountpoint=mountpoint)
    log.ack(log.accept(conn=50))
    assert kinds(log) == ([] if mountpoint else [("A1", "stale-route")])


def test_a_group_is_owed_once() -> None:
    """Any member will do, and a member that has unsubscribed or not yet subscribed is none."""
    log = Log()
    for client in ("one", "two"):
        log.subscriber(client, "$share/g/t/#", expiry_s=60)
    mid = log.accept()
    log.route(mid, "two")
    log.ack(mid)
    assert kinds(log) == []
    for client in ("two", "one"):
        log.say("sub.del", client=client, filter="$share/g/t/#")
        log.say("unsub.ack", client=client, filters=["$share/g/t/#"], codes=["0"])
    log.ack(log.accept())
    assert kinds(log) == []
    log.subscribe("one", "$share/g/t/#")
    mid = log.accept()
    log.route(mid, "two")
    log.ack(mid)
    assert kinds(log) == [("A1", "stale-route")]
    log.say("q.drop", client="$share/g/t/#", topic="t/1", reason="no_member", mid=mid)
    assert kinds(log) == []


@pytest.mark.parametrize("group", ["g", "h", ""])
def test_a_member_that_joins_its_group_while_the_message_is_on_its_way_may_get_it(group: str) -> None:
    """It had the filter later than the message was accepted. What it gets for another group, or for none, is another
    copy."""
    log = Log()
    log.subscriber("one", "$share/g/t/#", expiry_s=60)
    mid = log.accept()
    log.subscriber("two", "$share/g/t/#", expiry_s=60)
    log.say("q.enq", mid=mid, client="two", group=f"$share/{group}/t/#" if group else None)
    log.say("q.durable", mid=mid, client="two")
    log.ack(mid)
    assert (("A1", "stale-route") in kinds(log)) is (group != "g")


@pytest.mark.parametrize(("clean", "away", "lost"), [(True, True, False), (True, False, True), (False, True, True)])
def test_a_clean_member_out_of_the_view_is_owed_nothing(clean: bool, away: bool, lost: bool) -> None:
    a, b = two_nodes()
    b.subscriber(filter="$share/g/t/#", expiry_s=0 if clean else 60)
    if away:
        a.say("mem.down", target="b")
    a.ack(a.accept())
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is lost


@pytest.mark.parametrize("before", [True, False])
def test_a_session_that_subscribed_in_the_split_is_not_owed_a_message_of_the_other_side(before: bool) -> None:
    """The node accepts the message without a lease, and gets one before the acknowledgement leaves."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    b.connect("rx", expiry_s=60)
    if before:
        b.subscribe()
    split(a)
    a.say("lease.lose", view=1)
    if not before:
        b.subscribe()
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[])
    a.say("lease.get", view=2)
    split(a, healed_ms=2, split_ms=1)
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is before


@pytest.mark.parametrize(
    ("subscribes", "back", "lost"), [("before", False, True), ("away", False, False), ("away", True, True)]
)
def test_a_node_that_stood_still_learns_late_of_thesplit(subscribes: str, back: bool, lost: bool) -> None:
    """The session subscribes before its node puts the other one out of its view, or after. `back`: it is in the view
    again when it accepts the message, so its own word counts."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    b.connect("rx", expiry_s=60)
    if subscribes == "before":
        b.subscribe()
    b.say("mem.down", target="a", view=2)
    if subscribes == "away":
        b.subscribe()
    if back:
        b.say("mem.up", target="a", view=3)
    a.say("lease.lose", view=1)
    split(a)
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[])
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    split(a, healed_ms=2, split_ms=1)
    a.say("lease.get", view=3)
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is lost


@pytest.mark.parametrize(
    ("how", "lost"), [("", False), ("waits for the node", True), ("lives", True), ("not moving", True)]
)
def test_a_message_for_a_slot_on_its_way_dies_with_its_node(how: str, lost: bool) -> None:
    """3 nodes, moves, seed 26300111: the session is at no node, and the origin has no lease when it accepts the
    message. It keeps the message in memory until the slot has arrived at the next node. `waits for the node`: the
    acknowledgement waits for that node, which has the message then."""
    a = Log("a")
    a.say("lease.get", view=1)
    a.subscriber(expiry_s=60)
    if how != "not moving":
        a.say("slot.move", slot=slot_of("", "rx"), target="b")
    a.say("lease.lose", view=1)
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[], nodes=["(moving)"])
    a.say("lease.get", view=2)
    a.say("pub.ack", mid=mid, client="tx", right="lease" if how == "waits for the node" else "policy")
    if how != "lives":
        a.say("fault.kill", nodes=["a"])
    assert (("A1", "stale-route") in kinds(a)) is lost


@pytest.mark.parametrize("again", [True, False])
def test_a_subscription_that_ends_before_the_acknowledgement_is_owed_nothing(again: bool) -> None:
    """The message had not arrived. A subscription that is replaced goes on."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=[])
    if again:
        log.subscribe(qos=1)
        log.subscribe()
    else:
        log.say("sub.del", client="rx", filter="t/#")
        log.subscribe()
    log.ack(mid)
    assert (("A1", "stale-route") in kinds(log)) is again


@pytest.mark.parametrize("end", ["q.expire", "q.drop", "q.enq", ""])
def test_a_member_from_before_the_log_whose_slot_has_another_node_now(end: str) -> None:
    """That node sends the message to the member, or drops it. If it says nothing of the message, that is lost."""
    a, b = two_nodes()
    a.connect("rx", present=True, expiry_s=60)
    a.subscribe(filter="$share/g/t/#")
    b.say("slot.arrive", slot=slot_of("", "rx"))
    mid = b.accept()
    b.say("pub.route", mid=mid, targets=[])
    if end:
        b.say(end, mid=mid, client="rx", **({"reason": "queue_full"} if end == "q.drop" else {}))
    b.ack(mid)
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is not bool(end)


@pytest.mark.parametrize("leased", [True, False])
def test_a_session_that_subscribed_at_a_node_before_it_joined_is_unknown_to_the_others(leased: bool) -> None:
    """The node of the subscriber has had no lease since its start, or it has one."""
    a, b = two_nodes()
    if leased:
        b.say("lease.get", view=1)
    b.subscriber("rx")
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[])
    a.ack(mid)
    b.say("lease.get", view=2)
    a.rows += b.rows
    assert [each.subject.message for each in findings(a) if each.anomaly == "A1"] == [mid] * leased


@pytest.mark.parametrize("before", [True, False])
def test_a_session_that_subscribed_at_a_node_without_a_lease_is_unknown_to_the_others(before: bool) -> None:
    a, b = two_nodes()
    b.connect("rx", expiry_s=60)
    if before:
        b.subscribe()
    split(b)
    if not before:
        b.subscribe()
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[])
    a.ack(mid)
    split(b, healed_ms=2, split_ms=1)
    late = a.accept()
    a.say("pub.route", mid=late, targets=[])
    a.ack(late)
    a.rows += b.rows
    lost = [each.subject.message for each in findings(a) if each.anomaly == "A1"]
    assert lost == [*[mid] * before, late]


@pytest.mark.parametrize("dies", [True, False])
def test_a_clean_session_ends_with_its_node_although_its_slot_moves_later(dies: bool) -> None:
    """The log has no row for that end. The next primary does not go on with it."""
    a, b = two_nodes()
    a.connect("rx", will=True)
    a.subscribe()
    if dies:
        a.say("fault.kill", nodes=["a"])
    mid = b.accept()
    b.say("pub.route", mid=mid, targets=[])
    b.ack(mid)
    b.say("slot.arrive", slot=slot_of("", "rx"))
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is not dies


@pytest.mark.parametrize("ends", ["before the kill", "before the answer", "never"])
def test_a_subscription_ends_before_a_message_that_a_kill_took_is_routed_again(ends: str) -> None:
    """Its publisher repeats it after the kill, and gets the acknowledgement then."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept(qos=2)
    log.route(mid, "rx", durable=False)
    if ends == "before the kill":
        log.say("sub.del", client="rx", filter="t/#")
    log.boot()
    if ends == "before the answer":
        log.say("sub.del", client="rx", filter="t/#")
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)
    assert (("A1", "queue") in kinds(log)) is (ends == "never")


def test_a_session_at_the_next_primary_is_not_that_of_an_unanswered_connect_elsewhere() -> None:
    """That CONNECT left a will behind, which goes with the slot."""
    a, b = two_nodes()
    b.say("will.arm", client="rx", topic="will")
    b.boot()
    a.connect("rx", will=True)
    a.subscribe()
    a.say("slot.arrive", slot=slot_of("", "rx"))
    mid = a.accept()
    a.route(mid, "rx", durable=False)
    a.send(mid)
    a.ack(mid)
    a.got(mid)
    a.rows += b.rows
    assert "A1" not in [kind for kind, _ in kinds(a)]


@pytest.mark.parametrize(
    ("closed", "lost"),
    [("clean", False), ("late", True), ("durable", True), ("", True), ("former", True), ("unnumbered", True)],
)
def test_a_clean_session_ends_with_its_connection(closed: str, lost: bool) -> None:
    """Its slot moves with the will alone. If the next primary loses its disk then, the log has no row for the end of
    the session. `late`: it ends after the acknowledgement. `former`: the end is that of a connection before."""
    log = Log()
    former = closed in ("former", "unnumbered")
    if former:
        log.connect("rx", will=True)
    ended = log.conn("rx")
    log.connect("rx", will=True, expiry_s=60 if closed == "durable" else 0)
    if not former:
        ended = log.conn("rx")
    log.subscribe()
    mid = log.accept()
    if closed == "late":
        log.ack(mid)
    if closed:
        log.say("conn.close", client="rx", conn=ended, reason="moved")
    log.say("slot.moved", slot=slot_of("", "rx"), target="b", sessions=1, bytes=0)
    if closed != "late":
        log.ack(mid)
    if closed == "unnumbered":
        for row in log.rows:
            row.pop("conn", None)
    assert (("A1", "stale-route") in kinds(log)) is lost


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("expiry_s", [0, 60])
def test_a_clean_session_comes_back_for_its_will_alone(expiry_s: int, taken: bool) -> None:
    """A node without a lease has ended it, and the next primary may have it still. A durable one comes back whole. If
    the node still has the slot when it gets a lease again, it has ended both for good."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    a.connect("rx", will=True, expiry_s=expiry_s)
    a.subscribe()
    a.say("lease.lose", view=1)
    a.say("conn.close", client="rx", reason="peer_closed")
    a.say("sess.end", client="rx", reason="disconnected")
    if taken:
        a.say("slot.taken", slot=slot_of("", "rx"), target="b")
    a.say("lease.get", view=1)
    a.ack(a.accept())
    b.say("slot.arrive", slot=slot_of("", "rx"))
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is (expiry_s > 0 and taken)


@pytest.mark.parametrize("sent", [True, False])
def test_a_clean_session_stays_at_its_node_when_that_loses_the_slot(sent: bool) -> None:
    """The client is connected to that node, which sends it the message. If the node does not, the message is lost."""
    a, b = two_nodes()
    slot = slot_of("", "rx")
    a.subscriber()
    a.say("fault.kill", nodes=["a"])
    b.say("slot.arrive", slot=slot)
    b.subscriber()
    a.boot()
    a.say("slot.arrive", slot=slot)
    b.say("slot.taken", slot=slot, target="a")
    mid = b.accept()
    if sent:
        b.route(mid, "rx", durable=False)
        b.send(mid)
        b.got(mid)
    b.ack(mid)
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is not sent


def _forwarded(a: Log, b: Log, mid: tuple[str, int, int]) -> None:
    a.say("fwd.send", mid=mid, target=b.node, topic="t/1")
    b.say("fwd.recv", mid=mid, source="a", topic="t/1")


def _comes_back(log: Log, has_it: bool) -> None:
    """The client of the session connects again. Its queue has the message, or is empty."""
    log.connect("rx", present=True, expiry_s=60)
    log.say("q.depth", client="rx", count=int(has_it))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("it told so when it was back", []),
        ("it got it again", []),
        ("it got it again, for another", ["queue"]),
        ("it got it again, and did not answer", ["queue"]),
        ("it answered before", ["queue"]),
        ("its client is back", []),
        ("its client is back, without it", ["gone"]),
        ("its client gets a later one", ["overtaken"]),
    ],
)
def test_a_kill_before_the_log_calls_a_queue_safe(how: str, lost: list[str], qos: int) -> None:
    """The disk may have the message. Then the node says so after its start, and does not give it to anybody again."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    mid = a.accept(qos=qos)
    _forwarded(a, b, mid)
    b.route(mid, "rx", durable=False)
    if how == "it answered before":
        a.say("fwd.ack", mid=mid, target="b")
    b.boot()
    if "again" in how:
        _forwarded(a, b, mid)
    if "another" in how:
        b.route(mid, "another")
    if "answer" not in how:
        a.say("fwd.ack", mid=mid, target="b")
    a.ack(mid)
    if "back" in how:
        b.connect("rx", present=True, expiry_s=60)
        b.say("q.depth", client="rx", count=0 if "without" in how else 1)
    if "later" in how:
        later = a.accept(qos=qos)
        _forwarded(a, b, later)
        b.route(later, "rx")
        a.ack(later)
        b.send(later, packet_id=7)
    a.rows += b.rows
    assert [each.kind for each in findings(a) if each.anomaly == "A1"] == lost


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("", []),
        ("clean at another node", []),
        ("given to a lasting session", ["queue"]),
        ("given to a lasting session elsewhere", []),
        ("continued elsewhere", ["queue"]),
        ("continued before", ["queue"]),
        ("answered before", ["queue"]),
        ("its client is back", []),
        ("its client is back, without it", ["gone"]),
    ],
)
def test_a_node_continues_a_handshake_after_a_kill(how: str, lost: list[str]) -> None:
    """It gives the message to a clean session, which the kill has ended, and which is there again. Its disk has the
    message for the session that had it before."""
    a, b = two_nodes()
    a.subscriber("other", "u", expiry_s=60)
    b.subscriber(expiry_s=60)
    b.subscriber("lasting", "u", expiry_s=60)
    mid = a.accept(qos=2)
    _forwarded(a, b, mid)
    b.route(mid, "rx", durable=False)
    heir = a if how == "continued elsewhere" else b

    def again() -> None:
        heir.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2)

    if how == "continued before":
        again()
    if how == "answered before":
        b.ack(mid)
    b.boot()
    live = a if how == "clean at another node" else b
    live.subscriber("live", "u")
    if how != "continued before":
        again()
    live.route(mid, "live", durable=False)
    if how == "given to a lasting session":
        b.route(mid, "lasting")
    if how == "given to a lasting session elsewhere":
        a.route(mid, "other")
    heir.ack(mid)
    if "back" in how:
        _comes_back(b, "without" not in how)
    a.rows += b.rows
    assert [each.kind for each in findings(a) if each.anomaly == "A1"] == lost


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("arrives", "answers", "lost"),
    [
        *[("c", "c", False), ("c", "b", True), ("", "c", True), ("", "b", False), ("later", "c", True)],
        *[("before the kill", "c", False), ("before the kill", "b", True)],
    ],
)
def test_a_kill_and_the_next_primary_that_has_a_copy_of_the_queue(
    arrives: str, answers: str, lost: bool, qos: int
) -> None:
    """The answer of the node with the session counts, from the time when it has it (3 nodes, copies, seed 15200080)."""
    a, b = two_nodes()
    c = Log("c")
    c._now = a._now
    logs = {"b": b, "c": c}
    b.subscriber(expiry_s=60)
    mid = a.accept(qos=qos)
    _forwarded(a, c, mid)
    c.route(mid, "another")
    _forwarded(a, b, mid)
    b.route(mid, "rx", durable=False)
    if arrives != "before the kill":
        b.boot()
    if arrives in ("c", "before the kill"):
        c.say("slot.arrive", slot=slot_of("", "rx"))
    _forwarded(a, logs[answers], mid)
    a.say("fwd.ack", mid=mid, target=answers)
    if arrives == "later":
        c.say("slot.arrive", slot=slot_of("", "rx"))
    a.ack(mid)
    if arrives == "before the kill":
        b.boot()
    a.rows += [*b.rows, *c.rows]
    found = [each for each in findings(a) if each.anomaly == "A1" and each.subject.client == "rx"]
    assert [each.kind for each in found] == ["queue"] * lost


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("", []),
        ("given to a lasting session", ["queue"]),
        ("the killed node answered", ["queue"]),
        ("answered before", ["queue"]),
        ("the slot is elsewhere", ["queue"]),
        ("its client is back", []),
        ("its client is back, without it", ["gone"]),
    ],
)
def test_the_origin_has_a_copy_of_the_queue_of_a_killed_node(how: str, lost: list[str], qos: int) -> None:
    """It gets the slot, and has waited for the answer of the killed node: it sends the message to itself."""
    a, b = two_nodes()
    a.subscriber("lasting", "u", expiry_s=60)
    b.subscriber(expiry_s=60)
    mid = a.accept(qos=qos)
    _forwarded(a, b, mid)
    b.route(mid, "rx", durable=False)
    if how == "the killed node answered":
        a.say("fwd.ack", mid=mid, target="b")
    if how == "answered before":
        a.ack(mid)
    b.boot()
    if "elsewhere" not in how:
        a.say("slot.arrive", slot=slot_of("", "rx"))
    if "given" in how:
        a.route(mid, "lasting")
    a.ack(mid)
    if "back" in how:
        _comes_back(a, "without" not in how)
    a.rows += b.rows
    assert [each.kind for each in findings(a) if each.anomaly == "A1"] == lost


@pytest.mark.parametrize(
    ("lost", "resumed", "sure"), [("before", "", True), ("then", "", False), ("then", "again", True), ("", "", True)]
)
def test_a_session_in_a_slot_that_lost_changes_may_be_gone(lost: str, resumed: str, sure: bool) -> None:
    """If its client has had it since then, it is there."""
    log = Log()
    slots = {"count": 256, "slots": ["0-255"], "nodes": ["b"], "reason": "power_loss", "view": 3}
    for when in ("before", "then"):
        if lost == when:
            log.say("slot.loss_possible", target="b", **slots)
        if when == "before":
            log.subscriber(expiry_s=60)
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)
    if resumed:
        log.connect("rx", present=True, expiry_s=60)
    assert [(each.kind, each.sure) for each in findings(log) if each.anomaly == "A1"] == [("stale-route", sure)]
