"""The job `stream` on Spark: two runs in one directory, killed in the middle of a batch, and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics.schema import LOGICAL_BITS
from strogoff.cli import main
from strogoff.judge.alerts import MINUTE_MS
from strogoff.testing.cluster import Cluster
from strogoff.testing.log_audit.log_files import read_log, write_log

from ...testing.run_loop import run
from .streams import DELAY_MS, SOON, planted, streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe", "unsubscribe")}
CONNECTS = 4
LATE = 3
OPTIONS = (
    *("--once", f"--late={SOON.late_ms}ms", f"--slow={SOON.slow_ms}ms", f"--delay={DELAY_MS}ms"),
    f"--storm-client={CONNECTS}",
)
KILLED = """
import os, signal, sys
from strogoff.analytics.spark import open_session
from strogoff.analytics.stream import alerts_table
from strogoff.cli import main

write = alerts_table.write

def written(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

alerts_table.write = written
open_session("local[2]", "512m", java_options="-XX:TieredStopAtLevel=1")
main(["analytics", "stream", *sys.argv[1:]])
"""
"""Kills itself behind the first alerts, before the batch ends."""


async def play(directory: Path) -> None:
    """A client connects again and again, a full queue drops messages, and a node is cut off."""
    async with Cluster(3, {**CONF, "max_offline_messages": 1, "queue_replicas": 1}, pace=5) as c:
        rx = await c.client("rx", node=1, clean_start=False)
        late = await c.client("late", node=2, clean_start=False)
        await late.subscribe("t", qos=1)
        await late.disconnect()
        for _ in range(CONNECTS - 1):
            await rx.reconnect(node=1)
        tx = await c.client("tx", node=0)
        for _ in range(1 + LATE):
            await tx.publish("t", "x", qos=1)
        await c.partition({0}, {1, 2})
        await c.sees(0, "minority")
        await c.sees({1, 2}, "majority")
        await c.heal()
        await c.whole()
    c.write_log(directory)


def in_one_minute(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows some seconds later, so that a minute begins with them: what is counted is in one."""
    begin = min(row["hlc"] for row in rows) >> LOGICAL_BITS
    shift = -begin % MINUTE_MS << LOGICAL_BITS
    return [{**row, "hlc": row["hlc"] + shift} for row in rows]


def later(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row that another node wrote two minutes later. It tells the stream that all minutes before are over."""
    hlc = max(row["hlc"] for row in rows) + (2 * MINUTE_MS << LOGICAL_BITS)
    envelope = {"v": 7, "run_id": rows[0]["run_id"], "node": "z", "boot": 1, "seq": 1, "hlc": hlc, "mono_ns": 0}
    return [{**envelope, "type": "node.stop", "reason": "test"}]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_a_killed_stream_repeats_no_alert_and_misses_none(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    _, rows = planted(5, 300, ["stale-route", "overtaken", "sent-again"])
    expected = streamed(tmp_path / "world", rows, 5)
    write_log([dict(row) for row in rows], log, 30_000)
    run(play(tmp_path / "real"))
    real = in_one_minute(read_log(tmp_path / "real")[0])
    write_log([*real, *later(real)], log)
    words = [str(log), "--out", str(out), *OPTIONS]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = spark.read.parquet(str(out / "alerts")).select("id").collect()
    assert before
    assert main(["analytics", "stream", *words]) == 0
    found = [row.asDict() for row in spark.read.parquet(str(out / "alerts")).collect()]
    assert len({row["id"] for row in found}) == len(found)
    assert {row["id"] for row in before} < {row["id"] for row in found}
    assert sorted(row["id"] for row in found if row["run_id"] == "planted") == sorted(each.id for each in expected)
    assert {each.alert for each in expected} >= {"loss", "split"}
    others = Counter((row["alert"], row["kind"]) for row in found if row["run_id"] != "planted")
    # the nodes stop one after the other: that is another incident
    assert others.pop(("split", "detected")) >= 3
    assert others == {("storm", "client"): 1, ("drops", "queue_full"): 1}
    numbers = {row["alert"]: (row["client"], row["number"]) for row in found if row["run_id"] != "planted"}
    assert numbers["storm"] == ("rx", CONNECTS)
    assert numbers["drops"] == ("", LATE)


class State:
    """What Spark keeps of a part."""

    def __init__(self, watermark_ms: int) -> None:
        self.watermark_ms = watermark_ms
        self.get: tuple[bytes] = (b"",)
        self.exists = False
        self.timeout = 0

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark_ms

    def update(self, value: tuple[bytes]) -> None:
        self.get, self.exists = value, True

    def remove(self) -> None:
        self.exists = False

    def setTimeoutTimestamp(self, ms: int) -> None:  # noqa: N802
        self.timeout = ms


def test_a_part_is_held_until_the_watermark_passes() -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyspark")
    from strogoff.analytics.stream.items import MESSAGE, NOT_DUE, Item
    from strogoff.analytics.stream.streaming import hold

    def called(state: State, *items: Item) -> list[tuple[Any, ...]]:
        tables = [pandas.DataFrame([item], columns=Item._fields) for item in items]
        found = hold(("r", "1"), iter(tables), state)  # type: ignore[arg-type]
        return [tuple(row) for table in found for row in table.itertuples(index=False)]

    state = State(-1)
    rows = [Item("r", "1", 5, NOT_DUE, MESSAGE, "k", "a"), Item("r", "1", 6, 9, MESSAGE, "k", "b")]
    assert called(state, *rows) == [] and state.exists and state.timeout == 9
    state.watermark_ms = 8
    assert called(state) == []
    state.watermark_ms = 9
    assert called(state) == [("r", MESSAGE, "k", 2, ["a", "b"], 9)]
    assert not state.exists
    assert called(state) == [] and not state.exists


def test_items_that_came_too_late_are_counted_once() -> None:
    pytest.importorskip("pyspark")
    from strogoff.analytics.stream.streaming import Dropped

    def batch(number: int, *dropped: int) -> SimpleNamespace:
        return SimpleNamespace(
            batchId=number, stateOperators=[SimpleNamespace(numRowsDroppedByWatermark=each) for each in dropped]
        )

    batches = [batch(0, 2), batch(1, 0), batch(2, 5), batch(3, 1)]
    dropped = Dropped()

    def look(last: int, recent: bool) -> int:
        """A look behind this batch. Only one that has missed batches may ask for all of them."""
        query: Any = SimpleNamespace(lastProgress=batches[last] if last >= 0 else None)
        if recent:
            query.recentProgress = batches[: last + 1]
        return dropped.look(query)

    assert [look(-1, False), look(0, False), look(0, False), look(2, True), look(3, False)] == [0, 2, 0, 5, 1]
