"""A22: replicated maps that differ. More cases are planted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.anomalies.a22_non_convergence import LIMIT, asker, judge, order
from strogoff.judge.building import Summary, world_of
from strogoff.judge.lives import BootRows
from strogoff.judge.rows import Row
from strogoff.judge.world import World

END = 9 * LIMIT


def row(kind: str, node: str, hlc: int, **fields: Any) -> Row:
    return {"type": kind, "v": 8, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, **fields}


def asked(hlc: int, number: int, context: str = "c", digest: str = "d", **more: Any) -> Row:
    return row("map.sync", "a", hlc, target="b", exchange=number, context=context, digest=digest, **more)


def answered(hlc: int, number: int, context: str = "c", digest: str = "d") -> Row:
    return row("map.sync", "b", hlc, source="a", exchange=number, context=context, digest=digest)


def world(*rows: Row, until: int = END) -> World:
    boots = {(name, 1): BootRows(1, 1, 900, until, False) for name in "ab"}
    return world_of([row("mem.up", "a", 2, target="b"), *rows], Summary(boots))


def kinds(rows: list[Row], known: World | None = None) -> list[str]:
    assert {asker(each) for each in rows} == {"a"}
    return [each.kind for each in judge(sorted(rows, key=order), known or world())]


def test_equal_contexts_have_equal_digests() -> None:
    assert kinds([answered(5, 1), asked(6, 1)]) == []
    assert kinds([answered(5, 1), asked(6, 1, digest="e")]) == ["different"]
    assert kinds([answered(5, 1), asked(6, 1, context="x", digest="e")]) == []
    assert kinds([answered(5, 1, context=""), asked(6, 1, context="", digest="e")]) == []


def test_only_the_two_sides_of_one_comparison_are_compared() -> None:
    assert kinds([answered(5, 1), asked(6, 2, digest="e")]) == []
    assert kinds([asked(6, 2, digest="e")]) == []
    assert kinds([answered(5, 1), answered(6, 2, digest="e"), asked(7, 2, digest="e"), asked(8, 3)]) == []


def test_a_node_has_all_that_the_other_one_had() -> None:
    (found,) = judge([answered(5, 1), asked(6, 1, context="x", behind=3)], world())
    assert (found.kind, found.value, found.severity, found.rows) == ("behind", 3, "fatal", (("a", 1, 6),))
    assert kinds([asked(6, 1, behind=0)]) == []


def healed(hlc: int) -> list[Row]:
    split = {"nodes": ["b"], "incident": 1, "state": "majority"}
    return [row("split.detect", "a", hlc - 1, **split), row("split.heal", "a", hlc, **split)]


@pytest.mark.parametrize("more", [0, 1])
def test_a_node_compares_within_a_minute_after_a_heal(more: int) -> None:
    rows = [asked(6, 1), asked(50 + LIMIT + more, 2)]
    assert kinds(rows, world(*healed(50))) == ["no-round"] * more
    assert kinds(rows[:1], world(*healed(50), until=49 + LIMIT + more)) == ["no-round"] * more


def test_a_heal_is_judged_once_and_only_after_the_first_comparison() -> None:
    late = [asked(60 + LIMIT, 2), asked(61 + LIMIT, 3)]
    assert kinds([asked(6, 1), *late], world(*healed(50))) == ["no-round"]
    assert kinds(late, world(*healed(50))) == []


def test_a_node_that_sees_no_other_one_is_not_judged() -> None:
    assert kinds([asked(6, 1)], world(*healed(50), row("mem.down", "a", 70, target="b"))) == []
