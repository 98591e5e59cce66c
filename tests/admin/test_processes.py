"""A node and vmq-admin as processes of their own, as operators run them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

ADMIN = [sys.executable, "-m", "strogoff.admin.cli"]
WITHIN_S = 30


@contextlib.contextmanager
def started(folder: Path, environ: dict[str, str], *settings: str) -> Iterator[Popen[str]]:
    """A node in a folder, running until the end of the block or until the test kills it."""
    argv = [sys.executable, "-m", "strogoff", "start"]
    for setting in ("listener.tcp.default=127.0.0.1:0", "log.console=off", *settings):
        argv += ["--set", setting]
    with Popen(argv, cwd=folder, env=environ, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], WITHIN_S)[0]
            assert process.stdout.readline() == "strogoff: node VerneMQ@127.0.0.1 is ready\n"
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(WITHIN_S) == 0
        finally:
            process.kill()


class Admin:
    """vmq-admin in a folder."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        argv = [*ADMIN, *words]
        return subprocess.run(
            argv, env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    def url(self) -> str:
        """Where the node's HTTP listener is."""
        (part,) = json.loads(self("listener", "show", "--format=json").stdout)
        (port,) = [row["port"] for row in part["table"] if row["type"] == "http"]
        return f"http://127.0.0.1:{port}"


def plain_environ() -> dict[str, str]:
    return {**os.environ, "STROGOFF_DATA_DIR": "", "STROGOFF_API_KEY": ""}


@pytest.mark.slow
def test_a_reader_of_the_help_may_stop(tmp_path: Path) -> None:
    """As `vmq-admin --help | head -1` does."""
    with Popen([*ADMIN, "--help"], env=plain_environ(), cwd=tmp_path, stdout=PIPE, stderr=PIPE) as one:
        assert one.stdout is not None and one.stderr is not None
        one.stdout.close()
        assert one.stderr.read() == b""
    assert one.returncode == 0


def test_the_commands_as_processes(tmp_path: Path) -> None:
    admin = Admin(tmp_path, {**plain_environ(), "STROGOFF_DATA_DIR": str(tmp_path / "data")})
    with started(tmp_path, plain_environ()):
        found = admin("cluster", "show")
        assert (found.returncode, found.stderr) == (0, "")
        assert "|VerneMQ@127.0.0.1| true  |" in found.stdout
        assert admin("node", "stats").returncode == 1
        with Popen([*ADMIN, "metrics", "show"], env=admin.environ, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as one:
            assert one.stdout is not None and one.stderr is not None
            one.stdout.close()  # as `| head` does
            assert one.stderr.read() == b""
    assert admin("cluster", "show").returncode == 1


@pytest.mark.parametrize("durability", [pytest.param("sync", marks=pytest.mark.slow), "os"])
@pytest.mark.slow
def test_an_api_key_survives_a_kill(tmp_path: Path, durability: str) -> None:
    settings = ("listener.http.default=127.0.0.1:0", f"message_store.durability={durability}")
    admin = Admin(tmp_path, {**plain_environ(), "STROGOFF_DATA_DIR": str(tmp_path / "data")})
    with started(tmp_path, plain_environ(), *settings) as node:
        made = admin("api-key", "create")
        assert (made.returncode, made.stderr) == (0, "")
        url = admin.url()
        node.kill()
        node.wait(WITHIN_S)
    found = admin("--url", url, "--api-key", made.stdout.strip(), "cluster", "show")
    assert (found.returncode, found.stderr) == (1, f"{url} cannot be reached: no process listens on this port.\n")
    with started(tmp_path, plain_environ(), *settings):
        admin.environ["STROGOFF_API_KEY"] = made.stdout.strip()
        url = admin.url()
        found = admin("--url", url, "cluster", "show", "--format=csv")
        assert (found.returncode, found.stdout) == (0, "Node,Running\nVerneMQ@127.0.0.1,true\n")
        assert admin("--url", url, "api-key", "delete", f"key={made.stdout.strip()}").returncode == 0
        found = admin("--url", url, "cluster", "show")
        assert (found.returncode, found.stderr) == (1, f"{url}: this API key is unknown.\n")


def _heeds_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "admin.sock"))
        silent.listen()
        argv = [*ADMIN, "--data-dir", str(tmp_path), "node", "status"]
        # the runner of the tests may ignore Ctrl-C, as a background job of a script does
        with Popen(argv, stdout=PIPE, stderr=PIPE, text=True, preexec_fn=_heeds_ctrl_c) as one:
            silent.settimeout(WITHIN_S)
            connection, _ = silent.accept()
            with connection:
                assert b"POST /command" in connection.recv(65536)
                one.send_signal(signal.SIGINT)
                out, said = one.communicate(timeout=WITHIN_S)
    assert (one.returncode, out, said) == (130, "", "Interrupted. The node finishes the command.\n")
