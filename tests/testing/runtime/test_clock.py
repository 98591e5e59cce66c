"""The clock that does not count the pauses of the process."""

from __future__ import annotations

import asyncio
import time

from strogoff.testing.runtime.clock import MAX_STEP_S, SAMPLE_S, ActiveClock

from ..run_loop import run


def test_a_pause_of_the_loop_is_not_counted() -> None:
    """One step is as long as the real time meanwhile; both clocks agree."""

    async def test() -> None:
        clock = ActiveClock()
        clock.start()
        before, wall = clock.mono_ms(), clock.wall_ms()
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            """The loop gets no turn."""
        assert clock.mono_ms() - before < MAX_STEP_S * 1000 * 2
        assert abs((clock.wall_ms() - wall) - (clock.mono_ms() - before)) < 1
        clock.stop()

    run(test())


def test_an_idle_loop_is_counted() -> None:
    """The clock advances without events; it never runs faster than the machine's."""

    async def test() -> None:
        clock = ActiveClock()
        clock.start()
        before, began = clock.mono_ms(), time.monotonic()
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> None:
            if clock.mono_ms() - before >= 8 * SAMPLE_S * 1000:
                done.set()
            else:
                loop.call_later(SAMPLE_S * 3, look)

        look()
        async with asyncio.timeout(10):
            await done.wait()
        assert clock.mono_ms() - before <= (time.monotonic() - began) * 1000 + 1
        clock.stop()

    run(test())
