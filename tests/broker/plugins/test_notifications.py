"""Lanes of notifications: in order for one client, in parallel for several, bounded, and complete at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from strogoff.broker.plugins.notifications import Lanes, NotificationsDropped


class Kit:
    """Lanes on the running loop, with their tasks and their reports."""

    def __init__(self, limit: int = 100) -> None:
        self.errors: list[tuple[str, str, BaseException]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.lanes = Lanes(self.spawn, lambda *error: self.errors.append(error), limit)
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def work(self, name: str, gate: str = "") -> None:
        if gate:
            await self.gates.setdefault(gate, asyncio.Event()).wait()
        self.log.append(name)
        if name.startswith("bad"):
            raise RuntimeError(name)

    def add(self, client: str, name: str, gate: str = "") -> None:
        self.lanes.add("p", "on_publish", client, self.work(name, gate))

    async def settled(self) -> None:
        async with asyncio.timeout(5):
            while self.tasks:
                await asyncio.gather(*(self.tasks.pop() for _ in list(self.tasks)), return_exceptions=True)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_one_client_in_order_and_another_does_not_wait() -> None:
    async def test() -> None:
        kit = Kit()
        kit.add("slow", "s1", gate="g")
        kit.add("slow", "s2")
        kit.add("quick", "q1")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert kit.log == ["q1"]
        kit.gates["g"].set()
        await kit.settled()
        assert kit.log == ["q1", "s1", "s2"]
        assert kit.lanes.pending == 0

    run(test)


def test_an_error_is_reported_and_the_lane_continues() -> None:
    async def test() -> None:
        kit = Kit()
        kit.add("c", "bad1")
        kit.add("c", "ok")
        await kit.settled()
        assert kit.log == ["bad1", "ok"]
        assert [(p, h, str(e)) for p, h, e in kit.errors] == [("p", "on_publish", "bad1")]

    run(test)


def test_too_many_are_counted_and_reported_once_per_time_of_trouble() -> None:
    async def test() -> None:
        kit = Kit(limit=2)
        for round_ in range(2):
            for n in range(5):
                kit.add("c", f"{round_}.{n}", gate=f"g{round_}")
            await asyncio.sleep(0)
            kit.gates[f"g{round_}"].set()
            await kit.settled()
        assert kit.log == ["0.0", "0.1", "1.0", "1.1"]
        assert kit.lanes.dropped == 6
        assert [type(e) for _, _, e in kit.errors] == [NotificationsDropped] * 2

    run(test)


def test_a_broker_that_stops_leaves_nothing_behind() -> None:
    async def test() -> None:
        kit = Kit()
        kit.add("c", "running", gate="never")
        kit.add("c", "waiting")
        await asyncio.sleep(0)
        kit.tasks[0].cancel()
        await kit.settled()
        assert kit.lanes.pending == 0
        assert kit.log == []

    run(test)


def test_a_spawn_that_fails_is_reported_and_the_lane_is_usable_again() -> None:
    async def test() -> None:
        kit = Kit()
        working, kit.lanes._spawn = kit.lanes._spawn, lambda work: [][0]
        kit.add("c", "lost")
        assert [type(e) for _, _, e in kit.errors] == [IndexError]
        kit.lanes._spawn = working
        kit.add("c", "heard")
        await kit.settled()
        assert kit.log == ["heard"]
        assert kit.lanes.pending == 0

    run(test)
