"""A source that asks in the background."""

from __future__ import annotations

import asyncio

from strogoff.broker.discovery.source import Announcement, Say
from strogoff.broker.discovery.worker import LONGEST, Worker


class Failing(Worker):
    """A service that fails once, and then hangs."""

    key = "failing"

    def begin(self, me: Announcement, say: Say) -> None:
        self._start(self._run(), say)

    async def _run(self) -> None:
        self._failed(OSError("no \n route " + "x" * 1000))
        self.failed = self._problem
        await asyncio.Event().wait()


def test_a_failure_is_said_in_one_line_and_the_work_ends_with_the_source() -> None:
    async def main() -> None:
        source, said = Failing("the service", 1.0), list[str]()
        assert source._problem == "the service has not answered yet"
        await source.close()  # before it has begun
        source.begin(Announcement("n", "h:1", "d", 1), said.append)
        await asyncio.sleep(0)
        assert said == [source.failed] and said[0].startswith("the service: no route xxx")
        assert len(said[0]) == len("the service: ") + LONGEST
        assert source._pace.wait_s(0.0) == 0.0
        await source.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
