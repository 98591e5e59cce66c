"""Copies of data directories: which of them give a cluster back, and which the cluster refuses (docs/backup.md)."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.cluster_nodes import Node, bad_lines, client_at, end, start_joined, until, whole
from bench.ha_test import SETTINGS, Slots
from bench.steady import SteadyClient

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

CLUSTER_S = 60.0
OLD_COPY = "[old copy by the log]"


class Publisher:
    """A client that numbers its messages of QoS 1 from 1."""

    def __init__(self, node: Node, topic: str) -> None:
        self.client = SteadyClient("publisher", node.port, host=node.host)
        self.client.acked = lambda payload: self.acked.append(int(payload))
        self.acked: list[int] = []
        self._topic = topic
        self._number = 0

    async def publish(self, count: int) -> None:
        """Publish `count` messages, and wait for their acknowledgements."""
        if not self.client.online:
            await self.client.connect()
        for _ in range(count):
            await self._next()

        async def answered() -> bool:
            return len(self.acked) == self._number

        await until("all messages are acknowledged", answered)

    async def publish_on(self) -> None:
        """Publish until the task is cancelled."""
        while True:
            await self._next()

    async def _next(self) -> None:
        self._number += 1
        await self.client.publish(self._topic, b"%d" % self._number, 1)


class Backups:
    """Three nodes, with a durable subscriber at each of them, and copies of their data directories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes = [Node(folder, f"n{number}", **SETTINGS) for number in (1, 2, 3)]
        self.subscribers: list[str] = []
        self.publisher = Publisher(self.nodes[0], "backup/t")

    async def begin(self) -> None:
        """Start the cluster, and begin a session with its primary at each node."""
        await start_joined(self.nodes)
        await self.copied()
        for node in self.nodes:
            self.subscribers.append(await client_at(node, f"{node.data.name}-"))
            client = SteadyClient(self.subscribers[-1], self.nodes[0].port)
            await client.connect()
            await client.subscribe("backup/#", 1)
            await client.disconnect()

    async def copied(self) -> None:
        """Wait until all nodes serve, and each slot has two copies."""
        await whole(self.nodes, within_s=CLUSTER_S)
        await until("each slot has two copies", Slots(self.nodes).all_copied, CLUSTER_S)

    def copy(self, node: Node, name: str) -> None:
        """Copy the data directory of a node that is stopped or paused."""
        shutil.copytree(node.data, self.folder / name / node.data.name, ignore=shutil.ignore_patterns("admin.sock"))

    async def snapshot(self, name: str) -> None:
        """Copy all directories while the nodes run, each as it is at one instant."""
        for node in self.nodes:
            node.signal(signal.SIGSTOP)
            self.copy(node, name)
            node.signal(signal.SIGCONT)

    def put_back(self, node: Node, name: str) -> None:
        """Replace the data directory of a node that does not run by its copy."""
        shutil.rmtree(node.data)
        shutil.copytree(self.folder / name / node.data.name, node.data)

    def elsewhere(self, name: str, **settings: str) -> list[Node]:
        """Returns nodes with copies of the directories, and other addresses."""
        nodes = [Node(self.folder / name, f"n{number}", **{**SETTINGS, **settings}) for number in (1, 2, 3)]
        for node in nodes:
            node.settings["discovery.nodes"] = " ".join(each.address for each in nodes)
        return nodes


def on_another_machine(node: Node) -> None:
    """The kernel that a node finds is not the one under which its data were written."""
    marker = node.data / "strogoff.json"
    said = json.loads(marker.read_text())
    assert said["unsynced"], "the node was copied while it wrote"
    marker.write_text(json.dumps({**said, "unsynced": "boot of another machine"}))


async def read(node: Node, client_id: str) -> list[int]:
    """Connect a durable subscriber, and return the numbers of the messages in its queue: those before one that
    is published now."""
    last = f"backup/last/{client_id}"
    marking = SteadyClient("marking", node.port)
    await marking.connect()
    await marking.publish(last, b"", 1)
    client, got, done = SteadyClient(client_id, node.port), list[int](), asyncio.Event()

    def delivered(topic: str, payload: bytes, _qos: int, _properties: dict[str, Any]) -> None:
        if topic == last:
            done.set()
        elif payload:
            got.append(int(payload))

    client.delivered = delivered
    await client.connect()
    assert client.present, f"{client_id} has no session"
    await asyncio.wait_for(done.wait(), CLUSTER_S)
    await marking.disconnect()
    await client.disconnect()
    return got


async def start_all(nodes: Sequence[Node]) -> None:
    """Start the nodes, and wait until all serve."""
    await asyncio.gather(*[node.start() for node in nodes])
    await whole(nodes, within_s=CLUSTER_S)


