"""A killed node is back, and gets its slots by itself, under load: nothing is lost, and clients are closed once."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, balanced, start_joined, until, whole
from bench.ha_test import Slots
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.handover import first_wanted

from ..brokers import run_test
from .probe import Probe, moment
from .test_faults import serves_without
from .test_forming import MAJORITY, three

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

READERS = 24
WAIT_S = 4
"""`queue_balance_wait`."""
STALL_S = 5.0
"""No publisher waits longer for a PUBACK because a slot moves, in seconds, on a busy machine too."""


class Reader:
    """A durable subscriber of everything that connects again whenever it is disconnected. `closed` counts that."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name
        self.got: list[bytes] = []
        self.closed = 0
        self.stop = False
        self.connected = asyncio.Event()
        self.came = asyncio.Event()

    async def run(self) -> None:
        """Read until `stop`."""
        while not self.stop:
            probe = Probe(self.node, self.name)
            try:
                reason = (await probe.connect(clean=False)).reason
            except ConnectionError:
                await moment(0.05)
                continue
            if reason == 0 and (self.closed or await probe.subscribe("to/all") == 1):
                self.connected.set()
                await self._read(probe)
                self.connected.clear()
                self.closed += 1
            await probe.close()

    async def _read(self, probe: Probe) -> None:
        while not probe.gone.is_set():
            probe.came.clear()
            self._take(probe)
            await probe.came.wait()
        self._take(probe)

    def _take(self, probe: Probe) -> None:
        for each in probe.messages:
            if each.payload not in self.got[-200:]:  # its PUBACK was lost with a connection
                self.got.append(each.payload)
        probe.messages.clear()
        self.came.set()

    async def reads(self, last: bytes) -> None:
        """Wait until this message has come."""
        while last not in self.got[-1:]:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 30)


class Writer:
    """Publishes numbers, one after the other. `stall_s` is the longest wait for a PUBACK since it was set to 0."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.sent: list[bytes] = []
        self.stall_s = 0.0
        self.stop = False

    async def run(self) -> None:
        """Publish until `stop`."""
        probe = Probe(self.node, "writer")
        assert (await probe.connect()).reason == 0
        while not self.stop:
            self.sent.append(b"%d" % len(self.sent))
            began = time.monotonic()
            assert await probe.publish("to/all", self.sent[-1], within_s=20) == 0
            self.stall_s = max(self.stall_s, time.monotonic() - began)
            await moment(0.01)
        await probe.close()


async def story(nodes: list[Node], readers: list[Reader]) -> None:
    """One of three nodes is killed, and comes back, while messages flow to durable subscribers at the others."""
    for reader in readers:
        await asyncio.wait_for(reader.connected.wait(), 20)
    writer = Writer(nodes[0])
    writing = asyncio.create_task(writer.run())
    await nodes[2].kill()
    await until("the view is without it", partial(serves_without, nodes[0], nodes[2]))
    await nodes[2].start()
    await whole(nodes)
    for reader in readers:
        await asyncio.wait_for(reader.connected.wait(), 20)
    before = [reader.closed for reader in readers]
    writer.stall_s = 0.0
    took = await until("each slot is back in its place", partial(balanced, nodes), 90)
    writer.stop = True
    await asyncio.wait_for(writing, 30)
    for reader in readers:
        await reader.reads(writer.sent[-1])
    assert [reader.got == writer.sent for reader in readers] == [True] * READERS
    zones = {node.name: node.name for node in nodes}
    due = [first_wanted(slot_of("", reader.name), zones) == nodes[2].name for reader in readers]
    closed = [reader.closed - former for reader, former in zip(readers, before, strict=True)]
    assert closed == [int(each) for each in due], "only the clients of slots that move, and each once"
    print(f"{sum(due)} slots in {took:.1f} s, publishers waited at most {writer.stall_s:.3f} s")
    assert took > WAIT_S / 2 and writer.stall_s < STALL_S


def test_a_node_that_is_back_gets_its_slots_under_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"queue_balance_wait": str(WAIT_S), **MAJORITY}
        async with three(tmp_path, **settings) as nodes:
            await start_joined(nodes)
            await until("each slot is in its place", partial(balanced, nodes), 60)
            await until("each slot has two copies", Slots(nodes).all_copied)
            readers = [Reader(nodes[number % 2], f"reader-{number}") for number in range(READERS)]
            tasks = [asyncio.create_task(reader.run()) for reader in readers]
            try:
                await story(nodes, readers)
            finally:
                for reader, task in zip(readers, tasks, strict=True):
                    reader.stop = True
                    task.cancel()

    run_test(scenario())
