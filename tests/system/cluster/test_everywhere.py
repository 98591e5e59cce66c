"""SUBACK and the PUBACK of a retained message hold on all nodes (P4): ten thousand times each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from bench.cluster_nodes import Node

from ..brokers import Background
from .joined import joined
from .probe import Probe

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

ROUNDS = 10_000
LANES = 50
"""Pairs of clients at work at the same time."""
EACH = 20
"""Messages of one client; then the next comes."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Background, list[Node]]]:
    """Three joined nodes on this machine's network."""
    folder = tmp_path_factory.mktemp("three")
    nodes = [Node(folder, f"n{n}") for n in (1, 2, 3)]
    with joined(nodes) as background:
        yield background, nodes


async def lanes(work: list[Coroutine[Any, Any, int]]) -> None:
    """Run the coroutines in parallel, and check the sum of their counts."""
    began = time.monotonic()
    assert sum(await asyncio.gather(*work)) == ROUNDS
    print(f"\n{ROUNDS} of {ROUNDS} in {time.monotonic() - began:.1f} s")


async def subscribers(publisher: Node, subscriber: Node, lane: int) -> int:
    """Clients of one node connect and subscribe, and after each SUBACK a client publishes at the other node."""
    writer = Probe(publisher, f"writer-{lane}")
    assert (await writer.connect()).reason == 0
    count = 0
    for n in range(ROUNDS // LANES // EACH):
        reader = Probe(subscriber, f"reader-{lane}-{n}")
        assert (await reader.connect()).reason == 0
        for m in range(EACH):
            topic = f"everywhere/{lane}/{n}/{m}"
            assert await reader.subscribe(topic, 1) == 1
            assert await writer.publish(topic, topic.encode()) == 0
            assert (await reader.got(m + 1))[m] == topic.encode()
            count += 1
        await reader.close()
    await writer.close()
    return count


def test_publish_after_suback(three: tuple[Background, list[Node]]) -> None:
    """Subscribe at 2, publish at 1 right after the SUBACK: every message arrives."""
    background, (first, second, _) = three
    background.run(lanes([subscribers(first, second, lane) for lane in range(LANES)]), 100)


async def retainers(writing: Node, reading: Node, lane: int) -> int:
    """A client overwrites one topic again and again; a subscriber after the PUBACK gets the last message first."""
    writer, reader = Probe(writing, f"retainer-{lane}"), Probe(reading, f"looker-{lane}")
    assert (await writer.connect()).reason == (await reader.connect()).reason == 0
    topic = f"retained/{lane}"
    for n in range(ROUNDS // LANES):
        assert await writer.publish(topic, b"%d" % n, retain=True) < 0x80
        reader.messages.clear()
        assert await reader.subscribe(topic, 0) == 0
        assert await reader.got(1) == [b"%d" % n]
        assert reader.messages[0].retain
        await reader.unsubscribe(topic)
    await writer.close()
    await reader.close()
    return ROUNDS // LANES


def test_read_after_retained(three: tuple[Background, list[Node]]) -> None:
    """Retain at 1, wait for the PUBACK, subscribe at 2 at once: every message is the new one."""
    background, (first, second, _) = three
    background.run(lanes([retainers(first, second, lane) for lane in range(LANES)]), 100)
