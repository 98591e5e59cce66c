"""HTTP listeners: opening, stopping, TLS, limits, and errors at the start."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import trustme
from cryptography import x509

from strogoff.admin import dispatch, http_listeners
from strogoff.broker.listeners.sockets import ListenError
from strogoff.broker.process.descriptors import Descriptors

from ..harness.listeners import Authority, revocations
from .server_harness import ServerHarness, both_loops, run_with_server, running_server

HTTP = {"listener__http__default": "127.0.0.1:0"}


@both_loops
def test_stop_restart_delete(tmp_path: Path, loop: str) -> None:
    async def test(harness: ServerHarness) -> None:
        http = harness.context.http
        (row,) = http.show()
        which = f"127.0.0.1:{row.port}"
        assert (row.key, row.type, row.status) == ("listener.http.default", "http", "running")
        assert (await harness.get("/health/ping"))[0] == 200
        await http.stop(which)
        assert http.show()[0].status == "stopped"
        with pytest.raises(aiohttp.ClientConnectorError):
            await harness.get("/health/ping")
        await http.restart(which)
        await http.restart("listener.http.default")
        assert http.show()[0].port == row.port
        assert (await harness.get("/health/ping"))[0] == 200
        assert http.show()[0].all_conns == 2
        await http.delete(which)
        assert http.show() == []
        with pytest.raises(ListenError, match=f"there is no listener {which}"):
            http.find(which)

    run_with_server(tmp_path, test, loop, **HTTP)


@both_loops
def test_one_is_stopped_by_a_request_to_itself(tmp_path: Path, loop: str) -> None:
    async def test(harness: ServerHarness) -> None:
        http = harness.context.http
        key = harness.context.api_keys.create("mgmt", None)
        port = http.show()[0].port
        for word, left in (("stop", "stopped"), ("delete", "")):
            assert (await harness.get(f"/api/v1/listener/{word}?address=127.0.0.1&port={port}", key))[0] == 200
            assert "".join(row.status for row in http.show()) == left
            if left:
                await http.restart("listener.http.default")

    run_with_server(tmp_path, test, loop, **HTTP)


def https(authority: trustme.CA, folder: Path, **more: str) -> dict[str, str]:
    """The settings of a listener with a certificate of this authority."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return {
        "listener__https__default": "127.0.0.1:0",
        "listener__https__certfile": str(folder / "cert.pem"),
        "listener__https__keyfile": str(folder / "key.pem"),
        **more,
    }


async def status(harness: ServerHarness, context: ssl.SSLContext) -> int:
    """The status of a request; 0 if the node closes the connection."""
    url = f"https://127.0.0.1:{harness.context.http.show()[0].port}/health/ping"
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as response:
            return response.status
    except (aiohttp.ClientError, OSError):
        return 0


@both_loops
def test_tls(tmp_path: Path, loop: str) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def test(harness: ServerHarness) -> None:
        assert await status(harness, context) == 200

    run_with_server(tmp_path, test, loop, **https(authority, tmp_path))


