"""A15: retained messages that differ. More cases are planted."""

from __future__ import annotations

import pytest

from strogoff.judge.anomalies.a15_retained_divergence import LAG, judge
from strogoff.judge.building import Summary, world_of
from strogoff.judge.lives import BootRows
from strogoff.judge.rows import Row
from strogoff.judge.world import World


def row(node: str, hlc: int, digest: str = "x", size: int = 1, v: int = 7) -> Row:
    where = {"node": node, "boot": 1, "seq": hlc, "hlc": hlc, "v": v, "type": "ret.set"}
    return {**where, "topic": "t", "mountpoint": "m", "bytes": size, "digest": digest}


def world(until: int = LAG + 100, **more: BootRows) -> World:
    """Nodes `a` and `b` see each other from the begin."""
    boots = {(name, 1): BootRows(1, 1, 900, until, False) for name in "ab"}
    boots |= {(name, 1): each for name, each in more.items()}
    views = [
        {"type": "mem.up", "node": one, "boot": 1, "seq": 2, "hlc": 2, "v": 7, "target": other}
        for one, other in ("ab", "ba")
    ]
    return world_of(views, Summary(boots))


def test_the_last_change_decides() -> None:
    rows = [row("a", 10), row("b", 20, "y"), row("a", 30, "y"), row("b", 25, "z"), row("b", 35, "y")]
    assert list(judge(rows, world())) == []
    (found,) = judge([*rows, row("b", 40, "z")], world())
    assert (found.kind, found.subject.node, found.subject.mountpoint, found.subject.topic) == (
        "different",
        "a",
        "m",
        "t",
    )
    assert found.rows == (("a", 1, 30), ("b", 1, 40)) and (found.severity, found.sure) == ("fatal", True)


def test_a_node_without_any_row_lacks_a_message_but_not_its_end() -> None:
    (found,) = judge([row("a", 10)], world())
    assert (found.kind, found.subject.node, found.rows) == ("missing", "b", (("a", 1, 10),))
    assert list(judge([row("a", 10, size=0)], world())) == []


@pytest.mark.parametrize("until", [LAG + 9, LAG + 10])
def test_the_logs_must_go_on_for_a_minute(until: int) -> None:
    assert len(list(judge([row("a", 10)], world(until)))) == (until >= LAG + 10)


def test_a_node_that_began_later_or_stopped_is_not_judged() -> None:
    for boot in (BootRows(1, 11, 900, LAG + 100, False), BootRows(1, 1, 900, LAG, True)):
        assert list(judge([row("a", 10)], world(b=boot))) == []


def test_the_node_with_the_last_change_must_live_to_tell() -> None:
    assert list(judge([row("a", 10)], world(a=BootRows(1, 1, 900, 50, True)))) == []


def test_older_logs_lack_the_end_of_messages() -> None:
    assert list(judge([row("a", 10, v=6)], world())) == []
    assert list(judge([], world())) == []
