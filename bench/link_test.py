"""Cut, kill and pause the nodes on the path of a message many times under load, then audit.

    python -m bench.link_test --rounds 200 [--seed N] [--keep DIR]

Publishers are connected to the first of three nodes, subscribers with persistent sessions to the second. Their sessions
are at these nodes until a fault moves them. Each round has one fault: a node is partitioned, killed, stopped, or paused
for less or more than the detection time; or the link of two nodes is cut in one direction or both. After the last round
all links are restored and all queues drain. Then the audit checks these claims: each acknowledged message reached each
subscriber, QoS 2 exactly once, in order per publisher and topic; in the event logs no queue kept a message twice under
one mid (P1, P2, P6). Exit status 1 if one is wrong.

Each node has its own network namespace, so the test needs root, and the programs ip and nft. `--keep` keeps the nodes'
data and logs, and diary.tsv: each fault, send, acknowledgement and delivery with its time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strogoff.judge.rows import Row, in_order
from strogoff.testing.log_audit.log_files import read_log

from .cluster_nodes import Node, bad_lines, client_at, end, start_joined, whole
from .kill_test import PAUSE_S, Ledger
from .space import Space, SpaceError
from .steady import SteadyClient

NODES = 3
CONNECT_S = 5.0
DEEDS = ("cut", "cut_one_way", "isolate", "kill", "stop", "pause")
SHORT_S, LONG_S = (0.05, 1.2), (2.6, 4.5)
"""Ranges of the length of a fault, in seconds: shorter than the detection time, and longer."""
REST_S = (0.1, 1.6)
"""The range of the time between two faults, in seconds: sometimes too short for the cluster to recover."""


class Run:
    """One run, in network namespaces that this thread has entered."""

    def __init__(self, rounds: int, seed: int, folder: Path, space: Space) -> None:
        self.rounds = rounds
        self.rng = random.Random(seed)
        self.space = space
        settings = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
        self.nodes = space.nodes(
            folder,
            **settings,
            eventlog__level="message",
            max_offline_messages="-1",
            max_online_messages="-1",
            max_inflight_messages="20",
        )
        self.ledger = Ledger()
        self.counters: Counter[str] = Counter()
        self.deeds: Counter[str] = Counter()
        self.publishers: list[SteadyClient] = []
        self.subscribers: list[SteadyClient] = []
        self.diary: list[tuple[float, str, str]] = []

    async def run(self) -> list[str]:
        """Run all rounds and the audit. Returns the violations."""
        try:
            await start_joined(self.nodes)
            await self._prepare()
            tasks = [asyncio.create_task(self._stay(client)) for client in [*self.publishers, *self.subscribers]]
            load = [asyncio.create_task(self._publish(client)) for client in self.publishers]
            for _ in range(self.rounds):
                await self._round()
            for task in load:
                task.cancel()
            await whole(self.nodes)
            await self.ledger.drain(self.publishers)
            for task in [*load, *tasks]:
                task.cancel()
            await asyncio.gather(*load, *tasks, return_exceptions=True)
            for client in [*self.publishers, *self.subscribers]:
                await client.disconnect()
            for node in self.nodes:
                await node.stop()
        finally:
            await end(self.nodes)
        wrong = self.ledger.audit() + twice(self.nodes)
        for client in [*self.publishers, *self.subscribers]:
            wrong += client.faults
        return wrong + bad_lines(self.nodes)

    @staticmethod
    async def _clients(name: str, node: Node) -> list[SteadyClient]:
        """Returns a client of each version whose session will be at this node."""
        ids = {version: await client_at(node, f"{name}-{version}-") for version in (4, 5)}
        return [SteadyClient(client_id, node.port, version, node.host) for version, client_id in ids.items()]

    async def _prepare(self) -> None:
        self.publishers = await self._clients("pub", self.nodes[0])
        self.subscribers = await self._clients("sub", self.nodes[1])
        for client in self.subscribers:
            self.ledger.reader(client)
            client.delivered = self._noted(client)
            await client.connect()
            for qos in (1, 2):
                await client.subscribe(f"load/+/q{qos}", qos)
        for client in self.publishers:
            client.acked = self._acked

    def _note(self, what: str, about: str) -> None:
        self.diary.append((time.time(), what, about))

    def _acked(self, payload: bytes) -> None:
        self.ledger.acked.append(payload)
        self._note("acknowledged", payload.decode())

    def _noted(self, client: SteadyClient) -> Callable[[str, bytes, int, dict[str, Any]], None]:
        delivered = client.delivered

        def noted(topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> None:
            delivered(topic, payload, qos, properties)
            self._note(client.client_id, payload.decode())

        return noted

    async def _stay(self, client: SteadyClient) -> None:
        """Connect again whenever the connection ends."""
        while True:
            await client.gone.wait()
            try:
                await asyncio.wait_for(client.connect(), CONNECT_S)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)

    async def _publish(self, client: SteadyClient) -> None:
        while True:
            qos = self.rng.choice((1, 2))
            key = f"{qos}:{client.client_id}"
            self.counters[key] += 1
            payload = f"{key}-{self.counters[key]}".encode()
            self._note("sent", payload.decode())
            await client.publish(f"load/{client.client_id}/q{qos}", payload, qos)
            if self.rng.random() < 0.2:
                await asyncio.sleep(PAUSE_S)

    # -- faults

    async def _round(self) -> None:
        deed = self.rng.choice(DEEDS)
        self.deeds[deed] += 1
        length_s = self.rng.uniform(*(LONG_S if self.rng.random() < 0.25 else SHORT_S))
        one, other = self.rng.sample(range(1, NODES + 1), 2)
        node = self.nodes[one - 1]
        self._note("round", f"{deed} {node.name} {length_s:.2f} s")
        if deed in ("kill", "stop"):
            await (node.kill() if deed == "kill" else node.stop())
            await asyncio.sleep(min(length_s, 1.0))
            await node.start()
        elif deed == "pause":
            node.signal(signal.SIGSTOP)
            await asyncio.sleep(length_s)
            node.signal(signal.SIGCONT)
        else:
            await asyncio.to_thread(self._cut, deed, one, other)
            await asyncio.sleep(length_s)
            await asyncio.to_thread(self.space.heal)
        self._note("round", "over")
        await asyncio.sleep(self.rng.uniform(*REST_S))

    def _cut(self, deed: str, one: int, other: int) -> None:
        """Cut links of the node number `one`. Nodes are counted from 1."""
        if deed == "isolate":
            self.space.isolate(one)
        elif deed == "cut":
            self.space.cut(one, other)
        else:
            self.space.cut_one_way(one, other)


def twice(nodes: list[Node]) -> list[str]:
    """Returns a line for each message that one queue has kept twice under one mid; at most 20 lines.

    A queue has kept a message when that is safe. A message that was not safe when its node died, or when another node
    took the slot over, enters the queue again: that is no fault.
    """
    kept: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for node in nodes:
        kept.update((row["client"], tuple(row["mid"])) for row in rows(node) if row["type"] == "q.durable")
    again = [f"{client}: {mid} was kept {count} times" for (client, mid), count in kept.items() if count > 1]
    return again[:20] if kept else ["the event logs have no q.durable"]


def rows(node: Node) -> list[Row]:
    """Returns the rows of a node's event log in order. A killed process may leave an incomplete last line."""
    found, _ = read_log(node.data / "eventlog")
    return in_order(found)


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="cut, kill and pause nodes under load and audit the messages")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep data directories, logs and event logs in this folder")
    arguments = parser.parse_args()
    try:
        space = Space(NODES)
        space.enter()
    except SpaceError as error:
        print(f"network namespaces are needed (be root; Debian packages iproute2 and nftables): {error}")
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="strogoff-links-") as folder:
            run = Run(arguments.rounds, arguments.seed, arguments.keep or Path(folder), space)
            began = time.time()
            wrong = asyncio.run(run.run())
            if arguments.keep:
                lines = [f"{at:.3f}\t{what}\t{about}\n" for at, what, about in run.diary]
                (arguments.keep / "diary.tsv").write_text("".join(lines))
    finally:
        space.close()
    said = ", ".join(f"{count} {deed}" for deed, count in sorted(run.deeds.items()))
    acked = len(run.ledger.acked)
    print(f"{arguments.rounds} rounds in {time.time() - began:.0f} s ({said}), {acked} messages acknowledged: ", end="")
    print("INVALID" if wrong else "valid", flush=True)
    for line in wrong[:20]:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
