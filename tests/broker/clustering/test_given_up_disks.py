"""Nodes that begin with an empty disk under the name of a member, on real servers in one process.

The disk may be lost, or not mounted, or the node has the name of another one by mistake.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.broker.clustering import discovery
from strogoff.broker.clustering.runtime import ClusterRuntime
from tests.harness.servers import ServersInMemory, id_at, run
from tests.harness.waiting import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOOK_S", 0.02)


async def start(harness: ServersInMemory, name: str, **settings: str) -> ClusterRuntime:
    return await harness.start(name, queue_replicas="1", **settings)


async def form(harness: ServersInMemory) -> tuple[ClusterRuntime, ClusterRuntime, ClusterRuntime]:
    """Start n1, n2 and n3, and wait until they are one cluster. Each slot has one copy."""
    one, two, three = [await start(harness, name) for name in ("n1", "n2", "n3")]
    for each in (two, three):
        await each.join("127.0.0.1:44001", False)
    await until(lambda: all(each.status().serving == 3 for each in (one, two, three)))
    return one, two, three


def test_a_disk_with_the_only_copies_is_not_given_up_by_itself(tmp_path: Path) -> None:
    """The data disk was not mounted: the node serves nobody until it has its disk again, and nothing is lost."""

    async def scenario(harness: ServersInMemory) -> None:
        one, _, three = await form(harness)
        client_id = await id_at(one, three.name)
        client = await harness.client("n3", client_id, clean=False)
        await client.subscribe("t", 1)
        await client.abort()
        await harness.stop("n3")
        (tmp_path / "n3").rename(tmp_path / "disk")
        three = await start(harness, "n3", discovery__nodes="127.0.0.1:44001")
        await until(lambda: "no other node has everything of its slots" in three.serves_nobody)
        await harness.stop("n3")
        (tmp_path / "n3").rename(tmp_path / "empty")
        (tmp_path / "disk").rename(tmp_path / "n3")
        three = await start(harness, "n3")
        await until(lambda: three.status().serving == 3)
        client = await harness.client("n3", client_id, clean=False)
        assert client.present
        await client.abort()

    run(tmp_path, scenario)
