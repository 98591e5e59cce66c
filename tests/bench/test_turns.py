"""The meter of turns writes a line for each long one, and the benchmark reads these lines."""

from __future__ import annotations

import time
from pathlib import Path

from bench.turns import LONG_MS, TurnMeter, long_turns, summary


def _works(ms: float) -> None:
    until_s = time.thread_time() + ms / 1000
    while time.thread_time() < until_s:
        pass


def test_only_long_turns_are_reported_with_their_processor_time(tmp_path: Path) -> None:
    lines: list[str] = []
    meter = TurnMeter(lines.append)
    for work_ms in (0.0, LONG_MS + 5, 0.0):
        meter.began()
        meter.collected("start", {})
        _works(work_ms)
        meter.collected("stop", {})
        meter.sample(0, None)
        meter.ended()
    assert len(lines) == 1
    log = tmp_path / "log"
    log.write_text("another line\n" + "\n".join(lines))
    (turn,) = long_turns(log, 0, time.monotonic())
    assert turn.cpu_ms >= LONG_MS + 5 and 0 < turn.gc_ms <= turn.cpu_ms and turn.ran == "1 "
    assert summary(log, 0, time.monotonic()).startswith("1 above 10 ms, the longest")
    assert summary(log, 0, turn.at_s) == "none above 10 ms"
