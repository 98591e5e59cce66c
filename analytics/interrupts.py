"""Ctrl-C and SIGTERM while Spark works: the job unwinds, so it stops Spark and deletes its temporary files."""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The signal `number` came. py4j gives up its connection at a KeyboardInterrupt alone: the next command gets a
    new one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` in the main thread at the first of `SIGNALS`. Later signals are ignored, so that the job can
    stop Spark and delete its files. Spark's own handler for Ctrl-C would send Java a command in the midst of an answer:
    py4j fails then, with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, _interrupt) for each in SIGNALS}
    disabled = logging.root.manager.disable
    try:
        yield
    finally:
        logging.disable(disabled)
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def java_may_be_gone() -> Iterator[None]:
    """Let calls fail that no Java answers: a signal to the group of processes ends Java, too, as `timeout` and systemd
    send it. pyspark warns then, and py4j raises."""
    from py4j.protocol import Py4JNetworkError

    with warnings.catch_warnings(), suppress(ConnectionError, EOFError, Py4JNetworkError):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)  # py4j logs the KeyboardInterrupt with its traceback
    raise Interrupted(number)
