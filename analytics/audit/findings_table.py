"""All findings of an audit as one Parquet file, and the rows that prove one of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..manifest import FINDINGS, SCRATCH, locked, place

NAME: Final = f"{FINDINGS}/findings.parquet"
MOST_ROWS: Final = 1000
"""So many rows of one finding are read."""


def write(findings: DataFrame, out: Path) -> Path:
    """Write all findings to one file below `out`, sorted by run, anomaly and time. It replaces the one of an earlier
    audit in one step. Spark writes it: the driver does not hold it. Raises `Unusable` and OSError."""
    with locked(out):
        (out / SCRATCH).mkdir(exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=out / SCRATCH))
        try:
            number = F.substring("anomaly", 2, 9).cast("int")
            one = findings.coalesce(1).sortWithinPartitions("run_id", number, "at", "id")
            one.write.option("compression", "zstd").parquet(str(scratch / FINDINGS))
            (written,) = (scratch / FINDINGS).glob("*.parquet")
            place(out, written, NAME)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return out / NAME


def with_id(findings: DataFrame, id: str) -> list[dict[str, Any]]:
    """The findings with this id, at most one for each run."""
    return [row.asDict(recursive=True) for row in findings.where(F.col("id") == id).orderBy("run_id").collect()]


def rows_of(finding: dict[str, Any], events: DataFrame) -> list[dict[str, Any]]:
    """The rows that prove a finding, in the order of their stamps: the fields that they have, with file and line."""
    ids = finding["rows"][:MOST_ROWS]
    if not ids:
        return []
    table = events.sparkSession.createDataFrame(
        [tuple(each.values()) for each in ids], "node string, boot long, seq long"
    )
    rows = events.where(F.col("run_id") == finding["run_id"]).join(
        F.broadcast(table.distinct()), ["node", "boot", "seq"]
    )
    found = [row.asDict(recursive=True) for row in rows.drop("date", "hour").collect()]
    found.sort(key=lambda row: (row["hlc"], row["node"], row["seq"]))
    return [{name: value for name, value in row.items() if value is not None} for row in found]
