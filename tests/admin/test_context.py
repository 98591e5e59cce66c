"""Services for commands: yielding to the loop, and waiting for the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.admin import context as context_module
from strogoff.admin.context import TIME_SLICE_S, TimeSlice

from .server_harness import ServerHarness, run_with_server


def test_a_long_command_yields_when_its_time_slice_is_over() -> None:
    async def test() -> None:
        now = 0.0
        time_slice = TimeSlice(lambda: now)
        for elapsed, yields in ((0.0, False), (0.9, False), (1.0, True), (1.5, False), (2.0, True)):
            now = elapsed * TIME_SLICE_S
            others = asyncio.Event()
            asyncio.get_running_loop().call_soon(others.set)
            await time_slice.yield_if_due()
            assert others.is_set() == yields, elapsed
            await others.wait()

    asyncio.run(test())


def test_committed_waits_for_the_disk(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        store = harness.server.store
        store.put(b"ntest", b"1")
        commit = store.open_commit
        await harness.context.committed()
        assert store.committed >= commit
        await harness.context.committed()

    run_with_server(tmp_path, test)


def test_a_disk_that_does_not_commit_in_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: ServerHarness) -> None:
        monkeypatch.setattr(context_module, "COMMIT_S", 0.01)
        monkeypatch.setattr(type(harness.server.store), "flush", lambda store, done: None)
        answer = await harness.admin("set", "max_inflight_messages=3")
        assert answer.status == 1
        assert answer.err.startswith("Done, but it is not durable yet (a disk or a copy is slow)")
        monkeypatch.undo()

    run_with_server(tmp_path, test)
