"""A14: wills. More cases are in tests/testing/log_audit."""

from __future__ import annotations

from itertools import count

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import NODE, Log, two_nodes
from .found import findings, kinds, proof

STATS = {"connects": 1, "publishes": 0, "deliveries": 0, "drops": {}}


def test_a_will_that_is_lost_twice_is_two_findings() -> None:
    """Each names the row of the will and the row that made it due."""
    log = Log()
    for _ in range(2):
        log.connect("tx", will=True)
        log.say("conn.close", client="tx", reason="peer_closed")
        log.say("sess.end", client="tx", reason="disconnected")
    found = findings(log)
    assert [each.kind for each in found] == ["lost", "lost"] and found[0].id != found[1].id
    assert proof(found[0], log) == ["will.arm", "sess.end"]


def test_a_will_that_fires_again_after_a_connection_without_one() -> None:
    log = Log()
    log.connect("tx", will=True)
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    log.connect("tx", present=True)
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 51))
    assert kinds(log) == [("A14", "dup")]


def test_a_log_that_begins_later_may_lack_the_will() -> None:
    log = Log()
    log.boot()
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 2, 50))
    log.rows[:] = [row for row in log.rows if row["boot"] > 1]
    assert kinds(log) == []


def test_a_kill_before_connack_may_take_the_will() -> None:
    """It was perhaps not on the disk. A connection with a CONNACK has its will safe."""
    for answered in (False, True):
        log = Log()
        if answered:
            log.connect("tx", will=True, expiry_s=60)
        else:
            log.say("will.arm", client="tx", topic="will")
        log.boot()
        log.connect("tx", present=answered, will=True)
        assert kinds(log) == ([("A14", "lost")] if answered else [])


def test_a_will_without_connack_is_published_as_every_other() -> None:
    """It is no will without a connection, and its node must publish or drop it."""
    log = Log()
    log.say("will.arm", client="tx", topic="will")
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    log.say("will.arm", client="tx", topic="will")
    assert kinds(log) == []
    log.connect("tx", will=True)
    assert kinds(log) == [("A14", "lost")]


def test_older_logs_have_the_will_behind_its_connection() -> None:
    """There a kill in between does not excuse the will: its client had the CONNACK."""
    log = Log()
    for _ in range(2):
        log.connect("tx")
        log.say("will.arm", client="tx", topic="will")
        log.boot()
    rows = [{**row, "v": 6} for row in log.rows]
    assert [(each.anomaly, each.kind) for each in judge(rows).findings] == [("A14", "lost")]


def pair(client: str = "tx") -> tuple[Log, Log]:
    """Node `a` has a client with a will, and node `b` takes over its slot; their rows have one clock."""
    a, b = two_nodes()
    a.connect(client, will=True, expiry_s=60)
    a.say("conn.close", client=client, reason="peer_closed")
    return a, b


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("last", ["will.fire", "will.cancel"])
def test_the_next_primary_publishes_what_the_former_one_did_not_get_safe(last: str, taken: bool) -> None:
    """The former one was cut off, and its record did not reach the copy. An orderly move takes all records along."""
    a, b = pair()
    slot = slot_of("", "tx")
    fields = {"mid": ("a", 1, 50)} if last == "will.fire" else {"reason": "resumed"}
    a.say(last, client="tx", topic="will", **fields)
    b.say("slot.arrive", slot=slot)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    if taken:
        a.say("slot.taken", slot=slot, target="b")
    else:
        a.say("slot.moved", slot=slot, target="b", sessions=1, bytes=0)
    a.rows += b.rows
    kind = "dup" if last == "will.fire" else "spurious"
    assert kinds(a) == ([] if taken else [("A14", kind)])


def test_a_published_will_that_was_safe_in_a_queue_is_not_published_again() -> None:
    a, b = pair()
    slot = slot_of("", "tx")
    a.say("will.fire", client="tx", topic="will", mid=("a", 1, 50))
    a.say("q.durable", mid=("a", 1, 50), client="watch")
    b.say("slot.arrive", slot=slot)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    a.say("slot.taken", slot=slot, target="b")
    a.rows += b.rows
    assert kinds(a) == [("A14", "dup")]


