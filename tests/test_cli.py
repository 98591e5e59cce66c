"""The `strogoff` command: its subcommands, and that each imports only its own packages."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from strogoff import __version__
from strogoff.cli import COMMANDS, main
from strogoff.storage import reset_cli
from strogoff.storage.directory import DataDirectory

CONFIGS = Path(__file__).parents[1] / "configs"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """In both spellings."""
    for word in ("version", "--version"):
        assert main([word]) == 0
        assert capsys.readouterr().out == f"strogoff {__version__}\n"


def test_help_and_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Help has status 0; no argument prints it as well, with status 2."""
    for words, status in ((["--help"], 0), (["help"], 0), ([], 2)):
        assert main(words) == status
        said = capsys.readouterr().out
        for word in sorted(COMMANDS.keys() - {"help"}):
            assert f"\n  {word} " in said or f"\n  {word}\n" in said


def test_an_unknown_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, the unknown word, and the known ones."""
    assert main(["strat"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: strogoff COMMAND") and "'strat'" in said and "start" in said


def test_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """check and reference, and the error for any other word."""
    assert main(["config", "check", str(CONFIGS / "vernemq.conf")]) == 0
    assert "no errors" in capsys.readouterr().out
    (tmp_path / "wrong.conf").write_text("allow_anonimous = on")
    assert main(["config", "check", str(tmp_path / "wrong.conf")]) == 1
    assert "did you mean allow_anonymous?" in capsys.readouterr().out
    assert main(["config", "reference", "--text", "retry_interval"]) == 0
    assert capsys.readouterr().out.startswith("retry_interval\n")
    assert main(["config"]) == 2
    assert "usage: strogoff config check FILE" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("check", str(CONFIGS / "vernemq.conf")), ("reference",)])
def test_a_reader_that_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    """`strogoff config reference | head` prints no traceback; the status is that of SIGPIPE."""
    command = [sys.executable, "-m", "strogoff", "config", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 141


def test_start_and_repair_get_their_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Errors of the subcommands give status 1."""
    assert main(["start", "--set", "nothing=1"]) == 1
    assert "nothing: unknown key" in capsys.readouterr().err
    assert main(["repair", str(tmp_path)]) == 1
    assert "holds no database" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_has_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"usage: strogoff {command} ")


def test_each_command_imports_only_what_it_needs() -> None:
    """`strogoff version` must not wait for uvloop, aiohttp or Spark to be imported."""
    code = (
        "import sys; from strogoff.cli import main; main(['version']);"
        "print(sorted({m.split('.')[1] for m in sys.modules if m.startswith('strogoff.')}),"
        "[m for m in ('uvloop', 'aiohttp', 'plyvel', 'plyvel_next', 'pyspark', 'grpc') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.splitlines()[-1] == "['cli'] []"


def test_the_first_process_of_a_container_hears_sigterm_before_it_is_ready() -> None:
    """The kernel drops signals without a handler there. Here the signal comes while `start` is still imported."""
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("needs the right to make a namespace of processes")
    code = """
import os, signal
from strogoff import cli
assert os.getpid() == 1
cli.COMMANDS["start"] = lambda parser: os.kill(1, signal.SIGTERM)
cli.main(["start"])
"""
    ran = subprocess.run([*alone, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 128 + signal.SIGTERM, ran.stderr


@pytest.mark.parametrize("mine", [True, False])
@pytest.mark.parametrize("words", [("reset",), ("repair",)])
def test_root_leaves_a_data_directory_to_its_owner(words: tuple[str, ...], mine: bool) -> None:
    """The node runs as its owner. Before, it could not use what the command had made."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a command as another user")
    with tempfile.TemporaryDirectory() as folder:  # a user may not enter the folders of tests
        os.chmod(folder, 0o711)
        directory = Path(folder) / "data"
        DataDirectory(directory, "VerneMQ@here", lambda: "id").close()
        for path in (directory, *directory.rglob("*")):
            os.chown(path, 10000, 10000)
        if not mine:  # as Kubernetes gives a volume to the group of a pod
            os.chown(directory, 0, 10000)
            directory.chmod(0o2775)
        ran = subprocess.run([sys.executable, "-m", "strogoff", *words, directory], capture_output=True, text=True)
        assert ran.returncode == 0 and f"runs as user 10000, the owner of the data in {directory}" in ran.stderr, (
            ran.stderr
        )
        found = {(path.stat().st_uid, path.stat().st_gid) for path in directory.rglob("*")}
        assert found == {(10000, 10000)}


def test_root_becomes_the_owner_before_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups first: afterwards it may not change them any more. The owner himself changes nothing."""
    done: list[object] = []
    owner = os.stat_result((stat.S_IFDIR, 0, 0, 0, 10000, 10001, 0, 0, 0, 0))

    def reset(_: object) -> int:
        done.append("reset")
        return 0

    monkeypatch.setattr(reset_cli, "_run", reset)
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda value, name=name: done.append((name, value)))
    monkeypatch.setattr(Path, "stat", lambda _, **__: owner)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(["reset", str(tmp_path)]) == 0
    assert done == [("setgroups", [10001]), ("setgid", 10001), ("setuid", 10000), "reset"]
    done.clear()
    monkeypatch.setattr(os, "geteuid", lambda: 10000)
    assert main(["reset", str(tmp_path)]) == 0
    assert done == ["reset"]
