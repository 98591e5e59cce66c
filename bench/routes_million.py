"""Three nodes and a million routes: memory, times and pauses. Then one node is killed and restarted.

    python -m bench.routes_million [--filters 1000000] [--clients 10] [--each 200]

Clients at node 1 subscribe to different filters, `--each` of them in one SUBSCRIBE. A probe at each node constantly
publishes to itself. Its longest response time is the longest pause of the node's event loop, or of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from .cluster_nodes import Node
from .nodes import ClusterNode, start_cluster, until
from .probe import PlainClient, percentile

GIVE_UP_S = 600.0
QUIET_S = 20.0
"""Seconds of a measurement of idle nodes: a few rounds of anti-entropy."""


class Probe:
    """Runs `bench.probe` at a node, from `start` to `stop`."""

    def __init__(self, node: ClusterNode | Node) -> None:
        self._node = node
        self._process: asyncio.subprocess.Process

    async def start(self) -> None:
        """Start the process of the probe."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.probe", str(self._node.port), stdin=pipe, stdout=pipe
        )

    async def stop(self) -> str:
        """Stop the probe. Returns its results for the table."""
        said, _ = await self._process.communicate(b"")
        count, median, high, most = map(float, said.split())
        return f"{self._node.name}: {count:.0f} answers, p50 {median:.1f} ms, p99 {high:.1f} ms, longest {most:.0f} ms"


def memory_mb(node: ClusterNode) -> float:
    """Returns the resident memory of the node's process, in MiB."""
    for line in Path(f"/proc/{node.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def cpu_s(node: ClusterNode) -> float:
    """Returns the processor time that the node's process has used, in seconds."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def subscribe(port: int, name: str, first: int, last: int, each: int) -> tuple[PlainClient, list[float]]:
    """Connect a client and subscribe, `each` filters per SUBSCRIBE. Returns it and the seconds until each SUBACK."""
    client = PlainClient(port, name)
    took = []
    for begin in range(first, last, each):
        numbers = range(begin, min(begin + each, last))
        took.append(client.subscribe([f"plant/{n % 997}/line/{n % 101}/sensor/{n}" for n in numbers]))
    return client, took


async def probed(nodes: Sequence[ClusterNode | Node], work: Callable[[], Awaitable[None]]) -> None:
    """Run some work with a probe at each node, and print the results of the probes."""
    probes = [Probe(node) for node in nodes]
    for probe in probes:
        await probe.start()
    try:
        await work()
    finally:
        for probe in probes:
            print("   ", await probe.stop(), flush=True)


def told(nodes: list[ClusterNode], what: str, before: list[float]) -> None:
    """Print the resources that the nodes used since `before`."""
    used = ", ".join(f"{cpu_s(node) - was:.1f}" for node, was in zip(nodes, before, strict=True))
    size = ", ".join(f"{memory_mb(node):.0f}" for node in nodes)
    print(f"{what}: processor {used} s, memory {size} MB", flush=True)


async def fill(nodes: list[ClusterNode], arguments: argparse.Namespace, clients: list[PlainClient]) -> None:
    """Subscribe to all filters at node 1, and wait until the other nodes have all routes."""
    began = time.monotonic()
    share = -(-arguments.filters // arguments.clients)
    work = [
        asyncio.to_thread(
            subscribe,
            nodes[0].port,
            f"many-{number}",
            number * share,
            min((number + 1) * share, arguments.filters),
            arguments.each,
        )
        for number in range(arguments.clients)
    ]
    took: list[float] = []
    for client, each in await asyncio.gather(*work):
        clients.append(client)
        took += each
    took.sort()
    print(
        f"all SUBACKs after {time.monotonic() - began:.1f} s; one of {arguments.each} filters takes "
        f"{1000 * statistics.median(took):.0f} ms, p99 {1000 * percentile(took, 0.99):.0f} ms, "
        f"longest {1000 * took[-1]:.0f} ms"
    )
    for node in nodes[1:]:
        await until(f"{node.name} has all", lambda node=node: has_all(node, arguments.filters), GIVE_UP_S)  # type: ignore[misc]
    print(f"all routes everywhere after {time.monotonic() - began:.1f} s", flush=True)


async def has_all(node: ClusterNode, filters: int) -> bool:
    """Whether the node's replicated map has at least `filters` keys."""
    return int((await node.status()).get("metadata_keys", 0)) >= filters


async def come_back(node: ClusterNode, filters: int) -> None:
    """Start a killed node again, and wait until it serves and has all routes."""
    began = time.monotonic()
    await node.start()
    print(f"the process of {node.name} is ready after {time.monotonic() - began:.1f} s", flush=True)
    await until(f"{node.name} serves", lambda: node.whole(3), GIVE_UP_S)
    print(f"it serves after {time.monotonic() - began:.1f} s", flush=True)
    await until(f"{node.name} has all", lambda: has_all(node, filters), GIVE_UP_S)
    print(f"it has all routes after {time.monotonic() - began:.1f} s", flush=True)


async def run(arguments: argparse.Namespace) -> None:
    """Run all measurements."""
    with tempfile.TemporaryDirectory(prefix="strogoff-routes-") as folder:
        policies = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
        nodes = [ClusterNode(Path(folder), f"n{number}", **policies) for number in (1, 2, 3)]
        clients: list[PlainClient] = []
        try:
            await start_cluster(nodes)
            used = [cpu_s(node) for node in nodes]
            await asyncio.sleep(QUIET_S)
            told(nodes, f"{QUIET_S:.0f} s of rest, empty", used)
            used = [cpu_s(node) for node in nodes]
            await probed(nodes, lambda: fill(nodes, arguments, clients))
            told(nodes, f"{arguments.filters} filters at n1", used)
            used = [cpu_s(node) for node in nodes]
            await probed(nodes, lambda: asyncio.sleep(QUIET_S))
            told(nodes, f"{QUIET_S:.0f} s of rest, full", used)
            await nodes[2].kill()
            used = [cpu_s(node) for node in nodes[:2]]
            await probed(nodes[:2], lambda: come_back(nodes[2], arguments.filters))
            told(nodes, "n3 is back", [*used, 0.0])
            for node in nodes:
                for line in node.tracebacks():
                    print(f"{node.name}: {line}", file=sys.stderr)
        finally:
            for client in clients:
                client.close()
            for node in nodes:
                await node.kill()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A million routes on three nodes")
    parser.add_argument("--filters", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--each", type=int, default=200, help="filters in one SUBSCRIBE")
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
