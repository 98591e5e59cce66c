"""The run in the rows of the event log: all nodes of a cluster write under one id, in all boots."""

from __future__ import annotations

from strogoff.analytics.schema import validate
from tests.harness.cluster import ClusterHarness


def test_a_node_that_joins_goes_on_under_the_run_of_the_cluster() -> None:
    """Its own run ends with the totals so far and `node.stop`; the other one begins with `node.join` and the totals."""
    cluster = ClusterHarness(2, joined=False)
    rows = cluster[2].host.events
    alone, run = rows[0]["run_id"], cluster[1].host.events[0]["run_id"]
    assert alone != run
    cluster[2].client("early").leave()
    assert cluster[2].join() == ""
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)) and all(validate(row) == [] for row in rows)
    at = next(number for number, row in enumerate(rows) if row["type"] == "node.join")
    assert {row["run_id"] for row in rows[:at]} == {alone} and {row["run_id"] for row in rows[at:]} == {run}
    before, stop, join, after = rows[at - 2 : at + 2]
    assert (stop["type"], stop["reason"], join["old"]) == ("node.stop", "joined", alone)
    assert join["settings"] == rows[0]["settings"] and "queue_type=fifo" in join["settings"]
    assert join["level"] == "session"
    assert before["type"] == after["type"] == "node.stats" and before["connects"] == after["connects"] == 1


def test_a_restart_keeps_the_run() -> None:
    cluster = ClusterHarness(2)
    run = cluster[1].host.events[0]["run_id"]
    cluster[2].kill()
    known = len(cluster[2].host.events)
    cluster[2].start()
    cluster.whole()
    assert {row["run_id"] for row in cluster[2].host.events[known:]} == {run}
