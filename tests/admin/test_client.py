"""vmq-admin --url: every failure to reach a node has its error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from strogoff.admin import client
from strogoff.admin.cli import main

from .fake_operator_port import FakeOperatorPort
from .server_harness import ServerHarness, run_with_server

HTTP = {"listener__http__default": "127.0.0.1:0"}
WORDS = ("cluster", "show", "--format=csv")
SHOWN = "Node,Running\nVerneMQ@127.0.0.1,true\n"


def test_any_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("k", "mgmt", None)
        answer = await harness.remote(*WORDS, key="k")
        assert (answer.status, answer.out, answer.err) == (0, SHOWN, "")
        answer = await harness.remote("sesion", "show", key="k")
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith("Unknown command: sesion show. Did you mean session show?")
        answer = await harness.remote("config", "show", f"--key={'x' * 20000}", key="k")
        assert answer.status == 1 and "unknown key" in answer.err
        harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        answer = await harness.remote("cluster", "leave", "node=b@127.0.0.1", key="k")
        assert (answer.status, answer.out) == (0, "10 sessions to go\nDone\n")
        monkeypatch.setenv("STROGOFF_API_KEY", "k")
        assert (await harness.remote("cluster", "show")).status == 0

    run_with_server(tmp_path, test, **HTTP)


def test_keys_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("other", "metrics", None)
        harness.server.store.put(b"nkey.mgmt.old", b"1000")
        for key, said in (
            ("", "an API key is needed."),
            ("wrong", "this API key is unknown."),
            ("old", "this API key has expired."),
            ("other", "this API key has another scope than mgmt."),
        ):
            answer = await harness.remote(*WORDS, key=key)
            assert (answer.status, answer.out, answer.err) == (1, "", f"{harness.url}: {said}\n")

    monkeypatch.delenv("STROGOFF_API_KEY", raising=False)
    run_with_server(tmp_path, test, **HTTP)


def test_a_listener_without_the_management_api(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.remote(*WORDS, key="k")
        assert (answer.status, answer.err) == (
            1,
            f"{harness.url} is not the management API of a node (it answered 404). The node must have "
            "vmq_http_mgmt_api among the http_modules of this listener.\n",
        )

    run_with_server(tmp_path, test, listener__http__default__http_modules="[vmq_health_http]", **HTTP)


def test_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    async def test(harness: ServerHarness) -> None:
        plain, tls = sorted(harness.context.http.show(), key=lambda each: each.type)
        harness.context.api_keys.add("k", "mgmt", None)
        url = f"https://127.0.0.1:{tls.port}"
        ca = f"--cafile={tmp_path}/ca.pem"

        async def ask(url: str, *options: str) -> tuple[int, str]:
            answer = await harness.at(["--url", url, "--api-key", "k", *options, *WORDS])
            return answer.status, answer.out + answer.err

        assert await ask(url, ca) == (0, SHOWN)
        status, said = await ask(url)
        assert status == 1 and said.startswith(f"{url} shows a certificate that is not trusted: ")
        assert said.endswith(". --cafile=FILE names the trusted CA certificates.\n")
        status, said = await ask(f"https://127.0.0.1:{plain.port}", ca)
        assert status == 1 and "does not answer with TLS" in said and said.endswith("; is it http?\n")
        status, said = await ask(f"http://127.0.0.1:{tls.port}")
        assert status == 1 and said.endswith("; is it https?\n")
        assert await ask(url, "--cafile=/no/such") == (1, "--cafile: /no/such: no such file or directory.\n")
        assert await ask(url, f"--cafile={tmp_path}/key.pem") == (
            1,
            f"--cafile: {tmp_path}/key.pem holds no certificates.\n",
        )
        assert await ask(f"http://127.0.0.1:{plain.port}", ca) == (1, "--cafile is for https URLs.\n")

    run_with_server(
        tmp_path,
        test,
        listener__https__default="127.0.0.1:0",
        listener__https__certfile=str(tmp_path / "cert.pem"),
        listener__https__keyfile=str(tmp_path / "key.pem"),
        **HTTP,
    )


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Returns the port of a server that accepts one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def answering(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        heard = b""
        while b'"words"' not in heard:
            heard += connection.recv(65536)
        connection.sendall(data)

    return serve


ODD = "is not the management API of a node (it answered"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", " closed the connection (RemoteDisconnected); is it https?"),
        (b"+OK POP3 ready\r\n", " answered with something that is not HTTP (BadStatusLine); is it https?"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", f" {ODD} 200)."),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", f" {ODD} 302)."),
        (b"HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nnope", ": this API key is not accepted."),
        (
            b"HTTP/1.1 400 Bad\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nwhat",
            " rejected the request: what",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 9\r\n\r\n{",
            " stopped before its result was complete.",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
            " stopped before its result was complete.",
        ),
    ],
)
def test_answers_of_other_servers(data: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(answering(data)) as port:
        assert main(["--url", f"http://127.0.0.1:{port}", "--api-key=k", *WORDS]) == 1
    assert capsys.readouterr().err.startswith(f"http://127.0.0.1:{port}{said}")


def test_an_address_without_a_listener(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    assert main(["--url", url, *WORDS]) == 1
    assert capsys.readouterr().err == f"{url} cannot be reached: no process listens on this port.\n"

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    # no name server is asked in a test
    monkeypatch.setattr(socket, "create_connection", unknown)
    assert main(["--url", "http://node7:8888", *WORDS]) == 1
    assert capsys.readouterr().err == "http://node7:8888 cannot be reached: there is no host node7.\n"


def test_silence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(connection: socket.socket) -> None:
        over.wait(10)

    def half(connection: socket.socket) -> None:
        answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 9\r\n\r\n{")(connection)
        over.wait(10)

    for scheme, serve, said, begin_s, answer_s in (
        ("https", silent, "cannot be reached: no answer within 0 s.", 0.05, 60),
        ("http", silent, "did not answer within 0 s.", 0.05, 60),
        ("http", half, "went silent: it sent nothing for 0.05 s.", 60, 0.05),
    ):
        monkeypatch.setattr(client, "CONNECT_S", begin_s)
        monkeypatch.setattr(client, "ANSWER_S", answer_s)
        over.clear()
        with listening(serve) as port:
            assert main(["--url", f"{scheme}://127.0.0.1:{port}", *WORDS]) == 1
            over.set()
        assert capsys.readouterr().err == f"{scheme}://127.0.0.1:{port} {said}\n"


@pytest.mark.parametrize(
    "url", ["", "node:8888", "ftp://node", "http://", "http://node:port", "http://k@node", "http://[x", "http://n/?a=b"]
)
def test_malformed_urls_are_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", url, *WORDS]) == 1
    expected = f"--url: {url!r} is malformed: http://HOST:PORT or https://HOST:PORT is expected.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("more", ["", "/", "/api/v1", "/api/v1/"])
def test_a_url_may_have_the_path_of_the_api(tmp_path: Path, more: str) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.context.api_keys.add("k", "mgmt", None)
        assert (await harness.at(["--url", harness.url + more, "--api-key=k", *WORDS])).out == SHOWN

    run_with_server(tmp_path, test, **HTTP)
