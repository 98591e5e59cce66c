"""The rows of the event log about the replicated map: who learns of subscriptions, and when."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.schema import MESSAGE, SESSION
from strogoff.judge.anomalies.a22_non_convergence import asker
from strogoff.judge.run import judge
from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import ON, ClusterHarness

Row = dict[str, Any]


def of(cluster: ClusterHarness, *types: str) -> list[Row]:
    """Returns the rows of these types, of all nodes, in the order of their stamps."""
    rows = [row for harness in cluster.nodes for row in harness.host.events if row["type"] in types]
    return sorted(rows, key=lambda row: int(row["hlc"]))


def lags(cluster: ClusterHarness) -> dict[str, int]:
    """Returns what the judge says about subscriptions."""
    (run,) = {row["run_id"] for row in of(cluster, "sub.add")}
    rows = [row for harness in cluster.nodes for row in harness.host.events if row["run_id"] == run]
    return {each.kind: each.value for each in judge(rows).findings if each.anomaly == "A17"}


@pytest.mark.parametrize("lasts", [{}, {"expiry_s": 99}])
def test_other_nodes_learn_of_a_subscription_before_suback(lasts: dict[str, Any]) -> None:
    """SUBACK names the last write of its packet. A node whose disk is slow learns of a durable subscription late."""
    cluster = ClusterHarness(3, level=MESSAGE)
    client = cluster[1].client("c", **lasts)
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 0.3
    client.subscribe(("a", 1), ("b", 1))
    cluster.pass_s(1)
    first, second = of(cluster, "sub.add")
    (answer,) = of(cluster, "sub.ack")
    assert 0 < first["write"] < second["write"] == answer["write"]
    learned = [row for row in of(cluster, "map.learn") if row["source"] == "n1" and row["write"] >= answer["write"]]
    soonest = {row["node"]: row["hlc"] for row in reversed(learned)}
    assert set(soonest) == {"n2", "n3"}
    assert all(second["hlc"] < stamp < answer["hlc"] for stamp in soonest.values())
    assert {row["source_boot"] for row in learned} == {first["boot"]}
    found = lags(cluster)
    assert set(found) == {"p50", "p99", "max"}
    assert (found["max"] >= 250) is bool(lasts)


def test_a_suback_that_waits_for_nobody_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterHarness(3, level=MESSAGE)
    monkeypatch.setattr(cluster[1].member.metadata, "barrier", lambda counter, then: then(True) or 1)
    client = cluster[1].client("c", clean=False, expiry_s=99)
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 0.3
    client.subscribe(("a", 1))
    cluster.pass_s(1)
    assert lags(cluster)["late"] == 1


def test_without_a_lease_suback_names_no_write() -> None:
    """The policy accepts it for this node alone."""
    cluster = ClusterHarness(3, level=MESSAGE, **ON)
    client = cluster[3].client("c")
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    client.subscribe(("a", 1))
    assert [(row["type"], row.get("write")) for row in of(cluster, "sub.add", "sub.ack")] == [
        ("sub.add", None),
        ("sub.ack", None),
    ]


def test_at_level_session_nobody_says_what_it_learns() -> None:
    cluster = ClusterHarness(2, level=SESSION)
    cluster[1].client("c").subscribe(("a", 1))
    assert of(cluster, "map.learn") == [] and of(cluster, "sub.ack")[0]["write"] > 0


def compared(cluster: ClusterHarness) -> list[list[Row]]:
    """Returns the two rows of each comparison, the answer first, in the order of their ends."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in of(cluster, "map.sync"):
        found.setdefault((asker(row), row["exchange"]), []).append(row)
    return sorted((rows for rows in found.values() if len(rows) == 2), key=lambda rows: int(rows[1]["hlc"]))


def findings(cluster: ClusterHarness) -> list[tuple[str, str]]:
    """Returns what the judge says about the maps."""
    found = judge([row for harness in cluster.nodes for row in harness.host.events]).findings
    return [(each.kind, each.subject.node) for each in found if each.anomaly == "A22"]


@pytest.mark.parametrize("wrong", [False, True])
def test_both_sides_of_a_comparison_write_what_they_have(wrong: bool) -> None:
    """After a split all nodes have the same. A value that a node has lost in secret shows."""
    cluster = ClusterHarness(3, level=SESSION, **ON)
    clients = [cluster[number].client(f"c{number}", expiry_s=99) for number in (1, 2, 3)]
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    for number, client in enumerate(clients):
        client.subscribe((f"t/{number}", 1))
        client.publish(f"r/{number}", b"x", 1, 2, retain=True)
        client.publish("r/same", b"%d" % number, 1, 3, retain=True)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(60)
    if wrong:
        half = cluster[2].member.metadata._halves[0]
        key = next(key for key, _ in half.walk() if key.endswith(b"r/same"))
        half.forget(key, half.siblings(key)[0])
    cluster.pass_s(60)
    pairs = compared(cluster)
    assert len(pairs) > 20 and all(rows[1]["behind"] == 0 for rows in pairs)
    last = pairs[-3:]
    assert {row["context"] for rows in last for row in rows} == {last[0][0]["context"]} != {""}
    assert {(rows[0]["node"], rows[0]["source"]) == (rows[1]["target"], rows[1]["node"]) for rows in last} == {True}
    assert bool(findings(cluster)) is wrong
    assert not wrong or {kind for kind, _ in findings(cluster)} == {"different"}
