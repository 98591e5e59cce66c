"""The partition monitor: its records of cuts, pauses and returns, heartbeat by heartbeat."""

from __future__ import annotations

from typing import Any

from strogoff.netsplit.incidents import IncidentLog
from strogoff.netsplit.partition_monitor import SAMPLES, PartitionMonitor
from strogoff.netsplit.suspicion import HEARTBEAT_MS, SuspicionTracker

ACCEPTED, REFUSED = ("publish", "accepted"), ("publish", "refused")


class Post:
    """Node `a` with peers `b` and `c`, which accepts one publish in each ms; time begins at 1000 ms."""

    def __init__(self) -> None:
        self.now = 1000
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.totals = {ACCEPTED: 0, REFUSED: 0}
        self.refusing = False
        self.incident_log = IncidentLog("a", lambda type_, fields: self.events.append((type_, fields)), self.now)
        suspicions = SuspicionTracker()
        suspicions.watch(("b", "c"), self.now)
        self.partition_monitor = PartitionMonitor(suspicions, self.incident_log, lambda: self.totals)
        self.partition_monitor.view((), 1, True, self.now)

    def pass_ms(self, duration: int, *heard: str) -> None:
        """Pass heartbeats in which these peers are heard."""
        for _ in range(duration // HEARTBEAT_MS):
            self.now += HEARTBEAT_MS
            self.totals[REFUSED if self.refusing else ACCEPTED] += HEARTBEAT_MS
            for peer in heard:
                self.partition_monitor.suspicions.heard(peer, self.now)
            self.partition_monitor.tick(self.now)

    def fields(self, type_: str) -> list[dict[str, Any]]:
        """Returns the fields of the events of this type."""
        return [fields for each, fields in self.events if each == type_]


def test_the_window_is_counted_back_to_its_begin() -> None:
    """The window includes the second of silence before the suspicion."""
    post = Post()
    post.pass_ms(5000, "b", "c")
    post.pass_ms(2500, "b")
    post.partition_monitor.view(("c",), 2, True, post.now)
    (detect,) = post.fields("split.detect")
    assert (detect["begin_ms"], detect["window_ms"]) == (6000, 2500)
    assert detect["counts"] == {"publish_accepted": 2500}
    post.refusing = True
    post.pass_ms(4000, "b")
    post.pass_ms(1000, "b", "c")
    post.partition_monitor.view((), 3, True, post.now)
    post.partition_monitor.healed(post.now)
    (heal,) = post.fields("split.heal")
    assert heal["counts"] == {"publish_accepted": 2500, "publish_refused": 5000}
    assert (heal["split_ms"], post.incident_log.active) == (5000, False)
    assert [type_ for type_, _ in post.events] == ["split.suspect", "split.detect", "split.change", "split.heal"]


def test_no_suspicion_comes_after_the_heal() -> None:
    """The view that makes the node whole may arrive before the next heartbeat reports the heard peers."""
    post = Post()
    post.pass_ms(2500, "b")
    post.partition_monitor.view(("c",), 2, True, post.now)
    post.pass_ms(2000, "b")
    for view in (3, 4):
        post.partition_monitor.view((), view, True, post.now)
        post.partition_monitor.healed(post.now)
    post.pass_ms(1000, "b")
    assert [type_ for type_, _ in post.events] == ["split.suspect", "split.detect", "split.change", "split.heal"]
    assert (post.incident_log.metrics()["netsplit_suspected"], post.incident_log.metrics()["netsplit_passed"]) == (1, 0)
    post.pass_ms(250, "b")
    assert post.fields("split.suspect")[1]["begin_ms"] == 5500, "silent from the heal on"


def test_counts_of_operations_are_added() -> None:
    post = Post()
    post.pass_ms(1000, "b", "c")
    post.partition_monitor.view((), 1, False, post.now)
    post.incident_log.count("publish", "merged", 7)
    post.partition_monitor.view((), 2, True, post.now)
    post.partition_monitor.healed(post.now)
    assert post.fields("split.heal")[0]["counts"] == {"publish_merged": 7}


def test_a_suspicion_that_passed_leaves_nothing_to_the_next() -> None:
    post = Post()
    post.pass_ms(1000, "b", "c")
    post.pass_ms(1500, "b")
    post.pass_ms(250, "b", "c")
    assert [fields["window_ms"] for fields in post.fields("split.pass")] == [1750]
    post.pass_ms(3000, "b", "c")
    post.pass_ms(2000, "c")
    post.partition_monitor.view(("b",), 2, True, post.now)
    assert post.fields("split.detect")[0]["counts"] == {"publish_accepted": 2000}


def test_one_returns_in_the_heartbeat_in_which_another_is_suspected() -> None:
    post = Post()
    post.pass_ms(1000, "b", "c")
    post.pass_ms(500, "c")
    post.pass_ms(1000)
    post.pass_ms(250, "b")
    assert [type_ for type_, _ in post.events] == ["split.suspect", "split.pass", "split.suspect"]
    post.partition_monitor.view(("c",), 2, True, post.now)
    (detect,) = post.fields("split.detect")
    assert detect["window_ms"] == detect["counts"]["publish_accepted"] == 1250


def test_a_lease_lost_after_a_pause_of_this_node() -> None:
    """No peer was heard during the pause: the window begins with the last heartbeat before it. Before, it was 0."""
    post = Post()
    post.pass_ms(1000, "b", "c")
    post.now += 10_000
    post.partition_monitor.view((), 1, False, post.now)
    (detect,) = post.fields("split.detect")
    assert (detect["state"], detect["window_ms"], detect["counts"]) == ("minority", 10_000, {})


def test_a_lease_lost_long_after_a_pause_of_this_node() -> None:
    post = Post()
    post.pass_ms(1000, "b", "c")
    post.now += 10_000
    post.pass_ms(3000, "b", "c")
    post.partition_monitor.view((), 1, False, post.now)
    assert post.fields("split.detect")[0]["window_ms"] == 0


def test_the_monitor_is_bounded() -> None:
    post = Post()
    post.pass_ms(SAMPLES * HEARTBEAT_MS * 2, "b", "c")
    assert len(post.partition_monitor._samples) == SAMPLES