@both_loops
def test_handshakes_that_do_not_finish_count_and_end(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would take all file descriptors of the node."""
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    monkeypatch.setattr(http_listeners, "REQUEST_S", 0.2)

    async def test(harness: ServerHarness) -> None:
        http = harness.context.http
        opened = [await asyncio.open_connection("127.0.0.1", http.show()[0].port) for _ in range(3)]
        assert await opened[2][0].read() == b""
        assert await opened[0][0].read() == b""
        await harness.until(lambda: http.show()[0].active_conns == 0)
        assert await status(harness, context) == 200
        opened.append(await asyncio.open_connection("127.0.0.1", http.show()[0].port))
        await harness.until(lambda: http.show()[0].active_conns == 1)
        await http.stop("listener.https.default")
        assert await opened[3][0].read() == b""
        for _, writer in opened:
            writer.close()

    limits = {"listener__https__default__max_connections": "2", "listener__https__tls_handshake_timeout": "infinity"}
    run_with_server(tmp_path, test, loop, **https(authority, tmp_path, **limits))


def demanding(authority: Authority, **options: str) -> dict[str, str]:
    """A listener that demands a certificate of its clients."""
    files = {"cafile": authority.cafile, "certfile": authority.certfile, "keyfile": authority.keyfile}
    options = {**files, "require_certificate": "on", **options}
    return {"listener__https__default": "127.0.0.1:0"} | {f"listener__https__{key}": options[key] for key in options}


@both_loops
def test_a_certificate_is_revoked(tmp_path: Path, loop: str) -> None:
    authority = Authority(tmp_path)
    crlfile = tmp_path / "crl.pem"
    crlfile.write_bytes(revocations(authority))
    context = ssl.create_default_context(cafile=authority.cafile)
    issued = authority.ca.issue_cert("operator@example.org")
    issued.configure_cert(context)

    async def test(harness: ServerHarness) -> None:
        assert await status(harness, context) == 200
        crlfile.write_bytes(b"broken")
        await harness.until(lambda: any("from before stays in force" in line for line in harness.lines))
        assert await status(harness, context) == 200
        serial = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).serial_number
        crlfile.write_bytes(revocations(authority, serial))
        async with asyncio.timeout(10):
            while await status(harness, context):
                pass

    run_with_server(tmp_path, test, loop, crl_refresh_interval="20", **demanding(authority, crlfile=str(crlfile)))


def test_a_new_certificate_counts_after_a_reload(tmp_path: Path) -> None:
    """Without it, and if the files are broken, the earlier one stays in force."""
    first, second = trustme.CA(), trustme.CA()
    contexts = []
    for authority in (first, second):
        contexts.append(ssl.create_default_context())
        authority.configure_trust(contexts[-1])

    async def statuses(harness: ServerHarness) -> list[int]:
        return [await status(harness, context) for context in contexts]

    async def test(harness: ServerHarness) -> None:
        assert await statuses(harness) == [200, 0]
        (tmp_path / "cert.pem").write_text("broken")
        (problem,) = await harness.service.reload()
        assert problem.startswith("listener.https.default: ") and "cert.pem" in problem
        assert await statuses(harness) == [200, 0]
        https(second, tmp_path)
        assert await statuses(harness) == [200, 0]
        assert await harness.service.reload() == []
        assert await statuses(harness) == [0, 200]

    run_with_server(tmp_path, test, **https(first, tmp_path), **HTTP)


@both_loops
def test_a_chain_of_certificates_longer_than_depth(tmp_path: Path, loop: str) -> None:
    authority = Authority(tmp_path)
    direct, deep = [ssl.create_default_context(cafile=authority.cafile) for _ in range(2)]
    authority.ca.issue_cert("operator@example.org").configure_cert(direct)
    authority.ca.create_child_ca().issue_cert("operator@example.org").configure_cert(deep)

    async def test(harness: ServerHarness) -> None:
        assert await status(harness, direct) == 200
        assert await status(harness, deep) == 0
        assert any("longer than depth = 0" in line for line in harness.lines)

    run_with_server(tmp_path, test, loop, **demanding(authority, depth="0"))


@both_loops
def test_connections_above_the_limit_are_closed(tmp_path: Path, loop: str) -> None:
    async def test(harness: ServerHarness) -> None:
        port = harness.context.http.show()[0].port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        second, other = await asyncio.open_connection("127.0.0.1", port)
        assert await second.read() == b""
        assert harness.context.http.show()[0].active_conns == 1
        writer.write(b"GET /health/ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        await harness.until(lambda: harness.context.http.show()[0].active_conns == 0)
        assert (await harness.get("/health/ping"))[0] == 200
        writer.close()
        other.close()

    run_with_server(tmp_path, test, loop, listener__http__default__max_connections="1", **HTTP)


@both_loops
def test_connections_do_not_take_the_last_descriptors(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are for the database, which takes no more writes if it cannot open its next file."""
    monkeypatch.setattr(Descriptors, "of_this_process", lambda: Descriptors(74, 1))

    async def test(harness: ServerHarness) -> None:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", harness.context.http.show()[0].port)
            assert await reader.read() == b""
            writer.close()
        assert len([line for line in harness.lines if "reserved for files" in line]) == 1

    run_with_server(tmp_path, test, loop, **HTTP)


@both_loops
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost:",
        b"POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n",
    ],
)
def test_a_connection_without_a_request_is_closed(
    tmp_path: Path, loop: str, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listeners, "REQUEST_S", 0.05)

    async def test(harness: ServerHarness) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.context.http.show()[0].port)
        writer.write(said)
        with suppress(ConnectionResetError):  # on a busy machine the limit ends before the node has read these bytes
            assert await reader.read() == b""
        await harness.until(lambda: harness.context.http.show()[0].active_conns == 0)
        writer.close()

    run_with_server(tmp_path, test, loop, **HTTP)


