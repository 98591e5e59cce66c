"""The rows of `session show`: every column, and bounded time per turn with many sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from strogoff.admin.columns import Query
from strogoff.admin.grammar import Call
from strogoff.admin.session_rows import DEFAULT, FIELDS, rows
from strogoff.broker.sessions.session import Session
from strogoff.cluster.identity import slot_of

from .server_harness import ServerHarness, run_with_server

LONGEST_PART = 0.1


async def found(harness: ServerHarness, *flags: tuple[str, Any]) -> list[dict[str, Any]]:
    query = Query(Call({}, list(flags), []), DEFAULT)
    return [dict(zip(query.columns, query.cells(row), strict=True)) async for row in rows(harness.context, query)]


def test_every_column(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        kept = await harness.client("kept", 5, False, username="ann")
        await kept.subscribe(("a", 1))
        await kept.leave()
        clean = await harness.client("clean", username="bob")
        await clean.publish("a", b"x\xff")
        columns = [(name, None) for name in FIELDS]
        (offline,) = await found(harness, ("client_id", "kept"), *columns)
        assert offline.pop("msg_ref").startswith("VerneMQ@127.0.0.1/1/")
        assert offline == {
            "node": "VerneMQ@127.0.0.1",
            "mountpoint": "",
            "client_id": "kept",
            "user": "ann",
            "peer_host": None,
            "peer_port": None,
            "protocol": 5,
            "is_online": False,
            "is_offline": True,
            "statename": "offline",
            "num_sessions": 0,
            "clean_session": False,
            "waiting_acks": 0,
            "gateway": None,
            "slot": 7,
            "queue_size": 1,
            "online_messages": 0,
            "offline_messages": 1,
            "topic": "a",
            "qos": 1,
            "rap": False,
            "no_local": False,
            "msg_qos": 1,
            "routing_key": "a",
            "dup": False,
            "payload": "x\\xff",
        }
        (online,) = await found(
            harness, ("client_id", "clean"), *[(name, None) for name in (*FIELDS[:15], "queue_size")]
        )
        assert online["peer_host"] == "127.0.0.1" and online["peer_port"] == clean.port
        assert online["gateway"] == "VerneMQ@127.0.0.1" and online["slot"] == slot_of("", "clean")
        assert (online["statename"], online["clean_session"], online["user"]) == ("online", True, "bob")

    run_with_server(tmp_path, test)


def test_a_row_for_each_subscription_and_none_for_those_without(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        first = await harness.client("first")
        await first.subscribe(("a", 0), ("$share/g/b/#", 1))
        await harness.client("second")
        assert await found(harness, ("client_id", None), ("topic", None)) == [
            {"client_id": "first", "topic": "a"},
            {"client_id": "first", "topic": "$share/g/b/#"},
        ]
        assert await found(harness, ("client_id", None), ("topic", "~b")) == [
            {"client_id": "first", "topic": "$share/g/b/#"}
        ]
        assert [row["client_id"] for row in await found(harness)] == ["first", "second"]

    run_with_server(tmp_path, test)


def test_many_sessions_do_not_block_the_loop(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        node = harness.server.node
        for number in range(20_000):
            session = Session(node.sessions._parts, "", f"c{number}", number, False, False)
            node.sessions._sessions[session.key] = session  # thousands of clients would take minutes
        loop = asyncio.get_running_loop()
        last, pauses = loop.time(), []

        def tick() -> None:
            nonlocal last
            now = loop.time()
            pauses.append(now - last)
            last = now
            loop.call_soon(tick)

        tick()
        assert len(await found(harness, ("client_id", None), ("queue_size", None))) == 20_000
        # as shares of the total, not in seconds: a busy machine makes all of them longer
        assert sorted(pauses)[-5] < sum(pauses) * LONGEST_PART

    run_with_server(tmp_path, test)
