"""A14: wills that go from one node to another with the slot of their client."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings

SLOT = slot_of("", "tx")


def of_wills(*logs: Log) -> list[tuple[str, str]]:
    """The kind of each finding about a will, and the node of its last row."""
    log = logs[0]
    log.rows += [row for each in logs[1:] for row in each.rows]
    return sorted((each.kind, each.rows[-1][0]) for each in findings(log) if each.anomaly == "A14")


def publish(log: Log, will: str, number: int = 50) -> None:
    log.say("will.fire", client="tx", topic="will", mid=(log.node, log._boot, number), will=will)


def drop(log: Log, will: str, reason: str = "resumed") -> None:
    log.say("will.cancel", client="tx", topic="will", reason=reason, will=will)


def mortal(log: Log) -> str:
    """The name of the will of a client that has gone without DISCONNECT."""
    log.connect("tx", will=True)
    log.say("conn.close", client="tx", reason="peer_closed")
    return log.will("tx")


def give(source: Log, target: Log) -> None:
    source.say("slot.moved", slot=SLOT, target=target.node, sessions=1, bytes=0)


@pytest.mark.parametrize("how", ["moved", "taken", "killed", ""])
@pytest.mark.parametrize("act", ["publishes", "drops", "does nothing"])
def test_a_will_goes_with_its_slot(how: str, act: str) -> None:
    """The next primary publishes or drops it."""
    a, b = two_nodes()
    will = mortal(a)
    if how == "moved":
        give(a, b)
    elif how == "killed":
        a.boot()
    b.say("slot.arrive", slot=SLOT)
    if act == "publishes":
        publish(b, will)
    elif act == "drops":
        drop(b, will, "gateway_lost")
    if how == "taken":
        a.say("slot.taken", slot=SLOT, target="b")
    a.pass_s(20, b)
    assert of_wills(a, b) == [("lost", "a")] * (act == "does nothing")


@pytest.mark.parametrize(
    "how", ["taken", "taken from the view", "moved", "moved from the view", "killed", "before", ""]
)
@pytest.mark.parametrize("act", ["published", "dropped"])
def test_the_next_primary_publishes_what_the_former_one_did_not_get_safe(act: str, how: str) -> None:
    """The former one was cut off, and its record did not reach the copy. Perhaps it learns of that later, or has no
    session of the slot any more, and does not say so. An orderly move takes all records along."""
    a, b = two_nodes()
    b.say("mem.view", view=1, nodes=["a", "b"])
    if how == "before":
        a.say("slot.taken", slot=SLOT, target="b")
    will = mortal(a)
    if "moved" in how:
        give(a, b)
    if act == "published":
        publish(a, will)
    else:
        drop(a, will)
    if how == "killed":
        a.say("fault.kill", nodes=["a"])
    if "view" in how:
        b.say("mem.down", target="a")
    b.say("slot.arrive", slot=SLOT)
    publish(b, will, 60)
    if how == "taken":
        a.say("slot.taken", slot=SLOT, target="b")
    undone = how in ("taken", "taken from the view", "killed")
    assert of_wills(a, b) == [("dup" if act == "published" else "spurious", "b")] * (not undone)


@pytest.mark.parametrize(("late_s", "dup"), [(0, False), (2, True)])
def test_the_next_primary_publishes_a_will_before_it_says_that_the_slot_has_arrived(late_s: int, dup: bool) -> None:
    """It may do so shortly before."""
    a, b = two_nodes()
    b.say("mem.view", view=1, nodes=["a", "b"])
    will = mortal(a)
    publish(a, will)
    b.say("mem.down", target="a")
    publish(b, will, 60)
    b.pass_s(late_s, a)
    b.say("slot.arrive", slot=SLOT)
    assert of_wills(a, b) == [("dup", "b")] * dup


@pytest.mark.parametrize("arrives", ["b", "c"])
def test_a_slot_that_has_come_to_a_third_node_undoes_nothing(arrives: str) -> None:
    a, b = two_nodes()
    c = Log("c")
    c._now = a._now
    for log in (b, c):
        log.say("mem.view", view=1, nodes=["a", "b", "c"])
    will = mortal(a)
    publish(a, will)
    for log in (b, c):
        log.say("mem.down", target="a")
    (b if arrives == "b" else c).say("slot.arrive", slot=SLOT)
    publish(b, will, 60)
    assert of_wills(a, b, c) == [("dup", "b")] * (arrives == "c")


def test_a_will_that_was_safe_in_a_queue_is_not_published_by_the_next_primary() -> None:
    a, b = two_nodes()
    will = mortal(a)
    publish(a, will)
    a.say("q.durable", mid=("a", 1, 50), client="watch")
    b.say("slot.arrive", slot=SLOT)
    publish(b, will, 60)
    a.say("slot.taken", slot=SLOT, target="b")
    assert of_wills(a, b) == [("dup", "b")]


def test_a_former_node_still_has_the_connection_when_the_next_one_publishes_its_will() -> None:
    """It stands still, and learns late that the slot is elsewhere."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    b.say("slot.arrive", slot=SLOT)
    publish(b, a.will("tx"))
    a.pass_s(10, b)
    a.say("slot.taken", slot=SLOT, target="b")
    a.say("conn.close", client="tx", reason="moved")
    assert of_wills(a, b) == []


