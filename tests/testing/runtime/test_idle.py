"""Activity: events wake a waiter, which also checks at intervals."""

from __future__ import annotations

import asyncio

from strogoff.testing.runtime.idle import IdleDetector


def test_a_poke_wakes() -> None:
    """The event is counted."""

    async def test() -> None:
        activity = IdleDetector()
        waiting = asyncio.create_task(activity.wait_for_activity())
        await asyncio.sleep(0)
        activity.record()
        async with asyncio.timeout(0.04):  # sooner than it would look again
            await waiting
        assert activity.count == 1

    asyncio.run(test())


def test_a_wait_without_activity_ends_with_its_timeout() -> None:
    """Some ends cause no event."""

    async def test() -> None:
        async with asyncio.timeout(5):
            await IdleDetector().wait_for_activity()

    asyncio.run(test())
