"""`vmq-admin slot move` on three real nodes: a durable subscriber gets every message in order, wherever its slot is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from bench.cluster_nodes import Node, until
from strogoff.cluster.identity import slot_of

from ..brokers import Background
from .joined import joined
from .probe import Probe, moment

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

MOVES = 12
SLEEPERS = 300
"""Durable sessions of the same slot, each with waiting messages."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Background, list[Node]]]:
    """Three joined nodes on this machine's network."""
    folder = tmp_path_factory.mktemp("three")
    nodes = [Node(folder, f"n{n}") for n in (1, 2, 3)]
    with joined(nodes) as background:
        yield background, nodes


async def primary(node: Node, slot: int) -> str:
    """The node that has the slot."""
    answer = await node.ask("slot", "show", f"slot={slot}")
    return str(answer.tables[0][0]["Node"])


async def move(node: Node, slot: int, target: Node) -> None:
    """Move the slot by a command at some node."""
    answer = await node.ask("slot", "move", f"slot={slot}", f"node={target.name}")
    assert answer.status == 0 and answer.text.strip().endswith("Done"), answer


async def reads(nodes: list[Node], client_id: str, got: list[bytes], last: bytes) -> int:
    """A durable subscriber that connects again, to the next node, whenever it is disconnected. Returns how often it
    connected."""
    connects = 0
    known = set(got)

    def take(reader: Probe) -> None:
        for each in reader.messages:
            if each.payload not in known:
                known.add(each.payload)
                got.append(each.payload)
        reader.messages.clear()

    while last not in known:
        reader = Probe(nodes[connects % 3], client_id)
        connects += 1
        try:
            assert (await reader.connect(clean=False)).reason == 0
        except ConnectionError:
            continue  # its slot moved twice while it waited
        while not reader.gone.is_set() and last not in known:
            reader.came.clear()
            take(reader)
            if last not in known:
                await asyncio.wait_for(reader.came.wait(), 30)
        take(reader)
        await reader.close()
    return connects


async def more_than(got: list[bytes], count: int) -> bool:
    """True when more messages have come."""
    return len(got) > count


async def story(nodes: list[Node]) -> None:
    """Messages flow from one node to a client, while its slot goes round the cluster."""
    slot = slot_of("", "traveller")
    first = Probe(nodes[0], "traveller")
    await first.connect(clean=False)
    assert await first.subscribe("to/traveller", 1) == 1
    await first.close()
    names = [name for name in (f"s{n}" for n in range(SLEEPERS * 256 * 4)) if slot_of("", name) == slot][:SLEEPERS]
    for name in names:
        sleeper = Probe(nodes[1], name)
        await sleeper.connect(clean=False)
        assert await sleeper.subscribe("to/all", 1) == 1
        await sleeper.close()
    writers = [Probe(node, f"writer{number}") for number, node in enumerate(nodes)]
    for writer in writers:
        await writer.connect()
    stop = asyncio.Event()
    sent: list[bytes] = []

    async def writes() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await moment(0.001)
            assert await writers[0].publish("to/traveller", b"%d" % number, within_s=20) == 0
            sent.append(b"%d" % number)
            if number % 50 == 0:
                for writer in writers[1:]:
                    assert await writer.publish("to/all", b"%d" % number, within_s=20) == 0
        assert await writers[0].publish("to/traveller", b"end", within_s=20) == 0

    got: list[bytes] = []
    writing = asyncio.create_task(writes())
    reading = asyncio.create_task(reads(nodes, "traveller", got, b"end"))
    for number in range(MOVES):
        here = await primary(nodes[number % 3], slot)
        others = [node for node in nodes if node.name != here]
        before = len(got)
        await move(nodes[(number + 1) % 3], slot, others[number % 2])
        await until("messages arrive after the move", partial(more_than, got, before))
    stop.set()
    await asyncio.wait_for(writing, 30)
    connects = await asyncio.wait_for(reading, 30)
    assert got == [*sent, b"end"], (len(got), len(sent))
    assert connects > MOVES // 2
    for name in names[:5]:
        sleeper = Probe(nodes[2], name)
        assert (await sleeper.connect(clean=False)).session_present
        count = 2 * (len(sent) // 50)
        payloads = await sleeper.got(count)
        assert len(payloads) == count
        await sleeper.close()


def test_a_subscriber_gets_everything_in_order_while_its_slot_moves(three: tuple[Background, list[Node]]) -> None:
    background, nodes = three
    background.run(story(nodes), 110)


def test_wrong_requests_get_a_reason(three: tuple[Background, list[Node]]) -> None:
    background, (node, *_) = three

    async def asks() -> None:
        answer = await node.ask("slot", "move", "slot=3", "node=nobody")
        assert answer.status and "nobody is not a member of this cluster" in answer.text
        answer = await node.ask("slot", "move", "slot=256", f"node={node.name}")
        assert answer.status and "a slot, 0 to 255" in answer.text

    background.run(asks(), 30)
