"""The metrics of a node that has had clients, after a reset and after a restart."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from strogoff import __version__
from strogoff.admin.metric_names import described
from strogoff.broker.sessions.slot_sessions import ARRIVED, LEAVING

from .fake_operator_port import THIS_NODE, FakeOperatorPort, row
from .server_harness import ServerHarness, run_with_server, running_server


def values(harness: ServerHarness) -> dict[tuple[str, ...], int]:
    rows = harness.context.metrics.rows()
    return {(row.name, *(value for _, value in row.labels)): row.value for row in rows}


def test_the_actions_of_clients_are_counted(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        old = await harness.client("old")
        new = await harness.client("new", 5, False)
        await old.subscribe(("a", 0))
        await new.publish("a", b"x", retain=True)
        await new.leave()
        await harness.until(lambda: harness.server.listeners.active() == 1)
        found = values(harness)
        expected = {
            ("mqtt_connect_received", "4"): 1,
            ("mqtt_connect_received", "5"): 1,
            ("mqtt_connack_sent", "4", "success"): 1,
            ("mqtt_connack_sent", "4", "not_authorized"): 0,
            ("mqtt_connack_sent", "5", "success"): 1,
            ("mqtt_disconnect_received", "5", "normal_disconnect"): 1,
            ("mqtt_disconnect_received", "4"): 0,
            ("mqtt_publish_received", "5"): 1,
            ("mqtt_publish_sent", "4"): 1,
            ("mqtt_puback_sent",): 1,
            ("router_matches_local",): 1,
            ("socket_open",): 2,
            ("socket_close",): 1,
            ("retain_messages",): 1,
            ("router_subscriptions",): 1,
            ("queue_processes",): 2,
            ("active_mqtt_connections",): 1,
            ("active_mqttws_connections",): 0,
            ("total_active_connections",): 1,
            ("node_info", __version__): 1,
            ("connections_paused", "cluster"): 0,
            ("store_full",): 0,
            ("store_failed",): 0,
            ("store_damaged",): 0,
            ("cluster_leader",): 1,
            ("mqtt_publish_parked",): 0,
        }
        assert {key: found[key] for key in expected} == expected
        assert found["bytes_received",] > 40
        assert found["retain_memory",] > 300
        assert found["vm_memory_total",] > 10_000_000
        assert 0 < found["disk_free_bytes",] <= found["disk_size_bytes",]
        assert harness.context.metrics.histograms()["store_commit_seconds"].cumulated[-1] > 0

    run_with_server(tmp_path, test)


def test_every_series_is_unique_grouped_and_described(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await (await harness.client("a", 5)).leave()
        await (await harness.client("a", 4)).leave()
        harness.server.node.env.counters.drop("queue_full")
        rows = harness.context.metrics.rows()
        keys = [(row.name, row.labels) for row in rows]
        assert len(set(keys)) == len(keys)
        names = [row.name for row in rows]
        changes = sum(first != second for first, second in pairwise(names))
        assert changes == len(set(names)) - 1
        assert [row.name for row in rows if not described(row.name)[1] or described(row.name)[0] != row.type] == []

    run_with_server(tmp_path, test)


def test_a_reset_affects_counters_but_not_gauges_and_totals(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("a")
        await client.publish("a", b"x", retain=True)
        before = harness.context.metrics.totals()
        harness.context.metrics.reset()
        totals = harness.context.metrics.totals()
        assert (totals["mqtt_publish_received"], totals["retain_messages"]) == (0, 1)
        # the process goes on
        assert totals["system_wallclock"] >= before["system_wallclock"]
        assert totals["system_runtime"] >= before["system_runtime"] > 0
        assert sum(harness.server.node.env.counters.publish_received) == 1
        await client.publish("a", b"y")
        assert harness.context.metrics.totals()["mqtt_publish_received"] == 1
        harness.context.metrics.reset()
        assert harness.context.metrics.totals()["mqtt_publish_received"] == 0

    run_with_server(tmp_path, test)


def test_systree_has_all_metrics_since_the_start(tmp_path: Path) -> None:
    """It publishes the names of `metrics show`, labels added up. A reset does not change its values."""

    async def test(harness: ServerHarness) -> None:
        names = [name.replace("_", "/") for name in harness.context.metrics.totals()]
        client = await harness.client("a")
        await harness.client("b", 5)
        await client.subscribe(("$SYS/#", 0))
        harness.context.metrics.reset()
        harness.server.systree.publish()
        messages = [await client.packet() for _ in names]
        found = {each.topic.removeprefix("$SYS/VerneMQ@127.0.0.1/"): int(each.payload) for each in messages}
        assert list(found) == names
        assert (found["mqtt/connect/received"], found["router/subscriptions"]) == (2, 1)
        assert min(found[name] for name in ("bytes/received", "vm/memory/total", "system/wallclock")) > 0

    run_with_server(tmp_path, test)


def test_the_age_of_the_node_does_not_follow_the_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a counter: one that goes back counts as a restart."""

    async def test(harness: ServerHarness) -> None:
        earlier = time.time() - 3600
        monkeypatch.setattr("time.time", lambda: earlier)
        assert 0 <= values(harness)["system_wallclock",] < 600_000

    run_with_server(tmp_path, test)