@pytest.mark.parametrize("taken", [True, False])
def test_the_next_primary_publishes_the_will_of_a_session_that_had_ended(taken: bool) -> None:
    """The former one had published it, ended the session, and lost the slot before its copy knew of that."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    a.connect("tx", will=True)
    a.say("will.fire", client="tx", topic="will", mid=("a", 1, 50))
    a.say("sess.end", client="tx", reason="disconnected")
    b.say("slot.arrive", slot=slot)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    if taken:
        a.say("slot.taken", slot=slot, target="b")
    a.rows += b.rows
    assert kinds(a) == ([] if taken else [("A14", "spurious")])


@pytest.mark.parametrize("joins", [True, False])
def test_a_node_with_an_empty_disk_has_no_will_from_before(joins: bool) -> None:
    log = Log()
    log.connect("tx", will=True, expiry_s=60)
    log.boot()
    if joins:
        log.say("node.join", old="cluster-of-it")
    log.connect("tx", will=True)
    assert ("A14", "lost") not in kinds(log) if joins else ("A14", "lost") in kinds(log)


@pytest.mark.parametrize(
    ("leased", "later_ms", "gone"), [(True, 0, True), (False, 60_000, True), (True, 60_000, False)]
)
def test_a_will_that_went_with_its_disk_is_not_published_later(leased: bool, later_ms: int, gone: bool) -> None:
    """It had just become due, or waited for a lease, when the disk was given up. The next will is another one."""
    log = Log()
    log.say("lease.get", view=1)
    if not leased:
        log.say("lease.lose", view=1)
    log.connect("tx", will=True, expiry_s=60)
    log.say("conn.close", client="tx", reason="peer_closed")
    log.say("sess.expire", client="tx")
    log._now = count(next(log._now) + later_ms)
    log.say("slot.lost", target=NODE, count=256, slots=["0-255"], view=2)
    log.boot()
    log.say("lease.get", view=3)
    log.connect("tx", will=True)
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 2, 50))
    log.say("sess.end", client="tx", reason="disconnected")
    log._now = count(next(log._now) + 60_000)
    log.say("lease.lose", view=3)
    assert kinds(log) == ([] if gone else [("A14", "lost")])


def moved(how: str) -> tuple[Log, Log]:
    """Node `a` has a will that is due, and does not know whether the gateway lives; then node `b` has its slot."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="session_taken_over")
    a.say("sess.end", client="tx", reason="disconnected")
    slot = slot_of("", "tx")
    if how == "moved":
        a.say("slot.moved", slot=slot, target="b", sessions=1, bytes=0)
    elif how == "killed":
        a.say("fault.kill", nodes=["a"])
    b.say("slot.arrive", slot=slot)
    return a, b


@pytest.mark.parametrize("how", ["moved", "taken", "killed", ""])
@pytest.mark.parametrize("end", ["will.fire", "will.cancel"])
def test_a_will_in_doubt_goes_with_its_slot(how: str, end: str) -> None:
    """The next primary publishes or drops it. It is no will of a node that has never lost the slot."""
    a, b = moved(how)
    fields = {"mid": ("b", 1, 50)} if end == "will.fire" else {"reason": "gateway_lost"}
    b.say(end, client="tx", topic="will", **fields)
    if how == "taken":
        a.say("slot.taken", slot=slot_of("", "tx"), target="b")
    a.rows += b.rows
    spurious = [("A14", "spurious")] * (end == "will.fire")
    assert sorted(kinds(a)) == ([] if how else [("A14", "lost"), *spurious])


def test_a_will_in_doubt_is_published_once() -> None:
    a, b = moved("moved")
    for number in (50, 51):
        b.say("will.fire", client="tx", topic="will", mid=("b", 1, number))
    a.rows += b.rows
    assert kinds(a) == [("A14", "spurious")]


