"""A node that is told to stop serves until the others can do without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.broker.clustering import rows
from strogoff.broker.clustering.leaving import PASS_ON_S, passed_on
from strogoff.broker.clustering.runtime import ClusterRuntime
from tests.harness.servers import ServersInMemory, run
from tests.harness.waiting import until

STOPS = "notice: this node stops in 8 s at the latest: "


async def three_with_copies(harness: ServersInMemory) -> list[ClusterRuntime]:
    shells = [await harness.start(name) for name in ("n1", "n2", "n3")]
    for shell in shells[1:]:
        await shell.join("127.0.0.1:44001", False)
    await until(lambda: all(len(row.in_sync) == 2 for row in shells[0].slots()[0].rows))
    await until(lambda: all(shell.status().serving == 3 for shell in shells))
    await until(lambda: all(row.voter for row in shells[0].rows()))
    return shells


def told(harness: ServersInMemory, name: str, start: str) -> Callable[[], bool]:
    return lambda: any(line.startswith(start) for line in harness.log[name])


def test_a_node_that_nobody_needs_stops_at_once(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await three_with_copies(harness)
        policy = harness.servers["n1"].node.policy
        assert not policy.stops_soon
        await asyncio.wait_for(harness.servers["n1"].await_copies(asyncio.Event()), 1)
        assert not told(harness, "n1", STOPS)() and policy.stops_soon

    run(tmp_path, scenario)


def test_a_node_is_needed_while_others_are_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have died: their nodes are in the view for another second."""

    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        assert one._needed() == ""
        monkeypatch.setattr(rows, "RUNS_MS", -1)
        assert one.status().serving == 1
        assert one._needed() == (
            "the others are no majority without this node, while n2@127.0.0.1 and n3@127.0.0.1 are away"
        )

    run(tmp_path, scenario)


def test_a_node_that_was_taken_out_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last view still names the others."""

    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        monkeypatch.setattr(rows, "RUNS_MS", -1)
        assert one._needed()
        monkeypatch.setattr(one._member.registrar, "problem", "this node has left the cluster")
        assert one._needed() == ""

    run(tmp_path, scenario)


def test_a_node_in_a_minority_waits_for_nobody(tmp_path: Path) -> None:
    """It serves no slot, so that waiting does not help the others."""

    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        await harness.stop("n2")
        await harness.stop("n3")
        assert set(one._member.view.serving) - {one.name}
        await until(lambda: not one._needed())
        assert not one._member.leased()

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_that_is_needed_stops_when_another_one_is_back(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        await harness.stop("n2")
        await until(lambda: one.status().serving == 2)
        waits = asyncio.create_task(harness.servers["n1"].await_copies(asyncio.Event()))
        await until(told(harness, "n1", STOPS))
        away = "the others are no majority without this node, while n2@127.0.0.1 is away"
        await until(lambda: one._needed() == away)
        assert not waits.done()
        await harness.start("n2")
        await waits
        assert one.status().serving == 3
        assert not told(harness, "n1", "warning: this node stops although")()

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_serves_until_others_have_its_slots(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        one.clustering.slots.replicator.tick = lambda: None  # type: ignore[method-assign]  # it begins no copy
        await harness.stop("n2")
        await until(lambda: one._needed().startswith("no other node has a copy of the slots "))
        waits = asyncio.create_task(harness.servers["n1"].await_copies(asyncio.Event()))
        await until(told(harness, "n1", STOPS + "no other node has a copy of the slots "))
        await harness.start("n2")
        await until(lambda: one.status().serving == 3)
        assert not waits.done()
        del one.clustering.slots.replicator.tick
        await waits
        assert not one.clustering.slots.alone()

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_second_signal_stops_a_node_that_is_needed(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        await harness.stop("n2")
        await until(lambda: one.status().serving == 2)
        signal = asyncio.Event()
        waits = asyncio.create_task(harness.servers["n1"].await_copies(signal))
        await until(told(harness, "n1", STOPS))
        signal.set()
        await asyncio.wait_for(waits, 1)
        assert told(harness, "n1", "warning: this node stops although ")()

    run(tmp_path, scenario)


def test_with_one_copy_or_alone_a_node_waits_for_nobody(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one = await harness.start("n1", queue_replicas="1")
        two = await harness.start("n2", queue_replicas="1")
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == 2)
        assert one._needed() == two._needed() == ""
        alone = await harness.start("n3")
        assert alone._needed() == ""

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_disk_that_is_always_busy_does_not_delay_the_stop(tmp_path: Path) -> None:
    """Publishers at other nodes may keep it so, and wait until this node is gone."""

    async def scenario(harness: ServersInMemory) -> None:
        one, _, _ = await three_with_copies(harness)
        store = harness.servers["n1"].node.env.store

        async def keep_busy() -> None:
            while True:
                store.put(b"busy", b"")
                await asyncio.sleep(0)

        busy = asyncio.create_task(keep_busy())
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(PASS_ON_S / 2):
                await passed_on(one.clustering, one._member)
        finally:
            busy.cancel()

    run(tmp_path, scenario)
