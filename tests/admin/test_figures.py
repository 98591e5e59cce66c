"""Free space, certificates, and the connections that the node does not read."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from strogoff.admin import figures
from strogoff.admin.figures import REASONS, STEP, Figures, of_connections

from .server_harness import ServerHarness, run_with_server


def figures_of(harness: ServerHarness) -> Figures:
    return Figures(harness.server)


def certificate(path: Path, *years: int) -> None:
    """Write a file with a key, and a chain of certificates that end in these years."""
    authority = trustme.CA()
    made = [authority.issue_cert("localhost", not_after=datetime(year, 1, 1, tzinfo=UTC)) for year in years]
    pems = [made[0].private_key_pem.bytes(), *[each.cert_chain_pems[0].bytes() for each in made]]
    path.write_bytes(b"".join(pems))


def seconds(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def test_the_disk_is_that_of_the_data_directory(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        found = figures_of(harness)
        await found.look()
        stat = os.statvfs(harness.server.data_dir)
        assert found.disk is not None
        assert found.disk.size == stat.f_blocks * stat.f_frsize
        assert 0 < found.disk.free <= found.disk.size
        folder, away = harness.server.data_dir, tmp_path / "away"
        folder.rename(away)
        await found.look()
        assert found.disk is None
        away.rename(folder)

    run_with_server(tmp_path, test)


def test_the_certificate_of_a_listener_and_its_renewal(tmp_path: Path) -> None:
    pem = tmp_path / "both.pem"
    certificate(pem, 2030)
    tls: dict[str, Any] = {
        "listener__ssl__default": "127.0.0.1:0",
        "listener__ssl__certfile": str(pem),
        "listener__ssl__keyfile": str(pem),
    }

    async def test(harness: ServerHarness) -> None:
        found = figures_of(harness)
        seen = []
        for write in (
            lambda: None,
            lambda: certificate(pem, 2033),
            lambda: certificate(pem, 2033, 2031),  # the chain ends with its first certificate that ends
            lambda: pem.write_text("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"),
            lambda: pem.write_text("no certificate"),
            pem.unlink,
        ):
            write()
            await found.look()
            seen.append(found.certificates)
        ends = [seconds(2030), seconds(2033), seconds(2031), 0, 0, 0]
        assert seen == [{"listener.ssl.default": end} for end in ends]

    run_with_server(tmp_path, test, **tls)


def test_connections_that_wait_are_counted_by_reason(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        for name in ("a", "b", "c"):
            await harness.client(name)
        connections = harness.server.node.connections
        first, second, _ = connections.values()
        assert await of_connections(connections) == (dict.fromkeys(REASONS, 0), 0)
        first.flow.pause("cluster")
        second.flow.pause("cluster")
        second.flow.hold("parked")
        found, _ = await of_connections(connections)
        assert {reason: number for reason, number in found.items() if number} == {"cluster": 2, "parked": 1}
        second.flow.release("parked")
        for each in (first, second):
            each.flow.unpause("cluster")
        assert await of_connections(connections) == (dict.fromkeys(REASONS, 0), 0)

    run_with_server(tmp_path, test)


def test_the_messages_that_wait_for_connected_clients(tmp_path: Path) -> None:
    """In memory and on disk, but neither those in flight nor those of clients that are away."""

    async def test(harness: ServerHarness) -> None:
        connections = harness.server.node.connections
        publisher = await harness.client("p")
        for name, clean in (("clean", True), ("durable", False), ("away", False)):
            client = await harness.client(name, clean=clean)
            await client.subscribe(("t", 1))
            if name == "away":
                await client.leave()
        for _ in range(6):
            await publisher.publish("t", b"")
        assert (await of_connections(connections))[1] == 4 + 4

    run_with_server(tmp_path, test, max_inflight_messages="2", queue__memory_window="3")


def test_counting_lets_other_work_run() -> None:
    class Connection:
        session = None

        class flow:  # noqa: N801
            paused_for = frozenset(("disk", "held"))
            held_for = frozenset(("hook",))

    async def test() -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        many: Any = {number: Connection() for number in range(3 * STEP)}
        found, waiting = await of_connections(many)
        assert waiting == 0
        assert (found["disk"], found["hook"], found["output"]) == (3 * STEP, 3 * STEP, 0)
        assert turns >= 3

    asyncio.run(test())


def test_they_are_taken_again_and_again_until_the_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "EVERY_S", 0.01)

    async def test(harness: ServerHarness) -> None:
        found = figures_of(harness)
        await found.start()
        await harness.client("a")
        (flow,) = [each.flow for each in harness.server.node.connections.values()]
        flow.pause("throttle")
        await harness.until(lambda: found.paused["throttle"] == 1)
        flow.unpause("throttle")
        await harness.until(lambda: found.paused["throttle"] == 0)
        await found.stop()
        await found.stop()

    run_with_server(tmp_path, test)
