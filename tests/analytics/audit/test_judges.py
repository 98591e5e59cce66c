"""The judges on batches, without Spark: grouped and sorted here as Spark does it there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from strogoff.analytics.audit import judges
from strogoff.analytics.audit.records import values
from strogoff.analytics.decoding import mid_key
from strogoff.judge.anomalies import a08_stall, a17_sub_lag, a22_non_convergence
from strogoff.judge.anomalies.a00_log_hole import stretches
from strogoff.judge.findings import Finding, in_order
from strogoff.judge.judging import (
    CLIENT_TYPES,
    COMPARISON_TYPES,
    CONNECTION_TYPES,
    RETAINED_TYPES,
    WRITE_TYPES,
    judge_message,
)
from strogoff.judge.message import FIELDS, TYPES
from strogoff.judge.planted.generate import CASES, PlantedLog
from strogoff.judge.rows import Row
from strogoff.judge.run import Grouped, Report, judge
from strogoff.judge.world import World

RUN = "planted"


@dataclass
class Shared:
    """The worlds, as Spark shares them."""

    value: dict[str, World]


def batches(rows: Iterable[dict[str, Any]], size: int = 7) -> Iterator[pa.RecordBatch]:
    """The rows in small batches, so that keys go on over their ends."""
    table = pa.Table.from_pylist([*rows])
    return iter(table.to_batches(size))


def taken(row: Row, names: Iterable[str]) -> dict[str, Any]:
    return {**{name: row.get(name) for name in names}, "run_id": RUN}


def of_types(rows: list[Row], types: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of these types with all their fields, and an empty mountpoint."""
    names = judges.fields_of(types)
    found = [taken(row, names) for row in rows if row["type"] in types]
    return [{**row, "mid": mid_key(row["mid"]) if row.get("mid") else None, "at": ""} for row in found]


def of(made: Iterable[pa.RecordBatch], name: str) -> list[Any]:
    """The values of one column of what was handed on."""
    table = pa.Table.from_batches(made, judges.SCHEMA)
    there = table.filter(table[name].is_valid()).combine_chunks()
    return values(there[name].combine_chunks(), judges.COLUMNS[name]) if there.num_rows else []


