"""`session`: showing, disconnecting, unsubscribing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.reasons import ReasonCode

from ..server_harness import ServerHarness, run_with_server


def test_show(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("reader", username="ann")
        await (await harness.client("gone", clean=False)).leave()
        port = str(client.port)
        assert (await harness.good("session", "show")).out == (
            "+---------+---------+----------+---------+---------+---------+\n"
            "|client_id|is_online|mountpoint|peer_host|peer_port|  user   |\n"
            "+---------+---------+----------+---------+---------+---------+\n"
            f"| reader  |  true   |          |127.0.0.1|{port:^9}|   ann   |\n"
            "|  gone   |  false  |          |undefined|undefined|undefined|\n"
            "+---------+---------+----------+---------+---------+---------+\n"
        )

    run_with_server(tmp_path, test)


def test_columns_filters_and_limit(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        for number in range(5):
            client = await harness.client(f"c{number}", 5 if number == 4 else 4)
            await client.subscribe((f"t/{number}", number % 3))
        show = ("session", "show", "--format=json")

        async def rows(*words: str) -> object:
            return (await harness.good(*show, *words)).table

        assert await rows("--client_id", "--topic=~[14]$", "--qos") == [
            {"client_id": "c1", "topic": "t/1", "qos": 1},
            {"client_id": "c4", "topic": "t/4", "qos": 1},
        ]
        assert await rows("--client_id", "--protocol=5") == [{"client_id": "c4", "protocol": 5}]
        assert await rows("--client_id=~^c", "--limit=2") == [{"client_id": "c0"}, {"client_id": "c1"}]
        assert await rows("--limit", "0") == []
        assert await rows("--rowtimeout=1", "--limit=1", "--client_id") == [{"client_id": "c0"}]
        assert await rows("--client_id=nobody") == []

    run_with_server(tmp_path, test)


def test_the_default_limit_is_100(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("c")
        for first in range(0, 150, 50):
            await client.subscribe(*[(f"t/{number}", 0) for number in range(first, first + 50)])
        more = "There are more rows than --limit=100 shows: --limit=1000 shows more."
        answer = await harness.good("session", "show", "--topic", "--format=json")
        assert len(answer.table) == 100 and answer.json[1]["alert"][0]["text"] == more
        answer = await harness.good("session", "show", "--topic", "--limit=150", "--format=json")
        assert len(answer.table) == 150 and len(answer.json) == 1

    run_with_server(tmp_path, test)


@pytest.mark.parametrize("version", [4, 5])
def test_disconnect(tmp_path: Path, version: int) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("c", version, False)
        assert (await harness.good("session", "disconnect", "client-id=c")).out == "Done\n"
        if version == 5:
            assert await client.packet() == packets.Disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
        assert await client.packet() is None
        (row,) = (await harness.good("session", "show", "--format=json")).table
        assert (row["client_id"], row["is_online"]) == ("c", False)
        await harness.good("session", "disconnect", "client-id=c", "--cleanup")
        assert (await harness.good("session", "show")).out == ""
        answer = await harness.admin("session", "disconnect", "client-id=c", "-c")
        assert (answer.status, answer.out, answer.err) == (1, "", "There is no session of c.\n")

    run_with_server(tmp_path, test)


def test_disconnect_at_a_mountpoint(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("c")
        answer = await harness.admin("session", "disconnect", "client-id=c")
        assert answer.err == "There is no session of c.\n"
        await harness.good("session", "disconnect", "client-id=c", "-m", "factory")
        answer = await harness.admin("session", "disconnect", "client-id=c", "-m", "factory")
        assert answer.err == "There is no session of c at mountpoint factory.\n"

    run_with_server(tmp_path, test, listener__tcp__default__mountpoint="factory")


def test_disconnect_several(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        clients = [await harness.client(name) for name in "abc"]
        answer = await harness.admin("session", "disconnect", "clients", "client-ids=a,x,b")
        assert (answer.status, answer.err) == (1, "There is no session of x.\n")
        for nobody in ("client-ids=", "client-ids=,"):
            answer = await harness.admin("session", "disconnect", "clients", nobody)
            assert (answer.status, answer.err) == (1, "client-ids= names no client.\n")
        assert [await client.packet() for client in clients[:2]] == [None, None]
        assert [row["client_id"] for row in (await harness.good("session", "show", "--format=json")).table] == ["c"]

    run_with_server(tmp_path, test)


def test_unsubscribe(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("c", clean=False)
        await client.subscribe(("a/#", 1), ("b", 1))
        unsubscribe = ("session", "unsubscribe", "client-id=c")
        assert (await harness.good(*unsubscribe, "topic=a/#")).out == "Done\n"
        answer = await harness.admin(*unsubscribe, "topic=a/#")
        assert (answer.status, answer.err) == (1, "c has no subscription to a/#.\n")
        answer = await harness.admin("session", "unsubscribe", "client-id=x", "topic=b")
        assert answer.err == "There is no session of x.\n"
        assert (await harness.good("session", "show", "--topic", "--format=json")).table == [{"topic": "b"}]

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    "words", [("disconnect", "client-id=c", "--cleanup"), ("unsubscribe", "client-id=c", "topic=b")]
)
def test_done_is_said_when_every_copy_has_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Otherwise the node could die behind its answer, and the other copy would have the session as it was."""

    async def test(harness: ServerHarness) -> None:
        await (await harness.client("c", clean=False)).subscribe(("b", 1))
        store, waiting = harness.server.store, asyncio.Queue[Callable[[], None]]()
        monkeypatch.setattr(type(store), "when_all_safe", lambda _, safe: waiting.put_nowait(safe))
        command = asyncio.ensure_future(harness.admin("session", *words))
        safe = await asyncio.wait_for(waiting.get(), 10)
        await asyncio.wait_for(asyncio.shield(harness.good("node", "status")), 10)
        assert not command.done()
        safe()
        assert (await asyncio.wait_for(command, 10)).out == "Done\n"
        monkeypatch.undo()

    run_with_server(tmp_path, test)
