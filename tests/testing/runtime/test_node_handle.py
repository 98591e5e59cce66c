"""The handle of a node: its address over restarts, and reports of leaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from strogoff.judge.rows import Row
from strogoff.testing.faults.packet_drops import FaultError
from strogoff.testing.runtime.idle import IdleDetector
from strogoff.testing.runtime.node_handle import LeakError, NodeHandle

from ..run_loop import run

CONF = {"nodename": "n@127.0.0.1", "allow_anonymous": "on", "eventlog.level": "off"}


def make(folder: Path, **conf: str) -> NodeHandle:
    return NodeHandle(0, {**CONF, **conf}, folder, {}, 1, IdleDetector(), lambda row: None)


def test_the_port_is_reserved(tmp_path: Path) -> None:
    """While the node is down no process answers there, and no other process gets the port."""

    async def test() -> None:
        node = make(tmp_path)
        await node.start()
        assert node.ports() == {"listener.tcp.default": node.port}
        await node.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(node.host, node.port)
        with socket.socket() as thief, pytest.raises(OSError, match="in use"):
            thief.bind((node.host, node.port))
        await node.start()
        assert node.ports() == {"listener.tcp.default": node.port}
        await node.kill()
        node.release()

    run(test())


def test_more_listeners(tmp_path: Path) -> None:
    """Each has a port of its own; the node's last log lines can be read."""

    async def test() -> None:
        node = make(tmp_path, **{"listener.ws.default": "127.0.0.1:0"})
        await node.start()
        assert set(node.ports()) == {"listener.tcp.default", "listener.ws.default"} and all(node.ports().values())
        assert any("listening on" in line for line in node.log)
        assert (node.up, node.paused, node.name) == (True, False, "n@127.0.0.1")
        await node.stop()
        node.release()

    run(test())


@pytest.mark.parametrize("end", [NodeHandle.kill, NodeHandle.stop])
def test_stamps_rise_over_a_restart(tmp_path: Path, end: Callable[[NodeHandle], Coroutine[Any, Any, None]]) -> None:
    """Also if the new process begins in the same millisecond, or at the time that the old one has saved last."""
    rows: list[Row] = []

    async def test() -> None:
        node = NodeHandle(0, CONF, tmp_path, {}, 1, IdleDetector(), rows.append)
        await node.start()
        node.node.env.events.observe(rows[-1]["hlc"] + (9000 << 16))
        node.node.env.event("fault.pause", nodes=[node.name])
        await end(node)
        await node.start()
        await node.kill()
        node.release()

    run(test())
    stamps = [row["hlc"] for row in rows]
    assert {row["boot"] for row in rows} == {1, 2} and stamps == sorted(set(stamps))


def test_a_node_that_is_down(tmp_path: Path) -> None:
    """It waits for nothing, and refuses questions."""
    node = make(tmp_path)
    assert list(node.pending()) == [] and not node.up and not node.paused
    with pytest.raises(FaultError, match="node 0 is down"):
        node.pause()
    node.release()


def test_a_task_left_at_the_end_is_reported(tmp_path: Path) -> None:
    """For example a plugin with a task that never ends."""

    async def test() -> None:
        node = make(tmp_path)
        await node.start()
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        node.server._spawn_task(stubborn())
        await asyncio.sleep(0)
        with pytest.raises(LeakError, match=r"node 0 left behind: task .*stubborn"):
            await node.stop()
        release.set()
        node.release()

    run(test())
