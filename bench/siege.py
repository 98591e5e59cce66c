"""Attack a cluster, and measure whether attackers and careless clients disturb well-behaved clients.

    python -m bench.siege --minutes 10 [--clients 500] [--attacks flood,idle_sockets] [--keep DIR]

Three nodes run as processes on 127.0.0.1. Each of 500 well-behaved clients sends a message of QoS 1 every five seconds
to a partner at another node, and the partner sends it back. Meanwhile `bench.siege_attacks` runs all attacks at once,
with a lower priority (nice 10), because real attackers have their own processors.

Requirements: the 99th percentile of the round trips is below 100 ms, no message is missing, no connection of a
well-behaved client ends, the view never changes, the memory of the nodes is bounded, the log has no traceback and the
attackers have no breach. Exit status 1 if a requirement is violated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .broker_process import free_port
from .nodes import ClusterNode, start_cluster, until
from .siege_attacks import Target
from .steady import SteadyClient

NODES = 3
PERIOD_S = 5.0
"""A well-behaved client sends one message in this time."""
LATE_S = 10.0
"""A message that has not come back after this time is missing."""
P99_MS = 100.0
MEMORY_MB = 600.0
"""The memory limit of a node."""
GROWTH = 1.25
"""The largest memory in the last third, as a multiple of the largest in the second third."""
DESCRIPTORS = 2000
"""The limit of file descriptors of a node: so low that idle sockets can exhaust it."""
COOKIE = "a cookie of the siege's own"
LOG_LINES = 25
"""So many lines of each node's log are printed if the siege failed."""
ROUND_S = 10.0
"""The interval between two checks of memory and view, in seconds."""


class Pairs:
    """The well-behaved clients, and the round trips of their messages."""

    def __init__(self, nodes: Sequence[ClusterNode], count: int) -> None:
        """Make `count` clients, assigned to the nodes round robin."""
        self.clients = [SteadyClient(f"good-{n}", nodes[n % NODES].port, 5 if n % 2 else 4) for n in range(count)]
        self.trips: list[tuple[float, float]] = []
        """When a message was sent, and its round-trip time, in seconds."""
        self.waiting: dict[bytes, float] = {}
        self.number = 0

    async def connect(self) -> None:
        """Connect and subscribe all."""
        for n, client in enumerate(self.clients):
            await client.connect(clean=True)
            client.delivered = lambda topic, payload, qos, properties, n=n: self._arrived(n, payload)  # type: ignore[misc]
            await client.subscribe(f"good/{n}", 1)

    def _partner(self, n: int) -> int:
        """Returns the partner of client `n`. Clients 2k and 2k + 1 are partners; they are at different nodes."""
        return n ^ 1

    def _arrived(self, n: int, payload: bytes) -> None:
        kind, _, rest = payload.partition(b" ")
        if kind == b"there":
            asyncio.get_running_loop().create_task(self._send(n, b"back " + rest))
        elif (began := self.waiting.pop(rest, None)) is not None:
            self.trips.append((began, time.monotonic() - began))

    async def _send(self, n: int, payload: bytes) -> None:
        client = self.clients[n]
        if client.online and len(client.outgoing) < client.window:
            await client.publish(f"good/{self._partner(n)}", payload, 1)

    async def talk(self, end_at: float) -> None:
        """Send at a constant rate until that time, then wait for messages in flight."""
        pause, next_at, n = PERIOD_S / len(self.clients), time.monotonic(), 0
        while time.monotonic() < end_at:
            self.number += 1
            name = b"%d" % self.number
            self.waiting[name] = time.monotonic()
            await self._send(n, b"there " + name)
            n = (n + 1) % len(self.clients)
            next_at += pause
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        with contextlib.suppress(TimeoutError):
            await until("all messages are back", self._all_are_back, LATE_S)

    async def _all_are_back(self) -> bool:
        return not self.waiting

    def verdict(self) -> list[str]:
        """The violations."""
        wrong = [f"{len(self.waiting)} of {self.number} messages never came back"] if self.waiting else []
        gone = [client for client in self.clients if not client.online]
        if gone:
            wrong.append(f"{len(gone)} well-behaved clients lost their connection")
            wrong += [f"{client.client_id}, port {client.port}: {client.ending}" for client in gone[:10]]
        wrong += [fault for client in self.clients for fault in client.faults][:10]
        if not self.trips:
            return [*wrong, "no message came back"]
        if percentile(self.trips, 0.99) * 1000 >= P99_MS:
            wrong.append(f"p99 of the round trips is not below {P99_MS:g} ms")
        return wrong


def percentile(trips: list[tuple[float, float]], part: float) -> float:
    """Returns a percentile of the round-trip times, in seconds. `part` is 0 to 1."""
    times = sorted(took for _, took in trips)
    return times[min(len(times) - 1, int(part * len(times)))]


