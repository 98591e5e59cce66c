"""All views of the log of a real cluster, whose clients know what they did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.testing.client_errors import MqttRefused
from strogoff.testing.cluster import Cluster

from ...testing.run_loop import run
from .story import SPARK, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK

CONF = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe", "unsubscribe")}
LATE = 4
ROOM = 1
"""So many messages the queue of an absent client keeps."""


async def play(directory: Path) -> None:
    """Nine messages of one client to one subscriber; four of them also to an absent one, whose queue has room for one.
    Then a takeover, a reconnect, and a cut with a client that is refused."""
    async with Cluster(3, {**CONF, "max_offline_messages": ROOM, "queue_replicas": 1}, pace=2) as c:
        rx = await c.client("rx", node=1, clean_start=False)
        await rx.subscribe("t/#", qos=1)
        late = await c.client("late", node=2, clean_start=False)
        await late.subscribe("t/late", qos=1)
        await late.disconnect()
        tx = await c.client("tx", node=0)
        for number in range(9):
            await tx.publish("t/late" if number < LATE else "t/now", "12345", qos=1)
        for _ in range(9):
            await rx.message()
        await rx.reconnect(node=1)
        await c.client("tx", node=0)
        await c.partition({0}, {1, 2})
        await c.sees(0, "minority")
        await c.sees({1, 2}, "majority")
        with pytest.raises(MqttRefused):
            await c.client("nobody", node=0)
        await c.heal()
        await c.whole()
        await c.settled()
    c.write_log(directory)


def test_the_views_say_what_the_clients_did(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.sources import open_tables
    from strogoff.analytics.views.registry import view_of

    run(play(tmp_path / "log"))
    tables = open_tables(spark, tmp_path / "log", tmp_path / "out")
    events = tables.events.persist()

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return shown(view_of(name).make(events), *columns)

    topics = rows("topics", "topic", "publishes", "bytes", "deliveries", "publishers", "subscribers")
    assert topics == [("t/now", 5, 25, 5, 1, 1), ("t/late", 4, 20, 4, 1, 1)]
    hops: Counter[str] = Counter()
    for hop, count, longest in rows("latency", "hop", "count", "max_ms"):
        hops[hop.removesuffix("-local").removesuffix("-remote")] += count
        assert 0 <= longest < 20_000
    assert hops == {
        "received-acknowledged": 9,
        "received-routed": 9,
        "routed-enqueued": 9 + ROOM,
        "enqueued-durable": 9 + ROOM,
        "enqueued-sent": 9,
        "sent-acknowledged": 9,
        "received-sent": 9,
    }
    assert rows("queues", "client", "entered", "left", "depth", "most") == [
        ("late", ROOM, 0, ROOM, ROOM),
        ("rx", 9, 9, 0, 0),
    ]
    dropped = LATE - ROOM
    found = rows("drops", "reason", "q_drop", "rows", "unconfirmed", "counted", "difference")
    assert found == [("queue_full", dropped, dropped, 0, dropped, 0)]
    clients = rows("sessions", "client", "connects", "session_present", "takeovers", "closes", "flapping")
    assert sorted(row[:4] for row in clients) == [("late", 1, 0, 0), ("rx", 2, 1, 0), ("tx", 2, 0, 1)]
    assert all(not row[5] and sum(row[4].values()) == row[1] for row in clients)
    assert rows("storms") == []
    # the nodes stop one after the other: that is another incident, which does not heal
    splits = [row for row in rows("netsplits", "node", "state", "refused", "denied", "healed", "converged") if row[4]]
    assert sorted(splits, key=lambda row: row[0])[0][:4] == (
        *("node0@127.0.0.1", "minority", 1),
        {"register allow_register_during_netsplit=majority": 1},
    )
    others: list[tuple[Any, ...]] = [(f"node{number}@127.0.0.1", "majority", 0, {}) for number in (1, 2)]
    assert sorted((row[:4] for row in splits), key=lambda row: row[0])[1:] == others
    assert {row[5] for row in splits} == {max(row[4] for row in splits)}
    # what waits for the absent client is in the memory of one machine, and acknowledged
    left = {node: number for node, risk, number in rows("exposure", "node", "risk", "left") if risk == "alone"}
    assert sum(left.values()) == ROOM
    events.unpersist()
