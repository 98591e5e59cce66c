"""`strogoff ping` and `strogoff stop`, to nodes and to processes that only have the lock. tests/system/test_service.py
stops real nodes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.admin import local_commands
from strogoff.cli import main
from strogoff.storage.lock_owner import HiddenOwnerError

from ..storage.test_lock_owner import locked
from .server_harness import ServerHarness, run_with_server

Capture = pytest.CaptureFixture[str]
NODE = "'VerneMQ@127.0.0.1'"


def test_a_node_that_answers(tmp_path: Path, capsys: Capture) -> None:
    async def test(harness: ServerHarness) -> None:
        assert await asyncio.to_thread(main, ["ping", "--data-dir", f"{tmp_path}/d"]) == 0
        assert capsys.readouterr() == ("pong\n", "")
        conf = tmp_path / "v.conf"
        conf.write_text(f"platform_data_dir = {tmp_path}/d\n")
        assert await asyncio.to_thread(main, ["ping", "-c", str(conf)]) == 0

    run_with_server(tmp_path, test)


def test_no_node(tmp_path: Path, capsys: Capture) -> None:
    assert main(["ping", "--data-dir", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"Node {NODE} not responding to pings. There is no {tmp_path}/admin.sock: ")
    assert main(["stop", "--data-dir", str(tmp_path)]) == 3
    assert capsys.readouterr() == (
        "",
        f"No process has {tmp_path}/lock: node {NODE} does not run, or it has another data directory.\n",
    )


def test_the_lock_is_named_with_its_absolute_path(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`./data` of another current directory may be meant."""
    monkeypatch.chdir(tmp_path)
    assert main(["stop", "--data-dir", "data"]) == 3
    assert capsys.readouterr().err.startswith(f"No process has {tmp_path}/data/lock: ")


def test_a_node_that_does_not_answer(tmp_path: Path, capsys: Capture) -> None:
    """Its process has the data directory: it starts, or it accepts connections and says nothing."""
    with locked(tmp_path / "lock") as owner:
        assert main(["ping", "--data-dir", str(tmp_path)]) == 1
        said = f"Process {owner.pid} has its data directory: it starts, stops or hangs; see its log.\n"
        assert capsys.readouterr().err.endswith(said)

    async def test(harness: ServerHarness) -> None:
        words = ["ping", "--data-dir", f"{tmp_path}/d", "--timeout", "0.05"]
        assert main(words) == 1  # in the loop of the node, which hangs for that time
        assert "The node sent no answer within 0.05 s." in capsys.readouterr().err

    run_with_server(tmp_path, test)


def test_stop_waits_for_the_end_of_the_process(tmp_path: Path, capsys: Capture) -> None:
    with locked(tmp_path / "lock") as owner:
        assert main(["stop", "--data-dir", str(tmp_path)]) == 0
        assert capsys.readouterr() == (f"Process {owner.pid} of node {NODE} has stopped.\n", "")
        assert owner.wait(10) == -signal.SIGTERM
    assert main(["stop", "--data-dir", str(tmp_path)]) == 3


def test_a_process_that_does_not_end_in_time(tmp_path: Path, capsys: Capture) -> None:
    with locked(tmp_path / "lock") as owner:
        owner.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED | os.WNOWAIT)
        assert main(["stop", "--data-dir", str(tmp_path), "--timeout", "0.1"]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"Process {owner.pid} of node {NODE} still runs after 0.1 s. Its log says what")
        owner.send_signal(signal.SIGCONT)
        assert owner.wait(10) == -signal.SIGTERM


def refuses(error: Exception) -> Callable[..., None]:
    def refused(*_arguments: object) -> None:
        raise error

    return refused


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), f"You may not look for the process of node {NODE}: be the user"),
        (HiddenOwnerError(7), "A process that is not visible here has {lock}: stop node " + NODE),
        (OSError(5, "Input/output error"), "{lock}: Input/output error.\n"),
    ],
)
def test_a_process_that_cannot_be_found(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monkeypatch.setattr(local_commands, "open_owner", refuses(error))
    assert main(["stop", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(said.replace("{lock}", f"{tmp_path}/lock"))


def test_a_process_that_may_not_be_stopped(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "pidfd_send_signal", refuses(PermissionError(1, "Operation not permitted")))
    with locked(tmp_path / "lock") as owner:
        assert main(["stop", "--data-dir", str(tmp_path)]) == 1
        assert capsys.readouterr().err.startswith(f"You may not stop process {owner.pid} of node {NODE}: be the user")


@pytest.mark.parametrize("command", ["ping", "stop"])
def test_wrong_words_and_files(tmp_path: Path, capsys: Capture, command: str) -> None:
    for text in ("soon", "0", "-1", "nan", "inf"):
        assert main([command, f"--timeout={text}"]) == 2
        assert f"{text}: seconds are expected, more than 0, at most 86400" in capsys.readouterr().err
    (tmp_path / "wrong.conf").write_text("no_such_key = 1\n")
    assert main([command, "-c", str(tmp_path / "wrong.conf")]) == 1
    assert "no_such_key: unknown key" in capsys.readouterr().err


def test_they_start_without_the_libraries_of_a_node(tmp_path: Path) -> None:
    code = (
        "import sys; from strogoff.cli import main; main(['ping', '--data-dir', sys.argv[1]]);"
        "main(['stop', '--data-dir', sys.argv[1]]);"
        "print([m for m in ('uvloop', 'aiohttp', 'plyvel', 'plyvel_next', 'grpc') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=os.environ)
    assert ran.stdout == "[]\n"
