"""A node that reports the long turns of its event loop.

    python -m bench.turns start ...          # as `strogoff start`

The time of a turn is the processor time of the loop's thread, so other processes of the machine do not lengthen it. A
turn that took at least `LONG_MS` gives a line on standard error:

    long turn: at=1234.567 cpu_ms=73.1 wall_ms=90.2 gc_ms=12.0 in=7 node.Node.accept>...;3 ...

`at` is the monotonic clock of the machine in seconds, `gc_ms` the part of garbage collections. `in` has the stacks that
ran, each after its number of samples: one is taken for each `SAMPLE_S` of processor time of the process.

The node runs on asyncio's own loop in place of uvloop, which has no place to measure in. It does the same work in a
turn, and takes about a fifth more time for it.
"""

from __future__ import annotations

import asyncio
import gc
import re
import selectors
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvloop

from strogoff import cli

LONG_MS = 10.0
SAMPLE_S = 0.002
STACKS = 6
"""The most stacks that a line has."""
DEPTH = 9
"""The most functions that a stack has, the outermost ones."""


class TurnMeter:
    """Measures the turns of the loop of this thread. `told` gets a line for each long one."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self._told = told
        self._cpu_s = time.thread_time()
        self._wall_s = time.monotonic()
        self._gc_s = 0.0
        self._gc_began_s = 0.0
        self._stacks: list[str] = []

    def began(self) -> None:
        """A turn begins."""
        self._gc_s = 0.0
        self._stacks.clear()
        self._wall_s = time.monotonic()
        self._cpu_s = time.thread_time()

    def ended(self) -> None:
        """The turn ends: the loop waits for what comes next."""
        cpu_ms = (time.thread_time() - self._cpu_s) * 1000
        if cpu_ms >= LONG_MS:
            wall_ms = (time.monotonic() - self._wall_s) * 1000
            ran = ";".join([f"{n} {stack}" for stack, n in Counter(self._stacks).most_common(STACKS)])
            self._told(
                f"long turn: at={self._wall_s:.3f} cpu_ms={cpu_ms:.1f} wall_ms={wall_ms:.1f} "
                f"gc_ms={self._gc_s * 1000:.1f} in={ran}"
            )

    def collected(self, phase: str, _: dict[str, int]) -> None:
        """As a function of `gc.callbacks`."""
        if phase == "start":
            self._gc_began_s = time.thread_time()
        else:
            self._gc_s += time.thread_time() - self._gc_began_s

    def sample(self, _: int, frame: FrameType | None) -> None:
        """As a signal handler: note what runs."""
        names = []
        while frame is not None and not frame.f_code.co_filename.endswith("asyncio/events.py"):
            code = frame.f_code
            names.append(f"{Path(code.co_filename).stem}.{code.co_qualname}:{frame.f_lineno}")
            frame = frame.f_back
        self._stacks.append(">".join(names[::-1][:DEPTH]))


class _Selector(selectors.DefaultSelector):
    def __init__(self, meter: TurnMeter) -> None:
        super().__init__()
        self._meter = meter

    def select(self, timeout: float | None = None) -> list[Any]:
        self._meter.ended()
        found: list[Any] = super().select(timeout)
        self._meter.began()
        return found


class _Loop(asyncio.SelectorEventLoop):
    """A loop in which a long turn may have more samples than the pipe has room for that wakes the loop."""

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        super().add_signal_handler(sig, callback, *args)
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)


def run(work: Coroutine[Any, Any, int]) -> int:
    """As `uvloop.run`, with a meter."""
    meter = TurnMeter(lambda line: print(line, file=sys.stderr, flush=True))
    gc.callbacks.append(meter.collected)
    signal.signal(signal.SIGPROF, meter.sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    with asyncio.Runner(loop_factory=lambda: _Loop(_Selector(meter))) as runner:
        return runner.run(work)


class LongTurn(NamedTuple):
    """A line of the log."""

    at_s: float
    cpu_ms: float
    wall_ms: float
    gc_ms: float
    ran: str


_LINE = re.compile(r"long turn: at=(\S+) cpu_ms=(\S+) wall_ms=(\S+) gc_ms=(\S+) in=(.*)")


def long_turns(log: Path, after_s: float, before_s: float) -> list[LongTurn]:
    """Returns the long turns that a log reports for this time, the longest first."""
    found = []
    for line in log.read_text().splitlines():
        if match := _LINE.search(line):
            at_s, cpu_ms, wall_ms, gc_ms = map(float, match.groups()[:4])
            if after_s <= at_s < before_s:
                found.append(LongTurn(at_s, cpu_ms, wall_ms, gc_ms, match[5]))
    return sorted(found, key=lambda turn: -turn.cpu_ms)


def summary(log: Path, after_s: float, before_s: float, shown: int = 5) -> str:
    """Returns some lines about the long turns that a log reports for this time."""
    turns = long_turns(log, after_s, before_s)
    if not turns:
        return f"none above {LONG_MS:.0f} ms"
    lines = [f"{len(turns)} above {LONG_MS:.0f} ms, the longest {turns[0].cpu_ms:.0f} ms"]
    lines += [
        f"    {turn.at_s - after_s:+.2f} s: {turn.cpu_ms:.0f} ms, gc {turn.gc_ms:.0f} ms: {turn.ran}"
        for turn in turns[:shown]
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the command line of `strogoff` on this loop."""
    uvloop.__dict__["run"] = run
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
