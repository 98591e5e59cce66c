"""The log of incidents: begin, detection and heal, counts, and events that match the schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics.schema import validate
from strogoff.netsplit.incidents import KEEP, METRICS, OUTCOMES, START_MS, IncidentLog
from strogoff.netsplit.policy import OPERATIONS

HEADER = {"v": 1, "run_id": "r", "node": "a", "boot": 1, "seq": 1, "hlc": 1, "mono_ns": 1}


class Desk:
    """The incident log of node `a` that was whole from the start, and the events that it emitted."""

    def __init__(self, whole: bool = True) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.incident_log = IncidentLog("a", self.emit, 1000)
        if whole:
            self.incident_log.view((), 1, True, 1000)

    def emit(self, type_: str, fields: dict[str, Any]) -> None:
        assert validate({**HEADER, "type": type_, **fields}) == []
        self.events.append((type_, fields))

    @property
    def types(self) -> list[str]:
        """Returns the emitted types, without the fields."""
        return [type_.removeprefix("split.") for type_, _ in self.events]

    def last(self) -> dict[str, Any]:
        """Returns the fields of the last event."""
        return self.events[-1][1]


def test_the_life_of_an_incident_on_the_side_with_the_lease() -> None:
    desk = Desk()
    incident_log = desk.incident_log
    incident_log.view((), 6, True, 4000)
    incident_log.suspected("c", 5000, 6001)
    incident_log.count("publish", "accepted")
    incident_log.count("register", "accepted", 2)
    incident_log.view(("c",), 7, True, 7600)
    incident_log.count("publish", "refused")
    incident_log.view((), 8, True, 9000)
    incident_log.count("publish", "merged", 3)
    incident_log.healed(9500)
    window = {"register_accepted": 2, "publish_accepted": 1}
    counts = {**window, "publish_refused": 1, "publish_merged": 3}
    times = {"begin_ms": 5000, "detected_ms": 7600, "window_ms": 2600}
    assert desk.events == [
        ("split.suspect", {"nodes": ["c"], "incident": 6, "begin_ms": 5000, "window_ms": 1001}),
        ("split.detect", {"nodes": ["c"], "incident": 6, "state": "majority", "view": 7, **times, "counts": window}),
        ("split.change", {"nodes": [], "incident": 6, "state": "whole", "view": 8}),
        (
            "split.heal",
            {
                "nodes": ["c"],
                "incident": 6,
                "state": "majority",
                "view": 7,
                **times,
                "healed_ms": 9500,
                "split_ms": 1900,
                "counts": counts,
            },
        ),
    ]
    assert incident_log.rows() == [
        {
            "node": "a",
            "number": 1,
            "begin_ms": 5000,
            "detected_ms": 7600,
            "healed_ms": 9500,
            "window_ms": 2600,
            "split_ms": 1900,
            "state": "majority",
            "worst": "majority",
            "peers": ["c"],
            "view": 7,
            "incident": 6,
            "uncertain": window,
            "counts": counts,
        }
    ]


def test_without_a_lease_an_incident_names_the_silent_members() -> None:
    """The view of a cut-off node is old and complete: no node is missing in it."""
    desk = Desk()
    desk.incident_log.suspected("c", 5100, 6200)
    desk.incident_log.suspected("b", 5000, 6200)
    desk.incident_log.view((), 1, False, 7000)
    assert desk.last()["nodes"] == ["b", "c"]
    assert (desk.last()["state"], desk.last()["window_ms"]) == ("minority", 2000)
    desk.incident_log.suspected("b", 5000, 7100)
    assert desk.types == ["suspect", "suspect", "detect"]


def test_with_a_lease_an_incident_begins_with_the_first_missing_member() -> None:
    desk = Desk()
    desk.incident_log.suspected("b", 4000, 5100)
    desk.incident_log.suspected("c", 5000, 6200)
    desk.incident_log.suspected("d", 4900, 6200)
    desk.incident_log.view(("d", "c"), 2, True, 7000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"]) == (["c", "d"], 4900)
    desk.incident_log.returned("b", 7100)
    assert desk.types == ["suspect"] * 3 + ["detect", "pass"]
    assert desk.incident_log.active


def test_a_lease_that_is_lost_without_a_suspicion_begins_there() -> None:
    desk = Desk()
    desk.incident_log.view((), 1, False, 7000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"], desk.last()["window_ms"]) == ([], 7000, 0)


def test_after_a_pause_the_window_begins_when_the_process_stopped() -> None:
    """This holds also if no node was missing; a pause long ago, or one within the lease, changes nothing."""
    desk = Desk()
    desk.incident_log.view((), 1, True, 6000, 2000)
    desk.incident_log.view((), 1, False, 9000, 3000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"], desk.last()["window_ms"]) == ([], 3000, 6000)
    other = Desk()
    other.incident_log.suspected("c", 7500, 8600)
    other.incident_log.view(("c",), 2, True, 9000, 3000)
    assert other.last()["begin_ms"] == 7500, "with a lease the incident names the missing member"


def test_a_change_names_silent_members_while_there_is_no_lease() -> None:
    desk = Desk()
    desk.incident_log.view(("c",), 2, True, 5000)
    desk.incident_log.suspected("b", 5500, 6600)
    desk.incident_log.view(("c",), 2, False, 7000)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c"], "minority")


def test_a_suspicion_that_passes() -> None:
    desk = Desk()
    incident_log = desk.incident_log
    incident_log.suspected("b", 5000, 6100)
    incident_log.suspected("b", 5000, 6200)
    incident_log.count("publish", "accepted")
    incident_log.returned("b", 6400)
    incident_log.returned("b", 6500)
    assert desk.events[1:] == [("split.pass", {"nodes": ["b"], "incident": 1, "begin_ms": 5000, "window_ms": 1400})]
    assert not incident_log.active and incident_log.rows() == []
    incident_log.view(("b",), 2, True, 9000)
    assert desk.last()["counts"] == {}, "the counts belonged to a suspicion that passed"
    assert (incident_log.metrics()["netsplit_suspected"], incident_log.metrics()["netsplit_passed"]) == (1, 1)


def test_one_incident_continues_while_members_change() -> None:
    desk = Desk()
    incident_log = desk.incident_log
    incident_log.view(("c",), 2, True, 5000)
    incident_log.view(("c",), 2, True, 5100)
    incident_log.view(("b", "c"), 2, False, 6000)
    incident_log.view(("b",), 3, True, 7000)
    incident_log.view((), 4, True, 8000)
    incident_log.view(("c",), 5, True, 8100)
    incident_log.healed(8200)
    assert desk.types == ["detect", "change", "change", "change", "change"], "not whole, so not healed"
    incident_log.view((), 6, True, 9000)
    incident_log.healed(9000)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c"], "minority")
    assert incident_log.metrics()["netsplit_detected"] == incident_log.metrics()["netsplit_resolved"] == 1


def test_a_healthy_node_writes_nothing() -> None:
    desk = Desk()
    desk.incident_log.view((), 2, True, 2000)
    desk.incident_log.count("publish", "accepted")
    desk.incident_log.healed(3000)
    assert desk.events == [] and desk.incident_log.rows() == []


def test_a_node_that_starts_has_time_to_get_its_first_lease() -> None:
    desk = Desk(whole=False)
    desk.incident_log.view(("a", "b"), 0, False, 1000)
    desk.incident_log.view(("a", "b"), 0, False, 1000 + START_MS - 1)
    assert desk.events == []
    desk.incident_log.view(("a", "b"), 0, False, 1000 + START_MS)
    assert desk.types == ["detect"]


def test_a_node_that_starts_in_an_incomplete_cluster_reports_it_at_once() -> None:
    desk = Desk(whole=False)
    desk.incident_log.view(("b",), 3, True, 1200)
    assert desk.types == ["detect"] and desk.last()["state"] == "majority"


def test_metrics_know_the_last_and_the_longest_window() -> None:
    desk = Desk()
    incident_log = desk.incident_log
    for begin, detected in ((5000, 8000), (20_000, 21_500)):
        incident_log.suspected("b", begin, begin + 1001)
        incident_log.view(("b",), 2, True, detected)
        assert incident_log.metrics()["netsplit_open"] == 1
        incident_log.view((), 3, True, detected + 1000)
        incident_log.healed(detected + 1000)
    assert list(incident_log.metrics()) == list(METRICS)
    assert incident_log.metrics() == {
        "netsplit_detected": 2,
        "netsplit_resolved": 2,
        "netsplit_suspected": 2,
        "netsplit_passed": 0,
        "netsplit_open": 0,
        "netsplit_last_window_ms": 1500,
        "netsplit_longest_window_ms": 3000,
    }


def test_the_open_incident_is_a_row_with_its_known_fields() -> None:
    desk = Desk()
    desk.incident_log.view(("b",), 2, True, 5000)
    desk.incident_log.count("subscribe", "refused")
    (row,) = desk.incident_log.rows()
    assert (row["healed_ms"], row["split_ms"], row["counts"]) == (None, None, {"subscribe_refused": 1})


def test_the_ledger_is_bounded() -> None:
    desk = Desk()
    for number in range(KEEP + 20):
        desk.incident_log.view(("b",), number, True, 5000 + number)
        desk.incident_log.view((), number, True, 5000 + number)
        desk.incident_log.healed(5000 + number)
    assert [row["number"] for row in desk.incident_log.rows()] == list(range(21, KEEP + 21))


def test_members_silent_without_a_lease_belong_to_the_incident() -> None:
    """A second member is lost, and then a third: no view is possible without them, and no suspicion has passed."""
    desk = Desk()
    incident_log = desk.incident_log
    incident_log.suspected("c", 3000, 4100)
    incident_log.view(("c",), 2, True, 5000)
    incident_log.suspected("b", 5500, 6600)
    incident_log.view(("c",), 2, False, 7000)
    incident_log.suspected("d", 6500, 7600)
    incident_log.suspected("d", 6500, 7850)
    for peer in "bcd":
        incident_log.returned(peer, 8000)
    incident_log.view((), 3, True, 8100)
    incident_log.healed(8200)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c", "d"], "minority")
    assert desk.types == ["suspect", "detect", "suspect", "change", "suspect", "change", "heal"]
    assert (incident_log.metrics()["netsplit_suspected"], incident_log.metrics()["netsplit_passed"]) == (3, 0)
    incident_log.suspected("b", 8500, 9600)
    assert incident_log.active and incident_log.begin_ms == 8500


@pytest.mark.parametrize(("operation", "outcome"), [("ping", "accepted"), ("publish", "lost")])
def test_unknown_words_raise_a_key_error(operation: str, outcome: str) -> None:
    desk = Desk()
    desk.incident_log.view(("b",), 2, True, 5000)
    with pytest.raises(KeyError):
        desk.incident_log.count(operation, outcome)


PEERS = st.sampled_from("bcd")
STEPS = st.one_of(
    st.tuples(st.just("suspected"), PEERS, st.integers(0, 3000)),
    st.tuples(st.just("returned"), PEERS),
    st.tuples(st.just("view"), st.sets(PEERS), st.booleans()),
    st.tuples(st.just("count"), st.sampled_from(OPERATIONS), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("healed")),
)


@given(st.lists(STEPS, max_size=60))
def test_every_incident_has_one_detection_and_at_most_one_heal_in_order(steps: list[Any]) -> None:
    desk = Desk()
    incident_log = desk.incident_log
    now = 10_000
    counted = 0
    for kind, *rest in steps:
        now += 100
        if kind == "suspected":
            incident_log.suspected(rest[0], now - rest[1], now)
        elif kind == "returned":
            incident_log.returned(rest[0], now)
        elif kind == "view":
            incident_log.view(tuple(rest[0]), now, rest[1], now)
        elif kind == "healed":
            incident_log.healed(now)
        else:
            counted += incident_log.active
            incident_log.count(*rest)
        assert incident_log.active or incident_log.open is None
    ends = [each for each in desk.types if each in ("detect", "heal")]
    assert ends == (["detect", "heal"] * len(ends))[: len(ends)]
    metrics = incident_log.metrics()
    assert metrics["netsplit_detected"] - metrics["netsplit_resolved"] == metrics["netsplit_open"]
    assert metrics["netsplit_passed"] <= metrics["netsplit_suspected"] == desk.types.count("suspect")
    rows = incident_log.rows()
    assert all(row["begin_ms"] <= row["detected_ms"] for row in rows)
    assert all(row["split_ms"] >= 0 for row in rows if row["healed_ms"] is not None)
    assert all(row["uncertain"].get(name, 0) <= row["counts"].get(name, 0) for row in rows for name in row["uncertain"])
    assert sum(sum(row["counts"].values()) for row in rows) <= counted
