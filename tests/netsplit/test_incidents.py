"""The ledger of incidents: begin, detection and heal, counts, and events that match the schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics.schema import validate
from strogoff.netsplit.incidents import KEEP, METRICS, OUTCOMES, START_MS, Ledger
from strogoff.netsplit.policy import OPERATIONS

HEADER = {"v": 1, "run_id": "r", "node": "a", "boot": 1, "seq": 1, "hlc": 1, "mono_ns": 1}


class Desk:
    """A ledger of node `a` that was whole from the start, and the events that it emitted."""

    def __init__(self, whole: bool = True) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.ledger = Ledger("a", self.emit, 1000)
        if whole:
            self.ledger.view((), 1, True, 1000)

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
    ledger = desk.ledger
    ledger.suspected("c", 5000, 6001)
    ledger.count("publish", "accepted")
    ledger.count("register", "accepted", 2)
    ledger.view(("c",), 7, True, 7600)
    ledger.count("publish", "refused")
    ledger.view((), 8, True, 9000)
    ledger.count("publish", "merged", 3)
    ledger.healed(9500)
    window = {"register_accepted": 2, "publish_accepted": 1}
    counts = {**window, "publish_refused": 1, "publish_merged": 3}
    times = {"begin_ms": 5000, "detected_ms": 7600, "window_ms": 2600}
    assert desk.events == [
        ("split.suspect", {"nodes": ["c"], "begin_ms": 5000, "window_ms": 1001}),
        ("split.detect", {"nodes": ["c"], "state": "majority", "view": 7, **times, "counts": window}),
        ("split.change", {"nodes": [], "state": "whole", "view": 8}),
        (
            "split.heal",
            {
                "nodes": ["c"],
                "state": "majority",
                "view": 7,
                **times,
                "healed_ms": 9500,
                "split_ms": 1900,
                "counts": counts,
            },
        ),
    ]
    assert ledger.rows() == [
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
            "uncertain": window,
            "counts": counts,
        }
    ]


def test_without_a_lease_an_incident_names_the_silent_members() -> None:
    """The view of a cut-off node is old and complete: no node is missing in it."""
    desk = Desk()
    desk.ledger.suspected("c", 5100, 6200)
    desk.ledger.suspected("b", 5000, 6200)
    desk.ledger.view((), 1, False, 7000)
    assert desk.last()["nodes"] == ["b", "c"]
    assert (desk.last()["state"], desk.last()["window_ms"]) == ("minority", 2000)
    desk.ledger.suspected("b", 5000, 7100)
    assert desk.types == ["suspect", "suspect", "detect"]


def test_with_a_lease_an_incident_begins_with_the_first_missing_member() -> None:
    desk = Desk()
    desk.ledger.suspected("b", 4000, 5100)
    desk.ledger.suspected("c", 5000, 6200)
    desk.ledger.suspected("d", 4900, 6200)
    desk.ledger.view(("d", "c"), 2, True, 7000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"]) == (["c", "d"], 4900)
    desk.ledger.returned("b", 7100)
    assert desk.types == ["suspect"] * 3 + ["detect", "pass"]
    assert desk.ledger.active


def test_a_lease_that_is_lost_without_a_suspicion_begins_there() -> None:
    desk = Desk()
    desk.ledger.view((), 1, False, 7000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"], desk.last()["window_ms"]) == ([], 7000, 0)


def test_after_a_pause_the_window_begins_when_the_process_stopped() -> None:
    """This holds also if no node was missing; a pause long ago, or one within the lease, changes nothing."""
    desk = Desk()
    desk.ledger.view((), 1, True, 6000, 2000)
    desk.ledger.view((), 1, False, 9000, 3000)
    assert (desk.last()["nodes"], desk.last()["begin_ms"], desk.last()["window_ms"]) == ([], 3000, 6000)
    other = Desk()
    other.ledger.suspected("c", 7500, 8600)
    other.ledger.view(("c",), 2, True, 9000, 3000)
    assert other.last()["begin_ms"] == 7500, "with a lease the incident names the missing member"


def test_a_change_names_silent_members_while_there_is_no_lease() -> None:
    desk = Desk()
    desk.ledger.view(("c",), 2, True, 5000)
    desk.ledger.suspected("b", 5500, 6600)
    desk.ledger.view(("c",), 2, False, 7000)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c"], "minority")


def test_a_suspicion_that_passes() -> None:
    desk = Desk()
    ledger = desk.ledger
    ledger.suspected("b", 5000, 6100)
    ledger.suspected("b", 5000, 6200)
    ledger.count("publish", "accepted")
    ledger.returned("b", 6400)
    ledger.returned("b", 6500)
    assert desk.events[1:] == [("split.pass", {"nodes": ["b"], "begin_ms": 5000, "window_ms": 1400})]
    assert not ledger.active and ledger.rows() == []
    ledger.view(("b",), 2, True, 9000)
    assert desk.last()["counts"] == {}, "the counts belonged to a suspicion that passed"
    assert (ledger.metrics()["netsplit_suspected"], ledger.metrics()["netsplit_passed"]) == (1, 1)


def test_one_incident_continues_while_members_change() -> None:
    desk = Desk()
    ledger = desk.ledger
    ledger.view(("c",), 2, True, 5000)
    ledger.view(("c",), 2, True, 5100)
    ledger.view(("b", "c"), 2, False, 6000)
    ledger.view(("b",), 3, True, 7000)
    ledger.view((), 4, True, 8000)
    ledger.view(("c",), 5, True, 8100)
    ledger.healed(8200)
    assert desk.types == ["detect", "change", "change", "change", "change"], "not whole, so not healed"
    ledger.view((), 6, True, 9000)
    ledger.healed(9000)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c"], "minority")
    assert ledger.metrics()["netsplit_detected"] == ledger.metrics()["netsplit_resolved"] == 1


def test_a_healthy_node_writes_nothing() -> None:
    desk = Desk()
    desk.ledger.view((), 2, True, 2000)
    desk.ledger.count("publish", "accepted")
    desk.ledger.healed(3000)
    assert desk.events == [] and desk.ledger.rows() == []


def test_a_node_that_starts_has_time_to_get_its_first_lease() -> None:
    desk = Desk(whole=False)
    desk.ledger.view(("a", "b"), 0, False, 1000)
    desk.ledger.view(("a", "b"), 0, False, 1000 + START_MS - 1)
    assert desk.events == []
    desk.ledger.view(("a", "b"), 0, False, 1000 + START_MS)
    assert desk.types == ["detect"]


def test_a_node_that_starts_in_an_incomplete_cluster_reports_it_at_once() -> None:
    desk = Desk(whole=False)
    desk.ledger.view(("b",), 3, True, 1200)
    assert desk.types == ["detect"] and desk.last()["state"] == "majority"


def test_metrics_know_the_last_and_the_longest_window() -> None:
    desk = Desk()
    ledger = desk.ledger
    for begin, detected in ((5000, 8000), (20_000, 21_500)):
        ledger.suspected("b", begin, begin + 1001)
        ledger.view(("b",), 2, True, detected)
        assert ledger.metrics()["netsplit_open"] == 1
        ledger.view((), 3, True, detected + 1000)
        ledger.healed(detected + 1000)
    assert list(ledger.metrics()) == list(METRICS)
    assert ledger.metrics() == {
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
    desk.ledger.view(("b",), 2, True, 5000)
    desk.ledger.count("subscribe", "refused")
    (row,) = desk.ledger.rows()
    assert (row["healed_ms"], row["split_ms"], row["counts"]) == (None, None, {"subscribe_refused": 1})


def test_the_ledger_is_bounded() -> None:
    desk = Desk()
    for number in range(KEEP + 20):
        desk.ledger.view(("b",), number, True, 5000 + number)
        desk.ledger.view((), number, True, 5000 + number)
        desk.ledger.healed(5000 + number)
    assert [row["number"] for row in desk.ledger.rows()] == list(range(21, KEEP + 21))


def test_members_silent_without_a_lease_belong_to_the_incident() -> None:
    """A second member is lost, and then a third: no view is possible without them, and no suspicion has passed."""
    desk = Desk()
    ledger = desk.ledger
    ledger.suspected("c", 3000, 4100)
    ledger.view(("c",), 2, True, 5000)
    ledger.suspected("b", 5500, 6600)
    ledger.view(("c",), 2, False, 7000)
    ledger.suspected("d", 6500, 7600)
    ledger.suspected("d", 6500, 7850)
    for peer in "bcd":
        ledger.returned(peer, 8000)
    ledger.view((), 3, True, 8100)
    ledger.healed(8200)
    assert (desk.last()["nodes"], desk.last()["state"]) == (["b", "c", "d"], "minority")
    assert desk.types == ["suspect", "detect", "suspect", "change", "suspect", "change", "heal"]
    assert (ledger.metrics()["netsplit_suspected"], ledger.metrics()["netsplit_passed"]) == (3, 0)
    ledger.suspected("b", 8500, 9600)
    assert ledger.active and ledger.begin_ms == 8500


@pytest.mark.parametrize(("operation", "outcome"), [("ping", "accepted"), ("publish", "lost")])
def test_unknown_words_raise_a_key_error(operation: str, outcome: str) -> None:
    desk = Desk()
    desk.ledger.view(("b",), 2, True, 5000)
    with pytest.raises(KeyError):
        desk.ledger.count(operation, outcome)


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
    ledger = desk.ledger
    now = 10_000
    counted = 0
    for kind, *rest in steps:
        now += 100
        if kind == "suspected":
            ledger.suspected(rest[0], now - rest[1], now)
        elif kind == "returned":
            ledger.returned(rest[0], now)
        elif kind == "view":
            ledger.view(tuple(rest[0]), now, rest[1], now)
        elif kind == "healed":
            ledger.healed(now)
        else:
            counted += ledger.active
            ledger.count(*rest)
        assert ledger.active or ledger.open is None
    ends = [each for each in desk.types if each in ("detect", "heal")]
    assert ends == (["detect", "heal"] * len(ends))[: len(ends)]
    metrics = ledger.metrics()
    assert metrics["netsplit_detected"] - metrics["netsplit_resolved"] == metrics["netsplit_open"]
    assert metrics["netsplit_passed"] <= metrics["netsplit_suspected"] == desk.types.count("suspect")
    rows = ledger.rows()
    assert all(row["begin_ms"] <= row["detected_ms"] for row in rows)
    assert all(row["split_ms"] >= 0 for row in rows if row["healed_ms"] is not None)
    assert all(row["uncertain"].get(name, 0) <= row["counts"].get(name, 0) for row in rows for name in row["uncertain"])
    assert sum(sum(row["counts"].values()) for row in rows) <= counted
