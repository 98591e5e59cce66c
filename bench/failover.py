"""One of three nodes is killed while the cluster has many durable sessions with two copies each.

    python -m bench.failover [--sessions 200000] [--turns] [--keep DIRECTORY]

Each session has one subscription of its own. The clients are away when n2 is killed. Then 30 of them, whose sessions n2
had, connect one after the other at n1, and n3 publishes to each. Times count from the kill, in seconds. Another process
publishes to itself at n3 every 10 ms: its longest response times before and after the kill bound the longest turn of
the event loop there. At last n2 starts again, and gets its copies. With `--turns` the nodes measure the processor time
of each turn themselves (`bench/turns.py`), and the longest ones are printed.

Exit status 1 if a session or a message is lost, or a log has an error. The times decide nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from strogoff.cluster.identity import slot_of

from .cluster_nodes import Node, bad_lines, end, in_folder, start_joined, until, whole
from .ha_test import Slots
from .million_directory import client_id, command_topic
from .routes_million import probed
from .steady import SteadyClient
from .turns import summary

TOGETHER = 60
"""Clients that connect at the same time."""
SAMPLE = 30
TRY_S = 0.05
"""The pause between two attempts to connect, in seconds."""
COPIES_S = 600.0
QUIET_S = 10.0
PROBE_STARTS_S = 2.0
AFTER_S = 15.0
"""The probe measures for this time after the kill, in seconds, or until the last client is back."""


def three(folder: Path, measured: bool) -> list[Node]:
    """Returns three nodes, which do not run. `measured`: they measure their turns."""
    nodes = [
        Node(folder, f"n{n}", queue_replicas="2", allow_register_during_netsplit="majority",
             allow_publish_during_netsplit="majority", allow_subscribe_during_netsplit="majority")
        for n in (1, 2, 3)
    ]  # fmt: skip
    for node in nodes if measured else ():
        node.module = "bench.turns"
    return nodes


async def make_sessions(nodes: list[Node], count: int) -> float:
    """Let clients connect everywhere, subscribe and leave. Returns the sessions per second."""
    numbers = iter(range(count))
    began = time.monotonic()

    async def made(number: int) -> bool:
        client = SteadyClient(client_id(number), nodes[number % len(nodes)].port)
        try:
            await client.connect()
            await client.subscribe(command_topic(number), 1)
            await client.disconnect()
        except (OSError, TimeoutError):  # the machine may be so busy that a node loses its lease
            await asyncio.sleep(TRY_S)
            return False
        return True

    async def some(numbers: Iterator[int]) -> None:
        for number in numbers:
            while not await made(number):
                pass

    await asyncio.gather(*[some(numbers) for _ in range(TOGETHER)])
    return count / (time.monotonic() - began)


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
    await writer.publish(command_topic(number), b"after the kill", 1)
    async with asyncio.timeout(30):
        delivered = await arrived
    await client.disconnect()
    return connected, delivered


async def killed(nodes: list[Node], mine: list[int]) -> None:
    """Kill n2, let clients whose sessions it had come back, and print how long that took."""
    first, victim, third = nodes
    # the probe must be connected before the kill, and the writer must not have a session at n2
    await asyncio.sleep(PROBE_STARTS_S)
    writer = SteadyClient("writer", third.port, properties={"session_expiry_interval": 0})
    await writer.connect(clean=True)
    began = time.monotonic()
    await victim.kill()
    step = max(1, len(mine) // SAMPLE)
    times = [await comes_back(first, writer, number, began) for number in mine[::step][:SAMPLE]]
    print(f"first CONNACK after {times[0][0]:.1f} s, first delivery after {times[0][1]:.1f} s")
    print(f"each later client: at most {max(b[1] - a[1] for a, b in pairwise(times)):.2f} s", flush=True)
    await asyncio.sleep(max(0.0, AFTER_S - (time.monotonic() - began)))


class Phases:
    """What the nodes do, and since when. `done` prints the long turns of a phase if the nodes measure them."""

    def __init__(self, nodes: list[Node], measured: bool) -> None:
        self._nodes = nodes
        self._measured = measured
        self._began = time.monotonic()

    def done(self, phase: str) -> None:
        """A phase is over, and the next one begins."""
        began, self._began = self._began, time.monotonic()
        for node in self._nodes if self._measured else ():
            print(f"  turns of {node.name}, {phase}: {summary(node.log, began, self._began)}", flush=True)


async def run(count: int, folder: Path, measured: bool = False) -> list[str]:
    """Run the benchmark and print its figures. Returns the log lines that show a defect."""
    nodes = three(folder, measured)
    _, victim, third = nodes
    slots, phases = Slots(nodes), Phases(nodes, measured)
    try:
        await start_joined(nodes)
        await until("each slot has two copies", slots.all_copied, COPIES_S)
        phases.done("start")
        print(f"{count} sessions: {await make_sessions(nodes, count):.0f}/s", flush=True)
        owned = set(await slots.of(victim))
        mine = [number for number in range(count) if slot_of("", client_id(number)) in owned]
        print(f"n2 is primary of {len(owned)} slots with {len(mine)} sessions", flush=True)
        phases.done("sessions are made")
        print("before the kill:", flush=True)
        await probed([third], lambda: asyncio.sleep(QUIET_S))
        phases.done("idle")
        print("with the kill:", flush=True)
        await probed([third], lambda: killed(nodes, mine))
        phases.done("n2 is killed")
        began = time.monotonic()
        await victim.start()
        await whole(nodes, within_s=60)
        await until("each slot has two copies", slots.all_copied, COPIES_S)
        print(f"each slot has two copies again {time.monotonic() - began:.0f} s after the start of n2")
        phases.done("n2 is back")
        return bad_lines(nodes)
    finally:
        await end(nodes)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=200_000)
    parser.add_argument("--turns", action="store_true", help="measure the turns of the nodes, on another event loop")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this directory")
    arguments = parser.parse_args()
    return in_folder(arguments.keep, lambda folder: run(arguments.sessions, folder, arguments.turns))


if __name__ == "__main__":
    sys.exit(main())
