"""What Ctrl-C and SIGTERM do to a job."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import warnings
from typing import NoReturn

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


def test_ctrl_c_ends_a_job_without_spark_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def job(_: argparse.Namespace) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore SIGINT
    try:
        status = run(argparse.Namespace(check=lambda _: None, alone=job))
    except KeyboardInterrupt:  # it would end all tests
        status = 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130
    assert capsys.readouterr().err == "strogoff analytics: interrupted\n"


class DeadJava:
    """A session of Spark whose Java has ended."""

    @property
    def sparkContext(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise ConnectionRefusedError(111, "Connection refused")

    def stop(self) -> None:
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)
        from py4j.protocol import Py4JNetworkError

        raise Py4JNetworkError("Answer from Java side is empty")


def test_a_signal_that_ended_java_too_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `timeout` and systemd send it: to all processes of the group."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from strogoff.analytics import spark

    def job(*_: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(spark, "open_session", lambda *_: DeadJava())
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    arguments = argparse.Namespace(check=lambda _: None, job=job, master="local", memory="1g")
    assert run(arguments) == 143
    assert capsys.readouterr().err == "strogoff analytics: interrupted\n"


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
