"""How often a node asks a shared service."""

from __future__ import annotations

from strogoff.broker.discovery.pace import LONGEST_S, Pace


def test_the_first_request_goes_at_once_and_the_next_one_waits() -> None:
    pace = Pace(1.0)
    assert pace.wait_s(5.0) == 0.0
    pace.asked(5.0)
    assert pace.wait_s(5.25) == 0.75 and pace.wait_s(7.0) == 0.0


def test_pauses_double_with_each_failure_up_to_a_limit_and_end_with_a_success() -> None:
    pace, pauses = Pace(1.0), []
    pace.asked(0.0)
    for _ in range(7):
        pace.failed()
        pauses.append(pace.wait_s(0.0))
    assert pauses == [2.0, 4.0, 8.0, 16.0, LONGEST_S, LONGEST_S, LONGEST_S]
    pace.succeeded()
    assert pace.wait_s(0.0) == 1.0
