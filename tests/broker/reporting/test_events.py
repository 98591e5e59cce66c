"""Domain events: header, order, levels and sinks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.schema import LOGICAL_BITS, MESSAGE, OFF, SESSION, TYPES, validate
from strogoff.broker.reporting.events import AHEAD_MS, ASK_NS, Events
from strogoff.cluster.identity import MARKED

ROOT = Path(__file__).resolve().parents[3]


class Clock:
    """A wall clock and a monotonic clock that the test sets."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self.ns = 0

    def now_ms(self) -> int:
        return self.ms

    def mono_ns(self) -> int:
        self.ns += 1
        return self.ns


def make(level: int = SESSION) -> tuple[Events, Clock, list[dict[str, Any]]]:
    clock = Clock()
    rows: list[dict[str, Any]] = []
    events = Events("n1", 7, "run", clock.now_ms, clock.mono_ns, level)
    events.add(rows.append)
    return events, clock, rows


def test_a_row_follows_the_schema() -> None:
    events, clock, rows = make(MESSAGE)
    events.emit("pub.recv", mid=("n1", 7, 1), client="c", topic="t", qos=1, conn=1)
    assert validate(rows[0]) == []
    assert rows[0]["hlc"] == clock.ms << LOGICAL_BITS
    assert [rows[0][name] for name in ("run_id", "node", "boot", "seq", "type")] == ["run", "n1", 7, 1, "pub.recv"]


def test_seq_has_no_gaps_across_level_changes_and_new_sinks() -> None:
    events, _, rows = make()
    events.emit("node.stop")
    events.set_level(OFF)
    events.emit("node.stop")
    events.set_level(MESSAGE)
    events.add(lambda row: None)
    events.emit("node.stop")
    assert [row["seq"] for row in rows] == [1, 2]


def test_without_sinks_the_level_is_off() -> None:
    clock = Clock()
    events = Events("n1", 1, "run", clock.now_ms, clock.mono_ns, MESSAGE)
    assert (events.level, events.messages) == (OFF, False)
    events.emit("node.stop")
    assert (events.seq, clock.ns) == (0, 0)
    rows: list[dict[str, Any]] = []
    events.add(rows.append)
    assert (events.level, events.messages) == (MESSAGE, True)
    events.remove(rows.append)
    assert (events.level, events.messages) == (OFF, False)
    with pytest.raises(ValueError, match="not in list"):
        events.remove(rows.append)


def test_level_session_is_not_messages() -> None:
    events, _, _ = make(SESSION)
    assert (events.level, events.messages) == (SESSION, False)


def test_the_stamp_rises_when_the_clock_stops_or_goes_back() -> None:
    events, clock, rows = make()
    for ms in (1000, 1000, 400, 400, 2000):
        clock.ms = ms
        clock.ns += ASK_NS
        events.emit("node.stop")
    assert [divmod(row["hlc"], 1 << LOGICAL_BITS) for row in rows] == [
        (1000, 0),
        (1000, 1),
        (1000, 2),
        (1000, 3),
        (2000, 0),
    ]


def test_rows_within_a_short_time_ask_the_clock_once() -> None:
    """Their stamps rise in the logical part; a clock that stands still, as in a simulation, is asked each time."""
    events, clock, rows = make()
    for ms, ns in ((1000, 5), (1001, 6), (1002, 5 + ASK_NS), (1002, 5 + ASK_NS), (1001, 5 + ASK_NS)):
        clock.ms, clock.ns = ms, ns
        events.emit("node.stop")
    stamps = [divmod(row["hlc"], 1 << LOGICAL_BITS) for row in rows]
    assert stamps == [(1000, 0), (1000, 1), (1002, 0), (1002, 1), (1002, 2)]
    events = Events("n1", 7, "run", clock.now_ms, lambda: 5)
    events.add(rows.append)
    for ms in (2000, 2001):
        clock.ms = ms
        events.emit("node.stop")
    assert [row["hlc"] >> LOGICAL_BITS for row in rows[-2:]] == [2000, 2001]


