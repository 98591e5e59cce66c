"""The administration server as an extension of the daemon: started after the server, stopped before
it, or not at all.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from strogoff.admin.server import AdminServer
from strogoff.broker.listeners.sockets import ListenError
from strogoff.broker.process.daemon import Extension, serve
from strogoff.broker.process.server import Server
from strogoff.configs import load


class Recorder:
    """Records its start and stop; fails on request."""

    def __init__(self, name: str, events: list[str], fails: bool = False) -> None:
        self.name = name
        self.events = events
        self.fails = fails

    async def start(self, server: Server) -> None:
        self.events.append(f"start {self.name}, {len(server.listeners.show())} listening")
        if self.fails:
            raise ListenError("not today")
        os.kill(os.getpid(), signal.SIGTERM)

    async def reload(self) -> list[str]:
        return []

    async def stop(self) -> None:
        self.events.append(f"stop {self.name}")


def settings(tmp_path: Path) -> dict[str, str]:
    return {
        "platform_data_dir": str(tmp_path / "d"),
        "listener.tcp.default": "127.0.0.1:0",
        "log.console": "off",
        "eventlog.level": "off",
    }


def test_extensions_run_between_start_and_stop(tmp_path: Path) -> None:
    events: list[str] = []
    extensions: list[Extension] = [AdminServer(), Recorder("a", events), Recorder("b", events)]
    assert asyncio.run(serve(load(None, {}, settings(tmp_path)), extensions)) == 0
    assert events == ["start a, 1 listening", "start b, 1 listening", "stop b", "stop a"]
    assert not (tmp_path / "d" / "admin.sock").exists()


def test_one_that_cannot_start_ends_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events: list[str] = []
    extensions: list[Extension] = [AdminServer(), Recorder("a", events, fails=True), Recorder("b", events)]
    assert asyncio.run(serve(load(None, {}, settings(tmp_path)), extensions)) == 1
    assert events == ["start a, 1 listening"]
    assert capsys.readouterr().err == "strogoff: the node cannot start: not today\n"
    assert not (tmp_path / "d" / "admin.sock").exists()
    assert asyncio.run(serve(load(None, {}, settings(tmp_path)), [Recorder("c", events)])) == 0


def test_stop_before_start_is_no_error() -> None:
    asyncio.run(AdminServer().stop())


def test_reload_before_start_is_no_error() -> None:
    assert asyncio.run(AdminServer().reload()) == []
