"""The unix socket of the node: its owner, and its requests."""

from __future__ import annotations

import asyncio
import socket
import stat
import sys
import threading
from pathlib import Path

import aiohttp.web
import pytest

from strogoff.admin import client
from strogoff.admin.client import UnixSocketClient, Unreachable
from strogoff.broker.listeners.sockets import ListenError
from tests.harness.waiting import until

from .fake_operator_port import FakeOperatorPort
from .server_harness import ServerHarness, run_with_server, running_server


def test_only_the_owner_may_open_it(tmp_path: Path) -> None:
    path = tmp_path / "d" / "admin.sock"

    async def test(harness: ServerHarness) -> None:
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600

    run_with_server(tmp_path, test)
    assert not path.exists()


def test_a_socket_left_by_a_killed_node_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "d" / "admin.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def test(harness: ServerHarness) -> None:
        await harness.good("node", "status")

    run_with_server(tmp_path, test)


def test_a_data_directory_with_a_long_path(tmp_path: Path) -> None:
    """Commands reach a node although the path of its socket does not fit into a socket address."""
    folder = tmp_path / ("long" * 15) / ("long" * 15)
    folder.mkdir(parents=True)

    async def test(harness: ServerHarness) -> None:
        assert len(str(folder / "d" / "admin.sock")) > 130
        await harness.good("node", "status")

    run_with_server(folder, test)
    assert not (folder / "d" / "admin.sock").exists()


async def _start(tmp_path: Path, **overrides: str) -> None:
    async with running_server(tmp_path, **overrides):
        pass


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file", "there is a file of that name that is not a socket"),
        ("x" * 200, "too long"),
        ("no/where", "no such file"),
    ],
)
def test_an_impossible_path(tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ListenError) as error:
        asyncio.run(_start(tmp_path, node__admin_socket=str(tmp_path / place)))
    assert str(error.value).startswith("node.admin_socket: cannot listen on ")
    assert said in str(error.value)
    assert (tmp_path / "file").read_text() == "mine"


async def _post(harness: ServerHarness, body: bytes) -> tuple[int, str]:
    connector = aiohttp.UnixConnector(str(harness.directory / "d" / "admin.sock"))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post("http://localhost/command", data=body) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"words": "node"}', b'{"words": [1]}'])
def test_malformed_requests_are_refused(tmp_path: Path, body: bytes) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await _post(harness, body))[0] == 400
        await harness.good("node", "status")

    run_with_server(tmp_path, test)


def test_a_node_begins_its_answer_before_it_runs_the_command(tmp_path: Path) -> None:
    """So vmq-admin tells a node that hangs from a command that takes long."""

    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.go_on.clear()
        connector = aiohttp.UnixConnector(str(harness.directory / "d" / "admin.sock"))
        body = b'{"words":["cluster","join","discovery-node=b@127.0.0.1"]}'
        async with (
            asyncio.timeout(10),
            aiohttp.ClientSession(connector=connector) as session,
            session.post("http://localhost/command", data=body) as response,
        ):
            assert response.status == 200 and not fake.go_on.is_set()
            fake.go_on.set()
            assert b"Done" in await response.read()

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("begin_s", "answer_s", "said"),
    [(0.05, 60, "The node sent no answer within 0.05 s."), (60, 0.05, "went silent: it sent nothing for 0.05 s.")],
)
def test_a_node_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin_s: float, answer_s: float, said: str
) -> None:
    monkeypatch.setattr(client, "CONNECT_S", begin_s)
    monkeypatch.setattr(client, "ANSWER_S", answer_s)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()

        def begin() -> None:
            with listening.accept()[0] as accepted:
                if begin_s > answer_s:
                    accepted.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{")
                while accepted.recv(65536):
                    pass

        node = threading.Thread(target=begin)
        node.start()
        with pytest.raises(Unreachable, match=said):
            list(UnixSocketClient("n", tmp_path / "s").run(["node", "status"]))
        node.join(10)


def test_a_client_that_goes_before_its_command_begins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line. Before, aiohttp printed a traceback, for example after a health check that gave up."""

    async def test(harness: ServerHarness) -> None:
        body = b'{"words":["node","status"]}'
        with socket.socket(socket.AF_UNIX) as gone:  # the event loop of the node stands meanwhile
            gone.connect(str(tmp_path / "d" / "admin.sock"))
            gone.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        said = "notice vmq-admin node status: the client had gone; the command was not run"
        if sys.version_info < (3, 12):  # later ones notice the end of the client before the request begins
            await until(lambda: said in harness.lines)
        later = UnixSocketClient("n", tmp_path / "d" / "admin.sock")
        assert await asyncio.to_thread(lambda: list(later.run(["node", "status"])))

    run_with_server(tmp_path, test)
    assert capfd.readouterr().err == ""


def test_a_client_that_goes_with_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the whole result. The node prints no traceback when it ends the answer behind that."""
    write_eof, gone, ended = aiohttp.web.StreamResponse.write_eof, asyncio.Event(), asyncio.Event()

    async def late(response: aiohttp.web.StreamResponse, data: bytes = b"") -> None:
        await asyncio.wait_for(gone.wait(), 10)
        request = response._req
        assert request is not None
        await until(lambda: request.transport is None or request.transport.is_closing())
        ended.set()
        await write_eof(response, data)

    monkeypatch.setattr(aiohttp.web.StreamResponse, "write_eof", late)

    async def test(harness: ServerHarness) -> None:
        body = b'{"words":["node","status"]}'
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "d" / "admin.sock"))
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await asyncio.wait_for(reader.readuntil(b'"end"'), 10)
        writer.transport.abort()
        gone.set()
        await asyncio.wait_for(ended.wait(), 10)

    run_with_server(tmp_path, test)
    assert [record.name for record in caplog.records if record.name.startswith("aiohttp")] == []
