"""vmq-admin: finding the node, formats, and errors without a node."""

from __future__ import annotations

import asyncio
import io
import socket
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from strogoff.admin import cli, client
from strogoff.admin.cli import main

from ..storage.test_lock_owner import locked
from .server_harness import ServerHarness, run_with_server

NODE = "Node 'VerneMQ@127.0.0.1'"


def test_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"{NODE} not responding to pings. There is no {tmp_path}/admin.sock: the node does not run, or it has "
        "another data directory.\n"
    )


def test_a_relative_data_directory_is_shown_with_its_whole_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts from the folder in which vmq-admin was called, which need not be that of the node."""
    monkeypatch.chdir(tmp_path)
    assert main(["--data-dir", "data", "node", "status"]) == 1
    assert f"There is no {tmp_path}/data/admin.sock: " in capsys.readouterr().err


def test_a_node_that_is_still_starting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has its data directory and no socket yet; or that of a process before it, which was killed."""
    with locked(tmp_path / "lock") as owner:
        said = f"{NODE} not responding to pings. Process {owner.pid} has its data directory: it starts, stops or hangs;"
        assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
        assert capsys.readouterr().err == f"{said} see its log.\n"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / "admin.sock"))
        assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
        assert capsys.readouterr().err == f"{said} see its log.\n"


def test_a_node_that_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "admin.sock"))
    assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
    said = f"{NODE} not responding to pings. No process listens on {tmp_path}/admin.sock: the node was killed.\n"
    assert capsys.readouterr().err == said


def test_no_rights(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(connection: client._UnixConnection) -> None:
        raise PermissionError(13, "Permission denied")

    # the tests may run as root, for whom file modes do not count
    monkeypatch.setattr(client._UnixConnection, "connect", refused)
    assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
    assert capsys.readouterr().err == (
        f"You may not open {tmp_path}/admin.sock: be the user that runs node 'VerneMQ@127.0.0.1', or root.\n"
    )


def _serve_once(path: Path, answer: bytes) -> Popen[bytes]:
    script = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('ready', flush=True)\n"
        "c,_=s.accept(); d=b''\n"
        "while b'}' not in d: d+=c.recv(65536)\n"
        "c.sendall(sys.stdin.buffer.read()); c.close()\n"
    )
    process = Popen([sys.executable, "-c", script, str(path)], stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdin.write(answer)
    process.stdin.close()
    return process


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + b'{"kind":"text","text":"half"}\n', "stopped before it"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + b'{"kind":"text","text":"half"}\n', "stopped before it"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nwha", "stopped before its result was complete."),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", "rejected the request: no"),
        (b"what", "not responding to pings."),
        (b"", "not responding to pings."),
    ],
)
def test_a_node_that_answers_half(tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: bytes, said: str) -> None:
    with _serve_once(tmp_path / "admin.sock", answer):
        assert main(["--data-dir", str(tmp_path), "node", "status"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err and err.startswith(NODE) and err.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_needs_no_node(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: vmq-admin ")
    assert "\n  session show " in out


def test_vmq_admin_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert capsys.readouterr().out.startswith("Usage: vmq-admin ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--uri", "http://x", "node", "status"], "Unknown option --uri; `vmq-admin --help` explains.\n"),
        (["--url", "x:8888", "node", "status"], "--url: 'x:8888' is malformed: http://HOST:PORT or https:"),
        (["--url", "http://x", "-c", "f", "node", "status"], "--url names the node. It excludes --conf and --data-dir"),
        (["--url", "http://x", "--data-dir=d", "node", "status"], "--url names the node"),
        (["--api-key", "k", "node", "status"], "--api-key needs --url.\n"),
        (["--cafile=f", "node", "status"], "--cafile needs --url.\n"),
        (["-c"], "-c needs a value.\n"),
        (["session", "disconnect", "client-id=\udcff"], "'client-id=\\udcff' is not UTF-8.\n"),
        (["--url", "http://a..b:1", "node", "status"], "http://a..b:1 cannot be reached: there is no host a..b.\n"),
        (["node", "status", "--format"], "--format needs a value.\n"),
        (["node", "status", "--format=xml"], "--format: 'xml' is none of human, json, csv.\n"),
        (["-c", "/no/such.conf", "node", "status"], "1 problem in the configuration:\n"),
    ],
)
def test_wrong_options(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(said)


def test_ways_to_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: ServerHarness) -> None:
        conf = tmp_path / "v.conf"
        conf.write_text(f"platform_data_dir = {tmp_path}/d\nnodename = other@127.0.0.1\n")
        for argv in (["-c", str(conf)], [f"--conf={conf}"], [f"--data-dir={tmp_path}/d"]):
            assert await asyncio.to_thread(main, [*argv, "cluster", "show"]) == 0
        monkeypatch.setenv("STROGOFF_DATA_DIR", f"{tmp_path}/d")
        assert await asyncio.to_thread(main, ["cluster", "show"]) == 0
        monkeypatch.delenv("STROGOFF_DATA_DIR")
        monkeypatch.chdir(tmp_path)
        assert await asyncio.to_thread(main, ["cluster", "show"]) == 1
        (tmp_path / "d").rename(tmp_path / "data")
        assert await asyncio.to_thread(main, ["cluster", "show"]) == 0
        (tmp_path / "data").rename(tmp_path / "d")
        (tmp_path / "etc").mkdir()
        conf.rename(tmp_path / "etc" / "vernemq.conf")
        assert await asyncio.to_thread(main, ["cluster", "show"]) == 0

    run_with_server(tmp_path, test)


def test_variables_do_not_count_where_the_start_passed_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container with a vernemq.conf.local: before, its health check failed because of an unused variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_VERNEMQ_NO_SUCH_KEY", "1")
    (tmp_path / "etc").mkdir()
    for name in ("vernemq.conf", "vernemq.conf.local"):
        (tmp_path / "etc" / name).write_text("nodename = n1@here\n")
    assert main(["node", "status"]) == 1
    assert capsys.readouterr().err.startswith("Node 'n1@here' not responding to pings.")
    (tmp_path / "etc" / "vernemq.conf.local").unlink()
    assert main(["node", "status"]) == 1
    assert "no_such_key: unknown key" in capsys.readouterr().err


def test_a_socket_path_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.sock"

    async def test(harness: ServerHarness) -> None:
        assert path.exists()
        conf = tmp_path / "v.conf"
        conf.write_text(f"node.admin_socket = {path}\n")
        assert await asyncio.to_thread(main, ["-c", str(conf), "cluster", "show"]) == 0

    run_with_server(tmp_path, test, node__admin_socket=str(path))


def test_wrong_commands(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("sesion", "show")
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith("Unknown command: sesion show. Did you mean session show?")
        answer = await harness.admin("session", "show", "--clientid", "--format", "json")
        assert answer.status == 1
        (alert,) = answer.json
        assert alert["type"] == "alert"
        assert alert["alert"][0]["text"].startswith("session show has no flag --clientid. Did you mean --client_id?")
        assert (await harness.good("plugin", "--help")).out.startswith("  plugin show  ")
        assert (await harness.good("session", "disconnect", "-h")).out.startswith(
            "Usage: vmq-admin session disconnect "
        )

    run_with_server(tmp_path, test)


def test_letters_that_the_terminal_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client ids may have any letter; a terminal or a pipe may have an encoding of 256."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    cli._write("caf\u00e9 \u65e5\n")
    assert written.getvalue() == b"caf\xe9 \\u65e5\n"
