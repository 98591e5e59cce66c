"""What operators set at one node of three: at the others when the command answers, and after all that may happen."""

from __future__ import annotations

import asyncio
from typing import Any

from strogoff.admin.commands.cluster import TIMEOUT_S
from tests.admin.cluster_harness import ClusterHarness, running_cluster

LIMIT = "max_inflight_messages"


def run(test: object, **conf: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S), running_cluster(**conf) as office:
            await test(office)  # type: ignore[operator]

    asyncio.run(bounded())


def test_all_nodes_have_it_when_the_answer_comes() -> None:
    async def test(office: ClusterHarness) -> None:
        assert await office.said(0, "set", f"{LIMIT}=7", "--all") == [f"{LIMIT} = 7"]
        assert office.limits() == [7, 7, 7]
        names = [each.name for each in office.cluster.nodes]
        await office.said(2, "set", f"{LIMIT}=8", f"--node={names[1]}")
        assert office.limits() == [7, 8, 7]
        assert await office.rows(0, "show", LIMIT, "--all") == [
            {"node": name, LIMIT: value} for name, value in zip(names, ("7", "8", "7"), strict=True)
        ]
        assert await office.rows(0, "show", LIMIT, f"--node={names[1]}") == [{"node": names[1], LIMIT: "8"}]
        assert await office.rows(1, "config", "show", f"--key={LIMIT}") == [
            {"Config": LIMIT, "Env": "20", "Node": "8", "Global": "7"}
        ]
        assert await office.rows(2, "config", "show", f"--key={LIMIT}") == [
            {"Config": LIMIT, "Env": "20", "Node": None, "Global": "7"}
        ]
        assert await office.said(2, "config", "reset", f"--key={LIMIT}", "--global") == [f"{LIMIT} = 20"]
        assert office.limits() == [20, 8, 20]
        elsewhere = ("config", "reset", f"--key={LIMIT}", f"--node={names[1]}")
        assert await office.said(0, *elsewhere) == [f"{LIMIT} is not set for {names[1]} any more."]
        assert office.limits() == [20, 20, 20]
        await office.said(0, "set", f"{LIMIT}=8", f"--node={names[1]}")
        assert await office.said(1, "config", "reset", f"--key={LIMIT}") == [f"{LIMIT} = 20"]
        assert office.limits() == [20, 20, 20]
        log = list(office.cluster[1].log)
        assert f"notice: {LIMIT} = 7 for all nodes, set at another node" in log
        assert f"notice: {LIMIT} = 8 for {names[1]}, set at another node" in log
        assert f"notice: {LIMIT} is reset for all nodes, set at another node" in log

    run(test)


def test_who_was_away_has_it_when_it_serves_again_and_a_restart_forgets_nothing() -> None:
    async def test(office: ClusterHarness) -> None:
        cluster = office.cluster
        await cluster.stop(2)
        await cluster.sees((0, 1), "majority")
        said = await office.said(0, "set", f"{LIMIT}=7", "--all")
        assert said == [f"{LIMIT} = 7", f"{cluster[2].name} is absent: it gets the change when it returns."]
        await office.said(0, "set", "retry_interval=9", f"--node={cluster[2].name}")
        await cluster.start(2)
        assert office.limits() == [7, 7, 7]
        assert [office.options(number).retry_interval_s for number in range(3)] == [20, 20, 9]
        for number in range(3):
            await cluster.stop(number)
        for number in range(3):
            await cluster.start(number)
        await cluster.whole()
        assert office.limits() == [7, 7, 7]
        assert office.options(2).retry_interval_s == 9

    run(test)


def test_a_node_that_is_cut_off_says_that_the_others_do_not_have_it() -> None:
    async def test(office: ClusterHarness) -> None:
        cluster = office.cluster
        await office.said(1, "set", f"{LIMIT}=5", "--all")
        await cluster.partition({0}, {1, 2})
        await cluster.sees(0, "minority")
        await cluster.sees((1, 2), "majority")
        said = await office.refused(0, "set", f"{LIMIT}=6", "--all")
        assert said == f"{cluster[0].name} has it, and no lease: the other nodes get it as soon as they are reached"
        assert office.limits() == [6, 5, 5]
        await office.said(1, "set", f"{LIMIT}=7", "--all")
        await office.said(1, "set", "retry_interval=3", "--all")
        assert office.limits() == [6, 7, 7]
        await cluster.heal()
        await cluster.whole()
        assert office.limits() == [7, 7, 7]
        assert office.options(0).retry_interval_s == 3

    run(test)


def test_publishes_that_were_parked_go_on_when_the_policy_changes() -> None:
    async def test(office: ClusterHarness) -> None:
        cluster = office.cluster
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
        await office.said(1, "set", "allow_publish_during_netsplit=majority", "--all")
        await waiting
        assert (await reader.message()).payload == b"parked"

    run(test)


def test_a_key_opens_every_node_until_it_is_deleted_at_one() -> None:
    async def test(office: ClusterHarness) -> None:
        (key,) = await office.said(0, "api-key", "create", "scope=metrics")
        assert [office.context(number).api_keys.check(key, "metrics") for number in range(3)] == ["ok"] * 3
        assert (await office.rows(1, "api-key", "show"))[0]["Key"] == key
        assert await office.refused(2, "api-key", "add", f"key={key}", "scope=metrics") == (
            "This key has the scope metrics already; delete it first."
        )
        await office.cluster.restart(1)
        assert office.context(1).api_keys.check(key, "metrics") == "ok"
        await office.said(2, "api-key", "delete", f"key={key}")
        assert [office.context(number).api_keys.check(key, "metrics") for number in range(3)] == ["unknown"] * 3

    run(test)


def test_an_incident_is_told_from_its_begin_to_its_end() -> None:
    async def test(office: ClusterHarness) -> None:
        cluster = office.cluster
        before = len(await office.rows(0, "cluster", "incidents"))
        await cluster.kill(2)
        await cluster.sees((0, 1), "majority")
        row, *rest = await office.rows(0, "cluster", "incidents")
        assert (row["Peers"], row["State"], row["Healed (UTC)"], len(rest)) == (
            cluster[2].name,
            "majority",
            None,
            before,
        )
        assert office.context(0).metrics.totals()["netsplit_open"] == 1
        await cluster.start(2)
        await cluster.whole()
        row, *_ = await office.rows(0, "cluster", "incidents")
        assert row["Begin (UTC)"] <= row["Detected (UTC)"] <= row["Healed (UTC)"]
        totals = office.context(0).metrics.totals()
        assert totals["netsplit_detected"] == totals["netsplit_resolved"] == row["Number"] == before + 1
        assert totals["netsplit_open"] == 0
        assert totals["netsplit_last_window_ms"] == row["Window (ms)"]

    run(test)
