"""Incidents of nodes in a cluster: begin, detection and heal are in the event log of those who saw them."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.theatre import Spot, Theatre


def events(spot: Spot, prefix: str = "net.") -> list[dict[str, Any]]:
    return [each for each in spot.host.events if str(each["type"]).startswith(prefix)]


def watch_of(spot: Spot) -> Any:
    assert spot.host.clustering is not None
    return spot.host.clustering.watch


@pytest.fixture(scope="module")
def split() -> Theatre:
    """n3 is cut off for a while, and healed."""
    theatre = Theatre(3, allow_publish_during_netsplit="majority")
    theatre[1].client("reader").subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.pass_s(1.0)
    for other in ("n1", "n2"):
        theatre.network.cut(other, "n3")
    theatre.until(lambda: theatre[1].node.view_state is ViewState.MAJORITY)
    theatre.until(lambda: theatre[3].node.view_state is ViewState.MINORITY)
    writer.publish("t", b"1", 1)
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    return theatre


def test_quiet_times_are_no_incident() -> None:
    theatre = Theatre(3)
    theatre.pass_s(5.0)
    assert [watch_of(spot).ledger.detected for spot in theatre.spots] == [0, 0, 0]


@pytest.mark.parametrize("number", (1, 2, 3))
def test_each_node_sees_one_incident_and_its_end(split: Theatre, number: int) -> None:
    ledger = watch_of(split[number]).ledger
    assert ledger.detected == 1
    assert not ledger.active
    assert ledger.metrics()["netsplit_detected"] == ledger.metrics()["netsplit_resolved"] == 1


def test_the_window_begins_when_the_node_was_last_heard(split: Theatre) -> None:
    (row,) = watch_of(split[1]).ledger.rows()
    window = row["window_ms"]
    assert 500 <= window <= 4500, row


def test_what_was_done_meanwhile_is_counted(split: Theatre) -> None:
    totals = watch_of(split[1])._totals()
    assert totals["publish", "accepted"] == 1
    assert totals["register", "accepted"] == 2
    assert totals["subscribe", "accepted"] == 1


def test_a_watch_begins_once_and_ends_with_its_node() -> None:
    theatre = Theatre(2)
    watch = watch_of(theatre[1])
    watch.begin()
    watch.begin()
    theatre[2].kill()
    theatre.until(lambda: watch.ledger.detected)
    theatre.pass_s(3.0)
    assert watch.ledger.detected == 1
    assert watch.ledger.active
