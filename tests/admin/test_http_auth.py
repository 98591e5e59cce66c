"""API keys of HTTP modules: how to send one, and the answers to wrong ones."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from strogoff.broker.reporting.journal import BURST, PLAIN

from .server_harness import ServerHarness, run_with_server

HTTP = {"listener__http__default": "127.0.0.1:0"}
PAGE = "/api/v1/cluster/show"


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("user", ["k:", "k:whatever"])
def test_ways_to_give_a_key(tmp_path: Path, user: str) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("k", "mgmt", None)
        assert (await harness.get(PAGE, "k"))[0] == 200
        assert (await harness.get(PAGE, Authorization=basic(user)))[0] == 200

    run_with_server(tmp_path, test, **HTTP)


@pytest.mark.parametrize(
    ("headers", "reason", "said"),
    [
        ({}, "missing", "an API key is needed."),
        ({"Authorization": "Basic ???"}, "missing", "an API key is needed."),
        ({"Authorization": "Bearer k"}, "missing", "an API key is needed."),
        ({"Authorization": basic(":k")}, "missing", "an API key is needed."),
        ({"Authorization": basic("nobody:")}, "unknown", "this API key is unknown."),
        ({"x-api-key": "nobody"}, "unknown", "this API key is unknown."),
        ({"x-api-key": "ü"}, "unknown", "this API key is unknown."),
        ({"x-api-key": "old"}, "expired", "this API key has expired."),
        ({"x-api-key": "other"}, "scope", "this API key has another scope than mgmt."),
    ],
)
def test_wrong_keys_are_refused(tmp_path: Path, headers: dict[str, str], reason: str, said: str) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("k", "mgmt", None)
        harness.context.api_keys.add("other", "metrics", None)
        harness.server.store.put(b"nkey.mgmt.old", b"1000")
        status, text = await harness.get(PAGE, **headers)
        assert (status, json.loads(text)) == (401, {"reason": reason, "text": said})
        (line,) = [line for line in harness.lines if "API key" in line]
        assert line == f"info listener.http.default: {PAGE} refused: API key {reason} peer=127.0.0.1"

    run_with_server(tmp_path, test, **HTTP)


def test_strangers_hide_no_command(tmp_path: Path) -> None:
    """Requests without a key take up no other lines of the log, and commands are logged whatever else happens."""

    async def test(harness: ServerHarness) -> None:
        for _ in range(BURST + 3):
            assert (await harness.get(PAGE))[0] == 401
        assert sum("API key missing" in line for line in harness.lines) == BURST
        for number in range(PLAIN + 1):
            harness.server.log("info", f"line {number}")
        assert f"info line {PLAIN}" not in harness.lines
        await harness.good("api-key", "create")
        assert harness.lines[-1] == "info vmq-admin api-key create"

    run_with_server(tmp_path, test, **HTTP)


def test_a_path_is_one_line_of_the_log(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/api/v1/x%0D%1B[2Jforged"))[0] == 401
        (line,) = [line for line in harness.lines if "API key" in line]
        assert "/api/v1/x\\r\\x1b[2Jforged refused" in line

    run_with_server(tmp_path, test, **HTTP)


def test_no_key_is_needed_if_the_configuration_allows_it(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get(PAGE))[0] == 200

    run_with_server(tmp_path, test, http_module__vmq_http_mgmt_api__auth__mode="noauth", **HTTP)
