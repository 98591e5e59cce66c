"""The metrics of a node that has had clients, after a reset and after a restart."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

from strogoff.admin.metric_names import described

from .house import House, in_house, open_house
from .office import Office


def values(house: House) -> dict[tuple[str, ...], int]:
    rows = house.context.metrics.rows()
    return {(row.name, *(value for _, value in row.labels)): row.value for row in rows}


def test_what_clients_did_is_counted(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        old = await house.client("old")
        new = await house.client("new", 5, False)
        await old.subscribe(("a", 0))
        await new.publish("a", b"x", retain=True)
        await new.leave()
        await house.until(lambda: house.server.listeners.active() == 1)
        found = values(house)
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
        }
        assert {key: found[key] for key in expected} == expected
        assert found["bytes_received",] > 40
        assert found["retain_memory",] > 300
        assert found["vm_memory_total",] > 10_000_000

    in_house(tmp_path, test)


def test_every_series_is_there_once_with_those_of_its_metric_and_has_a_meaning(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await (await house.client("a", 5)).leave()
        await (await house.client("a", 4)).leave()
        house.server.node.counters.drop("queue_full")
        rows = house.context.metrics.rows()
        keys = [(row.name, row.labels) for row in rows]
        assert len(set(keys)) == len(keys)
        names = [row.name for row in rows]
        changes = sum(first != second for first, second in pairwise(names))
        assert changes == len(set(names)) - 1
        assert [row.name for row in rows if not described(row.name)[1] or described(row.name)[0] != row.type] == []

    in_house(tmp_path, test)


def test_a_reset_counts_from_zero_and_leaves_gauges_and_totals_alone(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        client = await house.client("a")
        await client.publish("a", b"x", retain=True)
        house.context.metrics.reset()
        totals = house.context.metrics.totals()
        assert (totals["mqtt_publish_received"], totals["retain_messages"]) == (0, 1)
        assert sum(house.server.node.counters.publish_received) == 1
        await client.publish("a", b"y")
        assert house.context.metrics.totals()["mqtt_publish_received"] == 1
        house.context.metrics.reset()
        assert house.context.metrics.totals()["mqtt_publish_received"] == 0

    in_house(tmp_path, test)


async def _two_boots(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        client = await house.client("kept", clean=False)
        await client.subscribe(("a", 1), ("b", 1))
        await client.publish("r", b"x", retain=True)
    async with open_house(tmp_path) as house:
        totals = house.context.metrics.totals()
        assert totals["mqtt_publish_received"] == totals["mqtt_connect_received"] == totals["socket_open"] == 0
        assert totals["queue_initialized_from_storage"] == 1
        assert (totals["retain_messages"], totals["router_subscriptions"], totals["queue_processes"]) == (1, 2, 1)
        assert totals["total_active_connections"] == 0


def test_after_a_restart_counters_begin_again_and_gauges_are_right(tmp_path: Path) -> None:
    asyncio.run(_two_boots(tmp_path))


def test_the_cluster(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        names = ("members", "serving", "view_id", "leased", "whole")

        def gauges() -> list[int]:
            return [values(house)[f"cluster_{name}",] for name in names]

        assert gauges() == [1, 1, 0, 1, 1]
        office = house.server.cluster = Office()  # type: ignore[assignment]
        assert gauges() == [3, 2, 7, 1, 0]
        office.sees(sees="minority", view_id=8)
        assert gauges() == [3, 2, 8, 0, 0]
        office.sees(sees="whole", serving=3)
        assert gauges() == [3, 3, 8, 1, 1]
        found = values(house)
        assert (found["cluster_bytes_sent",], found["cluster_bytes_received",], found["netsplit_detected",]) == (
            10,
            0,
            1,
        )
        house.context.metrics.reset()
        office.counters["netsplit_detected"] = 3
        assert values(house)["netsplit_detected",] == 2

    in_house(tmp_path, test)
