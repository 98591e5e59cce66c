"""Work on one process or on several."""

from __future__ import annotations

import gc
import operator
import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest

from strogoff.sim import processes


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    assert list(processes.run_all(operator.neg, range(20), jobs)) == [-number for number in range(20)]


def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(BrokenProcessPool):
        list(processes.run_all(os._exit, range(3), 2))


@pytest.mark.slow
def test_a_worker_ignores_ctrl_c_and_collects_rarely(collector: None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    try:
        processes._begin_work()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert gc.get_threshold() == (20000, 10, 10) and gc.get_freeze_count()
    finally:
        signal.signal(signal.SIGINT, handler)
