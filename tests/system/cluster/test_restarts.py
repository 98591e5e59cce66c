"""Nodes that stop and return: with their data, without it, and with data that is too old."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, bad_lines, balanced, client_at, end, start_joined, until, whole
from bench.ha_test import Slots
from strogoff.mqtt import packets

from ..brokers import run_test
from .probe import Probe
from .test_commands import admin, crosses, lasting_session, members
from .test_faults import serves_without

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(100)]

MAJORITY = {f"allow_{operation}_during_netsplit": "majority" for operation in ("register", "publish", "subscribe")}


@asynccontextmanager
async def three(folder: Path, **settings: str) -> AsyncIterator[list[Node]]:
    """Three joined nodes with policies that let a majority serve."""
    nodes = [Node(folder, f"n{n}", **MAJORITY, **settings) for n in (1, 2, 3)]
    try:
        await start_joined(nodes)
        yield nodes
    finally:
        await end(nodes)


async def keeper_gets(node: Node, payloads: list[bytes]) -> None:
    """Check that the session `keeper` still exists, and has exactly these messages."""
    keeper = Probe(node, "keeper")
    assert (await keeper.connect(clean=False)).session_present
    assert await keeper.got(len(payloads)) == payloads
    await keeper.close()


def test_a_node_is_restarted(tmp_path: Path) -> None:
    """A stop is no leave. Publishes for its sessions are answered when it is back and has them."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            first, _, third = nodes
            await lasting_session(third, "keeper", "kept/#")
            writer = Probe(first, "writer")
            assert (await writer.connect()).reason == 0
            assert await writer.publish("kept/1", b"before") == 0
            assert await third.stop() == 0
            await until("the view is without it", partial(serves_without, first, third))
            packet_id = writer.offer("kept/2", b"meanwhile", 1)
            await writer.unanswered()
            await third.start()
            puback = await writer.expect(packets.Puback)
            assert (puback.packet_id, puback.reason) == (packet_id, 0)
            await whole(nodes)
            await keeper_gets(third, [b"before", b"meanwhile"])
            assert [(await node.status())["members"] for node in nodes] == [3, 3, 3]
            assert bad_lines(nodes) == []

    run_test(scenario())


def test_the_whole_cluster_is_restarted(tmp_path: Path) -> None:
    """All three are killed, and start in another order, with all acknowledged data."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            first, second, third = nodes
            await lasting_session(third, "keeper", "kept/#")
            writer = Probe(first, "writer")
            assert (await writer.connect()).reason == 0
            for n in range(20):
                assert await writer.publish(f"kept/{n}", b"%d" % n, retain=True) == 0
            await asyncio.gather(*[node.kill() for node in nodes])
            await asyncio.gather(*[node.start() for node in reversed(nodes)])
            await whole(nodes)
            await keeper_gets(third, [b"%d" % n for n in range(20)])
            late = Probe(second, "late")
            assert (await late.connect()).reason == 0
            assert await late.subscribe("kept/#", 0) == 0
            assert sorted(await late.got(20)) == sorted(b"%d" % n for n in range(20))
            await crosses(first, third)
            assert bad_lines(nodes) == []

    run_test(scenario())


def said(node: Node, text: str) -> Callable[[], Awaitable[bool]]:
    """Whether its log has this text, for `until`."""

    async def looked() -> bool:
        return text in node.log.read_text()

    return looked


async def replaced(node: Node, member: Node) -> str:
    """The operator says that the former disk of a node is lost. Returns the error; "" if the node has joined."""
    said: list[str] = []

    async def asked() -> bool:
        said.append((await admin(node, "cluster", "join", f"discovery-node={member.address}", "--replace")).wrong)
        return "is joining already" not in said[-1]  # discovery asks as well

    await until("the operator has got an answer", asked)
    return said[-1]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_disk_is_lost(tmp_path: Path, copies: int) -> None:
    """The same name with an empty directory. A boot number is used once, so the first start with the new disk only
    learns the number to exceed; after a restart the node joins, empty. A session that had a second copy still exists.
    Only an operator gives up sessions without one.
    """

    async def scenario() -> None:
        async with three(tmp_path, queue_replicas=str(copies), queue_balance_wait="1") as nodes:
            first, second, third = nodes
            if copies == 2:
                await until("each slot is in its place", partial(balanced, nodes), 60)
                await until("each slot has two copies", Slots(nodes).all_copied)
            client_id = await client_at(third, "c")
            await lasting_session(third, client_id, "kept/#")
            await third.kill()
            shutil.rmtree(third.data)
            await third.start()
            if copies == 1:
                await until("it is refused", said(third, "no other node has everything of its slots"))
                assert "its number of starts is set to that now" in await replaced(third, first)
            else:
                await until("it is told its number of starts", said(third, "its number of starts is set to that now"))
            assert await third.stop() == 0
            await third.start()
            if copies == 1:
                assert await replaced(third, first) == ""
            await whole(nodes)
            assert await members(first) == [node.name for node in nodes]
            keeper = Probe(third, client_id)
            assert (await keeper.connect(clean=False)).session_present is (copies == 2)
            await keeper.close()
            await crosses(third, second)
            await crosses(first, third)

    run_test(scenario())


def test_a_backup_is_restored(tmp_path: Path) -> None:
    """An old copy of a node's data is refused with a log line; the others continue, and the right data is accepted."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            first, second, third = nodes
            copy, real = tmp_path / "copy", tmp_path / "real"
            assert await third.stop() == 0
            shutil.copytree(third.data, copy, ignore=shutil.ignore_patterns("*.sock"))
            await third.start()
            await whole(nodes)
            assert await third.stop() == 0
            third.data.rename(real)
            copy.rename(third.data)
            await third.start()
            await until("it says why it does not serve", said(third, "the cluster does not take this start"))
            await until("the others serve without it", partial(serves_without, first, third))
            await crosses(first, second)
            assert (await Probe(third, "nobody").connect()).reason == 0x88
            assert await third.stop() == 0
            shutil.rmtree(third.data)
            real.rename(third.data)
            await third.start()
            await whole(nodes)
            await crosses(third, first)

    run_test(scenario())
