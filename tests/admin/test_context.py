"""What commands use: letting the loop go on, and waiting for the disk."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from strogoff.admin import context as context_module

from .server_harness import ServerHarness, run_with_server


def test_long_work_lets_others_in_between(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        turns = 0
        loop = asyncio.get_running_loop()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        loop.call_soon(turn)
        time_slice = harness.context.time_slice()
        await time_slice.yield_if_due()
        assert turns == 0
        until = time.monotonic() + 5 * context_module.TIME_SLICE_S
        while time.monotonic() < until:
            await time_slice.yield_if_due()
        assert 2 <= turns <= 10

    run_with_server(tmp_path, test)


def test_committed_waits_for_the_disk(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        store = harness.server.store
        store.put(b"ntest", b"1")
        commit = store.open_commit
        await harness.context.committed()
        assert store.committed >= commit
        await harness.context.committed()

    run_with_server(tmp_path, test)


def test_a_disk_that_does_not_take_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: ServerHarness) -> None:
        monkeypatch.setattr(context_module, "COMMIT_S", 0.01)
        monkeypatch.setattr(type(harness.server.store), "flush", lambda store, done: None)
        answer = await harness.admin("set", "max_inflight_messages=3")
        assert answer.status == 1
        assert answer.err.startswith("Done, but it is not on the disk yet (the disk is slow)")
        monkeypatch.undo()

    run_with_server(tmp_path, test)
