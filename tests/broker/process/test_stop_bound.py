"""The bound of a stop is that of its parts."""

from __future__ import annotations

from strogoff.broker.clustering.leaving import PASS_ON_S
from strogoff.broker.process.server import CLOSE_GRACE_S, STOP_S
from strogoff.broker.process.stop_bound import stop_bound_s
from strogoff.cluster.ports import GOODBYE_S, HAND_OVER_S
from strogoff.configs import load


def test_the_bound_is_longer_than_the_waits_of_a_stop() -> None:
    """A service manager that kills the node before would make it a crash."""
    parts_s = 2 * STOP_S + 2 * CLOSE_GRACE_S + GOODBYE_S + HAND_OVER_S + 2 * PASS_ON_S
    for wait_s in (0, 8, 300):
        bound_s = stop_bound_s(load(None, {}, {"queue_stop_wait": str(wait_s)}))
        assert wait_s + 1.3 * parts_s < bound_s < wait_s + 60
