"""A data directory of format 1 at the first start: killed, stopped, full, and then served."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.steady import SteadyClient
from strogoff.broker.process import conversion as module
from strogoff.broker.process.conversion import convert
from strogoff.broker.process.server import Server
from strogoff.broker.reporting.journal import Journal
from strogoff.broker.slot_conversion import PROGRESS
from strogoff.configs import load
from strogoff.storage.directory import DataDirectory
from strogoff.storage.engine import DiskFull, WrongDirectory
from strogoff.storage.leveldb import LevelDBEngine

from ...harness.format_1 import example
from ...storage.contract import LevelDBHarness

NODE = "old@127.0.0.1"


def old_directory(path: Path) -> Path:
    """The data directory of a stopped node of format 1."""
    DataDirectory(path, NODE, lambda: "id").close()
    harness = LevelDBHarness(path / "messages", "os")
    harness.open()
    rows = example().rows
    del rows[b"nclock"], rows[b"dkept"]
    assert harness.write(dict(rows)) is None
    harness.engine.close()
    change_marker(path, format=1)
    return path


def change_marker(path: Path, **fields: Any) -> None:
    file = path / "strogoff.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def format_of(path: Path) -> int:
    found: int = json.loads((path / "strogoff.json").read_text())["format"]
    return found


def rows_of(path: Path) -> dict[bytes, bytes]:
    harness = LevelDBHarness(path / "messages", "os")
    harness.open()
    rows = {key: value for key, value in harness.all().items() if key != PROGRESS}
    harness.engine.close()
    return rows


def start(path: Path, change: Callable[[LevelDBEngine], None] = lambda engine: None) -> list[str]:
    """Start as a server does up to the end of the conversion. Returns the log."""
    lines: list[str] = []

    async def run() -> None:
        directory = DataDirectory(path, NODE, lambda: "id")
        engine = LevelDBEngine(directory.messages, asyncio.get_running_loop().call_soon_threadsafe, "os")
        change(engine)
        try:
            await convert(directory, engine, Journal(lambda level, text: lines.append(f"{level}: {text}")))
            assert engine.durability == "os"
        finally:
            engine.close()
            directory.close()

    asyncio.run(run())
    return lines


def test_a_start_converts_once(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")
    begin, end = start(path)
    assert begin.startswith("notice: message database: conversion from format 1 to 2 begins; the node serves no client")
    assert "converted to format 2 in" in end and "read 21 queue entries and copied 11 shared payloads" in end
    assert format_of(path) == 2
    assert {key[:1] for key in rows_of(path)} == {b"s", b"b", b"q", b"i", b"p", b"u", b"z", b"j"}
    assert start(path) == []


def test_a_new_directory_needs_no_conversion(tmp_path: Path) -> None:
    assert start(tmp_path / "data") == []
    assert rows_of(tmp_path / "data") == {}


def test_the_progress_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORT_S", 0.0)
    _, *progress, _ = start(old_directory(tmp_path / "data"))
    assert progress[0].startswith("notice: message database: 0 % converted; this start read 0 queue entries")
    assert progress[-1].startswith("notice: message database: 99 % converted")
    assert len(progress) > 250, "the limit of lines must not hide the progress"


_KILLED = """
import asyncio, os, sys
from strogoff.broker.process.conversion import convert
from strogoff.broker.reporting.journal import Journal
from strogoff.storage.directory import DataDirectory
from strogoff.storage.leveldb import LevelDBEngine

async def run():
    directory = DataDirectory(sys.argv[1], sys.argv[2], str)
    engine = LevelDBEngine(directory.messages, asyncio.get_running_loop().call_soon_threadsafe, "os")
    write, left = engine.write, int(sys.argv[3])
    def count(batch, done):
        nonlocal left
        write(batch, done)
        left -= 1
        if not left:
            os.kill(os.getpid(), 9)
    engine.write = count
    await convert(directory, engine, Journal(lambda level, text: None))

