"""A7: messages from before a fault that come long after it. More cases are planted."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from strogoff.judge.anomalies.a07_stranded import LAG
from strogoff.judge.building import Summary, world_of
from strogoff.judge.findings import Finding
from strogoff.judge.judging import judge_sendings
from strogoff.judge.lanes import Entry, sending_order
from strogoff.judge.lives import BootRows

from ...testing.log_audit.log_builder import Log
from .found import kinds

BACK = 1000
SESSION = (("b", "", "rx"), 0)


def entry(number: int, accepted: int, sent: int, origin: str = "a", **more: Any) -> Entry:
    lane = (origin, 1, "tx", 1, f"t/{number}", 1)
    rows = ((origin, 1, number),)
    given = {"ordered": True, **more}
    return Entry(SESSION, lane, (origin, 1, number), accepted, accepted, sent, sent, rows=rows, **given)


def found(
    *entries: Entry,
    away: str = "a",
    back: int = BACK,
    leases: tuple[int, ...] = (),
    more: tuple[tuple[str, int, str, str], ...] = (),
) -> list[Finding]:
    """`more`: further rows, as node, stamp, type and state."""
    boots = {(name, 1): BootRows(1, 1, 9, 500, False) for name in "abc"}
    boots[away, 2] = BootRows(1, back, 9, 9 * LAG, False)
    kinds = [(hlc - 1, "lease.lose") for hlc in leases] + [(hlc, "lease.get") for hlc in leases]
    rows = [{"type": kind, "node": away, "boot": 1, "seq": hlc, "hlc": hlc} for hlc, kind in kinds]
    rows += [
        {"type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, "state": state}
        for node, hlc, kind, state in more
    ]
    return list(judge_sendings(sending_order(entries), world_of(rows, Summary(boots))))


@pytest.mark.parametrize("more", [0, 1])
def test_ten_seconds_after_the_return(more: int) -> None:
    sent = BACK + LAG + more
    stranded = [each.value for each in found(entry(1, 500, sent), entry(2, BACK + 1, BACK + 9))]
    assert stranded == [10_000] * more


@pytest.mark.parametrize("name", ["b", "b (2)"])
@pytest.mark.parametrize("away", ["a", "b", "c"])
def test_the_node_of_the_publisher_or_of_the_session_was_away(away: str, name: str) -> None:
    entries = (entry(1, 500, 2 * LAG), entry(2, BACK + 1, BACK + 9))
    (*some,) = found(*(replace(each, session=((name, "", "rx"), 0)) for each in entries), away=away)
    assert [(each.subject.message, each.rows) for each in some] == [(("a", 1, 1), (("a", 1, 1), ("a", 1, 2)))] * (
        away != "c"
    )


def test_the_newer_one_must_be_from_after_the_return_and_come_before() -> None:
    assert found(entry(1, 500, 2 * LAG), entry(2, BACK - 1, BACK + 9)) == []
    assert found(entry(1, 500, 2 * LAG), entry(2, BACK + 1, 3 * LAG)) == []
    assert found(entry(1, BACK + 1, 2 * LAG), entry(2, BACK + 2, BACK + 9)) == []


def test_the_newest_one_so_far_is_remembered() -> None:
    newest, older = entry(2, BACK + 1, BACK + 9), entry(3, 600, BACK + 10)
    assert [each.subject.message for each in found(entry(1, 500, 2 * LAG), newest, older)] == [("a", 1, 1)]


@pytest.mark.parametrize("more", [{"ordered": False}, {"lifo": True}])
def test_what_has_no_order_is_not_judged(more: dict[str, Any]) -> None:
    newer = entry(2, BACK + 1, BACK + 9)
    assert found(entry(1, 500, 2 * LAG, **more), newer) == []
    assert found(entry(1, 500, 2 * LAG), entry(2, BACK + 1, BACK + 9, **more)) == []


@pytest.mark.parametrize(("leases", "stranded"), [((10, BACK + LAG), False), ((BACK + LAG,), True), ((10,), True)])
def test_a_node_is_back_when_it_has_a_lease_again(leases: tuple[int, ...], stranded: bool) -> None:
    """Before that it serves nobody. Its first lease is no return."""
    newer = entry(2, BACK + LAG + 1, BACK + LAG + 2)
    assert bool(found(entry(1, 500, BACK + LAG + 9), newer, leases=leases)) is stranded


@pytest.mark.parametrize(
    ("others", "stranded"),
    [
        ([("b", 5, "lease.get", ""), ("b", 600, "lease.lose", "")], False),
        ([("a", 5, "lease.get", ""), ("a", 600, "lease.lose", "")], False),  # it has started, and gets no lease
        ([("b", 600, "split.detect", "minority")], False),  # an old log, without leases
        ([("b", 5, "lease.get", "")], True),
        ([("b", 5, "lease.get", ""), ("b", BACK + 1, "lease.lose", "")], True),
        ([("b", 600, "split.detect", "minority"), ("b", BACK + 1, "split.change", "majority")], True),
        ([("b", BACK + 1, "split.detect", "minority")], True),
        ([("c", 5, "lease.get", ""), ("c", 600, "lease.lose", "")], True),
    ],
)
def test_what_comes_while_the_fault_goes_on_for_one_of_the_two_nodes(
    others: list[tuple[str, int, str, str]], stranded: bool
) -> None:
    """It has had no lease since the other one was back. If it loses its lease later, the message was late before."""
    newer = entry(2, BACK + 2, BACK + 9)
    assert bool(found(entry(1, 500, 2 * LAG), newer, more=tuple(others))) is stranded


def test_ten_seconds_after_the_last_one_of_the_two_nodes_was_back() -> None:
    """A node that had no lease when the other one was back has got one since."""
    rows = (("b", 5, "lease.get", ""), ("b", 600, "lease.lose", ""), ("b", BACK + 5, "lease.get", ""))
    newer = entry(2, BACK + 6, BACK + 9)
    sent = BACK + 5 + LAG
    assert [len(found(entry(1, 500, sent + late), newer, more=rows)) for late in (0, 1)] == [0, 1]


def test_what_its_client_published_again_after_the_return_is_not_judged() -> None:
    """No queue need have had it before. It is no newer message for others."""
    newer, late = entry(2, BACK + 1, BACK + 9), 2 * LAG
    assert [len(found(entry(1, 500, late, repeated=each), newer)) for each in (-1, BACK - 1, BACK + 1)] == [1, 1, 0]
    again = entry(2, 600, BACK + 9, repeated=BACK + 1)
    assert found(entry(1, 500, late), again) == []


@pytest.mark.parametrize("answered", [False, True])
def test_a_message_with_an_acknowledgement_may_be_stranded_although_it_is_published_again(answered: bool) -> None:
    """The node was killed. The client has come back to it, and repeats what it takes for unknown."""
    log = Log()
    log.subscriber("rx", expiry_s=60)
    old = log.accept(topic="t/old")
    if answered:
        log.ack(old)
    log.boot()
    log.connect("rx", present=True)
    log.say("pub.recv", mid=old, client="tx", topic="t/old", qos=1)
    log.whole(topic="t/new")
    log._now = count(next(log._now) + 11_000)
    log.route(old, "rx")
    log.ack(old)
    log.send(old, packet_id=9)
    assert ("A7", "stranded") not in kinds(log) or answered
    assert ("A7", "stranded") in kinds(log) or not answered
