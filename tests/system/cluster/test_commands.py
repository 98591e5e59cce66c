"""`vmq-admin cluster join` and `leave`, used correctly and wrongly: each gives a clear sentence, and the cluster still
works.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.broker_process import free_port
from bench.cluster_nodes import Node, bad_lines, client_at, end, start_joined, until, whole
from bench.ha_test import Slots
from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.placement import wanted

from ..brokers import WITHIN_S, run_test
from .probe import Probe
from .test_faults import serves_without

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(100)]


class Said(NamedTuple):
    """The exit status of vmq-admin, and what it wrote on stdout and on stderr."""

    status: int
    out: str
    wrong: str


async def admin(node: Node, *words: str) -> Said:
    """Run vmq-admin against a node, as an operator does."""
    program = str(Path(sys.executable).parent / "vmq-admin")
    process = await asyncio.create_subprocess_exec(
        program, "--data-dir", str(node.data), *words, stdout=PIPE, stderr=PIPE
    )
    out, wrong = await asyncio.wait_for(process.communicate(), 3 * WITHIN_S)
    assert process.returncode is not None
    return Said(process.returncode, out.decode().strip(), wrong.decode().strip())


@asynccontextmanager
async def some(folder: Path, count: int, joined: bool, **settings: str) -> AsyncIterator[list[Node]]:
    """Nodes that run, joined or each alone."""
    nodes = [Node(folder, f"n{n}", **settings) for n in range(1, count + 1)]
    try:
        if joined:
            await start_joined(nodes)
        else:
            await asyncio.gather(*[node.start() for node in nodes])
        yield nodes
        assert bad_lines(nodes) == []
    finally:
        await end(nodes)


async def lasting_session(node: Node, client_id: str, text: str) -> None:
    """Make a persistent session with one subscription at this node."""
    probe = Probe(node, client_id)
    assert (await probe.connect(clean=False)).reason == 0
    assert await probe.subscribe(text, 1) == 1
    await probe.close()


async def crosses(source: Node, target: Node) -> None:
    """Check that the cluster works: a publish at one node arrives at the other."""
    reader, writer = Probe(target, "crossing-reader"), Probe(source, "crossing-writer")
    assert (await reader.connect()).reason == (await writer.connect()).reason == 0
    assert await reader.subscribe("crossing") == 1
    assert await writer.publish("crossing", b"over") == 0
    assert await reader.got(1) == [b"over"]
    await reader.close()
    await writer.close()


async def publish(node: Node, topic: str, payload: bytes) -> None:
    """Publish a message at QoS 1, and wait for PUBACK."""
    writer = Probe(node, "writer")
    assert (await writer.connect()).reason == 0
    assert await writer.publish(topic, payload) == 0
    await writer.close()


async def members(node: Node) -> list[str]:
    """Returns the names of the members that a node lists."""
    return sorted(row["Node"] for row in (await node.status())["nodes"])


async def are_members(node: Node, *names: str) -> bool:
    """Wait until these are the members."""
    return await members(node) == sorted(names)


def test_impossible_joins_and_leaves(tmp_path: Path) -> None:
    """A join of the node itself, of an address without a node, a second join; a leave of a stranger, and of the only
    member.
    """

    async def scenario() -> None:
        async with some(tmp_path, 2, joined=False) as (first, second):
            nobody = f"127.0.0.1:{free_port()}"
            for target, expected in {
                first.name: f"{first.name} is this node. A node cannot join itself.",
                first.address: f"{first.name} cannot join itself",
                nobody: f"nobody answers at {nobody} (connection refused). ",
                "nonsense": "no address is found for the name in nonsense:44053 (",
            }.items():
                said = await admin(first, "cluster", "join", f"discovery-node={target}")
                assert said.status == 1 and said.out == "" and said.wrong.startswith(expected), said
                assert "Traceback" not in said.wrong and len(said.wrong.splitlines()) == 1, said
            assert (await admin(second, "cluster", "join", f"discovery-node={first.address}")).status == 0
            await whole([first, second])
            again = await admin(second, "cluster", "join", f"discovery-node={first.address}")
            assert (again.status, again.wrong) == (
                1,
                f"{second.name} is a member of a cluster already, with {first.name}",
            )
            stranger = await admin(first, "cluster", "leave", "node=n9@127.0.0.1", "-k")
            assert stranger.status == 1 and stranger.wrong.startswith("n9@127.0.0.1 is not a member of this cluster.")
            await crosses(first, second)

    run_test(scenario())


def test_join_with_sessions(tmp_path: Path) -> None:
    """A node with durable sessions is refused, and unchanged. The other node joins it; its messages need --merge."""

    async def scenario() -> None:
        async with some(tmp_path, 2, joined=False) as (first, second):
            await lasting_session(second, "keeper", "kept/#")
            writer = Probe(first, "writer")
            assert (await writer.connect()).reason == 0
            assert await writer.publish("kept/before", b"before", retain=True) == 0
            await writer.close()
            refused = await admin(second, "cluster", "join", f"discovery-node={first.address}", "--merge")
            assert refused.status == 1 and "1 durable sessions" in refused.wrong, refused
            assert await members(first) == [first.name]
            word = f"discovery-node={second.address}"
            refused = await admin(first, "cluster", "join", word)
            assert refused.status == 1 and "retained messages" in refused.wrong and "--merge" in refused.wrong, refused
            assert (await admin(first, "cluster", "join", word, "--merge")).status == 0
            await whole([first, second])
            late = Probe(second, "late")
            assert (await late.connect()).reason == 0
            assert await late.publish("kept/after", b"after") == 0
            assert await late.subscribe("kept/#") == 1
            assert await late.got(1) == [b"before"]
            await late.close()
            keeper = Probe(first, "keeper")
            assert (await keeper.connect(clean=False)).session_present
            assert await keeper.got(1) == [b"after"]
            await keeper.close()

    run_test(scenario())


def test_leave_of_a_running_node(tmp_path: Path) -> None:
    """Without -k its ports close and it stays a member; with -k its durable sessions move to the others, and it
    leaves.
    """

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as (first, second, third):
            name = await client_at(third, "c")
            await lasting_session(third, name, "kept/#")
            await publish(first, "kept/1", b"before")
            closed = await admin(first, "cluster", "leave", f"node={third.name}")
            assert closed.status == 0 and "Done! Use -k" in closed.out, closed
            with pytest.raises(ConnectionRefusedError):
                await Probe(third, "late").connect()
            assert await members(first) == [first.name, second.name, third.name]
            gone = await admin(first, "cluster", "leave", f"node={third.name}", "-k")
            assert gone.status == 0 and gone.out.splitlines()[-1] == "Done", gone
            await whole([first, second])
            await publish(first, "kept/2", b"after")
            heir = Probe(second, name)
            assert (await heir.connect(clean=False)).session_present
            assert await heir.got(2) == [b"before", b"after"]
            await heir.close()
            assert await members(first) == [first.name, second.name]
            await crosses(first, second)
            alone = await admin(second, "cluster", "leave", f"node={second.name}", "-k")
            assert alone.status == 0 and alone.out.splitlines()[-1] == "Done", alone
            await until("the first is alone", partial(are_members, first, first.name))
            await crosses(first, first)
            last = await admin(first, "cluster", "leave", f"node={first.name}", "-k")
            assert (last.status, last.wrong) == (1, f"{first.name} is the only member of its cluster"), last

    run_test(scenario())


def test_leave_of_dead_nodes(tmp_path: Path) -> None:
    """The other members decide the leave of a dead node. Its durable sessions that have one copy are listed before.
    Without a majority there is no decision.
    """

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True, queue_replicas="1") as (first, second, third):
            await lasting_session(third, await client_at(third, "c"), "kept/#")
            await third.kill()
            await until("the view is without it", partial(serves_without, first, third))
            lossy = await admin(first, "cluster", "leave", f"node={third.name}", "-k")
            assert lossy.status == 1 and "1 subscriptions" in lossy.wrong and "--accept-loss" in lossy.wrong, lossy
            gone = await admin(first, "cluster", "leave", f"node={third.name}", "-k", "--accept-loss")
            assert (gone.status, gone.out.splitlines()[-1]) == (0, "Done"), gone
            await whole([first, second])
            await crosses(first, second)
            await third.start()
            await until("it knows that it has left", partial(has_left, third))
            assert await members(first) == [first.name, second.name]
            await third.kill()
            third.log.unlink()  # the node logs an error, which this test expects

    run_test(scenario())


def test_a_dead_node_leaves_without_a_loss_if_sessions_have_two_copies(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as (first, second, third):
            slots, names = Slots([first, second, third]), dict.fromkeys((first.name, second.name, third.name), "")
            belong = [slot for slot in range(SLOTS) if wanted(slot, names, 1) == (third.name,)]

            async def at_rest() -> bool:
                return await slots.of(third) == belong and await slots.all_copied()

            await until("each slot has two copies, where it belongs", at_rest)
            name = await client_at(third, "c")
            await lasting_session(third, name, "kept/#")
            await third.kill()
            await until("the view is without it", partial(serves_without, first, third))
            gone = await admin(first, "cluster", "leave", f"node={third.name}", "-k")
            assert (gone.status, gone.out.splitlines()[-1]) == (0, "Done"), gone
            await whole([first, second])
            back = Probe(second, name)
            assert (await back.connect(clean=False)).session_present

    run_test(scenario())


async def has_left(node: Node) -> bool:
    """Wait until its log says that it is no member, and which command helps."""
    said = node.log.read_text()
    return "was taken out of the cluster" in said and "strogoff reset" in said


def test_leave_without_a_majority(tmp_path: Path) -> None:
    """Two of three nodes are dead: no node can be removed; when one is back, it works."""

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as (first, second, third):
            await asyncio.gather(second.kill(), third.kill())

            async def alone() -> bool:
                return await first.sees() == "minority"

            await until("the lease is over", alone)
            refused = await admin(first, "cluster", "leave", f"node={third.name}", "-k")
            assert refused.status == 1 and "no lease" in refused.wrong and "majority" in refused.wrong, refused
            await second.start()
            await until("there is a majority", partial(serves_without, first, third))
            gone = await admin(first, "cluster", "leave", f"node={third.name}", "-k", "--accept-loss")
            assert (gone.status, gone.out.splitlines()[-1]) == (0, "Done"), gone
            await whole([first, second])
            await crosses(second, first)

    run_test(scenario())
