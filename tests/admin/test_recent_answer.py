"""An answer that many share: made once at a time, and again when it is old."""

from __future__ import annotations

import asyncio

import pytest

from strogoff.admin import recent_answer
from strogoff.admin.recent_answer import RecentAnswer


class Maker:
    """Numbers its answers; `gate` lets it finish."""

    def __init__(self) -> None:
        self.made = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def make(self) -> bytes:
        self.made += 1
        await self.gate.wait()
        return str(self.made).encode()


def test_who_asks_while_it_is_made_waits_for_it() -> None:
    async def test() -> None:
        maker = Maker()
        maker.gate.clear()
        recent = RecentAnswer(maker.make)
        asking = [asyncio.create_task(recent.get()) for _ in range(5)]
        await asyncio.sleep(0)
        maker.gate.set()
        assert await asyncio.gather(*asking) == [b"1"] * 5 and await recent.get() == b"1"

    asyncio.run(test())


def test_an_old_answer_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_answer, "RECENT_S", 0.0)

    async def test() -> None:
        recent = RecentAnswer(Maker().make)
        assert [await recent.get() for _ in range(3)] == [b"1", b"2", b"3"]

    asyncio.run(test())


def test_an_error_is_not_kept() -> None:
    async def test() -> None:
        wrong = [OSError("no")]

        async def make() -> bytes:
            if wrong:
                raise wrong.pop()
            return b"right"

        recent = RecentAnswer(make)
        with pytest.raises(OSError, match="no"):
            await recent.get()
        assert await recent.get() == b"right"

    asyncio.run(test())


def test_who_gives_up_stops_nobody_else() -> None:
    async def test() -> None:
        maker = Maker()
        maker.gate.clear()
        recent = RecentAnswer(maker.make)
        first, second = asyncio.create_task(recent.get()), asyncio.create_task(recent.get())
        await asyncio.sleep(0)
        first.cancel()
        maker.gate.set()
        assert await second == b"2"

    asyncio.run(test())
