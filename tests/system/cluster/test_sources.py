"""Nodes find each other through a bucket and through the API of Kubernetes, whatever these do: always one cluster.

`make test-by-hand` runs each case STROGOFF_ROUNDS times (5), with other orders of the starts; CI runs one of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from bench.broker_process import free_port
from bench.cluster_nodes import Node, bad_lines, end, until, whole
from strogoff.broker.discovery.bucket import STALE_S

from ...harness.kubernetes import NAMESPACE, SELECTOR, Api, api, pod
from ...harness.s3 import BUCKET, REGION, Storage, storage

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

ROUNDS = int(os.environ.get("STROGOFF_ROUNDS", "0"))
WITHIN_S = 60.0


def some(*cases: str) -> tuple[str, ...]:
    """The cases that run."""
    return cases if ROUNDS else cases[:1]


@pytest.fixture
def stored() -> Iterator[Storage]:
    with storage() as made:
        yield made


def s3_nodes(folder: Path, made: Storage) -> list[Node]:
    """Three nodes that share nothing but the bucket. The access key of each is its name."""
    return [
        Node(
            folder,
            f"n{n}",
            **{
                "discovery.s3.bucket": BUCKET,
                "discovery.s3.endpoint": made.endpoint,
                "discovery.s3.region": REGION,
                "discovery.s3.addressing": "path",
                "discovery.s3.access_key": f"n{n}",
                "discovery.s3.secret_key": "secret",
                "discovery.expected_nodes": "2",
                "queue_stop_wait": "0",
            },
        )
        for n in (1, 2, 3)
    ]


async def start(rng: Random, nodes: list[Node], case: str = "plain") -> None:
    """Start the nodes in any order, with any pauses up to 1 s. In the case `killed` one of them starts twice."""
    starts = []
    for node in rng.sample(nodes, len(nodes)):
        starts.append(asyncio.create_task(node.start()))
        paused = asyncio.Event()
        asyncio.get_running_loop().call_later(rng.random(), paused.set)
        await paused.wait()
    await asyncio.gather(*starts)
    if case == "killed":
        node = rng.choice(nodes)
        await node.kill()
        await node.start()


async def one_cluster(nodes: list[Node]) -> None:
    """Wait until the nodes are one cluster, check that they founded it once, and stop them."""
    await whole(nodes, 3, WITHIN_S)
    assert sum(node.log.read_text().count(" founds a cluster") for node in nodes) == 1
    assert await asyncio.gather(*[node.stop() for node in nodes]) == [0, 0, 0]
    assert bad_lines(nodes) == []


def each_waits(made: Storage) -> None:
    """Check that no node sent two requests within a second."""
    for n in (1, 2, 3):
        times = made.of(f"n{n}")
        assert min((b - a for a, b in pairwise(times)), default=1.0) > 0.98


def run(nodes: list[Node], scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        try:
            await scenario()
        finally:
            await end(nodes)

    asyncio.run(main())


@pytest.mark.parametrize("number", range(ROUNDS or 1))
@pytest.mark.parametrize("case", some("stale", "late", "plain", "killed", "refuses", "slow"))
def test_three_nodes_become_one_cluster_through_a_bucket(
    stored: Storage, tmp_path: Path, case: str, number: int
) -> None:
    rng = Random(f"{case}/{number}")
    nodes = s3_nodes(tmp_path, stored)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        if case == "stale":
            gone = b'{"node": "old@h", "address": "127.0.0.1:9", "disk": "d", "boot": 1}'
            stored.put("strogoff/nodes/old@h", gone, STALE_S + 1)
        elif case == "late":
            stored.drop_bucket()
            loop.call_later(2 + 2 * rng.random(), stored.make_bucket)
        elif case == "refuses":
            stored.refuses = True
            loop.call_later(2 + 2 * rng.random(), setattr, stored, "refuses", False)
        elif case == "slow":
            stored.delay_s = 10.0
            loop.call_later(20.0, setattr, stored, "delay_s", 0.0)
        await start(rng, nodes, case)
        await one_cluster(nodes)
        each_waits(stored)

    run(nodes, scenario)


def test_nodes_that_lost_their_disks_found_no_second_cluster(stored: Storage, tmp_path: Path) -> None:
    """The third one is away. They are as many as found a cluster, but wait for it, and say why."""
    nodes = s3_nodes(tmp_path, stored)

    async def scenario() -> None:
        await start(Random(1), nodes)
        await whole(nodes, 3, WITHIN_S)
        assert await asyncio.gather(*[node.stop() for node in nodes]) == [0, 0, 0]
        (tmp_path / "new").mkdir()
        lost = [Node(tmp_path / "new", f"n{n}", **node.settings) for n, node in ((1, nodes[0]), (2, nodes[1]))]
        try:
            for node in lost:
                await node.start()

            async def says() -> bool:
                return any("s3://mqtt/strogoff/founder says that n" in node.log.read_text() for node in lost)

            await until("one of them says why it does not found a cluster", says, WITHIN_S)
            assert not any(" founds a cluster" in node.log.read_text() for node in lost)
        finally:
            await end(lost)

    run(nodes, scenario)


def kubernetes_nodes(folder: Path, server: Api) -> list[Node]:
    """Three nodes with an address of their own, as pods have, and one port."""
    port = free_port()
    return [
        Node(
            folder,
            f"n{n}",
            host=f"127.0.0.{n}",
            **{
                "listener.vmq.links": f"127.0.0.{n}:{port}",
                "discovery.kubernetes.api": server.url,
                "discovery.kubernetes.namespace": NAMESPACE,
                "discovery.kubernetes.selector": SELECTOR,
                "discovery.kubernetes.account_dir": str(server.folder),
                "discovery.expected_nodes": "2",
                "queue_stop_wait": "0",
            },
        )
        for n in (1, 2, 3)
    ]


@pytest.mark.parametrize("number", range(ROUNDS or 1))
@pytest.mark.parametrize("case", some("old pod", "refuses", "plain", "killed", "late", "no watch", "new token"))
def test_three_nodes_become_one_cluster_through_the_api_of_kubernetes(tmp_path: Path, case: str, number: int) -> None:
    rng = Random(f"{case}/{number}")

    async def main() -> None:
        account = tmp_path / "account"
        account.mkdir()
        async with api(account) as server:
            loop = asyncio.get_running_loop()
            nodes = kubernetes_nodes(tmp_path, server)
            if case == "old pod":
                server.change("ADDED", pod("old", "127.0.0.9"))
            elif case == "refuses":
                server.refuses = 403
                loop.call_later(2 + rng.random(), setattr, server, "refuses", 0)
            elif case == "no watch":
                server.may_watch = False
            elif case == "new token":
                loop.call_later(rng.random(), server.set_token, "second")
                loop.call_later(2 * rng.random(), server.forget)
            for n, node in enumerate(rng.sample(nodes, 3)):
                at_s = rng.random() * (3 if case == "late" else 1)
                loop.call_later(at_s, server.change, "ADDED", pod(node.name, node.host, labels={"n": str(n)}))
            try:
                await start(rng, nodes, case)
                await one_cluster(nodes)
            finally:
                await end(nodes)

    asyncio.run(main())