def test_a_will_that_went_with_its_slot_may_be_lost_there() -> None:
    """The logs of all nodes must go far enough to tell that."""
    a, b = moved("moved")
    a.rows += b.rows
    assert kinds(a) == [("A14", "lost")]
    a._now = b._now = count(next(a._now) + 60_000)
    a.say("node.stats", connects=1, publishes=0, deliveries=0, drops={})
    assert judge(a.rows, complete=False).findings == []
    b.say("node.stats", connects=1, publishes=0, deliveries=0, drops={})
    a.rows.append(b.rows[-1])
    assert [each.kind for each in judge(a.rows, complete=False).findings] == ["lost"]


def test_only_a_will_that_is_due_is_dropped_for_its_gateway() -> None:
    """The next connection has another will, which stays."""
    a, b = moved("moved")
    b.connect("tx", will=True)
    b.say("will.cancel", client="tx", topic="will", reason="gateway_lost")
    b.say("sess.end", client="tx", reason="disconnected")
    a.rows += b.rows
    assert kinds(a) == [("A14", "lost")]


@pytest.mark.parametrize(("when", "kind", "sure"), [(0, "dup", False), (1, "dup", True), (1, "lost", False)])
def test_a_slot_that_may_have_lost_changes_may_have_lost_a_will(when: int, kind: str, sure: bool) -> None:
    """A will that is due may be lost later, too."""
    log = Log()
    log.connect("tx", will=True)
    if kind == "dup":
        log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    slots = {"count": 256, "slots": ["0-255"], "nodes": ["b"], "reason": "power_loss", "view": 3}
    if when == 0:
        log.say("slot.loss_possible", target="b", **slots)
    if kind == "dup":
        log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 51))
    else:
        log.say("sess.end", client="tx", reason="disconnected")
    if when == 1:
        log.say("slot.loss_possible", target="b", **slots)
    assert [(each.kind, each.sure) for each in findings(log)] == [(kind, sure)]


@pytest.mark.parametrize("published", [True, False])
def test_a_will_is_not_gone_before_its_disk(published: bool) -> None:
    """It waited for a lease, and was published before the node joined once more, with an empty disk."""
    log = Log()
    log.say("lease.lose", view=1)
    log.connect("tx", will=True)
    log.say("sess.end", client="tx", reason="disconnected")
    log.connect("tx", will=True)
    log.say("lease.get", view=2)
    if published:
        log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 51))
    log.say("sess.end", client="tx", reason="disconnected")
    log.boot()
    log.say("node.join", old="cluster-of-it")
    assert kinds(log) == []