def scenario(folder: Path, steps: Callable[[Backups], Awaitable[None]]) -> None:
    """Run steps with three nodes, and end all nodes."""

    async def run() -> None:
        backups = Backups(folder)
        try:
            await backups.begin()
            await steps(backups)
        finally:
            await backups.publisher.client.disconnect()
            await end(backups.nodes)

    asyncio.run(run())


def has_all(got: list[int], acked: int, sent: int) -> bool:
    """Whether messages came once, in order: the acknowledged ones, and no gap in those that followed."""
    return got == list(range(1, len(got) + 1)) and acked <= len(got) <= sent


def test_snapshots_under_load_give_the_cluster_back(tmp_path: Path) -> None:
    """One node after the other is copied while clients publish. The restored nodes have other addresses. Before that
    the copies run beside the cluster, with another cookie, and neither notices the other."""

    async def steps(backups: Backups) -> None:
        publisher = backups.publisher
        await publisher.publish(500)
        load = asyncio.create_task(publisher.publish_on())
        before = await backups.nodes[0].status()
        acked = len(publisher.acked)
        await backups.snapshot("copies")
        sent = publisher._number
        load.cancel()
        assert (await backups.nodes[0].status())["view_id"] == before["view_id"]
        shutil.copytree(tmp_path / "copies", tmp_path / "trial")
        trial = backups.elsewhere("trial", distributed_cookie="another one")
        try:
            await start_all(trial)
            for client_id in backups.subscribers:
                assert has_all(await read(trial[0], client_id), acked, sent)
        finally:
            await end(trial)
        assert (await backups.nodes[0].status())["view_id"] == before["view_id"]
        for node in backups.nodes:
            await node.kill()
            shutil.rmtree(node.data)
        restored = backups.elsewhere("copies")
        for node in restored:
            on_another_machine(node)
        try:
            await start_all(restored)
            for client_id in backups.subscribers:
                assert has_all(await read(restored[1], client_id), acked, sent)
            assert bad_lines(restored) == []
        finally:
            await end(restored)

    scenario(tmp_path, steps)


@pytest.mark.by_hand
def test_copies_of_stopped_nodes_give_the_cluster_back(tmp_path: Path) -> None:
    """All nodes are stopped, copied and started. Later the copies replace what the nodes have."""

    async def steps(backups: Backups) -> None:
        nodes, publisher = backups.nodes, backups.publisher
        await publisher.publish(300)
        await publisher.client.disconnect()
        await asyncio.gather(*[node.stop() for node in nodes])
        for node in nodes:
            backups.copy(node, "copies")
        await start_all(nodes)
        await publisher.publish(200)
        await publisher.client.disconnect()
        await asyncio.gather(*[node.stop() for node in nodes])
        for node in nodes:
            backups.put_back(node, "copies")
        await start_all(nodes)
        for client_id in backups.subscribers:
            assert await read(nodes[2], client_id) == list(range(1, 301))

    scenario(tmp_path, steps)


@pytest.mark.by_hand
def test_the_old_copy_of_one_node_is_refused(tmp_path: Path) -> None:
    """Also if it is started again and again. After a reset the node has everything: the others had it."""

    async def steps(backups: Backups) -> None:
        nodes, publisher = backups.nodes, backups.publisher
        victim = nodes[2]
        await publisher.publish(100)
        await victim.stop()
        backups.copy(victim, "old")
        await victim.start()
        await backups.copied()
        await publisher.publish(100)
        await victim.stop()
        backups.put_back(victim, "old")
        for _ in range(3):
            await victim.start()
            await until("the old copy is refused", partial(refused, victim))
            await victim.stop()
        assert "strogoff reset" in str(next(line for line in victim.tracebacks() if OLD_COPY in line))
        reset = await asyncio.create_subprocess_exec(*victim.command()[:3], "reset", str(victim.data))
        assert await reset.wait() == 0
        await victim.start()
        await backups.copied()
        for client_id in backups.subscribers:
            assert await read(victim, client_id) == list(range(1, 201))

    scenario(tmp_path, steps)


@pytest.mark.by_hand
def test_copies_made_between_restarts_are_no_backup(tmp_path: Path) -> None:
    """Each node is stopped, copied and started before the next one: the copies contradict each other, so the nodes
    serve nobody."""

    async def steps(backups: Backups) -> None:
        nodes = backups.nodes
        for node in nodes:
            await node.stop()
            backups.copy(node, "rolling")
            await node.start()
            await backups.copied()
        await end(nodes)
        for node in nodes:
            backups.put_back(node, "rolling")
        await asyncio.gather(*[node.start() for node in nodes])
        for node in nodes[:2]:
            await until(f"{node.name} is refused", partial(refused, node))
        assert await nodes[2].sees() == "minority"

    scenario(tmp_path, steps)


async def refused(node: Node) -> bool:
    """Whether the node says that it serves nobody, because its data is an old copy."""
    return OLD_COPY in str((await node.status()).get("serves_nobody"))
