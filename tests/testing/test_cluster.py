"""Both kinds of clusters under one name. Their methods are tested in test_running_cluster and test_sync."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from strogoff import testing
from strogoff.broker.connection.connection import FAILOVER_GRACE_S
from strogoff.cluster.membership.settings import Settings
from strogoff.testing.client import TIMEOUT_S
from strogoff.testing.client_errors import ConnectionLost
from strogoff.testing.cluster import Cluster
from strogoff.testing.faults.packet_drops import FaultError
from strogoff.testing.fixtures import policy_conf
from strogoff.testing.runtime.running_cluster import ClusterOptions

from .run_loop import run


def test_both_kinds_of_clusters_take_the_same_arguments() -> None:

    async def test() -> None:
        async with Cluster(seed=3) as c:
            assert (await c.client("rx")).connected and c.seed == 3

    run(test())
    with Cluster.sync(seed=3) as c:
        assert c.client("rx").connected and c.seed == 3
    assert list(inspect.signature(Cluster).parameters) == ["nodes", "conf", *ClusterOptions.__annotations__]
    assert list(inspect.signature(Cluster.sync).parameters) == ["nodes", "conf", "options"]
    wrong: dict[str, Any] = {"speed": 2}
    with pytest.raises(TypeError, match="speed"):
        Cluster(1, **wrong)
    with pytest.raises(TypeError, match="speed"):
        Cluster.sync(1, **wrong)


def test_both_kinds_of_clusters_have_the_address_of_the_first_node() -> None:
    async def test() -> None:
        async with Cluster() as c:
            assert (c.host, c.port, c.url) == (c[0].host, c[0].port, c[0].url)

    run(test())
    with Cluster.sync() as c:
        assert (c.host, c.port, c.url) == (c[0].host, c[0].port, c[0].url)


def test_the_wrong_kind_of_with() -> None:
    """The error says what to write instead."""
    wrong: Any = Cluster()
    with pytest.raises(TypeError, match=r"use `async with`, or `with Cluster\.sync\(\)`"), wrong:
        pass
    wrong = Cluster.sync()

    async def test() -> None:
        async with wrong:
            pass

    with pytest.raises(TypeError, match=r"use `with`, or `async with Cluster\(\)`"):
        run(test())
    for each in (Cluster(), Cluster.sync()):
        with pytest.raises(FaultError, match="the cluster is not open"):
            assert each.port


def test_every_exported_name_is_the_object_of_that_name() -> None:
    """This includes `audit`, a function: a module of the same name would hide it."""
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name and not inspect.ismodule(getattr(testing, name))


def test_a_client_waits_longer_than_a_killed_node_delays_a_will() -> None:
    """In production: until the others take the node out of the view, and while its clients may come back."""
    assert Settings().detection_ms / 1000 + FAILOVER_GRACE_S < TIMEOUT_S


@pytest.mark.slow
def test_the_will_of_a_client_whose_node_is_killed() -> None:
    """Another client gets it within the wait that it has by default."""
    conf = policy_conf("majority")
    with Cluster.sync(3, conf, pace=10) as c:
        rx = c.client("rx", node=1)
        rx.subscribe("will", qos=1)
        mortal = c.client("mortal", node=0, will=testing.Will("will", b"gone", 1))
        c.kill(0)
        with pytest.raises(ConnectionLost):
            mortal.message()
        assert rx.message().text == "gone"
