"""The judges on Spark against the same judges in memory, on the same logs in files."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics.schema import COLUMNS
from strogoff.judge.findings import Finding
from strogoff.judge.planted.expected import Expected
from strogoff.judge.planted.generate import CASES, PlantedLog
from strogoff.judge.run import judge
from strogoff.testing.cluster import Cluster
from strogoff.testing.log_audit.log_files import write_log

from ...testing.log_audit.log_builder import Log
from ...testing.log_audit.test_audit_cluster import Two
from ...testing.run_loop import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strogoff.analytics.audit.run_audit import RunAudit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

MESSAGES = 60
FILE_BYTES = 200_000


def short(found: Iterable[Finding | Expected]) -> list[tuple[str, str, str, bool, str]]:
    """What a finding and its expectation have in common."""
    return sorted((each.id, each.anomaly, each.kind, each.sure, each.severity) for each in found)


def audited(spark: SparkSession, log: Path, out: Path, first: int = 1000) -> list[RunAudit]:
    """The results of an audit of files."""
    from strogoff.analytics.audit.auditing import audit
    from strogoff.analytics.sources import open_tables

    tables = open_tables(spark, log, out)
    assert tables.report.understood
    return audit(spark, tables.events, first)


def counts(result: Any) -> tuple[Any, ...]:
    """What a result in memory and one of Spark have in common."""
    numbers = result.published, result.acked, result.delivered, result.waiting, result.open
    return result.verdict, list(result.findings), *numbers


def compress_some(log: Path) -> None:
    """Compress every second file."""
    files = sorted(log.rglob("*.jsonl"))
    assert len(files) > 2
    for path in files[::2]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def test_each_planted_case_is_a_run_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """All runs are in one directory, with the same nodes and boots; rows are in any order, in many files."""
    logs = {name: PlantedLog(5, MESSAGES, [name], positions=2) for name in CASES}
    runs = {name: [{**row, "run_id": name} for row in log.rows()] for name, log in logs.items()}
    known = {name for name, rows in runs.items() if all(set(row) <= set(COLUMNS) for row in rows)}
    # rows in files can say what the schema has, and those of a lost tail need a field that it may lack
    assert {field for rows in runs.values() for row in rows for field in row} - set(COLUMNS) <= {"known_seq"}
    rows = [row for name in sorted(known) for row in runs[name]]
    random.Random(9).shuffle(rows)
    compress_some(write_log(rows, tmp_path / "log", FILE_BYTES))
    results = {each.run_id: each for each in audited(spark, tmp_path / "log", tmp_path / "out")}
    assert set(results) == known
    for name, result in results.items():
        whole = judge(runs[name], complete=False)
        assert short(result.findings) == short(logs[name].expected), name
        assert counts(result) == counts(whole), name
        assert result.events == len(runs[name])
        stamps = [row["hlc"] >> 16 for row in runs[name]]
        assert (result.first_ms, result.last_ms) == (min(stamps), max(stamps))
        assert result.nodes == tuple(sorted({row["node"] for row in runs[name]}))
        begins = [row for row in runs[name] if row["type"] in ("node.start", "node.join")]
        assert result.levels == tuple(sorted({row.get("level") or "unknown" for row in begins}))
        assert sum(each.number for each in result.kinds) == len(whole.findings) and result.omitted == 0
    assert {each.verdict for each in results.values()} == {"valid", "invalid", "unknown"}


def test_a_log_that_ends_too_early_is_open_and_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    """The same with one more row of the other node is lost."""
    two = Two()
    two.b.subscriber(expiry_s=60)
    two.lost()
    two.a.say("mem.up", target=two.b.node)
    (result,) = audited(spark, write_log(two.rows, tmp_path / "log"), tmp_path / "out")
    assert (result.verdict, result.findings, result.open) == ("valid", (), 1)
    assert result.known_up_to_ms == two.b.rows[-1]["hlc"] >> 16 < result.last_ms
    two.b.say("mem.up", target=two.a.node)
    (result,) = audited(spark, write_log(two.rows, tmp_path / "log2"), tmp_path / "out2")
    assert (result.verdict, [each.kind for each in result.findings]) == ("invalid", ["stale-route"])


def test_a_hole_anywhere_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """In words of 64 rows, at their ends, and over several of them."""
    from strogoff.analytics.audit.auditing import FIRST

    runs = {}
    for number, missing in enumerate([{70}, {64}, {127, 128}, set(range(60, 300)), {65, 190, 191, 192}]):
        log = Log()
        for view in range(400):
            log.say("lease.get", view=view)
        runs[f"r{number}"] = [{**row, "run_id": f"r{number}"} for row in log.rows if row["seq"] not in missing]
    results = audited(
        spark, write_log([row for rows in runs.values() for row in rows], tmp_path / "log"), tmp_path / "o"
    )
    for result in results:
        assert counts(result) == counts(judge(runs[result.run_id], complete=False))
        assert result.verdict == "unknown" and 0 < len(result.findings) < FIRST


@pytest.mark.by_hand
def test_of_many_findings_the_first_are_kept_and_all_counted(spark: SparkSession, tmp_path: Path) -> None:
    """The verdict depends on all of them."""
    from strogoff.analytics.audit.auditing import audited as audit_of
    from strogoff.analytics.sources import open_tables

    log = Log()
    log.subscriber(expiry_s=60)
    for _ in range(30):
        log.ack(log.accept())
    log.say("node.stop")
    whole = judge(log.rows, complete=False)
    tables = open_tables(spark, write_log(log.rows, tmp_path / "log"), tmp_path / "out")
    with audit_of(spark, tables.events, 4) as done:
        (result,) = done.runs
        assert list(result.findings) == whole.findings[:4] and len(whole.findings) == 30
        assert (result.kinds[0].number, result.kinds[0].unsure, result.omitted) == (30, 0, 26)
        assert result.verdict == "invalid"
        assert {row["id"] for row in done.findings.select("id").collect()} == {each.id for each in whole.findings}
    with audit_of(spark, tables.events, 0) as done:
        (result,) = done.runs
        assert (result.findings, result.omitted, result.verdict) == ((), 30, "invalid")


def test_one_lane_and_one_client_with_nearly_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    """What is wrong in the middle of it is found, and nothing else."""
    from bench.eventlog_lines import write
    from strogoff.testing.log_audit.log_files import read_log

    for skew in ("topic", "client"):
        write(tmp_path / skew, 17_000, skew)  # a publisher has each topic again after 1,500 messages of 11 rows
        rows, _ = read_log(tmp_path / skew)
        sent = Counter(row["client"] for row in rows if row["type"] == "dlv.send")
        assert sent.most_common(1)[0][1] > 0.4 * sent.total()
        whole = judge(rows, complete=False)
        assert whole.verdict == "valid"
        wrong = spoiled(rows, max(sent, key=lambda client: sent[client]))
        (result,) = audited(spark, write_log(wrong, tmp_path / f"{skew}-wrong"), tmp_path / f"{skew}-out")
        assert counts(result) == counts(judge(wrong, complete=False))
        assert [each.anomaly for each in result.findings] == ["A6"]


def spoiled(rows: list[dict[str, Any]], client: str) -> list[dict[str, Any]]:
    """The same rows, but the client was sent two messages of one lane in the wrong order."""
    lanes: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["hlc"]):
        if row["type"] == "pub.recv":
            lanes.setdefault((row["client"], row["topic"]), []).append(row["mid"])
    lane = max(lanes.values(), key=len)
    one, other = lane[(len(lane) - 1) // 2 :][:2]
    swap = {tuple(one): other, tuple(other): one}

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        ours = row["type"] in ("dlv.send", "dlv.ack") and row["client"] == client and tuple(row["mid"]) in swap
        return {**row, "mid": swap[tuple(row["mid"])]} if ours else row

    return [changed(row) for row in rows]


def test_the_log_of_a_real_cluster_with_kills(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    run(killed_cluster(rows))
    assert sum(row["type"] == "fault.kill" for row in rows) == 2
    whole = judge(rows, complete=False)
    assert whole.acked >= 60 and whole.delivered >= 60
    for result in audited(spark, write_log(rows, tmp_path / "log"), tmp_path / "out"):
        ours = [row for row in rows if row["run_id"] == result.run_id]
        assert counts(result) == counts(judge(ours, complete=False))
        assert result.verdict == "valid"


async def killed_cluster(rows: list[dict[str, Any]]) -> None:
    """Publish to a durable session at another node while nodes are killed; add the rows of all nodes."""
    async with Cluster(2, seed=3) as c:
        rx = await c.client("rx", node=1, clean_start=False)
        await rx.subscribe("t/#", qos=1)
        for node in (1, 0):
            tx = await c.client(f"tx{node}")
            for number in range(30):
                await tx.publish(f"t/{number % 3}", "x", qos=1)
            for _ in range(30):
                await rx.message()
            await c.kill(node)
            await c.start(node)
            if node:
                await rx.reconnect()
        await c.settled()
        rows += map(dict, c.rows)
