"""The pages of HTTP listeners."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from strogoff import __version__
from strogoff.admin import recent_answer
from strogoff.admin.fan_out import ASKED_BY, NodeResult, RemoteCommand, answer_peers
from strogoff.admin.http_pages import LOCAL_HANDLERS

from .fake_operator_port import INCIDENTS, FakeOperatorPort, row
from .server_harness import ServerHarness, run_with_server

HTTP = {"listener__http__default": "127.0.0.1:0"}
NODE = "VerneMQ@127.0.0.1"


def test_metrics(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await (await harness.client("a", 5)).leave()
        status, text = await harness.get("/metrics")
        assert status == 200
        families = list(text_string_to_metric_families(text))
        samples = [sample for family in families for sample in family.samples]
        assert {sample.labels["node"] for sample in samples} == {NODE}
        found = {(s.name.removesuffix("_total"), s.labels.get("mqtt_version", "")): s.value for s in samples}
        assert found["vernemq_mqtt_connect_received", "5"] == 1
        assert found["vernemq_queue_processes", ""] == 0
        assert "process_open_fds" in {family.name for family in families}
        assert len({family.name for family in families}) == len(families)
        assert text.count("# TYPE vernemq_mqtt_connack_sent counter") == 1

    run_with_server(tmp_path, test, **HTTP)


def test_the_prefix_is_a_setting(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        _, text = await harness.get("/metrics")
        assert "\nmqtt_connect_received{" in text and "vernemq_" not in text

    run_with_server(tmp_path, test, prometheus_namespace="", **HTTP)


def test_health_names_the_damage_and_the_remedy(tmp_path: Path) -> None:
    """The node still serves, so it stays in the load balancer; the answer names the remedy."""

    async def test(harness: ServerHarness) -> None:
        harness.server.node.env.store.damage = "messages/000005.ldb: a block is damaged. Run `strogoff repair`"
        status, text = await harness.get("/health")
        said = json.loads(text)
        assert (status, said["status"]) == (200, "DEGRADED")
        (reason,) = said["reasons"]
        assert "messages/000005.ldb" in reason and "strogoff repair" in reason

    run_with_server(tmp_path, test, **HTTP)


def test_health(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        ok = (200, {"status": "OK"})

        async def get(path: str) -> tuple[int, Any]:
            status, text = await harness.get(path)
            return status, json.loads(text)

        for path in ("/health", "/health/live", "/health/ready", "/health/ping", "/health/listeners"):
            assert await get(path) == ok
        port = harness.port
        await harness.good("listener", "stop", "address=127.0.0.1", f"port={port}")
        reason = f"listener mqtt 127.0.0.1:{port} is stopped"
        assert await get("/health") == (503, {"status": "DOWN", "reasons": [reason]})
        assert await get("/health/listeners") == (503, {"status": "DOWN", "reason": reason})
        assert await get("/health/ping") == ok
        await harness.good("listener", "restart", "address=127.0.0.1", f"port={port}")
        assert await get("/health") == ok
        harness.server.node.closing = True
        stopping = (503, {"status": "DOWN", "reasons": ["the node is stopping"]})
        assert await get("/health") == await get("/health/ready") == stopping
        assert await get("/health/live") == ok
        harness.server.node.closing = False
        store = harness.server.node.env.store
        store.state, store.detail = "failed", "EIO"
        failed = "the message store has failed, start the node again: EIO"
        assert await get("/health/live") == (503, {"status": "DOWN", "reasons": [failed]})
        store.state = "serving"

    run_with_server(tmp_path, test, **HTTP)


def test_status(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("a", clean=False)
        await client.subscribe(("x", 1))
        status, text = await harness.get("/status.json")
        assert status == 200
        ((name, found),) = json.loads(text)[0].items()
        assert name == NODE
        figures = {key: found[key] for key in ("num_online", "num_offline", "num_subscriptions", "version", "mystatus")}
        assert figures == {
            "num_online": 1,
            "num_offline": 0,
            "num_subscriptions": 1,
            "version": __version__,
            "mystatus": [{NODE: True}],
        }
        assert found["listeners"][0] == {
            "type": "mqtt",
            "status": "running",
            "ip": "127.0.0.1",
            "port": harness.port,
            "mountpoint": "",
            "max_conns": 10000,
        }
        assert [each["type"] for each in found["listeners"]] == ["mqtt", "http"]

    run_with_server(tmp_path, test, **HTTP)


def test_a_listener_serves_its_modules_only(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/health"))[0] == 200
        for path in ("/metrics", "/status.json", "/", "/api/v1/session/show"):
            assert (await harness.get(path))[0] == 404
        expected = "warning listener.http.default: this version has no HTTP module vmq_web_ui"
        assert expected in harness.lines

    run_with_server(tmp_path, test, listener__http__default__http_modules="[vmq_health_http, vmq_web_ui]", **HTTP)


def test_the_modules_of_the_default_are_no_reason_to_warn(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert [line for line in harness.lines if "HTTP module" in line and not line.startswith("debug")] == []

    run_with_server(tmp_path, test, **HTTP)


def test_a_module_with_keys_refuses_requests_without_one(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/metrics"))[0] == 401
        assert (await harness.get("/health"))[0] == 200
        harness.context.api_keys.add("k", "metrics", None)
        assert (await harness.get("/metrics", "k"))[0] == 200

    run_with_server(tmp_path, test, http_module__vmq_metrics_http__auth__mode="apikey", **HTTP)


@pytest.mark.parametrize("module", ["vmq_health_http", "vmq_status_http"])
def test_the_mode_of_one_listener_counts_more(tmp_path: Path, module: str) -> None:
    async def test(harness: ServerHarness) -> None:
        for path in ("/health", "/health/ping", "/status.json"):
            closed = ("health" in path) == ("health" in module)
            assert (await harness.get(path))[0] == (401 if closed else 200)

    mode = {f"listener__http__default__http_module__{module}__auth__mode": "apikey"}
    run_with_server(tmp_path, test, **mode, **HTTP)


def test_a_module_that_is_named_twice_is_served_once(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/health"))[0] == 200

    run_with_server(tmp_path, test, listener__http__default__http_modules="[vmq_health_http, vmq_health_http]", **HTTP)


def test_the_other_nodes_are_asked_once_for_many_status_pages(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([("b@127.0.0.1", "{}")]))
        pages = await asyncio.gather(*(harness.get("/status.json") for _ in range(20)))
        assert {status for status, _ in pages} == {200} and len({text for _, text in pages}) == 1
        assert fake.asked == [("ask", "b@127.0.0.1")]

    run_with_server(tmp_path, test, **HTTP)


def test_pages_in_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_answer, "RECENT_S", 0.0)

    async def test(harness: ServerHarness) -> None:
        async def get(path: str) -> tuple[int, Any]:
            status, text = await harness.get(path)
            return status, json.loads(text)

        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        facts = {"sees": "majority", "members": 3, "serving": 2}
        assert await get("/health") == (200, {"status": "OK", "cluster": facts})
        for path in ("/health/ping", "/health/live", "/health/listeners"):
            assert await get(path) == (200, {"status": "OK"})
        down = {"status": "DOWN", "reasons": ["node c@127.0.0.1 does not run"], "cluster": facts}
        assert await get("/health/listeners_full_cluster") == (503, down)
        _, ((whole,),) = 0, (await get("/status.json"))[1:]
        assert whole[NODE]["cluster"]["leader"] == "b@127.0.0.1" and whole[NODE]["cluster"]["view_id"] == 7
        assert whole[NODE]["incidents"] == INCIDENTS
        assert whole[NODE]["mystatus"] == [{NODE: True, "b@127.0.0.1": True, "c@127.0.0.1": False}]
        assert list(whole) == [NODE]
        answer_peers(harness.context, LOCAL_HANDLERS)
        part = await fake.operate(msgspec.msgpack.encode(RemoteCommand("node status", {ASKED_BY: "b@127.0.0.1"}, [])))
        assert [line for line in harness.lines if "asked by" in line] == []  # monitoring would fill the log
        ((_, text),) = msgspec.msgpack.decode(part, type=NodeResult).rows
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([("b@127.0.0.1", text)]))
        _, ((whole,),) = 0, (await get("/status.json"))[1:]
        assert list(whole) == [NODE, "b@127.0.0.1"] and whole["b@127.0.0.1"] == whole[NODE]
        fake.nodes = [row(NODE, state="joining"), row("b@127.0.0.1")]
        assert (await get("/health"))[1]["reasons"] == ["the node is joining the cluster"]
        assert (await get("/health/ready"))[0] == 503 and (await get("/health/live"))[0] == 200

    run_with_server(tmp_path, test, **HTTP)
