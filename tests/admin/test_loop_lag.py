"""How late the event loop is: a turn that takes long is measured, an idle loop is not late."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from strogoff.admin.loop_lag import EVERY_S, LoopLag
from tests.harness.waiting import until


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_long_turn_is_measured_once(factory: object) -> None:
    async def test() -> None:
        lag = LoopLag()
        lag.start()
        await until(lambda: lag.durations.cumulated[-1] >= 1, 10)
        before_s = lag.durations.total_s
        busy_until_s = time.monotonic() + EVERY_S + 0.15
        while time.monotonic() < busy_until_s:
            pass
        number = lag.durations.cumulated[-1]
        await until(lambda: lag.durations.cumulated[-1] > number, 10)
        assert lag.durations.total_s - before_s > 0.14
        at_most_100_ms = lag.durations.cumulated[lag.durations.bounds.index(0.1)]
        assert lag.durations.cumulated[-1] - at_most_100_ms >= 1
        lag.stop()

    with asyncio.Runner(loop_factory=factory) as runner:  # type: ignore[arg-type]
        runner.run(test())


def test_after_stop_nothing_is_measured() -> None:
    async def test() -> None:
        lag = LoopLag()
        lag.stop()
        lag.start()
        lag.stop()
        later: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(2 * EVERY_S, later.set_result, None)
        await later
        assert lag.durations.cumulated[-1] == 0

    asyncio.run(test())
