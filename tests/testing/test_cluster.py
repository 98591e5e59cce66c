"""The door: both kinds of clusters from one name. What they do is in test_running and test_sync."""

from __future__ import annotations

import inspect

from strogoff.testing.cluster import Cluster

from .run_loop import run


def test_both_ways() -> None:
    """With the same arguments."""

    async def test() -> None:
        async with Cluster(seed=3) as c:
            assert (await c.client("rx")).connected and c.seed == 3

    run(test())
    with Cluster.sync(seed=3) as c:
        assert c.client("rx").connected and c.seed == 3
    assert list(inspect.signature(Cluster).parameters) == list(inspect.signature(Cluster.sync).parameters)
