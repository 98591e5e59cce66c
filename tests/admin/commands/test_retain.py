"""`retain`: showing and deleting retained messages."""

from __future__ import annotations

from pathlib import Path

import msgspec

from strogoff.broker.routing.ack_context import AckContext

from ..server_harness import ServerHarness, run_with_server


async def publish(harness: ServerHarness) -> None:
    client = await harness.client("p", 5)
    await client.publish("a/1", b"one", retain=True)
    await client.publish("a/2", b"t\xffo", retain=True)
    await client.publish("b", b"three", retain=True, message_expiry_interval=1000)


def test_show(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await publish(harness)
        assert (await harness.good("retain", "show")).out == (
            "+-------+-----+\n"
            "|payload|topic|\n"
            "+-------+-----+\n"
            "|  one  | a/1 |\n"
            "|t\\xffo | a/2 |\n"
            "| three |  b  |\n"
            "+-------+-----+\n"
        )
        show = ("retain", "show", "--format=json")
        assert (await harness.good(*show, "--topic", "--limit=2")).table == [{"topic": "a/1"}, {"topic": "a/2"}]
        answer = await harness.admin("retain", "show", "--limit=2")
        assert (answer.status, answer.err) == (0, "There are more rows than --limit=2 shows: --limit=20 shows more.\n")
        await harness.good("retain", "show", "--limit=3")  # without a remark
        assert (await harness.good(*show, "--payload=one", "--mountpoint")).table == [
            {"payload": "one", "mountpoint": ""}
        ]
        assert (await harness.good(*show, "--limit=0")).table == []

    run_with_server(tmp_path, test)


def test_delete(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await publish(harness)
        assert (await harness.good("retain", "delete", "-t", "a/1")).out == "Done\n"
        answer = await harness.admin("retain", "delete", "--topic=a/1")
        assert (answer.status, answer.err) == (1, "There is no retained message on a/1.\n")
        assert (await harness.admin("retain", "delete", "-t", "b", "-m", "x")).status == 1
        assert (await harness.admin("retain", "delete")).err == "--topic=TOPIC must be given.\n"
        assert harness.server.node.retained.count == 2

    run_with_server(tmp_path, test)


def test_delete_expired(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await publish(harness)
        assert (await harness.good("retain", "delete-expired", "--format=json")).table == [{"expired": 0}]
        message = harness.server.node.retained.table("").get("b", 0)
        assert message is not None
        # as if its time had come: the clock of a test does not jump
        harness.server.node.retained.retain(msgspec.structs.replace(message, expires_at=1), AckContext())
        assert (await harness.good("retain", "show", "--topic", "--format=json")).table == [
            {"topic": "a/1"},
            {"topic": "a/2"},
        ]
        assert (
            await harness.good("retain", "delete-expired")
        ).out == "+-------+\n|expired|\n+-------+\n|   1   |\n+-------+\n"
        assert harness.server.node.retained.count == 2

    run_with_server(tmp_path, test)