@pytest.mark.parametrize(
    ("published", "found"),
    [("a b", []), ("b a", []), ("a", [("lost", "b")]), ("b", [("lost", "a")]), ("a b b", [("dup", "b")])],
)
def test_a_client_has_wills_at_two_nodes(published: str, found: list[tuple[str, str]]) -> None:
    """Each is judged by itself."""
    a, b = two_nodes()
    wills = {"a": mortal(a), "b": mortal(b)}
    for number, each in enumerate(published.split()):
        publish(a if each == "a" else b, wills[each], number)
    a.pass_s(20, b)
    assert of_wills(a, b) == found


def test_a_slot_comes_back_with_the_will_of_a_former_connection() -> None:
    """Its client is connected with another will, which stays."""
    a, b = two_nodes()
    former = mortal(a)
    give(a, b)
    b.say("slot.arrive", slot=SLOT)
    a.connect("tx", will=True)
    give(b, a)
    a.say("slot.arrive", slot=SLOT)
    publish(a, former)
    a.pass_s(20, b)
    assert of_wills(a, b) == []


@pytest.mark.parametrize("dies", [True, False])
def test_the_logs_of_all_nodes_must_tell_what_became_of_a_will(dies: bool) -> None:
    """It has left its node, which has died perhaps."""
    a, b = two_nodes()
    mortal(a)
    if dies:
        a.boot()
    else:
        give(a, b)
    a.pass_s(30)
    rows = a.rows + b.rows
    assert judge(rows, complete=False).findings == []
    b._now = a._now
    b.pass_s(1)
    assert [each.kind for each in judge(a.rows + b.rows, complete=False).findings] == ["lost"]


def test_the_log_of_another_node_need_not_tell_what_became_of_a_will_that_stays() -> None:
    a, b = two_nodes()
    mortal(a)
    a.pass_s(30)
    assert [each.kind for each in judge(a.rows + b.rows, complete=False).findings] == ["lost"]


@pytest.mark.parametrize(
    ("leased", "found"), [("a b", True), ("a", False), ("b", False), ("", False), ("a then b", False)]
)
def test_a_will_waits_for_the_lease_of_the_node_that_has_it(leased: str, found: bool) -> None:
    """Nobody knows whether it went with the slot: both nodes must have had one. None has one for long."""
    a, b = two_nodes()
    for log in (a, b):
        log.say("lease.get", view=1)
    a.connect("tx", will=True)
    b.say("slot.arrive", slot=SLOT)
    for log in (a, b):
        if log.node not in leased:
            log.say("lease.lose", view=1)
    a.say("conn.close", client="tx", reason="gateway_lost")
    if "then" in leased:
        a.pass_s(2, b)
        b.say("lease.lose", view=1)
    a.pass_s(20, b)
    assert of_wills(a, b) == [("lost", "a")] * found


@pytest.mark.parametrize(("holder", "sure"), [("b", False), ("", True)])
def test_a_loss_of_power_at_a_node_with_the_slot_may_have_taken_what_it_says_of_a_will(holder: str, sure: bool) -> None:
    a, b = two_nodes()
    mortal(a)
    if holder:
        b.say("slot.arrive", slot=SLOT)
    b.boot()
    b.rows[-1]["tail_lost"] = True
    a.pass_s(20, b)
    a.rows += b.rows
    assert [(each.kind, each.sure) for each in findings(a) if each.anomaly == "A14"] == [("lost", sure)]


def test_a_slot_that_goes_later_undoes_nothing_between_two_rows_of_its_node() -> None:
    a, b = two_nodes()
    will = mortal(a)
    publish(a, will)
    publish(a, will, 51)
    a.say("slot.taken", slot=SLOT, target="b")
    assert of_wills(a, b) == [("dup", "a")]
