"""Alerts as Parquet files, one for each batch that has some, and as JSON.

The name of a file is the number of its batch, and a batch that is repeated replaces its file by an equal one. So no
alert comes twice, wherever a kill was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...judge.alerts import Alert
from ...judge.rows import ms_of
from ..manifest import place
from ..message_ids import mid_key

ALERTS: Final = "alerts"
_UNFINISHED: Final = "_unfinished"
_NAME: Final = re.compile(r"([0-9]{12})\.parquet")
_ROW: Final = pa.struct([("node", pa.string()), ("boot", pa.int64()), ("seq", pa.int64())])
_TEXTS: Final = ("id", "run_id", "alert", "kind", "severity")
_SUBJECT: Final = ("node", "mountpoint", "client", "mid", "topic")
SCHEMA: Final = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("time", pa.timestamp("ms", "UTC")),
        *((name, pa.string()) for name in _SUBJECT),
        ("number", pa.int64()),
        ("text", pa.string()),
        ("rows", pa.list_(_ROW)),
    ]
)


def record_of(alert: Alert) -> dict[str, Any]:
    """The columns of an alert."""
    subject = alert.subject
    return {
        "id": alert.id,
        "run_id": alert.run_id,
        "alert": alert.alert,
        "kind": alert.kind,
        "severity": alert.severity,
        "time": ms_of(alert.at),
        "node": subject.node,
        "mountpoint": subject.mountpoint,
        "client": subject.client,
        "mid": "" if subject.message is None else mid_key(subject.message),
        "topic": subject.topic,
        "number": alert.number,
        "text": alert.text,
        "rows": [dict(zip(("node", "boot", "seq"), row, strict=True)) for row in alert.rows],
    }


def as_json(record: dict[str, Any]) -> bytes:
    """An alert as one JSON object; its time is ISO 8601, UTC."""
    return msgspec.json.encode({**record, "time": iso(record["time"])})


def iso(ms: int) -> str:
    """A time as text."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def write(out: Path, batch: int, records: Sequence[dict[str, Any]]) -> None:
    """Write the alerts of a batch, in one step. Raises OSError."""
    directory = out / ALERTS
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / _UNFINISHED
    pq.write_table(pa.Table.from_pylist(list(records), schema=SCHEMA), fresh, compression="zstd")
    place(out, fresh, f"{ALERTS}/{batch:012d}.parquet")


def batches(out: Path, after: int = -1) -> list[tuple[int, Path]]:
    """The batches with alerts behind a batch, in their order, and their files."""
    directory = out / ALERTS
    found = [(_NAME.fullmatch(path.name), path) for path in directory.iterdir()] if directory.is_dir() else []
    return sorted((int(name[1]), path) for name, path in found if name and int(name[1]) > after)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The alerts of a batch, as `record_of` makes them."""
    for record in pq.read_table(path).to_pylist():
        yield {**record, "time": round(record["time"].timestamp() * 1000)}
