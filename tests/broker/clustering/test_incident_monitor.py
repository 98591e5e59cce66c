"""Incidents of nodes in a cluster: each node that sees one records its begin, detection and heal in the event log."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness


def events(harness: NodeHarness, prefix: str = "net.") -> list[dict[str, Any]]:
    return [each for each in harness.host.events if str(each["type"]).startswith(prefix)]


def watch_of(harness: NodeHarness) -> Any:
    assert harness.host.clustering is not None
    return harness.host.clustering.incidents


@pytest.fixture(scope="module")
def split() -> ClusterHarness:
    """A cluster whose node n3 was cut off for a while and is back."""
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority")
    cluster[1].client("reader").subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster.pass_s(1.0)
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    writer.publish("t", b"1", 1)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    return cluster


def test_no_fault_is_no_incident() -> None:
    cluster = ClusterHarness(3)
    cluster.pass_s(5.0)
    assert [watch_of(harness).incident_log.detected for harness in cluster.nodes] == [0, 0, 0]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_node_sees_one_incident_and_its_end(split: ClusterHarness, number: int) -> None:
    incident_log = watch_of(split[number]).incident_log
    assert incident_log.detected == 1
    assert not incident_log.active
    assert incident_log.metrics()["netsplit_detected"] == incident_log.metrics()["netsplit_resolved"] == 1


def test_the_window_begins_with_the_last_frame_of_the_node(split: ClusterHarness) -> None:
    (row,) = watch_of(split[1]).incident_log.rows()
    window = row["window_ms"]
    assert 500 <= window <= 4500, row


def test_operations_during_an_incident_are_counted(split: ClusterHarness) -> None:
    totals = watch_of(split[1])._totals()
    assert totals["publish", "accepted"] == 1
    assert totals["register", "accepted"] == 2
    assert totals["subscribe", "accepted"] == 1


def test_an_incident_names_the_other_nodes_and_the_view_of_detection(split: ClusterHarness) -> None:
    for number, missing in ((1, ["n3"]), (2, ["n3"]), (3, ["n1", "n2"])):
        (row,) = watch_of(split[number]).incident_log.rows()
        detect, *changes, heal = [each for each in events(split[number], "split.") if each["type"] != "split.suspect"]
        assert row["peers"] == detect["nodes"] == heal["nodes"] == missing
        assert row["view"] == detect["view"] == heal["view"] < changes[-1]["view"]
        assert all(f"n{number}" not in change["nodes"] for change in changes)


def cut_off(**options: Any) -> ClusterHarness:
    """A cluster of three nodes to cut."""
    cluster = ClusterHarness(3, **options)
    cluster.pass_s(1.0)
    return cluster


def cut(cluster: ClusterHarness) -> None:
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")


def healed_counts(cluster: ClusterHarness, number: int = 3) -> dict[str, int]:
    cluster.network.heal()
    cluster.whole()
    cluster.until(lambda: not watch_of(cluster[number]).incident_log.active)
    counts: dict[str, int] = watch_of(cluster[number]).incident_log.rows()[-1]["counts"]
    return counts


def test_parked_publishes_are_parked_and_not_accepted() -> None:
    cluster = cut_off(allow_publish_during_netsplit="majority", allow_register_during_netsplit="majority")
    writer = cluster[3].client("writer", version=4)
    cluster.pass_s(1.0)
    cut(cluster)
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    for number in range(1, 4):
        assert writer.publish("t", b"m", 1, packet_id=number) == []
    assert cluster[3].connect("stranger", version=4)[1].reason == 3
    cluster.pass_s(1.0)
    assert watch_of(cluster[3]).incident_log.rows()[-1]["counts"] == {"publish_parked": 3, "register_refused": 1}
    assert healed_counts(cluster).get("publish_accepted", 0) in (0, 3)  # tried again when the cut heals
    cluster.pass_s(1.0)
    totals = watch_of(cluster[3])._totals()
    assert (totals["publish", "accepted"], totals["publish", "parked"]) == (3, 3)


def test_a_publish_whose_answer_is_held_back_is_voided() -> None:
    """The publish waits for a subscriber on the other side. The other nodes continue without this node, so the publish
    is void.
    """
    cluster = cut_off(allow_publish_during_netsplit="majority")
    cluster[1].client("reader").subscribe(("t", 1))
    writer = cluster[3].client("writer", version=4)
    cluster.pass_s(1.0)
    cut(cluster)
    assert writer.publish("t", b"m", 1) == []
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    assert cluster[3].node.policy.view_state is ViewState.MINORITY
    counts = healed_counts(cluster)
    assert writer.closed and counts == {"publish_accepted": 1, "publish_voided": 1}


def test_a_publish_read_after_a_pause_of_the_process_is_voided() -> None:
    """SIGSTOP: the packet arrives before the process knows that its lease is over."""
    cluster = cut_off(allow_publish_during_netsplit="majority")
    writer = cluster[3].client("writer", version=4)
    cluster[3].pause_process()
    writer.send(publish("t", b"m", 1))
    cluster.pass_s(6.0)
    cluster[3].resume_process()
    cluster.until(lambda: writer.closed)
    cluster.pass_s(1.0)
    counts = healed_counts(cluster)
    assert counts["publish_voided"] == 1
    (row,) = watch_of(cluster[3]).incident_log.rows()
    assert 5000 <= row["window_ms"] <= 7000, "the window begins when the process stopped"


def test_operations_accepted_without_a_lease_count_as_merged() -> None:
    cluster = cut_off(
        allow_publish_during_netsplit="on", allow_subscribe_during_netsplit="on", allow_register_during_netsplit="on"
    )
    cut(cluster)
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    writer = cluster[3].client("writer", version=4)
    assert writer.subscribe(("t", 1))[0].reasons == [1]
    for number in range(1, 4):
        writer.publish("t", b"m", 1, packet_id=number)
    cluster.pass_s(1.0)
    counts = healed_counts(cluster)
    assert (counts["publish_merged"], counts["subscribe_merged"], counts["register_merged"]) == (3, 1, 1)
    assert counts["publish_accepted"] == 3


def test_a_subscribe_that_the_rules_forbid_is_not_accepted() -> None:
    cluster = cut_off()
    watch = watch_of(cluster[1])
    before = dict(watch._totals())
    cluster[1].node.env.counters.subscribe_received[0] += 1
    cluster[1].node.env.counters.subscribe_auth_error[0] += 1
    assert watch._totals() == before


def test_a_watch_looks_once_per_heartbeat_without_a_timer() -> None:
    """The watch has no timer and looks at most once per heartbeat; frames between two looks count."""
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    watch = watch_of(cluster[1])
    node, samples = cluster[1].node, watch.partition_monitor._samples
    samples.clear()
    timers = len(node.env.timers)
    cluster.pass_s(3.0)
    assert 9 <= len(samples) <= 14 and len(node.env.timers) == timers == 0
    assert watch.partition_monitor.suspicions.suspect(node.env.now) == ()


def test_a_watch_begins_once_and_ends_with_its_node() -> None:
    cluster = ClusterHarness(2)
    watch = watch_of(cluster[1])
    watch.begin()
    watch.begin()
    cluster[2].kill()
    cluster.until(lambda: watch.incident_log.detected)
    cluster.pass_s(3.0)
    assert watch.incident_log.detected == 1
    assert watch.incident_log.active


@pytest.mark.parametrize("ahead_ms", [0.0, 3_600_000.0])
def test_a_node_that_joined_with_a_wrong_clock_measures_the_window(ahead_ms: float) -> None:
    """It has heard the others before it learns cluster time, because they are far away (H-17)."""
    cluster = ClusterHarness(3, joined=False, **MAJORITY)
    assert cluster[2].join() == ""
    cluster[3].replace_disk()
    cluster[3].host.wall_ahead_ms = ahead_ms
    cluster[3].host.start()
    for other in ("n1", "n2"):
        cluster.network.delay(other, "n3", 0.1)
        cluster.network.delay("n3", other, 0.1)
    assert cluster[3].join() == ""
    cluster.whole()
    cluster.pass_s(5.0)
    cluster[2].kill()
    cluster.pass_s(10.0)
    (row,) = watch_of(cluster[3]).incident_log.rows()
    assert 500 <= row["window_ms"] <= 4500, row
