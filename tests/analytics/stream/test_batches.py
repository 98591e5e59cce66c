"""What workers make of what is due, without Spark; `test_streaming.py` runs all of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from strogoff.judge.alerts import Alert, Limits, Minute
from strogoff.judge.building import Summary, world_of
from strogoff.judge.findings import Subject
from strogoff.judge.lives import BootRows
from strogoff.judge.presence import Presence
from strogoff.judge.rows import LOGICAL_BITS, ms_of

from .streams import SOON, planted

pytest.importorskip("pyspark")

from strogoff.analytics.message_ids import mid_key
from strogoff.analytics.stream import batches as module
from strogoff.analytics.stream.batches import Batches, OfRun, judge_due, records_of
from strogoff.analytics.stream.items import MESSAGE, MINUTE, Counted, items_of, minute_of

RUN = "planted"


def judged(due: list[dict[str, Any]], of_run: dict[str, OfRun], limits: Limits = SOON) -> list[dict[str, Any]]:
    """What a worker makes of rows that are due."""
    shared: Any = SimpleNamespace(value=of_run)
    batches = [pa.RecordBatch.from_pylist([each]) for each in due]
    return [row for batch in judge_due(shared, limits)(batches) for row in batch.to_pylist()]


def message(rows: list[Any], client: str) -> dict[str, Any]:
    """The message that a client has published, with all its rows."""
    mid = next(row["mid"] for row in rows if row["type"] == "pub.recv" and row["client"] == client)
    texts = [msgspec.json.encode(dict(row)).decode() for row in rows if row.get("mid") == mid]
    return {"run_id": RUN, "kind": MESSAGE, "key": mid_key(mid), "number": len(texts), "rows": texts}


def test_messages_become_alerts_and_count_for_minutes() -> None:
    _, rows = planted(5, 60, ["lost-on-a-link", "overtaken"])
    of_boots = {(row["node"], row["boot"]): [row] for row in rows}  # the last one of each
    world = world_of(rows, Summary({key: BootRows.of(last) for key, last in of_boots.items()}, complete=True))
    of_run = {RUN: OfRun(world, Presence(rows, world))}
    lost, waits = message(rows, "c0-0-tx"), message(rows, "c1-0-tx")
    first, second = judged([lost, waits, waits], of_run)
    alert = msgspec.json.decode(first["found"], type=Alert)
    assert (alert.kind, alert.subject.client, first["id"], first["at"]) == ("forward", "c0-0-rx", alert.id, alert.at)
    assert first["minute"] is None
    assert minute_of(second["minute"])[1:3] == ("loss", "waits")
    number, at, _ = msgspec.json.decode(second["found"], type=Counted)
    assert (number, at) == (2, second["at"])
    assert judged([{**lost, "run_id": "unknown"}], of_run) == []


def test_minutes_become_alerts() -> None:
    row = {
        "type": "conn.open",
        "run_id": RUN,
        "node": "a",
        "boot": 1,
        "seq": 1,
        "hlc": 5 << LOGICAL_BITS,
        "client": "c",
    }
    _, of_client, _ = items_of(row, SOON, 1)
    due = {"run_id": RUN, "kind": MINUTE, "key": of_client.key, "number": 20, "rows": [of_client.row]}
    (found,) = judged([due], {})
    alert = msgspec.json.decode(found["found"], type=Alert)
    assert (alert.alert, alert.kind, alert.number, ms_of(alert.at)) == ("storm", "client", 20, 5)
    assert minute_of(of_client.key) == Minute(RUN, "storm", "client", "", "", "c", 0)
    assert judged([{**due, "number": 19}], {}) == []


def test_what_is_omitted_is_counted() -> None:
    found = [Alert("r", "drops", "x", "info", Subject(detail=str(at)), at << LOGICAL_BITS, "t") for at in (9, 3)]
    assert [each["time"] for each in records_of(found, 0, 1, 20)] == [3, 9]
    *_, last = records_of(found, 7, 1, 20)
    assert (last["alert"], last["number"], last["time"]) == ("omitted", 7, 20)
    assert last["id"] != records_of([], 7, 2, 20)[0]["id"]


def test_trouble_is_kept_for_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes another error of it."""
    from strogoff.analytics.trouble import Trouble

    def fails() -> None:
        raise Trouble("too much")

    table: Any = SimpleNamespace(unpersist=lambda: None, agg=lambda _: SimpleNamespace(collect=fails))
    table.persist = lambda: table
    monkeypatch.setattr(module, "F", SimpleNamespace(max=str))
    batches = Batches(tmp_path, SOON, lambda _: None)
    with pytest.raises(Trouble, match="too much"):
        batches(table, 0)
    assert str(batches.trouble) == "too much"
