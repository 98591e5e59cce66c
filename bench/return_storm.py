"""One of three nodes is killed while many clients with durable sessions are connected, and all of them come back.

    python -m bench.return_storm [--clients 6000] [--turns] [--keep DIRECTORY]

The clients connect to the three nodes in turn, and each session has two copies. When n2 is killed, the connections of
its clients end, and also those of clients whose sessions it had. They connect at once to n1 and n3, and try again until
they are accepted. Times count from the kill, in seconds. With `--turns` the nodes measure the processor time of each
turn of the event loop (`bench/turns.py`), and the longest ones are printed.

The clients are in one process beside the nodes, so it takes a part of the time. Exit status 1 if a session is lost, or
a log has an error. The times decide nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from .cluster_nodes import Node, bad_lines, end, in_folder, start_joined, until
from .failover import COPIES_S, TOGETHER, TRY_S, Phases, three
from .ha_test import Slots
from .probe import percentile
from .steady import SteadyClient

WAIT_S = 60.0
"""How long the clients of the killed node try to come back."""
ENDS_S = 10.0
"""How long the ends of connections are counted after the kill."""


class Storm:
    """The clients, and when each of them was back."""

    def __init__(self, nodes: list[Node], count: int) -> None:
        self._nodes = nodes
        self._clients = [SteadyClient(f"storm-{number}", nodes[number % len(nodes)].port) for number in range(count)]
        self.back_s: list[float] = []
        self.lost: list[str] = []

    async def connect(self) -> None:
        """Connect all clients, each to its node."""
        waiting = iter(self._clients)

        async def some() -> None:
            for client in waiting:
                await self._connect(client, [client.port])

        await asyncio.gather(*[some() for _ in range(TOGETHER)])

    async def _connect(self, client: SteadyClient, ports: list[int]) -> None:
        """Try these ports in turn until a node accepts the client."""
        while True:
            for port in ports:
                client.port = port
                try:
                    await client.connect()
                except (OSError, TimeoutError):
                    await asyncio.sleep(TRY_S)
                else:
                    return

    async def strike(self, victim: Node) -> None:
        """Kill a node, and wait until all clients are back."""
        ports = [node.port for node in self._nodes if node is not victim]
        began = time.monotonic()

        async def returns(number: int, client: SteadyClient) -> None:
            await client.gone.wait()
            first = number % len(ports)
            await self._connect(client, ports[first:] + ports[:first])
            self.back_s.append(time.monotonic() - began)
            if not client.present:
                self.lost.append(f"the session of {client.client_id} is lost")

        tasks = [asyncio.create_task(returns(*each)) for each in enumerate(self._clients)]
        await victim.kill()
        await asyncio.sleep(ENDS_S)

        async def all_back() -> bool:
            return all(client.online for client in self._clients)

        await until("all clients are back", all_back, WAIT_S)
        for task in tasks:
            task.cancel()


async def run(count: int, folder: Path, measured: bool = False) -> list[str]:
    """Run the benchmark and print its figures. Returns the lines that show a defect."""
    nodes = three(folder, measured)
    storm = Storm(nodes, count)
    try:
        await start_joined(nodes)
        phases = Phases(nodes, measured)
        await storm.connect()
        # slots without sessions go to other nodes at first, and then lack a copy for a while
        await until("each slot has two copies", Slots(nodes).all_copied, COPIES_S)
        phases.done("clients connect")
        await storm.strike(nodes[1])
        phases.done("n2 is killed")
        back = sorted(storm.back_s)
        print(
            f"{len(back)} of {count} connections ended; the first client is back after {back[0]:.1f} s, half of them "
            f"after {percentile(back, 0.5):.1f} s, the last one after {back[-1]:.1f} s",
            flush=True,
        )
        return storm.lost + bad_lines(nodes)
    finally:
        await end(nodes)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=6_000)
    parser.add_argument("--turns", action="store_true", help="measure the turns of the nodes, on another event loop")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this directory")
    arguments = parser.parse_args()
    return in_folder(arguments.keep, lambda folder: run(arguments.clients, folder, arguments.turns))


if __name__ == "__main__":
    sys.exit(main())
