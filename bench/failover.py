"""One of three nodes is killed while the cluster has many durable sessions with two copies each.

    python -m bench.failover [--sessions 200000]

Each session has one subscription of its own. The clients are away when n2 is killed. Then 30 of them, whose sessions n2
had, connect one after the other at n1, and n3 publishes to each. Times count from the kill, in seconds. Another process
publishes to itself at n3 every 10 ms: its longest response times before and after the kill bound the longest turn of
the event loop there. At last n2 starts again, and gets its copies.

Exit status 1 if a session or a message is lost, or a log has an error. The times decide nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from strogoff.cluster.identity import slot_of

from .cluster_nodes import Node, bad_lines, end, start_joined, until, whole
from .ha_test import Slots
from .steady import SteadyClient

TOGETHER = 60
"""Clients that connect at the same time."""
SAMPLE = 30
TRY_S = 0.05
"""The pause between two attempts to connect, in seconds."""
COPIES_S = 600.0


def client_id(number: int) -> str:
    """Returns the name of a client."""
    return f"device-{number}"


def topic(number: int) -> str:
    """Returns the topic that only this client subscribes to."""
    return f"device/{number}/cmd"


async def make_sessions(nodes: list[Node], count: int) -> float:
    """Let clients connect everywhere, subscribe and leave. Returns the sessions per second."""
    numbers = iter(range(count))
    began = time.monotonic()

    async def some(numbers: Iterator[int]) -> None:
        for number in numbers:
            client = SteadyClient(client_id(number), nodes[number % len(nodes)].port)
            await client.connect()
            await client.subscribe(topic(number), 1)
            await client.disconnect()

    await asyncio.gather(*[some(numbers) for _ in range(TOGETHER)])
    return count / (time.monotonic() - began)


class Probe:
    """The process `bench.probe` at one node, within an `async with` statement. `figures` has what it printed: number of
    samples, median, 99th percentile and maximum in ms."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.figures: list[float] = []

    async def __aenter__(self) -> Probe:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.probe", str(self._port)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        output, _err = await self._process.communicate(b"")
        self.figures = [float(each) for each in output.split()]


async def comes_back(node: Node, writer: SteadyClient, number: int, began: float) -> tuple[float, float]:
    """Connect a client at a node until it has its session, and send it a message. Returns the seconds since `began`."""
    arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    client = SteadyClient(client_id(number), node.port)
    client.delivered = lambda *_: None if arrived.done() else arrived.set_result(time.monotonic() - began)
    while True:
        try:
            connack = await client.connect()
            break
        except OSError:
            await asyncio.sleep(TRY_S)
    connected = time.monotonic() - began
    if not connack.session_present:
        raise ValueError(f"the session of {client.client_id} is lost")
    await writer.publish(topic(number), b"after the kill", 1)
    async with asyncio.timeout(30):
        delivered = await arrived
    await client.disconnect()
    return connected, delivered


async def run(count: int, folder: Path) -> list[str]:
    """Run it, and print the figures. Returns the lines of the logs that show a defect."""
    nodes = [
        Node(folder, f"n{n}", queue_replicas="2", allow_register_during_netsplit="majority",
             allow_publish_during_netsplit="majority", allow_subscribe_during_netsplit="majority")
        for n in (1, 2, 3)
    ]  # fmt: skip
    first, victim, third = nodes
    slots = Slots(nodes)
    try:
        await start_joined(nodes)
        await until("each slot has two copies", slots.all_copied, COPIES_S)
        print(f"{count} sessions: {await make_sessions(nodes, count):.0f}/s", flush=True)
        owned = set(await slots.of(victim))
        mine = [number for number in range(count) if slot_of("", client_id(number)) in owned]
        print(f"n2 is primary of {len(owned)} slots with {len(mine)} sessions", flush=True)
        async with Probe(third.port) as before:
            await asyncio.sleep(10)
        writer = SteadyClient("writer", third.port, properties={"session_expiry_interval": 0})
        await writer.connect(clean=True)
        async with Probe(third.port) as after:
            began = time.monotonic()
            await victim.kill()
            step = max(1, len(mine) // SAMPLE)
            times = [await comes_back(first, writer, number, began) for number in mine[::step][:SAMPLE]]
            await asyncio.sleep(max(0.0, 15 - (time.monotonic() - began)))
        print(f"first CONNACK after {times[0][0]:.1f} s, first delivery after {times[0][1]:.1f} s")
        print(f"each later client: at most {max(b[1] - a[1] for a, b in pairwise(times)):.2f} s")
        for when, probe in (("before", before), ("after", after)):
            count_, median, high, longest = probe.figures
            print(
                f"{when} the kill: {count_:.0f} responses, p50 {median:.1f} ms, p99 {high:.1f}, longest {longest:.1f}"
            )
        began = time.monotonic()
        await victim.start()
        await whole(nodes, within_s=60)
        await until("each slot has two copies", slots.all_copied, COPIES_S)
        print(f"each slot has two copies again {time.monotonic() - began:.0f} s after the start of n2")
        return bad_lines(nodes)
    finally:
        await end(nodes)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = asyncio.run(run(arguments.sessions, Path(folder)))
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
