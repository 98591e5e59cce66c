"""Settings changed at one node of three: the other nodes have them when the command answers, also after faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strogoff.admin.commands.cluster import TIMEOUT_S
from tests.admin.cluster_harness import ClusterHarness, running_cluster

LIMIT = "max_inflight_messages"


def run(test: object, **conf: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S), running_cluster(**conf) as harness:
            await test(harness)  # type: ignore[operator]

    asyncio.run(bounded())


def test_all_nodes_have_it_when_the_answer_comes() -> None:
    async def test(harness: ClusterHarness) -> None:
        assert await harness.said(0, "set", f"{LIMIT}=7", "--all") == [f"{LIMIT} = 7"]
        assert harness.limits() == [7, 7, 7]
        names = [each.name for each in harness.cluster.nodes]
        await harness.said(2, "set", f"{LIMIT}=8", f"--node={names[1]}")
        assert harness.limits() == [7, 8, 7]
        assert await harness.rows(0, "show", LIMIT, "--all") == [
            {"node": name, LIMIT: value} for name, value in zip(names, ("7", "8", "7"), strict=True)
        ]
        assert await harness.rows(0, "show", LIMIT, f"--node={names[1]}") == [{"node": names[1], LIMIT: "8"}]
        assert await harness.rows(1, "config", "show", f"--key={LIMIT}") == [
            {"Config": LIMIT, "Env": "20", "Node": "8", "Global": "7"}
        ]
        assert await harness.rows(2, "config", "show", f"--key={LIMIT}") == [
            {"Config": LIMIT, "Env": "20", "Node": None, "Global": "7"}
        ]
        assert await harness.said(2, "config", "reset", f"--key={LIMIT}", "--global") == [
            f"{LIMIT} = 20", f"{names[1]} has {LIMIT} = 8 of its own, which overrides this."
        ]  # fmt: skip
        assert harness.limits() == [20, 8, 20]
        elsewhere = ("config", "reset", f"--key={LIMIT}", f"--node={names[1]}")
        assert await harness.said(0, *elsewhere) == [f"{LIMIT} is not set for {names[1]} any more."]
        assert harness.limits() == [20, 20, 20]
        await harness.said(0, "set", f"{LIMIT}=8", f"--node={names[1]}")
        assert await harness.said(1, "config", "reset", f"--key={LIMIT}") == [f"{LIMIT} = 20"]
        assert harness.limits() == [20, 20, 20]
        log = list(harness.cluster[1].log)
        assert f"notice: {LIMIT} = 7 for all nodes, set at another node" in log
        assert f"notice: {LIMIT} = 8 for {names[1]}, set at another node" in log
        assert f"notice: {LIMIT} is reset for all nodes, set at another node" in log

    run(test)


@pytest.mark.slow
def test_an_absent_node_gets_the_setting_when_it_returns_and_keeps_it() -> None:
    async def test(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        await cluster.stop(2)
        await cluster.sees((0, 1), "majority")
        said = await harness.said(0, "set", f"{LIMIT}=7", "--all")
        assert said == [f"{LIMIT} = 7", f"{cluster[2].name} is absent: it gets the change when it returns."]
        await harness.said(0, "set", "retry_interval=9", f"--node={cluster[2].name}")
        await cluster.start(2)
        assert harness.limits() == [7, 7, 7]
        assert [harness.options(number).retry_interval_s for number in range(3)] == [20, 20, 9]
        for number in range(3):
            await cluster.stop(number)
        for number in range(3):
            await cluster.start(number)
        await cluster.whole()
        assert harness.limits() == [7, 7, 7]
        assert harness.options(2).retry_interval_s == 9

    run(test)


@pytest.mark.slow
def test_a_partitioned_node_reports_that_the_setting_did_not_spread() -> None:
    async def test(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        await harness.said(1, "set", f"{LIMIT}=5", "--all")
        await cluster.partition({0}, {1, 2})
        await cluster.sees(0, "minority")
        await cluster.sees((1, 2), "majority")
        said = await harness.refused(0, "set", f"{LIMIT}=6", "--all")
        name = cluster[0].name
        assert said == f"{name} has the change, but no lease: the other nodes get it as soon as they can be reached"
        assert harness.limits() == [6, 5, 5]
        await harness.said(1, "set", f"{LIMIT}=7", "--all")
        await harness.said(1, "set", "retry_interval=3", "--all")
        assert harness.limits() == [6, 7, 7]
        await cluster.heal()
        await cluster.whole()
        assert harness.limits() == [7, 7, 7]
        assert harness.options(0).retry_interval_s == 3

    run(test)


def test_a_change_of_policy_releases_deferred_publishes() -> None:
    async def test(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        reader = await cluster.client("reader", node=1)
        await reader.subscribe("t", qos=1)
        writer = await cluster.client("writer", node=0, version=4)
        await cluster.stop(2)
        await cluster.sees((0, 1), "majority")
        waiting = asyncio.ensure_future(writer.publish("t", b"parked", qos=1))
        async with asyncio.timeout(5):
            while not any(connection.publishing.deferred for connection in cluster[0].node.connections.values()):
                turn = asyncio.Event()
                asyncio.get_running_loop().call_soon(turn.set)
                await turn.wait()
        assert not waiting.done()
        await harness.said(1, "set", "allow_publish_during_netsplit=majority", "--all")
        await waiting
        assert (await reader.message()).payload == b"parked"

    run(test)


def test_a_key_opens_every_node_until_it_is_deleted_at_one() -> None:
    async def test(harness: ClusterHarness) -> None:
        (key,) = await harness.said(0, "api-key", "create", "scope=metrics")
        assert [harness.context(number).api_keys.check(key, "metrics") for number in range(3)] == ["ok"] * 3
        assert (await harness.rows(1, "api-key", "show"))[0]["Key"] == key
        assert await harness.refused(2, "api-key", "add", f"key={key}", "scope=metrics") == (
            "This key has the scope metrics already; delete it first."
        )
        await harness.cluster.restart(1)
        assert harness.context(1).api_keys.check(key, "metrics") == "ok"
        await harness.said(2, "api-key", "delete", f"key={key}")
        assert [harness.context(number).api_keys.check(key, "metrics") for number in range(3)] == ["unknown"] * 3

    run(test)


def test_an_incident_is_shown_from_its_begin_to_its_end() -> None:
    async def test(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        before = len(await harness.rows(0, "cluster", "incidents"))
        await cluster.kill(2)
        await cluster.sees((0, 1), "majority")
        row, *rest = await harness.rows(0, "cluster", "incidents")
        assert (row["Peers"], row["State"], row["Healed (UTC)"], len(rest)) == (
            cluster[2].name,
            "majority",
            None,
            before,
        )
        assert harness.context(0).metrics.totals()["netsplit_open"] == 1
        await cluster.start(2)
        await cluster.whole()
        row, *_ = await harness.rows(0, "cluster", "incidents")
        assert row["Begin (UTC)"] <= row["Detected (UTC)"] <= row["Healed (UTC)"]
        totals = harness.context(0).metrics.totals()
        assert totals["netsplit_detected"] == totals["netsplit_resolved"] == row["Number"] == before + 1
        assert totals["netsplit_open"] == 0
        assert totals["netsplit_last_window_ms"] == row["Window (ms)"]

    run(test)
