"""Which nodes wrote the rows of which messages. More cases are planted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.rows import Row
from strogoff.judge.writing import Writing


def row(hlc: int, kind: str, node: str = "a", **fields: Any) -> Row:
    return {"type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, **fields}


def of(*rows: Row) -> Writing:
    writing = Writing()
    for each in rows:
        writing.note(each)
    return writing


def level(hlc: int, new: str) -> Row:
    return row(hlc, "config.change", key="eventlog.level", new=new)


def test_a_node_is_silent_from_a_start_at_level_session_until_the_level_is_raised() -> None:
    """A level that is lowered later makes it leave out new messages, and silent it is not."""
    found = of(row(10, "node.start", level="session"), level(20, "message"), level(30, "session"), level(40, "message"))
    assert [found.silent_after("a", stamp) for stamp in (5, 19, 20, 35)] == [True, True, False, False]
    assert [found.silent_before("a", stamp) for stamp in (10, 11, 50)] == [False, True, True]
    spans = [(0, 9), (0, 10), (20, 29), (25, 30), (30, 35), (39, 41), (40, 50)]
    assert [found.all_written("a", *each) for each in spans] == [True, False, True, False, False, False, True]


def test_a_node_that_joins_a_cluster_says_its_level() -> None:
    """Its start is in another run."""
    found = of(row(10, "node.join", level="session"), level(20, "message"))
    assert [found.silent_after("a", stamp) for stamp in (19, 20)] == [True, False]


def test_each_start_tells_anew() -> None:
    found = of(row(10, "node.start", level="session"), row(20, "node.start", level="message"), row(30, "node.start"))
    assert [found.silent_after("a", stamp) for stamp in (19, 20)] == [True, False]
    assert not found.silent_after("b", 0) and not found.silent_before("b", 99)


@pytest.mark.parametrize("key", ["eventlog.clients", "eventlog.topics"])
@pytest.mark.parametrize("nothing", ["", '""', "[]", None])
def test_filters_leave_messages_out(key: str, nothing: str | None) -> None:
    found = of(
        row(10, "node.start", settings=["queue_type=fifo", f"{key}=x"]),
        row(20, "config.change", key=key, new=nothing),
        row(30, "config.change", key=key, new="y"),
        row(40, "config.change", key="queue_type", new="lifo"),
    )
    assert [found.all_written("a", *each) for each in ((0, 9), (12, 13), (20, 29), (41, 42))] == [
        True,
        False,
        True,
        False,
    ]
    assert not found.silent_after("a", 0)


def test_sampling_leaves_messages_out_until_its_end_or_the_next_start() -> None:
    rows = [row(10, "log.sample", state="begin"), row(20, "log.sample", state="end", count=3)]
    later = [row(30, "log.sample", state="begin"), row(40, "node.start", level="message")]
    found = of(*rows, *later)
    assert [found.all_written("ab", at, at) for at in (9, 10, 19, 20, 35, 40)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]
    assert found.all_written("b", 0, 99)


def test_the_last_counters_of_a_boot_count() -> None:
    found = of(row(10, "node.stats", left_out=3), row(20, "node.stats", left_out=5), row(30, "node.stats", node="b"))
    assert found.left_out == {("a", 1): 5}


def test_the_key_for_names_counts_from_each_row_that_names_settings() -> None:
    """Older logs do not name it at a join, nor at a start if no names are replaced."""
    found = of(
        row(10, "node.start", settings=["queue_type=fifo"]),
        row(20, "node.start", settings=["eventlog.redact=off"]),
        row(30, "node.start", settings=["eventlog.redact=k1"]),
        row(40, "node.join", settings=["queue_type=fifo"]),
        row(50, "node.join", settings=["eventlog.redact=k2"]),
    )
    assert [(key, first["hlc"]) for key, first in found.keys] == [("off", 10), ("off", 20), ("k1", 30), ("k2", 50)]
