"""One of three nodes restarts while the cluster has durable sessions with two copies each.

    python -m bench.catch_up [--sessions 20000]

Each session has one subscription, and its client is away. The last node is killed, and starts again when the others
have made the copies that they lack. Then it gets copies of its slots again. The figures are the bytes of these copies,
the time from its entrance into the view to the last of them, and the processor time of all nodes in that time. For
comparison: the bytes of the copies that the others made while it was away. They had no rows of these slots.

Exit status 1 if a log has an error. The figures decide nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .cluster_nodes import Node, bad_lines, end, start_joined, until, whole
from .copies_cost import COPIES_S, LOOK_S, await_copies, cluster, copied, copies_due
from .failover import TOGETHER, TRY_S
from .ha_test import Slots
from .million_directory import client_id, command_topic
from .steady import SteadyClient


class Copies(NamedTuple):
    """Copies that were made: their number and bytes, the time that it took, and the processor time of each node."""

    number: int
    bytes: int
    seconds: float
    cpu_s: list[float]


async def make_sessions(nodes: list[Node], count: int) -> None:
    """Let clients connect everywhere, subscribe and leave. A client that is refused or disconnected tries again."""

    async def some(numbers: Iterator[int]) -> None:
        for number in numbers:
            client = SteadyClient(client_id(number), nodes[number % len(nodes)].port)
            while True:
                try:
                    await client.connect()
                    await client.subscribe(command_topic(number), 1)
                    await client.disconnect()
                    break
                except OSError:
                    await asyncio.sleep(TRY_S)

    numbers = iter(range(count))
    await asyncio.gather(*[some(numbers) for _ in range(TOGETHER)])


def cpu_s(node: Node) -> float:
    """The processor time of a node, in seconds."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def away(nodes: list[Node]) -> Copies:
    """Kill the last node, and wait until the others have two copies of each slot. Returns those that they made."""
    *stay, victim = nodes
    slots = Slots(stay)
    mine = list(await Slots(nodes).of(victim))
    began, before = time.time(), [cpu_s(node) for node in stay]
    await victim.kill()
    await until("the others have two copies", slots.all_copied, COPIES_S)
    await asyncio.sleep(LOOK_S)  # the event log has an event after 200 ms
    sizes = [copied(stay, node.name, began) for node in stay]
    last = max(at for _, at in sizes)
    used = [cpu_s(node) - was for node, was in zip(stay, before, strict=True)]
    return Copies(len(mine), sum([size for size, _ in sizes]), last - began, used)


async def back(nodes: list[Node]) -> Copies:
    """Start the last node, and wait until it has its copies. Returns them."""
    *stay, victim = nodes
    due = await copies_due(nodes)
    before = [cpu_s(node) for node in stay]
    await victim.start()
    await whole(stay, len(nodes), COPIES_S)
    began = time.time()
    await await_copies(victim, due)
    size, last = copied(stay, victim.name, began - 2.0)
    used = [cpu_s(node) - was for node, was in zip(stay, before, strict=True)]
    return Copies(due, size, last - began, [*used, cpu_s(victim)])


async def run(count: int, folder: Path) -> list[str]:
    """Run the benchmark and print its figures. Returns the log lines that show a defect."""
    nodes = cluster(folder, 2, "os")
    try:
        await start_joined(nodes)
        await until("each slot has two copies", Slots(nodes).all_copied, COPIES_S)
        await make_sessions(nodes, count)
        await until("each slot has two copies", Slots(nodes).all_copied, COPIES_S)
        for what, found in (("away", await away(nodes)), ("back", await back(nodes))):
            used = ", ".join(f"{seconds:.2f}" for seconds in found.cpu_s)
            print(f"{what}: {found.number} slots, {found.bytes} bytes, {found.seconds:.2f} s; CPU {used} s", flush=True)
        return bad_lines(nodes)
    finally:
        await end(nodes)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = asyncio.run(run(arguments.sessions, Path(folder)))
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