def test_a_writer_gets_rows_in_parts_before_the_sinks() -> None:
    """A sink of level session gets no rows of messages; the writer learns the run."""
    seen: list[Any] = []

    class Parts:
        def write(self, kind: str, seq: int, hlc: int, mono_ns: int, fields: dict[str, Any], /) -> None:
            seen.append((kind, seq, hlc, mono_ns, fields))

        def belong_to(self, run_id: str) -> None:
            seen.append(run_id)

        @property
        def pressed(self) -> bool:
            return len(seen) > 4

    clock = Clock()
    events = Events("n1", 7, "run", clock.now_ms, clock.mono_ns, MESSAGE)
    events.write_to(Parts())
    assert (events.level, events.messages) == (MESSAGE, True)
    events.add(lambda row: seen.append(row["type"]), SESSION)
    events.emit("node.stop", reason="x")
    events.emit("store.sync", lsn=1)
    events.belong_to("other")
    hlc = clock.ms << LOGICAL_BITS
    assert seen == [
        ("node.stop", 1, hlc, 1, {"reason": "x"}),
        "node.stop",
        ("store.sync", 2, hlc + 1, 2, {"lsn": 1}),
        "other",
    ]
    assert not events.pressed()
    events.emit("store.sync", lsn=2)
    assert events.pressed()


def test_rows_of_messages_that_are_left_out_do_not_come() -> None:
    """The mid says so. Rows of level `session` come, and numbers have no gap."""
    events, _, rows = make(MESSAGE)
    for counter in (MARKED - 1, MARKED, MARKED + 1, MARKED + 2):
        for kind in ("fwd.ack", "fwd.drop"):
            events.emit(kind, mid=("n1", 7, counter), target="n2")
    assert [(row["type"], row["mid"][2] - MARKED) for row in rows] == [
        ("fwd.ack", -1),
        ("fwd.drop", -1),
        ("fwd.ack", 0),
        ("fwd.drop", 0),
        ("fwd.drop", 1),
        ("fwd.ack", 2),
        ("fwd.drop", 2),
    ]
    assert [row["seq"] for row in rows] == list(range(1, 8))


def test_events_after_a_remote_one_get_later_stamps() -> None:
    events, clock, rows = make()
    heard = ((clock.ms + 500) << LOGICAL_BITS) + 3
    events.observe(heard)
    events.observe(heard - 1)
    events.emit("node.stop")
    assert rows[0]["hlc"] == heard + 1
    assert events.stamp() == heard + 1


def test_a_stamp_that_is_no_time_has_no_effect() -> None:
    events, clock, _ = make()
    most = (clock.ms + AHEAD_MS) << LOGICAL_BITS
    events.observe(most)
    assert events.stamp() == 0
    events.observe(most - 1)
    assert events.stamp() == most - 1


def test_every_sink_sees_the_same_row_in_the_order_of_adding() -> None:
    events, _, _ = make()
    seen: list[tuple[str, int]] = []
    events.add(lambda row: seen.append(("first", id(row))))
    events.add(lambda row: seen.append(("second", id(row))))
    events.emit("node.stop")
    assert [name for name, _ in seen] == ["first", "second"]
    assert seen[0][1] == seen[1][1]


def test_fields_may_be_named_like_arguments() -> None:
    events, _, rows = make()
    events.emit("sess.end", client="c", reason="expired", self="odd")
    assert rows[0]["self"] == "odd"


def emitted(path: Path) -> Iterator[tuple[int, str, set[str]]]:
    """Returns (line, type, fields) of each event in a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if node.func.attr not in ("emit", "event") or any(each.arg is None for each in node.keywords):
            continue
        for name in ast.walk(node.args[0]):
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and "." in name.value:
                yield node.lineno, name.value, {str(each.arg) for each in node.keywords}


def test_every_emitted_event_is_in_the_schema() -> None:
    wrong = []
    seen = 0
    for room in ("broker", "netsplit", "cluster", "storage", "admin", "sim"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for line, name, fields in emitted(path):
                seen += 1
                definition = TYPES.get(name)
                if definition is None:
                    wrong.append(f"{path}:{line}: {name} is not in analytics/schema.py")
                elif not set(definition.required) <= fields <= {*definition.required, *definition.optional}:
                    wrong.append(f"{path}:{line}: {name} has the fields {sorted(fields)}")
    assert wrong == []
    assert seen > 20
