"""The hosted server: a real `Server` with other transports, and a kill."""

from __future__ import annotations

from pathlib import Path

from strogoff.broker.reporting.events import Row
from strogoff.configs import load
from strogoff.testing.runtime.idle import IdleDetector
from strogoff.testing.runtime.in_process import InProcessServer
from strogoff.testing.runtime.memory_disk import Disks

from ..run_loop import run


def make(folder: Path, rows: list[Row], disks: Disks | None, lines: list[str] | None = None) -> InProcessServer:
    conf = {"listener.tcp.default": "127.0.0.1:0", "platform_data_dir": str(folder), "eventlog.level": "off"}

    def log(level: str, text: str) -> None:
        if lines is not None:
            lines.append(text)

    return InProcessServer(load(None, {}, conf), log, disks, rows.append, IdleDetector(), "1", [])


def test_the_log_begins_with_the_node(tmp_path: Path) -> None:
    """At level message, from the first row; boots are counted by the data directory."""
    rows: list[Row] = []

    async def test() -> None:
        for boot in (1, 2):
            server = make(tmp_path, rows, {})
            assert not server.running
            await server.start()
            assert server.running
            first = next(row for row in rows if row["boot"] == boot)
            assert (first["seq"], first["type"], first["level"]) == (1, "node.start", "message")
            await server.stop()
            assert server.left_behind() == [] and not server.running

    run(test())


def test_the_same_seed_and_boot_give_the_same_random_numbers(tmp_path: Path) -> None:
    """Another boot gets other random numbers."""
    drawn: list[int] = []

    async def test() -> None:
        for folder in ("a", "b", "b"):
            server = make(tmp_path / folder, [], {})
            await server.start()
            drawn.append(server.node.services.rng.getrandbits(64))
            await server.stop()

    run(test())
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_kill_loses_uncommitted_writes_only(tmp_path: Path) -> None:
    """Nothing else is lost, with both engines; no task is left, and the directory is free."""

    async def test() -> None:
        choices: tuple[Disks | None, ...] = ({}, None)
        for disks in choices:
            folder = tmp_path / ("leveldb" if disks is None else "memory")
            server = make(folder, [], disks)
            await server.start()
            server.store.put(b"ykept", b"1")
            await server._flush()
            server.store.put(b"ylost", b"1")
            await server.kill()
            assert server.left_behind() == []
            again = make(folder, [], disks)
            await again.start()
            assert (again.store.get(b"ykept"), again.store.get(b"ylost")) == (b"1", None)
            await again.stop()

    run(test())


def test_a_killed_node_logs_nothing(tmp_path: Path) -> None:
    """Neither while its parts end, nor later."""
    lines: list[str] = []

    async def test() -> None:
        server = make(tmp_path, [], {}, lines)
        await server.start()
        before = list(lines)
        await server.kill()
        await server.listeners.close(0)
        server.node.env.log("error", "too late")
        assert lines == before != []

    run(test())