@both_loops
@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nslow", 200),
        (b"POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nslow", 401),
        (b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nslow\r\n", 404),
        (b"POST /api/v1 HTTP/1.1\r\nHost: x\r\nx-api-key: k\r\nContent-Length: 9\r\n\r\nslow", 408),
    ],
)
def test_only_a_command_with_a_key_waits_for_its_body(
    tmp_path: Path, loop: str, said: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each stranger's connection could hold a mebibyte, for as long as its body does not end."""
    monkeypatch.setattr(dispatch, "REQUEST_S", 0.05)
    monkeypatch.setattr(http_listeners, "_LINGER_S", 0.05)

    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("k", "mgmt", None)
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.context.http.show()[0].port)
        writer.write(said)
        assert (await reader.readline()).startswith(b"HTTP/1.1 %d " % status)
        await harness.until(lambda: harness.context.http.show()[0].active_conns == 0)
        writer.close()

    run_with_server(tmp_path, test, loop, **HTTP)


def test_long_request_lines_are_refused(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.get("/" + "x" * 50))[0] == 404
        assert (await harness.get("/" + "x" * 500))[0] == 400

    run_with_server(tmp_path, test, listener__http__default__max_request_line_length="200", **HTTP)


MALFORMED = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01garbage\r\n\r\n",
    "MQTT": b"\x10\x10\x00\x04MQTT\x04\x02\x00<\x00\x04abcd",
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "header": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "length": b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_bytes_that_are_not_http_give_one_log_line(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Before, scanners and browsers with HTTP/2 caused a traceback each on standard error."""

    async def test(harness: ServerHarness) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.context.http.show()[0].port)
        writer.write(MALFORMED[what])
        assert b"400 Bad Request" in await asyncio.wait_for(reader.read(), 5)
        writer.close()
        (line,) = [each for each in harness.lines if "malformed request" in each]
        assert "peer=127.0.0.1" in line and "Traceback" not in line and line.startswith("info")

    run_with_server(tmp_path, test, **HTTP)
    assert caplog.records == []


def test_a_defect_is_an_error_with_its_traceback() -> None:
    said: list[tuple[str, str]] = []
    log = http_listeners._ServerLog("listener.http.default", lambda level, text: said.append((level, text)))
    try:
        raise RuntimeError("a defect")
    except RuntimeError as error:
        log.exception("Error handling request from %s", "127.0.0.1", exc_info=error)
        log.debug("not this", exc_info=error)
    ((level, line),) = said
    assert level == "error" and "Error handling request from 127.0.0.1: Traceback" in line and "a defect" in line


async def _start(tmp_path: Path, **overrides: str) -> None:
    async with running_server(tmp_path, **overrides):
        pass


def test_a_port_in_use_stops_the_start_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = f"listener.http.default: cannot listen on 127.0.0.1:{port}: address already in use"
        with pytest.raises(ListenError, match=said):
            asyncio.run(_start(tmp_path, listener__http__default=f"127.0.0.1:{port}"))
    assert not (tmp_path / "d" / "admin.sock").exists()
    asyncio.run(_start(tmp_path, listener__http__default=f"127.0.0.1:{port}"))
