"""`api-key`: created, added, shown, deleted, and kept over a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ..fake_operator_port import FakeOperatorPort
from ..server_harness import ServerHarness, run_with_server, running_server


def test_create_and_show(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        key = (await harness.good("api-key", "create")).out.strip()
        assert len(key) == 32 and key.isalnum()
        assert (
            await harness.good("api-key", "add", "key=mine", "scope=metrics", "expires=2999-01-02T03:04:05")
        ).out == ("Done\n")
        assert (await harness.good("api-key", "show", "--format=json")).table == [
            {"Key": "mine", "Scope": "metrics", "Expires (UTC)": "2999-01-02T03:04:05", "has expired": False},
            {"Key": key, "Scope": "mgmt", "Expires (UTC)": "never", "has expired": False},
        ]
        assert (await harness.good("api-key", "show", "scope=metrics")).out == (
            "+----+-------+-------------------+-----------+\n"
            "|Key | Scope |   Expires (UTC)   |has expired|\n"
            "+----+-------+-------------------+-----------+\n"
            "|mine|metrics|2999-01-02T03:04:05|   false   |\n"
            "+----+-------+-------------------+-----------+\n"
        )
        assert (await harness.good("api-key", "show", "scope=health")).out == ""

    run_with_server(tmp_path, test)


def test_a_key_that_not_all_nodes_have_yet_is_shown(tmp_path: Path) -> None:
    """It is valid. Without it the operator could neither use nor delete it."""

    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.slow = "not everyone has it"
        answer = await harness.admin("api-key", "create")
        assert (answer.status, answer.err) == (1, "not everyone has it\n")
        assert harness.context.api_keys.check(answer.out.strip(), "mgmt") == "ok"
        answer = await harness.admin("api-key", "create", "--format=json")
        key, alert = answer.json
        assert (answer.status, alert["type"]) == (1, "alert")
        assert harness.context.api_keys.check(key["text"], "mgmt") == "ok"

    run_with_server(tmp_path, test)


def test_keys_outlive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_server(tmp_path) as harness:
            await harness.good("api-key", "add", "key=mine")
            await harness.good("api-key", "add", "key=gone")
            await harness.good("api-key", "delete", "key=gone")
        async with running_server(tmp_path) as harness:
            assert [row.key for row in harness.context.api_keys.rows()] == ["mine"]
            assert harness.context.api_keys.check("mine", "mgmt") == "ok"

    asyncio.run(test())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "scope=all"], "scope=all: there are status, mgmt, metrics, health, api2, httppub.\n"),
        (["create", "expires=soon"], "expires=soon: yyyy-mm-ddThh:mm:ss is expected, in UTC.\n"),
        (["create", "expires=2999-01-01T00:00:00"], "expires=2999-01-01T00:00:00 is too late: max_apikey_expiry_days"),
        (["add", "key=abc"], "The key is too short: at least 40 characters are needed.\n"),
        (["add"], "key=... must be given.\n"),
        (["delete", "key=abc"], "There is no such key.\n"),
        (["delete", "key=abc", "scope=mgmt"], "There is no such key with the scope mgmt.\n"),
        (["show", "scope=x"], "scope=x: there are status"),
    ],
)
def test_impossible_requests_are_errors(tmp_path: Path, words: list[str], said: str) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("api-key", *words)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith(said)
        assert len((await harness.good("api-key", "create")).out.strip()) == 40

    run_with_server(tmp_path, test, min_apikey_length="40", max_apikey_expiry_days="30")