@pytest.mark.parametrize("taken", [True, False])
def test_the_next_primary_drops_the_wills_of_a_client_that_has_come_back(taken: bool) -> None:
    """A node that is cut off has let it take its connection over, and cannot publish the will of the former one."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="session_taken_over")
    a.say("sess.end", client="tx", reason="disconnected")
    a.say("will.arm", client="tx", topic="will")
    b.say("slot.arrive", slot=slot)
    b.say("will.cancel", client="tx", topic="will", reason="resumed")
    if taken:
        a.say("slot.taken", slot=slot, target="b")
    a.rows += b.rows
    assert (("A14", "lost") in kinds(a)) is not taken


@pytest.mark.parametrize("how", ["arrives", "late", "never"])
def test_the_next_primary_publishes_a_will_before_it_says_that_the_slot_has_arrived(how: str) -> None:
    """It may do so shortly before. A will that it publishes long before, or without the slot, is a finding."""
    a, b = pair()
    slot = slot_of("", "tx")
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    if how == "late":
        a._now = b._now = count(next(a._now) + 1_000)
    if how != "never":
        b.say("slot.arrive", slot=slot)
    a.rows += b.rows
    assert kinds(a) == [("A14", "spurious")] * (how in ("late", "never"))


def test_a_will_of_the_next_primary_itself_is_not_that_which_comes_with_the_slot() -> None:
    """It publishes both, one before the slot arrives and one after that."""
    a, b = two_nodes()
    for log in (b, a):
        log.connect("tx", will=True)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    b.say("slot.arrive", slot=slot_of("", "tx"))
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 51))
    a.rows += b.rows
    assert kinds(a) == []


def test_a_will_that_comes_before_its_slot_is_published_once() -> None:
    a, b = pair()
    for counter in (50, 51):
        b.say("will.fire", client="tx", topic="will", mid=("b", 1, counter))
    b.say("slot.arrive", slot=slot_of("", "tx"))
    a.rows += b.rows
    assert ("A14", "spurious") in kinds(a)


@pytest.mark.parametrize("moves", ["before", "after", ""])
def test_a_will_that_has_left_an_emptied_disk_is_not_gone(moves: str) -> None:
    """Its session had gone to the next primary, which publishes it. That is not the will of another connection."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    a.boot()
    for when in ("before", "after"):
        if moves == when:
            b.say("slot.arrive", slot=slot_of("", "tx"))
        if when == "before":
            a.say("node.join", old="cluster-of-a")
    a.connect("tx", will=True)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    a.say("conn.close", client="tx", reason="peer closed")
    a.say("will.fire", client="tx", topic="will", mid=("a", 2, 50))
    a.rows += b.rows
    kind = {"before": [], "after": ["dup"], "": ["spurious"]}[moves]
    assert kinds(a) == [("A14", each) for each in kind]


def back(how: str) -> tuple[Log, Log]:
    """Node `a` has a will in doubt, and that of the next connection. Then node `b` has the slot, and the client is back
    there: `b` drops one will."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="session_taken_over")
    a.say("sess.end", client="tx", reason="disconnected")
    a.connect("tx", will=True)
    if how == "moved":
        a.say("slot.moved", slot=slot, target="b", sessions=1, bytes=0)
    b.say("slot.arrive", slot=slot)
    b.say("will.cancel", client="tx", topic="will", reason="resumed")
    if how == "taken":
        a.say("slot.taken", slot=slot, target="b")
    b.connect("tx", will=True)
    return a, b


@pytest.mark.parametrize(("how", "published", "kind"), [
    ("moved", 0, "lost"), ("moved", 1, ""), ("moved", 2, "dup"),
    ("taken", 0, ""), ("taken", 1, ""), ("taken", 2, "dup"),
])  # fmt: skip
def test_a_will_in_doubt_outlives_that_which_the_next_primary_drops(how: str, published: int, kind: str) -> None:
    """The copy of a node that was cut off may have had it as the will that was dropped. `published`: wills beside that
    of the last connection."""
    a, b = back(how)
    for number in range(published):
        b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50 + number))
    b.say("conn.close", client="tx", reason="peer closed")
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 60))
    b.say("sess.end", client="tx", reason="disconnected")
    a.rows += b.rows
    assert kinds(a) == [("A14", kind)] * bool(kind)


def test_a_will_in_doubt_is_not_that_of_the_present_connection() -> None:
    """The next primary publishes the former one, and loses the will of the connection."""
    a, b = back("taken")
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    b.say("sess.end", client="tx", reason="disconnected")
    a.rows += b.rows
    assert kinds(a) == [("A14", "lost")]


@pytest.mark.parametrize("dropped", [1, 2])
def test_a_will_in_doubt_is_dropped_beside_the_present_connection(dropped: int) -> None:
    a, b = back("taken")
    for _ in range(dropped):
        b.say("will.cancel", client="tx", topic="will", reason="gateway_lost")
    b.say("conn.close", client="tx", reason="peer closed")
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    a.rows += b.rows
    assert kinds(a) == [("A14", "spurious")] * (dropped == 2)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("answered", [True, False])
def test_a_node_that_stands_still_says_late_that_it_has_lost_a_will(answered: bool, taken: bool) -> None:
    """Its client had no CONNACK, and the next primary not the will."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    if answered:
        a.connect("tx", will=True, expiry_s=60)
    else:
        a.connect("tx", expiry_s=60)
        a.say("conn.close", client="tx", reason="peer closed")
        a.say("will.arm", client="tx", topic="will")
    b.say("slot.arrive", slot=slot)
    b.connect("tx", present=True, will=True, expiry_s=60)
    if taken:
        a.say("slot.taken", slot=slot, target="b")
    a.rows += b.rows
    assert kinds(a) == [("A14", "lost")] * (answered or not taken)


