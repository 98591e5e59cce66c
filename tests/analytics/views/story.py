"""Small logs made by hand: rows of nodes at given times, as the table `events`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ..logs import START_MS
from ..test_silver import event_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]
"""The marks of a module whose tests start Spark."""

DAY = "2026-03-01T"
"""The date of all rows; they begin at 11:00 UTC."""


class Story:
    """The rows of a log. All stamps rise, whatever the node."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._seqs: Counter[tuple[str, int]] = Counter()

    def at(self, ms: float, kind: str, node: str = "n1", boot: int = 1, **fields: Any) -> None:
        """Write a row, so many milliseconds after 11:00."""
        self._seqs[node, boot] += 1
        seq = self._seqs[node, boot]
        hlc = (START_MS + int(ms)) << 16 | len(self.rows)
        given = {"seq": seq, "hlc": hlc, "mono_ns": round(ms * 1_000_000), "type": kind}
        self.rows.append({"node": node, "boot": boot, **given, **fields})

    def message(self, ms: float, number: int = 1, topic: str = "a/b", node: str = "n1", client: str = "tx") -> str:
        """A client publishes a message with QoS 1 and 10 bytes. Returns the message's id."""
        mid = f"{node}/000001/{number:012d}"
        self.at(ms, "pub.recv", node, mid=mid, client=client, conn=1, topic=topic, qos=1, bytes=10)
        return mid

    def events(self, spark: SparkSession) -> DataFrame:
        """The rows as a table, of the run `r`."""
        return event_table(spark, self.rows)


def shown(made: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a view, in its order and with times as text: these columns, or all but the first, the run."""
    from strogoff.analytics.views.command import readable

    names = columns or made.columns[1:]
    return [tuple(row[name] for name in names) for row in readable(made).collect()]
