"""What Ctrl-C and SIGTERM do to a job."""

from __future__ import annotations

import argparse
import logging
import signal
import threading

import pytest

from strogoff.analytics.commands import run
from strogoff.analytics.interrupts import SIGNALS, Interrupted, interruptible


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_unwinds_the_job_and_says_so(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    handlers = [signal.getsignal(each) for each in SIGNALS]
    ended = []

    def job(_: argparse.Namespace) -> int:
        with interruptible():
            try:
                signal.raise_signal(number)
            finally:
                # neither a second signal nor py4j, which logs a KeyboardInterrupt, disturbs the end
                signal.raise_signal(number)
                logging.error("KeyboardInterrupt while sending command.")
                ended.append(number)
        return 0

    status = run(argparse.Namespace(check=lambda _: None, alone=job))
    assert (status, capsys.readouterr().err) == (128 + number, "strogoff analytics: interrupted\n")
    assert ended == [number] and [signal.getsignal(each) for each in SIGNALS] == handlers
    assert logging.getLogger().isEnabledFor(logging.ERROR)


def test_a_job_of_another_thread_leaves_signals_alone() -> None:
    handlers = [signal.getsignal(each) for each in SIGNALS]
    seen: list[object] = []

    def job() -> None:
        with interruptible():
            seen.extend(signal.getsignal(each) for each in SIGNALS)

    thread = threading.Thread(target=job)
    thread.start()
    thread.join()
    assert seen == handlers and issubclass(Interrupted, KeyboardInterrupt)
