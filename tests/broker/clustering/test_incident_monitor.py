"""Incidents of nodes in a cluster: begin, detection and heal are in the event log of those who saw them."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import ClusterHarness, NodeHarness


def events(harness: NodeHarness, prefix: str = "net.") -> list[dict[str, Any]]:
    return [each for each in harness.host.events if str(each["type"]).startswith(prefix)]


def watch_of(harness: NodeHarness) -> Any:
    assert harness.host.clustering is not None
    return harness.host.clustering.incidents


@pytest.fixture(scope="module")
def split() -> ClusterHarness:
    """n3 is cut off for a while, and healed."""
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


def test_quiet_times_are_no_incident() -> None:
    cluster = ClusterHarness(3)
    cluster.pass_s(5.0)
    assert [watch_of(harness).ledger.detected for harness in cluster.nodes] == [0, 0, 0]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_node_sees_one_incident_and_its_end(split: ClusterHarness, number: int) -> None:
    ledger = watch_of(split[number]).ledger
    assert ledger.detected == 1
    assert not ledger.active
    assert ledger.metrics()["netsplit_detected"] == ledger.metrics()["netsplit_resolved"] == 1


def test_the_window_begins_when_the_node_was_last_heard(split: ClusterHarness) -> None:
    (row,) = watch_of(split[1]).ledger.rows()
    window = row["window_ms"]
    assert 500 <= window <= 4500, row


def test_what_was_done_meanwhile_is_counted(split: ClusterHarness) -> None:
    totals = watch_of(split[1])._totals()
    assert totals["publish", "accepted"] == 1
    assert totals["register", "accepted"] == 2
    assert totals["subscribe", "accepted"] == 1


def test_a_node_is_never_missing_for_itself_and_the_view_is_that_of_detection(split: ClusterHarness) -> None:
    for number, missing in ((1, ["n3"]), (2, ["n3"]), (3, ["n1", "n2"])):
        (row,) = watch_of(split[number]).ledger.rows()
        detect, *changes, heal = [each for each in events(split[number], "split.") if each["type"] != "split.suspect"]
        assert row["peers"] == detect["nodes"] == heal["nodes"] == missing
        assert row["view"] == detect["view"] == heal["view"] < changes[-1]["view"]
        assert all(f"n{number}" not in change["nodes"] for change in changes)


def cut_off(**options: Any) -> ClusterHarness:
    """n3 is cut off from the others and knows it."""
    cluster = ClusterHarness(3, **options)
    cluster.pass_s(1.0)
    return cluster


def cut(cluster: ClusterHarness) -> None:
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")


def healed_counts(cluster: ClusterHarness, number: int = 3) -> dict[str, int]:
    cluster.network.heal()
    cluster.whole()
    cluster.until(lambda: not watch_of(cluster[number]).ledger.active)
    counts: dict[str, int] = watch_of(cluster[number]).ledger.rows()[-1]["counts"]
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
    assert watch_of(cluster[3]).ledger.rows()[-1]["counts"] == {"publish_parked": 3, "register_refused": 1}
    assert healed_counts(cluster).get("publish_accepted", 0) in (0, 3)  # tried again in the moment of the heal
    cluster.pass_s(1.0)
    totals = watch_of(cluster[3])._totals()
    assert (totals["publish", "accepted"], totals["publish", "parked"]) == (3, 3)


def test_an_answer_that_may_not_leave_is_voided() -> None:
    """The publish waits for a subscriber at the other side; then the others go on without the node, and it is void."""
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


def test_an_answer_after_a_standstill_is_voided() -> None:
    """SIGSTOP: the packet comes before the process knows that its lease is over."""
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
    (row,) = watch_of(cluster[3]).ledger.rows()
    assert 5000 <= row["window_ms"] <= 7000, "the process knew nothing while it stood still"


def test_what_is_accepted_without_a_lease_is_to_be_merged() -> None:
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


def test_a_watch_looks_with_its_member_once_in_a_heartbeat() -> None:
    """Whatever wakes the member, and without a timer of its own; what was heard between two looks counts."""
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    watch = watch_of(cluster[1])
    node, samples = cluster[1].node, watch.lookout._samples
    samples.clear()
    timers = len(node.env.timers)
    cluster.pass_s(3.0)
    assert 9 <= len(samples) <= 14 and len(node.env.timers) == timers == 0
    assert watch.lookout.evidence.suspect(node.env.now) == ()


def test_a_watch_begins_once_and_ends_with_its_node() -> None:
    cluster = ClusterHarness(2)
    watch = watch_of(cluster[1])
    watch.begin()
    watch.begin()
    cluster[2].kill()
    cluster.until(lambda: watch.ledger.detected)
    cluster.pass_s(3.0)
    assert watch.ledger.detected == 1
    assert watch.ledger.active