async def _two_boots(tmp_path: Path) -> None:
    async with running_server(tmp_path) as harness:
        client = await harness.client("kept", clean=False)
        await client.subscribe(("a", 1), ("b", 1))
        await client.publish("r", b"x", retain=True)
    async with running_server(tmp_path) as harness:
        totals = harness.context.metrics.totals()
        assert totals["mqtt_publish_received"] == totals["mqtt_connect_received"] == totals["socket_open"] == 0
        assert totals["queue_initialized_from_storage"] == 1
        assert (totals["retain_messages"], totals["router_subscriptions"], totals["queue_processes"]) == (1, 2, 1)
        assert totals["total_active_connections"] == 0


def test_after_a_restart_counters_begin_again_and_gauges_are_right(tmp_path: Path) -> None:
    asyncio.run(_two_boots(tmp_path))


def test_the_state_of_the_store(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        store = harness.server.node.env.store
        names = ("store_full", "store_failed", "store_damaged")

        def gauges() -> list[int]:
            return [values(harness)[name,] for name in names]

        fake = FakeOperatorPort()
        for own, log_disk, damage, expected in (
            ("serving", "serving", "", [0, 0, 0]),
            ("full", "serving", "", [1, 0, 0]),
            ("serving", "full", "", [1, 0, 0]),
            ("failed", "full", "", [1, 1, 0]),
            ("serving", "failed", "table 7", [0, 1, 1]),
        ):
            harness.server.cluster = fake  # type: ignore[assignment]
            fake.sees(log_disk=log_disk)
            store.state, store.damage = own, damage
            assert gauges() == expected
        store.state, store.damage, harness.server.cluster = "serving", "", None
        session = await harness.client("kept", clean=False)
        await session.publish("a", b"x", retain=True)
        await harness.until(lambda: values(harness)["store_waiting_bytes",] == 0)
        store.put(b"k", b"value")
        assert values(harness)["store_waiting_bytes",] == 6

    run_with_server(tmp_path, test)


def test_what_the_cluster_owes_to_members_and_who_leads(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.nodes = [row(THIS_NODE, waiting_bytes=9), row("b", waiting_bytes=4096), row("c", state="absent")]
        found = values(harness)
        owed = {key[1]: value for key, value in found.items() if key[0] == "cluster_waiting_bytes"}
        assert owed == {"b": 4096, "c": 0}
        assert found["cluster_leader",] == 0
        fake.sees(leader=THIS_NODE)
        assert values(harness)["cluster_leader",] == 1
        harness.server.cluster = None

    run_with_server(tmp_path, test)


def test_the_cluster(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        names = ("members", "serving", "view_id", "leased", "whole")

        def gauges() -> list[int]:
            return [values(harness)[f"cluster_{name}",] for name in names]

        assert gauges() == [1, 1, 0, 1, 1]
        slots = ("slots_primary", "slots_without_primary", "slots_copied", "slots_without_copy", "slots_moving")
        assert [values(harness)[name,] for name in slots] == [256, 0, 0, 0, 0]
        harness.server.node.slot_sessions.mark(17, LEAVING)
        harness.server.node.slot_sessions.mark(200, ARRIVED)  # a copy: its primary is b
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        assert gauges() == [3, 2, 7, 1, 0]
        assert [values(harness)[name,] for name in slots] == [99, 2, 155, 0, 1]
        harness.server.node.options.queue_replicas = 3
        assert values(harness)["slots_without_copy",] == 99
        harness.server.node.policy.set_few_copies(frozenset((3, 4, 5)))
        assert values(harness)["slots_below_minimum",] == 3
        fake.sees(sees="minority", view_id=8)
        assert gauges() == [3, 2, 8, 0, 0]
        fake.sees(sees="whole", serving=3)
        assert gauges() == [3, 3, 8, 1, 1]
        found = values(harness)
        assert (found["cluster_bytes_sent",], found["cluster_bytes_received",], found["netsplit_detected",]) == (
            10,
            0,
            1,
        )
        harness.context.metrics.reset()
        fake.counters["netsplit_detected"] = 3
        assert values(harness)["netsplit_detected",] == 2

    run_with_server(tmp_path, test)