class Watch:
    """Records memory, view and members of all nodes every `ROUND_S` seconds."""

    def __init__(self, nodes: Sequence[ClusterNode]) -> None:
        self.nodes = nodes
        self.memory_mb: dict[str, list[float]] = {node.name: [] for node in nodes}
        self.views: dict[str, list[Any]] = {node.name: [] for node in nodes}
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(ROUND_S)

    async def look(self) -> None:
        """Record the present memory, view and members."""
        for node in self.nodes:
            if node.process is None or node.process.returncode is not None:
                self.wrong.append(f"{node.name} has ended")
                continue
            self.memory_mb[node.name].append(resident_mb(node.pid))
            status = await node.status()
            if status:
                self.views[node.name].append((status["view_id"], status.get("members"), status.get("sees")))

    def verdict(self) -> list[str]:
        """The violations."""
        wrong = list(self.wrong)
        for node in self.nodes:
            views = list(dict.fromkeys(self.views[node.name]))
            if len(views) != 1 or views[0][1:] != (NODES, "whole"):
                wrong.append(f"{node.name}: (view, members, sees) was {views}")
            memory = self.memory_mb[node.name]
            third = max(1, len(memory) // 3)
            second, last = max(memory[third : 2 * third] or memory), max(memory[-third:])
            if max(memory) > MEMORY_MB:
                wrong.append(f"{node.name} needed {max(memory):.0f} MB, more than {MEMORY_MB:g}")
            if len(memory) >= 9 and last > GROWTH * second:
                wrong.append(f"{node.name} grew from {second:.0f} to {last:.0f} MB")
            wrong += [f"{node.name}: {line}" for line in node.tracebacks()[:5]]
        return wrong


def resident_mb(pid: int) -> float:
    """Returns the resident memory of a process, in MiB; 0 if it has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class BesiegedNode(ClusterNode):
    """A node with all kinds of listeners, the siege's cookie, and few file descriptors."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ws, self.http = free_port(), free_port()
        settings = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
        super().__init__(
            folder,
            name,
            **settings,
            distributed_cookie=COOKIE,
            listener__ws__default=f"127.0.0.1:{self.ws}",
            listener__http__default=f"127.0.0.1:{self.http}",
        )

    def command(self) -> list[str]:
        """Returns the command line. It limits file descriptors to 256; the node may raise this to `DESCRIPTORS`."""
        return ["prlimit", f"--nofile=256:{DESCRIPTORS}", *super().command()]

    @property
    def target(self) -> Target:
        """The ports and the data directory that the attackers use."""
        return Target(self.name, self.port, self.ws, self.http, self.address, str(self.data))


async def start_attackers(nodes: list[BesiegedNode], folder: Path, attacks: str) -> asyncio.subprocess.Process:
    """Start the process of the attackers, and wait until its attacks begin."""
    file = folder / "targets.json"
    file.write_text(json.dumps([asdict(node.target) for node in nodes]))
    process = await asyncio.create_subprocess_exec(
        *("nice", "-n", "10", sys.executable, "-m", "bench.siege_attacks", str(file)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SIEGE_COOKIE": COOKIE, "SIEGE_ATTACKS": attacks},
    )
    assert process.stdout is not None
    async with asyncio.timeout(120):
        if b"attacking" not in await process.stdout.readline():
            raise RuntimeError("the attackers did not begin")
    return process


async def run(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Run the siege. Returns the violations."""
    nodes = [BesiegedNode(folder, f"n{number}") for number in range(1, NODES + 1)]
    pairs, watch = Pairs(nodes, arguments.clients), Watch(nodes)
    attackers = None
    try:
        await start_cluster(list(nodes))
        await pairs.connect()
        attackers = await start_attackers(nodes, folder, arguments.attacks)
        looking = asyncio.create_task(watch.run())
        await pairs.talk(time.monotonic() + arguments.minutes * 60)
        looking.cancel()
        attackers.terminate()
        said, _ = await asyncio.wait_for(attackers.communicate(), 60)
        report = json.loads(said.splitlines()[-1])
        tell(pairs, watch, report)
        wrong = [*pairs.verdict(), *watch.verdict(), *report["breaches"]]
        if wrong:
            tell_logs(nodes)
        return wrong
    finally:
        if attackers is not None and attackers.returncode is None:
            attackers.kill()
            await attackers.wait()
        for client in pairs.clients:
            await client.disconnect()
        for node in nodes:
            await node.stop()


async def until_told(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Do the work. SIGTERM cancels it, as Ctrl-C does, so that its cleanup stops all nodes."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def tell(pairs: Pairs, watch: Watch, report: dict[str, Any]) -> None:
    """Print the figures."""
    print(f"{'attack':<22} {'strikes':>8} {'repelled':>9}")
    for name in sorted(report["strikes"]):
        print(f"{name:<22} {report['strikes'][name]:>8} {report['refused'].get(name, 0):>9}")
    if pairs.trips:
        worst = _worst_stretch(pairs.trips)
        figures = [f"p{part * 100:g} {percentile(pairs.trips, part) * 1000:.1f} ms" for part in (0.5, 0.99, 0.999)]
        print(f"{len(pairs.trips)} round trips: {', '.join(figures)}; p99 of the worst 10 s {worst * 1000:.1f} ms")
    for node in watch.nodes:
        memory = watch.memory_mb[node.name]
        middle = statistics.median(memory)
        print(f"{node.name}: memory {memory[0]:.0f} MB at first, median {middle:.0f}, largest {max(memory):.0f} MB")


def tell_logs(nodes: Sequence[ClusterNode]) -> None:
    """Print the last important lines of each node's log, without the refusals that the attackers cause."""
    for node in nodes:
        lines = node.log.read_text(errors="replace").splitlines()
        important = [line for line in lines if "[INFO]" not in line and "conn.refuse" not in line]
        print(f"-- {node.name}, port {node.port}", *important[-LOG_LINES:], sep="\n")


def _worst_stretch(trips: list[tuple[float, float]]) -> float:
    """Returns the largest 99th percentile of any interval of ten seconds, in seconds."""
    stretches: dict[int, list[tuple[float, float]]] = {}
    for trip in trips:
        stretches.setdefault(int(trip[0] // ROUND_S), []).append(trip)
    return max(percentile(each, 0.99) for each in stretches.values())


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="a cluster under siege")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--attacks", default="", help="only these, comma separated; default: all")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this folder")
    arguments = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a lost connection is counted, not logged
    with tempfile.TemporaryDirectory(prefix="strogoff-siege-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wrong = asyncio.run(until_told(run(arguments, folder)))
    for line in wrong:
        print(f"WRONG: {line}")
    print("the siege failed" if wrong else "the siege was withstood")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