def handed(made: Iterable[pa.RecordBatch], *names: str, order: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """The rows of what was handed on that have one of these columns, sorted."""
    rows = [row for batch in made for row in batch.select(["run_id", *names]).to_pylist()]
    return sorted((row for row in rows if any(row[name] is not None for name in names)), key=order)


def report_of(rows: list[Row]) -> Report:
    """The result of all judges, each on batches."""
    grouped = Grouped(rows)
    shared = Shared({RUN: grouped.world(complete=False)})
    of_messages = [
        {**taken(row, FIELDS), "mid": mid_key(row["mid"])}
        for row in rows
        if row.get("mid") is not None and row["type"] in TYPES
    ]
    of_messages.sort(key=lambda row: (row["mid"], row["hlc"]))
    judged = [*judges.messages(shared)(batches(of_messages))]

    def lane(row: dict[str, Any]) -> Any:
        entry = row["entry"]
        return str(entry["session"]), str(entry["lane"]), not entry["lifo"], -entry["accepted"]

    of_lanes = [*judges.lanes(batches(handed(judged, "entry", order=lane)))]

    def queue(row: dict[str, Any]) -> Any:
        entry, queued = row["entry"], row["queued"]
        if entry is None:
            return str(queued["_1"]), 0, 0, 0
        return str(entry["session"]), 1, -entry["acked"], -entry["message"]["_3"]

    waiting = handed([*of_lanes, *judged], "entry", "queued", order=queue)
    ours = {str(row["entry"]) for batch in of_lanes for row in batch.to_pylist() if row["entry"]}
    waiting = [row for row in waiting if row["entry"] is None or str(row["entry"]) in ours]
    schema = pa.schema([judges.SCHEMA.field(name) for name in ("run_id", "entry", "queued")])
    once = {str(row): row for row in waiting}
    of_queues = [*judges.queues(shared)(pa.Table.from_pylist([*once.values()], schema).to_batches(5))]

    def topic(row: dict[str, Any]) -> Any:
        return row["retained"]["topic"], row["due"]["_1"], row["due"]["_2"]

    steps = pa.Table.from_pylist(handed(judged, "due", "retained", order=topic)).to_batches(3)
    of_clients = of_types(rows, CLIENT_TYPES)
    of_clients.sort(key=lambda row: str(row["client"]))
    of_topics = of_types(rows, RETAINED_TYPES)
    of_topics.sort(key=lambda row: str(row["topic"]))
    refused = [taken(row, judges.fields_of(["policy.deny"])) for row in rows if row["type"] == "policy.deny"]
    ends = [
        {"run_id": RUN, "node": node, "boot": boot, "first": end(each.first), "last": end(each.last)}
        for (node, boot), of_boot in grouped.boots.items()
        for each in stretches(of_boot)
    ]
    sent = handed(judged, "entry", order=lambda row: (str(row["entry"]["session"]), row["entry"]["first_sent"]))
    sent = [row for row in sent if row["entry"]["first_sent"] >= 0]
    made = [
        *(judged + of_lanes + of_queues),
        *judges.sendings(shared)(pa.Table.from_pylist(sent, lanes_schema()).to_batches(5)),
        *judges.topics(shared)(steps),
        *judges.retained(shared)(batches(of_topics)),
        *judges.clients(shared)(batches(of_clients)),
        *judges.comparisons(shared)(batches(of_askers(rows))),
        *judges.writes(shared)(batches(of_writers(rows))),
        *judges.connections(shared)(steps_of_connections(rows, judged)),
        *(judges.refusals(shared)(batches(refused)) if refused else ()),
        *judges.boots(shared)(batches(ends)),
    ]
    found: list[Finding] = of(made, "finding")
    assert [each.id for each in found] == of(made, "id")
    counts = of(made, "counts")
    numbers = {
        name: sum(getattr(each, name) for each in counts) for name in ("published", "acked", "delivered", "open")
    }
    return Report(in_order(found), waiting=sum(each.waiting for each in counts), **numbers)


def steps_of_connections(rows: list[Row], judged: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The messages that waited long for each connection, and its rows."""
    place = ("node", "boot", "conn")
    steps = handed(judged, "wait", order=lambda row: row["wait"]["begin"])
    steps = [{**row, **{name: row["wait"][name] for name in place}} for row in steps]
    there = {tuple(row[name] for name in place) for row in steps}
    known = [taken(row, a08_stall.FIELDS) for row in rows if row["type"] in CONNECTION_TYPES]
    known = [{**row, "wait": None} for row in known if tuple(row[name] for name in place) in there]
    known.sort(key=lambda row: row["seq"])
    both = sorted([*steps, *known], key=lambda row: tuple(row[name] for name in place))
    names = dict.fromkeys(name for row in both for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in both])
    wait = pa.array([row["wait"] for row in both], judges.SCHEMA.field("wait").type)
    return [*table.set_column(table.schema.get_field_index("wait"), "wait", wait).to_batches(3)]


def lanes_schema() -> pa.Schema:
    """The schema of entries alone."""
    return pa.schema([judges.SCHEMA.field(name) for name in ("run_id", "entry")])


def of_askers(rows: list[Row]) -> list[dict[str, Any]]:
    """Comparisons of maps, by the node that asked."""
    found = [{**row, "asker": a22_non_convergence.asker(row)} for row in of_types(rows, COMPARISON_TYPES)]
    return sorted(found, key=lambda row: (row["asker"], *a22_non_convergence.order(row)))


def of_writers(rows: list[Row]) -> list[dict[str, Any]]:
    """The rows that name a write, by the boot that has written."""
    found = [row for row in of_types(rows, WRITE_TYPES) if row["write"] is not None]
    named = [(*a17_sub_lag.writer(row), row) for row in found]
    named.sort(key=lambda each: (*each[:2], *a17_sub_lag.order(each[2])))
    return [{**row, "writer": name, "writer_boot": boot} for name, boot, row in named]


def end(row: Row) -> dict[str, Any]:
    return {name: row.get(name) for name in ("seq", "hlc", "type", "first", "rows", "reason")}


@pytest.mark.parametrize("full", [2, judges.FULL])
def test_judges_find_in_batches_what_they_find_in_memory(monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    """All but what is judged by world alone: incidents, counts by place, sessions."""
    monkeypatch.setattr(judges, "FULL", full)
    rows = list(PlantedLog(11, 400, CASES).rows())
    whole = judge(rows, complete=False)
    random.Random(4).shuffle(rows)
    found = report_of(rows)
    driver = {"A12", "A13", "A20", "A23", "A24"}
    kinds = {("A0", "keys"), ("A0", "left-out"), ("A21", "policy")}
    judged = [each for each in whole.findings if each.anomaly not in driver]
    wanted = [each for each in judged if (each.anomaly, each.kind) not in kinds]
    assert found.findings == wanted
    assert (found.published, found.acked, found.delivered) == (whole.published, whole.acked, whole.delivered)
    assert (found.waiting, found.open) == (whole.waiting, whole.open)


def test_places_are_counted_by_task() -> None:
    rows = list(PlantedLog(11, 400, CASES).rows())
    shared = Shared({RUN: Grouped(rows).world(complete=False)})
    of_messages = [
        {**taken(row, FIELDS), "mid": mid_key(row["mid"])}
        for row in rows
        if row.get("mid") is not None and row["type"] in TYPES
    ]
    of_messages.sort(key=lambda row: (row["mid"], row["hlc"]))
    made = [*judges.messages(shared)(batches(of_messages))]
    whole = judge(rows, complete=False).findings
    counted = {(each.anomaly, each.value) for each in whole if each.anomaly == "A23"}
    counted |= {(each.anomaly, each.value) for each in whole if (each.anomaly, each.kind) == ("A21", "policy")}
    found = {("A23", number) for _, number in of(made, "exposed")} | {
        ("A21", number) for _, number in of(made, "without_lease")
    }
    assert found == counted and len(counted) > 1


class Watched(dict[str, Any]):
    """A row that notes which of its fields are read."""

    read: set[str]

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return dict.__getitem__(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """The field."""
        self.read.add(name)
        return dict.get(self, name, default)


def test_the_judge_of_messages_reads_the_fields_that_it_gets() -> None:
    """A field that a judge reads, and Spark does not select, would be missing in silence."""
    Watched.read = set()
    rows = [Watched(row) for row in PlantedLog(11, 3000, CASES).rows()]
    grouped = Grouped(rows)
    world = grouped.world()
    Watched.read.clear()
    for mid, of_message in grouped.messages.items():
        judge_message(mid, of_message, world)
    assert Watched.read == set(FIELDS)
