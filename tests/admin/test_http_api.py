"""The management API: VerneMQ's paths, status objects and status codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from strogoff.admin import wire
from strogoff.admin.http_api import command_line

from .fake_operator_port import FakeOperatorPort
from .server_harness import ServerHarness, run_with_server

HTTP = {"listener__http__default": "127.0.0.1:0", "http_module__vmq_http_mgmt_api__auth__mode": "noauth"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("session/show?--client_id&--limit=10", ["session", "show", "--client_id", "--limit=10"]),
        ("session/show?--limit=", ["session", "show", "--limit="]),
        ("session/disconnect?--mountpoint=&client-id=x", ["session", "disconnect", "--mountpoint=", "client-id=x"]),
        ("session/disconnect?-m=&--cleanup=", ["session", "disconnect", "-m=", "--cleanup"]),
        ("session/disconnect?client-id=a%20b%26c&-c", ["session", "disconnect", "client-id=a b&c", "-c"]),
        ("session/unsubscribe?client-id=x&topic=a/%23", ["session", "unsubscribe", "client-id=x", "topic=a/#"]),
        ("set?allow_anonymous=on", ["set", "allow_anonymous=on"]),
        ("show/nodename", ["show", "nodename"]),
        ("cluster", ["cluster", "show"]),
        ("sessions?--user", ["session", "show", "--user"]),
        ("listeners/", ["listener", "show"]),
        ("plugins", ["plugin", "show"]),
        ("", []),
    ],
)
def test_from_path_to_words(path: str, words: list[str]) -> None:
    url = URL(f"http://x/{path}")
    assert command_line(url.path, url.query) == words


def test_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ROWS", 7)

    async def test(harness: ServerHarness) -> None:
        async def get(path: str, method: str = "GET") -> tuple[int, Any]:
            status, text = await harness.get(f"/api/v1/{path}", method=method)
            return status, json.loads(text) if text else None

        client = await harness.client("a b", clean=False)
        name = harness.context.node.name
        assert await get("cluster/show") == (200, {"type": "table", "table": [{"Node": name, "Running": True}]})
        assert await get("session/show?--client_id") == (200, {"type": "table", "table": [{"client_id": "a b"}]})
        status, said = await get("metrics/show")
        assert (status, said["type"]) == (200, "table") and len(said["table"]) > 100
        assert await get("sessions?--client_id=none") == (200, {"type": "table", "table": []})
        path = "session/disconnect?client-id=a%20b&--mountpoint=&--cleanup"
        assert await get(path) == (200, {"type": "text", "text": "Done"})
        assert await client.packet() is None
        assert await get("cluster/show", "HEAD") == (200, None)
        status, said = await get("sesion/show")
        assert status == 400 and said["type"] == "alert"
        assert said["alert"][0]["text"].startswith("Unknown command: sesion show. Did you mean session show?")
        assert (await get("session/disconnect?client-id=x"))[0] == 400
        assert (await get(""))[0] == 400
        assert "info vmq-admin session show --client_id, from 127.0.0.1" in harness.lines
        harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        status, said = await get("cluster/leave?node=b@127.0.0.1&-k")
        assert (status, said) == (200, [{"type": "text", "text": text} for text in ("10 sessions to go", "Done")])

    run_with_server(tmp_path, test, **HTTP)


def test_a_node_that_fails(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        listeners = harness.server.listeners
        del harness.server.listeners
        assert (await harness.get("/api/v1/listeners"))[0] == 500
        harness.server.listeners = listeners

    run_with_server(tmp_path, test, **HTTP)


def test_cors_preflight_requests_are_answered(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.options(f"{harness.url}/api/v1/cluster/show") as response,
        ):
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Origin"] == "*"
            assert response.headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS"
        assert (await harness.get("/api/v1/cluster/show"))[0] == 401

    run_with_server(tmp_path, test, listener__http__default="127.0.0.1:0")


def test_a_listener_without_the_module_has_none_of_it(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/api/v1/cluster/show"))[0] == 404
        assert (await harness.get("/api/v1", method="POST"))[0] == 404

    run_with_server(tmp_path, test, listener__http__default__http_modules="[vmq_health_http]", **HTTP)


@pytest.mark.parametrize("body", [b"", b"{", b'{"words": 1}'])
def test_malformed_command_lines(tmp_path: Path, body: bytes) -> None:
    async def test(harness: ServerHarness) -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{harness.url}/api/v1", data=body) as response:
            assert (response.status, response.content_type) == (400, "text/plain")

    run_with_server(tmp_path, test, **HTTP)


def test_a_connection_brings_one_command_line(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{harness.url}/api/v1", data=b'{"words":["cluster","show"]}') as response,
        ):
            assert response.headers["Connection"] == "close"
            assert (await response.text()).endswith('{"kind":"end"}\n')

    run_with_server(tmp_path, test, **HTTP)