asyncio.run(run())
"""


def test_killed_processes(tmp_path: Path) -> None:
    """`kill -9` during a write, at several places in turn; the last start completes the conversion."""
    whole = old_directory(tmp_path / "whole")
    start(whole)
    path = old_directory(tmp_path / "killed")
    for writes in (1, 3, 2, 5, 4):
        command = [sys.executable, "-c", _KILLED, str(path), NODE, str(writes)]
        killed = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert killed.returncode == -9, killed.stderr
    start(path)
    assert format_of(path) == 2
    assert rows_of(path) == rows_of(whole)


def test_a_kill_between_the_new_format_and_the_deletions(tmp_path: Path) -> None:
    whole, path = old_directory(tmp_path / "whole"), old_directory(tmp_path / "data")
    start(whole)

    def fail(engine: LevelDBEngine) -> None:
        write = engine.write

        def refuse(batch: Any, done: Any) -> None:
            if any(key[:1] == b"m" for key in batch):
                done(DiskFull("no space"))
            else:
                write(batch, done)

        engine.write = refuse  # type: ignore[method-assign]

    with pytest.raises(DiskFull):
        start(path, fail)
    assert format_of(path) == 2 and any(key[:1] == b"m" for key in rows_of(path))
    assert start(path) == []
    assert rows_of(path) == rows_of(whole)


def test_a_full_disk_stops_the_start_and_the_next_one_continues(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")

    def full(engine: LevelDBEngine) -> None:
        write, left = engine.write, [5]

        def limited(batch: Any, done: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                done(DiskFull("no space left"))
            else:
                write(batch, done)

        engine.write = limited  # type: ignore[method-assign]

    with pytest.raises(DiskFull, match="no space left"):
        start(path, full)
    assert format_of(path) == 1
    start(path)
    assert format_of(path) == 2


def test_every_write_is_fsynced(tmp_path: Path) -> None:
    """With durability `os` a loss of power after the change of the format would lose the new rows."""
    seen = []

    def watch(engine: LevelDBEngine) -> None:
        attempt = engine._attempt
        engine._attempt = lambda batch: seen.append(engine.durability) or attempt(batch)  # type: ignore[method-assign,func-returns-value]

    start(old_directory(tmp_path / "data"), watch)
    assert set(seen) == {"sync"}


def server_on(path: Path, **settings: str) -> Server:
    wanted = {"listener.tcp.default": "127.0.0.1:0", "allow_anonymous": "on", "nodename": NODE, **settings}
    return Server(load(None, {}, {**wanted, "platform_data_dir": str(path)}), lambda level, text: None)


def test_a_server_serves_the_old_sessions(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")

    async def run() -> None:
        server = server_on(path)
        await server.start()
        try:
            client = SteadyClient("s", server.listeners.show()[0].port)
            assert (await client.connect()).session_present
            assert len(server.node.sessions) == 5
            await client.disconnect()
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert format_of(path) == 2


def test_a_stop_during_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is cancelled as by SIGTERM: the directory is free, and the next start completes the conversion."""
    path = old_directory(tmp_path / "data")
    write = module._write

    async def write_and_stop(engine: LevelDBEngine, batch: Any) -> None:
        starting = asyncio.current_task()
        assert starting is not None
        starting.cancel()
        await write(engine, batch)

    monkeypatch.setattr(module, "_write", write_and_stop)

    async def run() -> None:
        starting = asyncio.ensure_future(server_on(path).start())
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(asyncio.wait_for(run(), 30))
    monkeypatch.undo()
    assert format_of(path) == 1
    start(path)
    assert format_of(path) == 2


def test_the_engine_in_memory_leaves_the_databases_as_they_are(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")
    before = rows_of(path)

    async def run() -> None:
        server = server_on(path, **{"message_store.engine": "memory"})
        await server.start()
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert format_of(path) == 1 and rows_of(path) == before


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")
    change_marker(path, format=3)
    with pytest.raises(WrongDirectory, match="format 3, but this version reads only formats 1 to 2"):
        start(path)
