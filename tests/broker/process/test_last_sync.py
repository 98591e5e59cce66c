"""The last sync of a process that stops, and the data directory that the next process uses."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strogoff.broker.process import server as module
from strogoff.broker.process.server import Server
from strogoff.configs import load
from strogoff.storage import directory


def make(folder: Path, said: list[str]) -> Server:
    """A server without listeners, with its data in `folder`."""
    settings = load(None, {}, {"platform_data_dir": str(folder), "allow_anonymous": "on"})
    return Server(settings, lambda level, text: said.append(text))


def last_work_ends() -> None:
    """Wait for the threads of former stops."""
    for thread in threading.enumerate():
        if thread.name.startswith(module.LAST_WORK):
            thread.join(10)


def test_a_slow_sync_at_the_stop_does_not_change_the_directory_of_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster would take the start after that for another process with the same number."""
    monkeypatch.setattr(module, "STOP_S", 0.2)
    go_on = threading.Event()

    async def scenario() -> None:
        said: list[str] = []
        server = make(tmp_path, said)
        await server.start()
        with monkeypatch.context() as patched:
            patched.setattr(directory, "sync_files", lambda folder: go_on.wait(20))
            await server.stop()
        assert any("was not synced at the stop" in line for line in said)
        following = make(tmp_path, said)
        await following.start()
        await following.stop()
        marker = (tmp_path / "strogoff.json").read_bytes()
        go_on.set()
        await asyncio.to_thread(last_work_ends)
        assert (tmp_path / "strogoff.json").read_bytes() == marker

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_plugins_that_hang_in_all_threads_do_not_keep_the_node_from_its_stop(tmp_path: Path) -> None:
    """The data is synced, and the event log complete. Before, the event log waited for a thread without limit."""
    go_on = threading.Event()

    async def scenario() -> None:
        said: list[str] = []
        server = make(tmp_path, said)
        await server.start()
        pool = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(pool)
        hanging = asyncio.ensure_future(asyncio.to_thread(go_on.wait, 20))
        await asyncio.wait_for(server.stop(), 5)
        assert not any("not synced" in line for line in said) and not hanging.done()
        assert server.eventlog is not None and list((tmp_path / "eventlog").iterdir())
        go_on.set()
        await hanging

    asyncio.run(scenario())
