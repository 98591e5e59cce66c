"""One of three nodes becomes slow: the time until PUBACK of messages that it copies, and of others.

    python -m bench.slow_follower [--seconds 10] [--stopped 600] [--running 50] [--keep DIRECTORY]

Publishers at n1 send one QoS 1 message at a time to durable sessions of which n1 is the primary. Half of these have
their copy at n2, half at n3. n3 becomes slow: it is stopped for `--stopped` ms, runs for `--running` ms, and so on.
Printed are the times until PUBACK for both halves before that, meanwhile, and when n3 has no copy of these sessions any
more, if another node replaces it.

Exit status 1 if a log has an error. The times decide nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .cluster_nodes import Node, bad_lines, end, in_folder, until
from .copies_cost import cluster, start_placed
from .ha_test import Slots, name_in
from .probe import percentile
from .steady import SteadyClient

PUBLISHERS = 10
"""Publishers of each half."""
EVERY_S = 0.05
"""The pause of a publisher between a PUBACK and its next message."""
REPLACED_S = 60.0
"""How long to wait until other nodes have the copies of the slow node."""


class Half:
    """The publishers for the sessions of some slots, and the times until their PUBACKs in ms."""

    def __init__(self, name: str, node: Node, slots: list[int]) -> None:
        self.name = name
        self.node = node
        self.slots = slots
        self.times_ms: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Make the sessions, and begin to publish to them."""
        for number in range(PUBLISHERS):
            slot = self.slots[number % len(self.slots)]
            reader = SteadyClient(name_in((slot,), f"reads-{self.name}-{number}-"), self.node.port)
            await reader.connect()
            await reader.subscribe(f"slow/{self.name}/{number}", 1)
            await reader.disconnect()
            self._tasks.append(asyncio.create_task(self._publish(number)))

    async def _publish(self, number: int) -> None:
        client = SteadyClient(f"writes-{self.name}-{number}", self.node.port, properties={"session_expiry_interval": 0})
        client.window = 1
        done = asyncio.Event()
        client.acked = lambda _: done.set()
        await client.connect(clean=True)
        while True:
            done.clear()
            began = time.monotonic()
            await client.publish(f"slow/{self.name}/{number}", b"x" * 100, 1)
            await done.wait()
            self.times_ms.append((time.monotonic() - began) * 1000)
            await asyncio.sleep(EVERY_S)

    def end(self) -> None:
        """Publish no more."""
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def slowed(node: Node, stopped_s: float, running_s: float) -> AsyncIterator[None]:
    """Within this context the node runs for a part of the time."""

    async def stop_and_go() -> None:
        while True:
            node.signal(signal.SIGSTOP)
            await asyncio.sleep(stopped_s)
            node.signal(signal.SIGCONT)
            await asyncio.sleep(running_s)

    task = asyncio.create_task(stop_and_go())
    try:
        yield
    finally:
        task.cancel()
        node.signal(signal.SIGCONT)


async def measured(what: str, halves: list[Half], seconds: float) -> None:
    """Print the times of both halves in the next seconds."""
    for half in halves:
        half.times_ms.clear()
    await asyncio.sleep(seconds)
    for half in halves:
        times = sorted(half.times_ms)
        figures = f"PUBACK p50 {percentile(times, 0.5):.1f} ms, p99 {percentile(times, 0.99):.1f} ms"
        print(f"{what}, copies at {half.name}: {len(times)} messages, {figures}", flush=True)


async def run(seconds: float, stopped_s: float, running_s: float, folder: Path) -> list[str]:
    """Run the benchmark and print its figures. Returns the log lines that show a defect."""
    nodes = cluster(folder, 2, "os")
    first, second, third = nodes
    slots = Slots(nodes)
    try:
        await start_placed(nodes, 2)
        copied: dict[Node, list[int]] = {second: [], third: []}
        for slot in await slots.of(first):
            copied[(await slots.holders(slot))[1]].append(slot)
        halves = [Half(node.name.partition("@")[0], first, found) for node, found in copied.items()]
        watched = copied[third][:PUBLISHERS]

        async def replaced() -> bool:
            return not any([third in await slots.holders(slot) for slot in watched])

        for half in halves:
            await half.begin()
        await measured("before", halves, seconds)
        async with slowed(third, stopped_s, running_s):
            began = time.monotonic()
            await measured("n3 is slow", halves, seconds)
            try:
                await until("others have its copies", replaced, REPLACED_S)
            except TimeoutError:
                print(f"n3 still has its copies after {time.monotonic() - began:.0f} s")
            else:
                print(f"n3 was replaced within {time.monotonic() - began:.0f} s")
                await measured("n3 is replaced", halves, seconds)
        for half in halves:
            half.end()
        return bad_lines(nodes)
    finally:
        await end(nodes)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--stopped", type=float, default=600.0, help="ms")
    parser.add_argument("--running", type=float, default=50.0, help="ms")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this directory")
    arguments = parser.parse_args()
    stopped_s, running_s = arguments.stopped / 1000, arguments.running / 1000
    return in_folder(arguments.keep, lambda folder: run(arguments.seconds, stopped_s, running_s, folder))


if __name__ == "__main__":
    sys.exit(main())
