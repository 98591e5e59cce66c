"""Alerts in Parquet files and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from strogoff.analytics.stream import alerts_table
from strogoff.judge.alerts import Alert
from strogoff.judge.findings import Subject

SUBJECT = Subject("n1", "m", "c", 0, ("n2", 3, 4), "t")
ALERT = Alert("r", "loss", "queue", "fatal", SUBJECT, 1_772_366_400_123 << 16, "text", (("n1", 1, 9),), 2)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    record = alerts_table.record_of(ALERT)
    alerts_table.write(tmp_path, 3, [record, record | {"id": "other"}])
    ((number, path),) = alerts_table.batches(tmp_path)
    assert number == 3 and path.name == "000000000003.parquet"
    assert [*alerts_table.read(path)] == [record, record | {"id": "other"}]


def test_a_batch_that_is_repeated_replaces_its_file(tmp_path: Path) -> None:
    record = alerts_table.record_of(ALERT)
    for text in ("a", "b"):
        alerts_table.write(tmp_path, 3, [record | {"text": text}])
    ((_, path),) = alerts_table.batches(tmp_path)
    assert [each["text"] for each in alerts_table.read(path)] == ["b"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_batches_behind_another_one(tmp_path: Path) -> None:
    assert alerts_table.batches(tmp_path) == []
    for number in (10, 2, 7):
        alerts_table.write(tmp_path, number, [alerts_table.record_of(ALERT)])
    (tmp_path / "alerts" / "_unfinished").touch()
    assert [number for number, _ in alerts_table.batches(tmp_path)] == [2, 7, 10]
    assert [number for number, _ in alerts_table.batches(tmp_path, 2)] == [7, 10]


def test_json_for_receivers() -> None:
    said = json.loads(alerts_table.as_json(alerts_table.record_of(ALERT)))
    assert said == {
        "id": ALERT.id,
        "run_id": "r",
        "alert": "loss",
        "kind": "queue",
        "severity": "fatal",
        "time": "2026-03-01T12:00:00.123Z",
        "node": "n1",
        "mountpoint": "m",
        "client": "c",
        "mid": "n2/000003/000000000004",
        "topic": "t",
        "number": 2,
        "text": "text",
        "rows": [{"node": "n1", "boot": 1, "seq": 9}],
    }
