"""kill -9 under load: the event log has every row of what a client has seen, and no row is missing in between."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strogoff.testing import BrokerProcess, Client
from strogoff.testing.client_errors import ConnectionLost
from strogoff.testing.log_audit.log_files import read_log

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(200)]

KILLS = 10
ACKED_EACH = 150
PUBLISHERS = 20
CONF = {"eventlog.level": "message", "eventlog.rotation.size": "200KB", "max_offline_messages": "-1"}


async def load(broker: BrokerProcess, numbers: count[int], acked: set[str], delivered: set[str]) -> None:
    """Publish and receive until so many messages are acknowledged, then kill the broker."""
    goal = len(acked) + ACKED_EACH
    enough = asyncio.Event()
    rx = Client("rx", port=broker.port, clean_start=False)
    await rx.connect()
    await rx.subscribe("t/#", qos=1)

    async def publish(tx: Client) -> None:
        while True:
            topic = f"t/{next(numbers)}"
            await tx.publish(topic, "x", qos=1)
            acked.add(topic)
            if len(acked) >= goal:
                enough.set()

    clients = [Client(f"tx{number}", port=broker.port) for number in range(PUBLISHERS)]
    for client in clients:
        await client.connect()
    tasks = [asyncio.create_task(publish(tx)) for tx in clients]
    async with asyncio.timeout(60):
        await enough.wait()
    broker.kill()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each) for each in ended} == {ConnectionLost}, ended
    delivered.update(message.topic for message in rx.received)
    for client in (*clients, rx):
        client.abort()


def rows_of(directory: Path) -> list[dict[str, Any]]:
    rows, _ = read_log(directory)
    return sorted(rows, key=lambda row: (row["boot"], row["seq"]))


def test_the_log_has_all_that_clients_saw_before_a_kill(tmp_path: Path) -> None:
    acked: set[str] = set()
    delivered: set[str] = set()
    numbers = count()
    with BrokerProcess(CONF, tmp_path) as broker:
        for _ in range(KILLS):
            asyncio.run(load(broker, numbers, acked, delivered))
            broker.start()
    rows = rows_of(tmp_path)
    for boot in range(1, KILLS + 2):
        numbers_there = [row["seq"] for row in rows if row["boot"] == boot]
        assert numbers_there == list(range(1, len(numbers_there) + 1)), f"boot {boot}"
        for after in (row for row in rows if (row["boot"], row["seq"]) == (boot + 1, 1)):
            assert (after["known_seq"], after["tail_lost"]) == (len(numbers_there), False)
    mids = {row["topic"]: tuple(row["mid"]) for row in rows if row["type"] == "pub.recv"}
    answered = {tuple(row["mid"]) for row in rows if row["type"] == "pub.ack"}
    sent = {tuple(row["mid"]) for row in rows if row["type"] == "dlv.send"}
    assert len(acked) >= KILLS * ACKED_EACH and len(delivered) > KILLS
    assert [topic for topic in sorted(acked) if mids.get(topic) not in answered] == []
    assert [topic for topic in sorted(delivered) if mids.get(topic) not in sent] == []