@pytest.mark.parametrize("how", ["left", "late", "stays", "returns", "moved"])
def test_a_node_out_of_the_view_loses_a_slot_without_sessions(how: str) -> None:
    """Only the next primary says so. Its copy lacks the end of a will."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    b.say("mem.up", target="a", view=1)
    a.say("will.arm", client="tx", topic="will")
    a.say("will.cancel", client="tx", topic="will", reason="disconnected")
    if how == "moved":
        a.say("slot.moved", slot=slot, target="b", sessions=0, bytes=0)
    if how != "stays":
        b.say("mem.down", target="a", view=2)
    if how == "returns":
        b.say("mem.up", target="a", view=3)
    if how != "late":
        b.say("slot.arrive", slot=slot)
    b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    if how == "late":
        a._now = b._now = count(next(a._now) + 1_000)
        b.say("slot.arrive", slot=slot)
    a.rows += b.rows
    assert kinds(a) == [("A14", "spurious")] * (how != "left")


@pytest.mark.parametrize("later", ["sess.end", "sess.expire", "conn.open"])
def test_the_will_that_is_lost_is_the_one_that_was_due_before(later: str) -> None:
    """A will that is published just before the end of its session is that of this session. Else the oldest one is."""
    log = Log()
    log.connect("tx", will=True)
    log.say("conn.close", client="tx", reason="session_taken_over")
    log.say("sess.end", client="tx", reason="disconnected")
    first = log.rows[-1]["seq"]
    log.connect("tx", will=True)
    log.say("conn.close", client="tx", reason="peer closed")
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    if later == "conn.open":
        log.connect("other")
    if later == "sess.expire":
        log.say("sess.expire", client="tx")
    else:
        log.say("sess.end", client="tx", reason="disconnected")
    found = findings(log)
    assert [each.kind for each in found] == ["lost"]
    assert (found[0].rows[-1][2] == first) is (later != "conn.open")


@pytest.mark.parametrize(
    ("times_ms", "lost"),
    [([5_000, 5_000], False), ([5_000, 7_000], True), ([7_000, 1_000], True)],
)
@pytest.mark.parametrize("ends", [True, False])
def test_a_will_in_doubt_waits_for_a_lasting_lease(times_ms: list[int], ends: bool, lost: bool) -> None:
    """Its node decides when it has had a lease for 5 s. `times_ms`: how long it has one, several times."""
    log = Log()
    log.say("lease.get", view=1)
    log.connect("tx", will=True)
    log.say("sess.end", client="tx", reason="disconnected")
    log.say("lease.lose", view=1)
    for number, duration in enumerate(times_ms):
        if number:
            log.say("lease.lose", view=number)
        log.say("lease.get", view=1 + number)
        log._now = count(next(log._now) + duration)
    log.say("lease.lose" if ends else "node.stats", **({"view": 9} if ends else STATS))
    assert kinds(log) == [("A14", "lost")] * lost


@pytest.mark.parametrize("there", [True, False])
def test_a_will_in_doubt_waits_where_its_slot_is(there: bool) -> None:
    """A former primary has a lease for a long time, and the next one for a moment, or the other way round."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    for log in (a, b):
        log.say("lease.get", view=1)
    a.connect("tx", will=True)
    a.say("sess.end", client="tx", reason="disconnected")
    b.say("lease.lose", view=1)
    a.say("slot.moved", slot=slot, target="b", sessions=0, bytes=0)
    b.say("slot.arrive", slot=slot)
    a.say("lease.lose", view=1)
    for log, duration in ((a, 1_000), (b, 60_000)) if there else ((b, 1_000), (a, 60_000)):
        log.say("lease.get", view=2)
        log._now = count(next(log._now) + duration)
        a._now = b._now = log._now
        log.say("lease.lose", view=2)
    a.rows += b.rows
    assert kinds(a) == [("A14", "lost")] * there


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("", []),
        ("ends before CONNACK", []),
        ("was safe", ["dup"]),
        ("no kill", ["dup"]),
        ("once more", ["dup"]),
        ("ends before CONNACK, once more", ["dup"]),
        ("connection without a will", ["dup"]),
        ("had its CONNACK", ["dup"]),
    ],
)
def test_a_kill_undoes_a_will_that_is_published_again_while_the_client_connects(how: str, found: list[str]) -> None:
    """The client has a new will by then. The node publishes that one as well, when the connection ends."""
    log = Log()

    def publish(number: int) -> None:
        log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, number))

    log.connect("tx", will=True)
    publish(50)
    log.say("sess.end", client="tx", reason="disconnected")
    if how == "was safe":
        log.say("q.durable", mid=(NODE, 1, 50), client="watch")
    if how != "no kill":
        log.boot()
    log.say("will.arm", client="tx", topic="will")
    delay = {} if how == "connection without a will" else {"will_delay_s": 0}
    if how != "had its CONNACK":
        publish(51)
    if "before CONNACK" not in how:
        log.say("conn.open", client="tx", **delay)
        log.say("sess.create", client="tx")
    if how == "had its CONNACK":
        publish(51)
    publish(52)
    if "once more" in how:
        publish(53)
    assert [each.kind for each in findings(log) if each.anomaly == "A14"] == found


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("", ""),
        ("is published at the heal", ""),
        ("a is killed", ""),
        ("a is killed, and publishes nothing", "a"),
        ("a is killed, b drops nothing", "b"),
        ("a publishes nothing", "a"),
        ("b drops nothing", "b"),
        ("the slot comes to a", "b"),
        ("the slot comes to a, which publishes nothing", "ba"),
    ],
)
def test_two_nodes_have_a_will_of_a_client_and_one_of_them_has_the_slot(how: str, lost: str) -> None:
    """`a` is cut off, and serves the client without the slot, which `b` has. Each publishes or drops its own will."""
    a, b = two_nodes()
    slot = slot_of("", "tx")
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="moved")
    b.say("slot.arrive", slot=slot)
    a.say("slot.moved", slot=slot, target="b", sessions=1, bytes=0)
    b.say("will.cancel", client="tx", topic="will", reason="resumed")
    b.say("sess.end", client="tx", reason="clean_start")
    b.connect("tx", will=True)
    b.say("conn.close", client="tx", reason="gateway_lost")
    if "comes to a" in how:
        a.say("slot.arrive", slot=slot)
    a.connect("tx", will=True)
    if "is killed" in how:
        a.boot()
        a.say("sess.end", client="tx", reason="restart")
    if "publishes nothing" not in how:
        a.say("will.fire", client="tx", topic="will", mid=("a", a._boot, 50))
    if "is killed" not in how:
        a.say("sess.end", client="tx", reason="disconnected")
    if "comes to a" in how:
        b.say("slot.arrive", slot=slot)
    if how == "is published at the heal":
        b.say("will.fire", client="tx", topic="will", mid=("b", 1, 50))
    elif "b drops nothing" not in how:
        b.say("will.cancel", client="tx", topic="will", reason="resumed")
    b.connect("tx", will=True)
    a.rows += b.rows
    found = [each for each in findings(a) if each.anomaly == "A14"]
    assert sorted((each.kind, each.rows[0][0]) for each in found) == [("lost", node) for node in sorted(lost)]
