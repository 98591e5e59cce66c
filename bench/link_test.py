"""Cut, kill and pause the two nodes on the path of a message many times under load, then audit.

    python -m bench.link_test --rounds 200 [--seed N] [--keep DIR]

Publishers are connected to the first of three nodes, subscribers with persistent sessions to the second. Each round has
one fault: one of the two nodes is partitioned, killed, stopped, or paused for less or more than the detection time; or
their link is cut in one direction or both. After the last round all links are restored and all queues drain. Then the
audit checks these claims: each acknowledged message reached each subscriber, QoS 2 exactly once, in order per publisher
and topic; in the event logs no queue took a message twice under one mid (P1, P2, P6). Exit status 1 if one is wrong.

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from strogoff.testing.log_audit.log_files import read_log

from .cluster_nodes import Node, bad_lines, end, start_joined, whole
from .kill_test import PAUSE_S, Ledger
from .space import Space, SpaceError
from .steady import SteadyClient

NODES = 3
CONNECT_S = 5.0
FAULTS = ("cut", "cut_there", "cut_back", "isolate_sender", "isolate_receiver")
DEEDS = (*FAULTS, *(f"{what}_{whom}" for what in ("kill", "stop", "pause") for whom in ("sender", "receiver")))
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
        self.sender, self.receiver = self.nodes[0], self.nodes[1]
        self.ledger = Ledger()
        self.counters: Counter[str] = Counter()
        self.deeds: Counter[str] = Counter()
        self.publishers = [self._client(f"pub-{version}", version, self.sender) for version in (4, 5)]
        self.subscribers = [self._client(f"sub-{version}", version, self.receiver) for version in (4, 5)]
        self.diary: list[tuple[float, str, str]] = []

    @staticmethod
    def _client(name: str, version: int, node: Node) -> SteadyClient:
        return SteadyClient(name, node.port, version, node.host)

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

    async def _prepare(self) -> None:
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
        what, _, where = deed.partition("_")
        node = self.sender if where == "sender" else self.receiver
        self._note("round", f"{deed} {length_s:.2f} s")
        if what in ("kill", "stop"):
            await (node.kill() if what == "kill" else node.stop())
            await asyncio.sleep(min(length_s, 1.0))
            await node.start()
        elif what == "pause":
            node.signal(signal.SIGSTOP)
            await asyncio.sleep(length_s)
            node.signal(signal.SIGCONT)
        else:
            await asyncio.to_thread(self._cut, deed)
            await asyncio.sleep(length_s)
            await asyncio.to_thread(self.space.heal)
        self._note("round", "over")
        await asyncio.sleep(self.rng.uniform(*REST_S))

    def _cut(self, deed: str) -> None:
        space = self.space
        if deed.startswith("isolate"):
            space.isolate(1 if deed == "isolate_sender" else 2)
        elif deed == "cut":
            space.cut(1, 2)
        else:
            space.cut_one_way(*((1, 2) if deed == "cut_there" else (2, 1)))


def twice(nodes: list[Node]) -> list[str]:
    """Returns a line for each message that one queue took twice, by its mid; at most 20."""
    taken: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for row in events(nodes, "q.enq"):
        taken[row["client"], tuple(row["mid"])] += 1
    again = [f"{client}: {mid} was queued {count} times" for (client, mid), count in taken.items() if count > 1]
    return again[:20] if taken else ["the event logs have no q.enq"]


def events(nodes: list[Node], kind: str) -> Iterator[dict[str, Any]]:
    """Yield all rows of one kind in the nodes' event logs. A killed process may leave an incomplete last line."""
    for node in nodes:
        rows, _ = read_log(node.data / "eventlog")
        yield from (row for row in rows if row["type"] == kind)


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
