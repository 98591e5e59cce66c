"""`listener`: opening, stopping, showing listeners while clients are connected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trustme

from bench.broker_process import free_port

from ..server_harness import ServerHarness, both_loops, run_with_server


def at(port: int) -> tuple[str, str]:
    return "address=127.0.0.1", f"port={port}"


def test_show(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("c")
        mqtt, http = str(harness.port), str(harness.context.http.show()[0].port)
        assert (await harness.good("listener", "show")).out == (
            "+----+-------+---------+-----+----------+---------+------------+---------+\n"
            "|type|status | address |port |mountpoint|max_conns|active_conns|all_conns|\n"
            "+----+-------+---------+-----+----------+---------+------------+---------+\n"
            f"|mqtt|running|127.0.0.1|{mqtt:5}|          |   50    |     1      |    1    |\n"
            f"|http|running|127.0.0.1|{http:5}|          |infinity |     0      |    0    |\n"
            "+----+-------+---------+-----+----------+---------+------------+---------+\n"
        )
        first, second = (await harness.good("listener", "show", "--tls", "-m", "--format=json")).table
        assert first["allowed_protocol_versions"] == "3,4,5,131"
        assert (first["tls_version"], second["require_certificate"]) == ("tlsv1.2", False)

    run_with_server(
        tmp_path,
        test,
        listener__tcp__default__max_connections="50",
        listener__http__default="127.0.0.1:0",
        listener__http__default__max_connections="infinity",
    )


def test_start_with_a_flag_of_vernemq_without_effect(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.good("listener", "start", *at(0), "--nr_of_acceptors=10")
        assert len((await harness.good("listener", "show", "--format=json")).table) == 2

    run_with_server(tmp_path, test)


def test_show_has_the_listeners_for_other_nodes(tmp_path: Path) -> None:
    """`vmqs` has priority, but not without certificates."""

    async def test(harness: ServerHarness) -> None:
        assert harness.server.cluster is not None
        port = int(harness.server.cluster.rows()[0].address.rpartition(":")[2])
        rows = (await harness.good("listener", "show", "--tls", "--format=json")).table[1:]
        assert [(row["type"], row["status"], row["address"], row["port"]) for row in rows] == [
            ("vmq", "running", "127.0.0.1", port),
            ("vmqs", "not used", "127.0.0.1", 0),
        ]
        assert rows[0]["active_conns"] is None and rows[0]["max_conns"] == "infinity" and rows[0]["certfile"] == ""

    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    run_with_server(
        tmp_path,
        test,
        listener__vmq__default="127.0.0.1:0",
        listener__vmqs__default="127.0.0.1:0",
        listener__vmqs__default__certfile=str(tmp_path / "both.pem"),
        listener__vmqs__default__keyfile=str(tmp_path / "both.pem"),
    )


@both_loops
def test_stop_keeps_connections_unless_they_are_to_be_killed(tmp_path: Path, loop: str) -> None:
    async def test(harness: ServerHarness) -> None:
        port = harness.port
        first = await harness.client("first")
        assert (await harness.good("listener", "stop", *at(port))).out == "Done\n"
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await harness.client_at(port, "second")
        await first.subscribe(("a", 0))
        (row,) = (await harness.good("listener", "show", "--format=json")).table
        assert (row["status"], row["active_conns"]) == ("stopped", 1)
        await harness.good("listener", "restart", *at(port))
        second = await harness.client_at(port, "second")
        await harness.good("listener", "stop", *at(port), "--kill_sessions")
        assert (await first.packet(), await second.packet()) == (None, None)
        await harness.good("listener", "delete", *at(port))
        assert (await harness.good("listener", "show")).out == ""
        answer = await harness.admin("listener", "restart", *at(port))
        assert (answer.status, answer.err) == (1, f"there is no listener 127.0.0.1:{port}\n")

    run_with_server(tmp_path, test, loop)


def test_start(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        port = free_port()
        answer = await harness.good("listener", "start", *at(port), "--mountpoint=mp", "--max_connections", "7")
        assert answer.out == "Done\n"
        await harness.client_at(port, "there")
        (row,) = (await harness.good("session", "show", "--client_id=there", "--mountpoint", "--format=json")).table
        assert row == {"client_id": "there", "mountpoint": "mp"}
        rows = (await harness.good("listener", "show", "--format=json")).table
        assert (rows[1]["port"], rows[1]["max_conns"], rows[1]["mountpoint"]) == (port, 7, "mp")

    run_with_server(tmp_path, test)


def test_options_without_flags_are_as_configured(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.good("listener", "start", *at(free_port()), "--websocket")
        await harness.good("listener", "start", *at(free_port()))
        rows = (await harness.good("listener", "show", "--mqtt", "--format=json")).table
        assert [(row["type"], row["max_conns"]) for row in rows] == [("mqtt", 11), ("mqttws", 12), ("mqtt", 11)]
        assert rows[2]["allowed_protocol_versions"] == "4,5"

    run_with_server(
        tmp_path,
        test,
        listener__max_connections="11",
        listener__ws__max_connections="12",
        listener__tcp__allowed_protocol_versions="4,5",
    )


def test_an_http_listener_has_the_modules_of_all_listeners(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.good("listener", "start", *at(free_port()), "--http")
        assert (await harness.get("/health"))[0] == 200
        assert (await harness.get("/metrics"))[0] == 404

    run_with_server(tmp_path, test, http_modules="vmq_health_http")


@both_loops
def test_http_listeners_are_listeners_too(tmp_path: Path, loop: str) -> None:
    async def test(harness: ServerHarness) -> None:
        port = free_port()
        await harness.good("listener", "start", *at(port), "--http", "--http_modules=vmq_health_http")
        assert (await harness.get("/health"))[0] == 200
        assert (await harness.get("/metrics"))[0] == 404
        await harness.good("listener", "stop", *at(port))
        assert [row["status"] for row in (await harness.good("listener", "show", "--format=json")).table] == [
            "running",
            "stopped",
        ]
        await harness.good("listener", "restart", *at(port))
        assert (await harness.get("/health"))[0] == 200
        await harness.good("listener", "delete", *at(port))
        assert harness.context.http.show() == []

    run_with_server(tmp_path, test, loop)


def test_tls_and_ipv6(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("::1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")

    async def test(harness: ServerHarness) -> None:
        port = free_port()
        words = ("address=::1", f"port={port}")
        files = (f"--certfile={tmp_path}/cert.pem", f"--keyfile={tmp_path}/key.pem")
        await harness.good("listener", "start", *words, "--ssl", *files, "--tls_version=tlsv1.2,tlsv1.3")
        row = (await harness.good("listener", "show", "--tls", "--format=json")).table[1]
        assert (row["type"], row["address"], row["tls_version"]) == ("mqtts", "::1", "tlsv1.2,tlsv1.3")
        await harness.good("listener", "stop", *words)
        await harness.good("listener", "delete", "address=[::1]", f"port={port}")

    run_with_server(tmp_path, test)


@both_loops
def test_a_unix_socket(tmp_path: Path, loop: str) -> None:
    path = tmp_path / "mqtt.sock"

    async def test(harness: ServerHarness) -> None:
        await harness.good("listener", "start", f"address=local:{path}", "port=0")
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        await harness.good("listener", "delete", f"address=local:{path}", "port=0")
        assert not path.exists()

    run_with_server(tmp_path, test, loop)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["address=localhost", "port=1"], "address: wrong value, expected IP:PORT"),
        (["address=127.0.0.1", "port=70000"], "address: wrong value, expected IP:PORT"),
        (["address=127.0.0.1", "port=x"], "port=: 'x' is invalid"),
        (["address=127.0.0.1", "port=0", "--ssl"], "certfile: a TLS listener needs a certificate"),
        (
            ["address=127.0.0.1", "port=0", "--ssl", "--certfile=/no", "--keyfile=/no"],
            "certfile: the file cannot be read",
        ),
        (
            ["address=127.0.0.1", "port=0", "--max_connections=many"],
            "max_connections: wrong value, expected an integer",
        ),
        (["address=127.0.0.1", "port=0", "--websocket", "--http"], "--websocket and --http exclude each other."),
        (["address=127.0.0.1", "port=0", "--http", "--require_certificate"], "require_certificate: unknown key"),
        (["address=127.0.0.1", "port=0", "--http", "--proxy_protocol"], "proxy_protocol: HTTP listeners do not read"),
        (["address=127.0.0.1", "port=0", "--auth_plugins=nobody"], "auth_plugins: no such plugin is enabled"),
    ],
)
def test_a_listener_that_cannot_be_opened_is_an_error(tmp_path: Path, words: list[str], said: str) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("listener", "start", *words)
        assert answer.status == 1
        assert answer.err.startswith(said)
        assert len(harness.server.listeners.show()) == 1

    run_with_server(tmp_path, test)


def test_a_port_in_use_fails_that_call_alone(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        for flags in ([], ["--http"]):
            answer = await harness.admin("listener", "start", *at(harness.port), *flags)
            assert answer.status == 1
            assert answer.err.endswith(f"cannot listen on 127.0.0.1:{harness.port}: address already in use\n")
        await harness.client("c")

    run_with_server(tmp_path, test)
