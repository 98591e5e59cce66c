"""All views of a log with hashes in place of names: the same numbers, under other names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strogoff.analytics.generate.log_writing import LogWriter
from strogoff.analytics.schema import HEADER
from strogoff.broker.reporting.redaction import Redactor
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.rows import Row

from .story import SPARK, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK

ENVELOPE = {each.name for each in HEADER}
REDACTOR = Redactor(b"a key of a test, long enough")


def redacted(row: Row) -> dict[str, Any]:
    """The row as a node with this key writes it."""
    fields = {name: value for name, value in row.items() if name not in ENVELOPE}
    return {name: row[name] for name in ENVELOPE} | REDACTOR.fields(row["type"], fields)


def hashes(rows: Iterable[Row]) -> dict[str, str]:
    """Name -> hash, for clients, and for topics and all their prefixes."""
    found: dict[str, str] = {}
    for row in rows:
        for name in (row.get("client"), *row.get("targets", ())):
            if name:
                found[name] = REDACTOR.client(name)
        for text in (row.get("topic"), row.get("filter")):
            levels = (text or "").split("/")
            for depth in range(1, len(levels) + 1):
                prefix = "/".join(levels[:depth])
                found[prefix] = REDACTOR.topic(prefix)
    return found


def test_each_view_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.sources import open_tables
    from strogoff.analytics.views.registry import NAMES, view_of

    rows = [dict(row) for row in PlantedLog(5, 1200, ["overtaken", "sampling", "retained-differs"]).rows()]
    tables = []
    for name, given in (("plain", rows), ("hashes", [redacted(row) for row in rows])):
        writer = LogWriter(tmp_path / name)
        for row in given:
            writer.add(row)
        writer.close()
        tables.append(open_tables(spark, tmp_path / name, tmp_path / f"{name}-out").events.persist())
    known = hashes(rows)
    filled = 0
    for name in NAMES:
        plain, other = (shown(view_of(name).make(each)) for each in tables)
        expected = [tuple(known.get(cell, cell) if isinstance(cell, str) else cell for cell in row) for row in plain]
        assert sorted(map(repr, other)) == sorted(map(repr, expected)), name
        filled += len(plain) > 0
    assert filled >= 6
