"""The bridged client: a broker in another thread, used from any loop, and from two loops in sequence."""

from __future__ import annotations

import asyncio
import threading

import pytest

from strogoff.testing.async_bridge import BridgedClient
from strogoff.testing.sync import SyncCluster


def test_a_client_works_in_one_loop_after_another() -> None:
    """pytest-asyncio gives each test a loop of its own."""
    with SyncCluster() as c:

        async def first() -> BridgedClient:
            rx = BridgedClient(c.thread, await c.thread.bridge(c.cluster.client("rx", clean_start=False)))
            assert await rx.subscribe("t", qos=2) == [2]
            assert await rx.publish("t", "x", qos=2) == 0
            assert (await rx.message()).text == "x"
            return rx

        async def second(rx: BridgedClient) -> None:
            async with rx:
                await rx.publish("t", "y", qos=1)
                assert [message.text async for message in rx.messages(timeout=0.05)] == ["y"]
                assert await rx.unsubscribe("t") == [0]
                assert (await rx.reconnect()).session_present
                with pytest.raises(TimeoutError):
                    await rx.message(timeout=0)
            assert await rx.closed() is None and not rx.connected

        asyncio.run(second(asyncio.run(first())))


def test_a_wait_can_be_cancelled() -> None:
    """The client's next message goes to the next waiter."""
    with SyncCluster() as c:

        async def test() -> None:
            rx = BridgedClient(c.thread, await c.thread.bridge(c.cluster.client("rx")))
            await rx.subscribe("t", qos=1)
            waiting = asyncio.create_task(rx.message())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await rx.publish("t", "x", qos=1)
            assert (await rx.message()).text == "x"
            rx.abort()
            await rx.closed()

        asyncio.run(test())


@pytest.mark.parametrize("late", [True, False])
def test_a_cancelled_wait_loses_no_message(late: bool) -> None:
    """The client has taken the message already when it learns that its caller was cancelled, or takes it afterwards."""
    with SyncCluster() as c:

        async def test() -> None:
            rx = BridgedClient(c.thread, await c.thread.bridge(c.cluster.client("rx")))
            await rx.subscribe("t", qos=1)
            for text in ("1", "2"):
                await rx.publish("t", text, qos=1)
            c.settled()
            free = threading.Event()
            c.thread._loop.call_soon_threadsafe(free.wait)
            waiting = asyncio.create_task(rx.message())
            await asyncio.sleep(0)
            if late:
                free.set()
                c.thread.ask(lambda: None)  # blocks this loop: it does not learn of the message
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            free.set()
            assert [(await rx.message()).text for _ in range(2)] == ["1", "2"]
            await rx.disconnect()

        asyncio.run(test())
