"""Three real nodes whose event logs have clocks half a second apart: no row has a smaller stamp than its cause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ahead import AHEAD
from bench.cluster_nodes import Node
from strogoff.judge.causes import pairs
from strogoff.judge.rows import Row
from strogoff.testing.log_audit.log_files import read_log

from ..brokers import Background
from .joined import joined
from .probe import Probe

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

EACH = 150
"""So many messages each node accepts."""
ROUNDS = 6


class AheadNode(Node):
    """A node whose event log has a clock that is ahead."""

    def __init__(self, folder: Path, name: str, ahead_ms: int) -> None:
        super().__init__(folder, name, eventlog__level="message")
        self.module = "bench.ahead"
        self.ahead_ms = ahead_ms

    def command(self) -> list[str]:
        return ["env", f"{AHEAD}={self.ahead_ms}", *super().command()]

    def rows(self) -> list[Row]:
        return list(read_log(self.data / "eventlog")[0])


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[Background, list[AheadNode]]]:
    nodes = [AheadNode(tmp_path, f"n{n}", 250 * (n - 1)) for n in (1, 2, 3)]
    with joined(nodes) as background:
        yield background, nodes


async def talk(nodes: list[AheadNode]) -> None:
    """Each node has a reader of everything and a writer."""
    readers = [Probe(node, f"reader-{node.name}") for node in nodes]
    writers = [Probe(node, f"writer-{node.name}") for node in nodes]
    for probe in (*readers, *writers):
        assert (await probe.connect()).reason == 0
    for reader in readers:
        assert await reader.subscribe("t/#", 1) == 1

    async def write(writer: Probe) -> None:
        for number in range(EACH):
            assert await writer.publish("t/1", str(number).encode()) == 0

    await asyncio.gather(*[write(each) for each in writers])
    for reader in readers:
        await reader.got(len(writers) * EACH)


async def called(asking: AheadNode, asked: Node, number: int) -> None:
    """A node closes a client of another one with a call, right after a row of its own that no frame follows."""
    probe, writer = Probe(asked, f"closed-{number}"), Probe(asking, f"before-{number}")
    assert (await probe.connect()).reason == 0
    assert (await writer.connect()).reason == 0
    await writer.publish(f"nobody/{number}", b"")
    assert (await asking.ask("session", "disconnect", f"client-id={probe.client_id}")).status == 0


async def stopped(nodes: list[AheadNode]) -> None:
    """Stop the nodes in order: then their files have all rows."""
    await asyncio.gather(*[node.stop() for node in nodes])


def calls_in(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Returns the last row before each call, and the row that the call led to."""
    before = {
        row["topic"].partition("/")[2]: row for row in rows if row["type"] == "pub.recv" and "nobody" in row["topic"]
    }
    closed = {row["client"][7:]: row for row in rows if row["type"] == "conn.close" and row["client"][:7] == "closed-"}
    return [(before[number], row) for number, row in closed.items()]


def test_causes_come_first_on_real_nodes(three: tuple[Background, list[AheadNode]]) -> None:
    background, nodes = three
    background.run(talk(nodes))
    for number in range(ROUNDS):
        background.run(called(nodes[2], nodes[0], number))
    background.run(stopped(nodes))
    rows = [row for node in nodes for row in node.rows()]
    calls, compared = calls_in(rows), list(pairs(rows))
    assert [(cause, effect) for cause, effect in (*compared, *calls) if cause["hlc"] >= effect["hlc"]] == []
    print(f"\n{len(compared)} pairs, {len(calls)} calls")
    assert len(calls) == ROUNDS
    assert len(compared) > EACH * 3 * 2 * 3
