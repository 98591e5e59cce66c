"""What is seen of all machines at once."""

from __future__ import annotations

from strogoff.netsplit.policy import ViewState

from .floor import joined


def test_states_and_leases() -> None:
    fleet = joined(trace=True)
    seen = fleet.overseer.seen
    now = fleet.loop.now_s
    assert seen.leases > 10 and not seen.problems
    assert fleet.overseer.between("n2", now, now) == {ViewState.WHOLE}
    assert fleet.overseer.excused("n2", 0.9) and not fleet.overseer.excused("n2", now)
    assert any("leads, whole, view" in line for line in fleet.history.lines or ())


def test_a_complaint_is_made_once() -> None:
    fleet = joined()
    fleet.overseer.complain("it is so")
    fleet.overseer.complain("it is so")
    assert list(fleet.overseer.seen.problems) == ["it is so"]
