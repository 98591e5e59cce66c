"""`strogoff start` in this process: the command line, the signals, the order of its parts. Tests with processes are in
tests/system.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strogoff.broker.listeners.listeners import ListenError
from strogoff.broker.process import daemon, logs, ownership
from strogoff.broker.process.server import Server
from strogoff.cli import main
from strogoff.configs import ConfigError, Settings, load

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder and an environment of its own; the logger as it was."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("DOCKER_", "STROGOFF_DATA"))]:
        monkeypatch.delenv(name)
    yield
    logging.getLogger("strogoff").handlers.clear()


def settings(folder: Path, **more: str) -> Settings:
    """Returns the settings of a small node with its log on the terminal."""
    wanted = {
        "listener.tcp.default": "127.0.0.1:0",
        "platform_data_dir": str(folder / "data"),
        "allow_anonymous": "on",
        "log.console": "console",
        "log.error": "off",
    }
    return load(None, {}, wanted | {name.replace("__", "."): value for name, value in more.items()})


def read(*words: str) -> Settings:
    """Returns the settings of `strogoff start` with these words."""
    parser = argparse.ArgumentParser()
    daemon.register(parser)
    return daemon.read_settings(parser.parse_args(words))


def test_the_file_in_etc_is_the_default(tmp_path: Path) -> None:
    """./etc/vernemq.conf if it is there, no file otherwise."""
    assert read()["retry_interval"] == 20
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vernemq.conf").write_text("retry_interval = 7\n")
    assert read()["retry_interval"] == 7


def test_the_command_line_wins(tmp_path: Path) -> None:
    """--set and --data-dir override the environment, which overrides the file."""
    conf = tmp_path / "my.conf"
    conf.write_text("retry_interval = 7\nmax_client_id_size = 30\nplatform_data_dir = /nowhere\n")
    values_of = read(
        "-c", str(conf), "--set", "max_client_id_size = 40", "--data-dir", "here", "--set", "queue_type=lifo"
    )
    values = [values_of[key] for key in ("retry_interval", "max_client_id_size", "platform_data_dir", "queue_type")]
    assert values == [7, 40, "here", "lifo"]


def test_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """DOCKER_VERNEMQ_*, also outside of a container."""
    monkeypatch.setenv("DOCKER_VERNEMQ_RETRY_INTERVAL", "9")
    assert read()["retry_interval"] == 9


def test_a_wrong_setting_is_a_config_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1 and the error; a wrong command line gives 2."""
    with pytest.raises(ConfigError, match="no_such_key"):
        read("--set", "no_such_key=1")
    assert main(["start", "--set", "no_such_key=1"]) == 1
    assert "no_such_key: unknown key" in capsys.readouterr().err
    assert main(["start", "--set", "retry_interval"]) == 2
    assert "KEY=VALUE is expected" in capsys.readouterr().err


class Part:
    """An extension that notes its calls; `fails` is raised at its start."""

    def __init__(self, name: str, diary: list[str], fails: Exception | None = None) -> None:
        self.name = name
        self.diary = diary
        self.fails = fails

    async def start(self, server: Server) -> None:
        """The server has opened the listeners by now."""
        assert server.listeners.show()
        if self.fails is not None:
            raise self.fails
        self.diary.append(f"{self.name} starts")

    async def reload(self) -> list[str]:
        """The node got a signal for it."""
        self.diary.append(f"{self.name} reloads")
        return []

    async def stop(self) -> None:
        """The server still runs."""
        self.diary.append(f"{self.name} stops")


class Interrupter(Part):
    """Sends this process a signal as soon as the start is over."""

    def __init__(self, diary: list[str], number: signal.Signals) -> None:
        super().__init__("interrupter", diary)
        self.number = number

    async def start(self, server: Server) -> None:
        """The signal comes in a later turn."""
        await super().start(server)
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_in_reverse_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """Status 0; the log says where the node was, and that it stopped."""
    diary: list[str] = []
    parts = [Part("one", diary), Interrupter(diary, number)]
    assert asyncio.run(daemon.serve(settings(tmp_path), parts)) == 0
    assert diary == ["one starts", "interrupter starts", "interrupter stops", "one stops"]
    said = capsys.readouterr().out
    for text in ("listener.tcp.default: listening on 127.0.0.1:", "is ready", "[NOTICE] stopping", "[NOTICE] stopped"):
        assert text in said
    assert f"data in {tmp_path}/data" in said


def test_only_owner_and_group_may_read_what_a_node_writes(tmp_path: Path) -> None:
    """Directories are 0750, files 0640 or less, whatever the umask of the shell allows."""
    log, data = tmp_path / "log" / "console.log", tmp_path / "data"
    wanted = {"listener.tcp.default": "127.0.0.1:0", "log.console": "file", "log.console.file": str(log)}
    wanted |= {"log.error": "off", "platform_data_dir": str(data), "eventlog.level": "session"}
    words = [word for key, value in wanted.items() for word in ("--set", f"{key}={value}")]
    parser = argparse.ArgumentParser()
    daemon.register(parser)
    former = os.umask(0o022)
    try:
        assert daemon.run(parser.parse_args(words), [Interrupter([], signal.SIGTERM)]) == 0
    finally:
        os.umask(former)
    written = [log.parent, *log.parent.rglob("*"), data, *data.rglob("*")]
    assert log in written and (data / "messages" / "CURRENT") in written
    assert any(path.name.startswith("hour=") for path in written)
    open_to_others = {path: oct(path.stat().st_mode) for path in written if path.stat().st_mode & 0o027}
    assert open_to_others == {}


def test_a_node_whose_log_is_a_file_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever starts it by hand looks for the log first."""
    log = tmp_path / "log" / "console.log"
    wanted = settings(tmp_path, log__console="file", log__console__file=str(log))
    assert asyncio.run(daemon.serve(wanted, [Interrupter([], signal.SIGTERM)])) == 0
    assert f"strogoff: node VerneMQ@127.0.0.1 is ready; its log is {log}\n" in capsys.readouterr().out
    assert "stopped" in log.read_text()


@pytest.mark.parametrize("nodes", ["", "127.0.0.1:9"])
def test_a_node_that_waits_for_its_cluster_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str
) -> None:
    """With `discovery.nodes` the node waits for others, and refuses clients. Without, it takes clients at once."""
    more = {"listener.vmq.default": "127.0.0.1:0", "discovery.nodes": nodes}
    wanted = settings(tmp_path, **{name.replace(".", "__"): value for name, value in more.items() if value})
    assert asyncio.run(daemon.serve(wanted, [Interrupter([], signal.SIGTERM)])) == 0
    said = next(line for line in capsys.readouterr().out.splitlines() if "is ready" in line)
    hint = ", and takes clients when it is in its cluster: vmq-admin cluster status" if nodes else ""
    assert said == f"strogoff: node VerneMQ@127.0.0.1 is ready{hint}"


@pytest.mark.parametrize("where", ["full", "closed"])
def test_a_node_serves_although_nobody_takes_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """`strogoff start > out` on a full disk, `strogoff start | tee out` without tee. Its log is in a file."""
    gone, pipe = os.pipe()
    os.close(gone)
    diary: list[str] = []
    more = {"log.console": "file", "log.console.file": str(tmp_path / "console.log")}
    wanted = settings(tmp_path, **{name.replace(".", "__"): value for name, value in more.items()})
    with contextlib.suppress(OSError), open(pipe, "w") as closed, open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full if where == "full" else closed)
        status = asyncio.run(daemon.serve(wanted, [Interrupter(diary, signal.SIGTERM)]))
        diary.append(f"status {status}")
    assert diary == ["interrupter starts", "interrupter stops", "status 0"]
    assert "Traceback" not in (tmp_path / "console.log").read_text()


class Waiter(Part):
    """An extension whose start waits for nodes that never answer."""

    async def start(self, server: Server) -> None:
        """A signal arrives meanwhile."""
        await super().start(server)
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()


def test_a_signal_ends_a_start_that_still_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For example a start that waits for a cluster. Before, the start finished first, and the sender of the signal
    killed the node.
    """
    diary: list[str] = []
    parts = [Part("one", diary), Waiter("two", diary), Part("three", diary)]
    assert asyncio.run(daemon.serve(settings(tmp_path), parts)) == 0
    assert diary == ["one starts", "two starts", "one stops"]
    said = capsys.readouterr().out
    assert "[NOTICE] stopped before the start was complete" in said and "is ready" not in said
    assert asyncio.run(daemon.serve(settings(tmp_path), [Interrupter(diary, signal.SIGTERM)])) == 0


@pytest.mark.parametrize("where", ["file/broker.log", "folder"])
@pytest.mark.parametrize("place", ["log__console__file", "log__error__file"])
def test_a_log_that_cannot_be_written_is_a_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, where: str
) -> None:
    """Its folder cannot be made, or belongs to another user: status 1, no traceback, and no node without a log."""
    fine = {"log__console__file": str(tmp_path / "console.log"), "log__error__file": str(tmp_path / "error.log")}
    wanted = {**fine, "log__console": "file", "log__error": "on", place: str(tmp_path / where)}
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert asyncio.run(daemon.serve(settings(tmp_path, **wanted))) == 1
    said = capsys.readouterr().err
    assert said.startswith("strogoff: the node cannot start: the log cannot be written: ")
    assert f"'{tmp_path}/f" in said and said.count("\n") == 1


def test_a_part_that_cannot_start_stops_those_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, one line, and nothing is left that prevents the next start."""
    diary: list[str] = []
    parts = [Part("one", diary), Part("two", diary, ListenError("the port is taken")), Part("three", diary)]
    assert asyncio.run(daemon.serve(settings(tmp_path, log__console="off"), parts)) == 1
    assert diary == ["one starts", "one stops"]
    assert capsys.readouterr().err == "strogoff: the node cannot start: the port is taken\n"
    assert asyncio.run(daemon.serve(settings(tmp_path), [Interrupter(diary, signal.SIGTERM)])) == 0


def test_a_file_of_another_user_is_named_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a folder of root that a container has mounted as its data."""
    path, own, other = tmp_path / "data" / "new", os.geteuid(), os.geteuid() + 1
    part = Part("one", [], PermissionError(errno.EACCES, "Permission denied", str(path)))
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert asyncio.run(daemon.serve(settings(tmp_path, log__console="off"), [part])) == 1
    said = capsys.readouterr().err
    assert f"'{path}': {path.parent} belongs to user {own} and has the mode 0750, and the node runs as" in said
    assert f"user {other}: run `chown -R {other}` on {path.parent}" in said


def test_a_log_of_another_user_is_named_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start fails before the log exists, so the terminal has the text."""
    folder, other = tmp_path / "log", os.geteuid() + 1
    folder.mkdir()

    def refuse(_: object) -> logging.Logger:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder / "console.log"))

    monkeypatch.setattr(daemon, "set_up", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: other)
    wanted = settings(tmp_path, log__console="file", log__console__file=str(folder / "console.log"))
    assert asyncio.run(daemon.serve(wanted)) == 1
    assert f"run `chown -R {other}` on {folder}" in capsys.readouterr().err


def test_root_does_not_start_on_the_data_of_another_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would leave files that the node of this user could not use. Nothing is made, no log either."""
    data = tmp_path / "data"
    data.mkdir()
    if os.geteuid() == 0:
        os.chown(data, 10000, 10000)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(ownership, "UID_MAP", tmp_path / "none")
    assert main(["start", "--data-dir", "data", "--set", "log.console=both"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"strogoff: the node cannot start: {data} belongs to user ") and "sudo -u" in said
    assert list(tmp_path.rglob("*")) == [data]


class Mover(Part):
    """Moves the log, changes the ACL file and sends this process a signal. SIGTERM follows when all was read again."""

    def __init__(self, diary: list[str], number: signal.Signals, log: Path, acl: Path) -> None:
        super().__init__("mover", diary)
        self.number = number
        self.log = log
        self.acl = acl

    async def start(self, server: Server) -> None:
        """The node sees the signal in a later turn."""
        await super().start(server)
        self.acl.write_text("topic another\n")
        self.log.rename(self.log.with_name("moved"))
        os.kill(os.getpid(), self.number)

    async def reload(self) -> list[str]:
        """One of its certificates is broken."""
        os.kill(os.getpid(), signal.SIGTERM)
        return [*await super().reload(), "listener.https.default: no certificate"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_lets_the_node_read_its_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The node goes on, and its log has its name again. Before, the signal killed the node."""
    monkeypatch.setattr(logs, "LOOK_S", 3600)
    diary: list[str] = []
    log, acl = tmp_path / "console.log", tmp_path / "my.acl"
    acl.write_text("topic a\n")
    more = {"log__console": "file", "log__console__file": str(log), "vmq_acl__acl_file": str(acl)}
    more |= {"vmq_acl__acl_reload_interval": "0", "plugins__vmq_passwd": "off"}
    assert asyncio.run(daemon.serve(settings(tmp_path, **more), [Mover(diary, number, log, acl)])) == 0
    assert diary == ["mover starts", "mover reloads", "mover stops"]
    said = log.read_text()
    assert "reading changed files of passwords and permissions, and certificates" in said
    assert f"{acl}: read again" in said and "[NOTICE] stopped" in said
    assert "[ERROR] listener.https.default: no certificate; the earlier certificate stays" in said


def test_the_log_names_a_new_data_directory_and_one_whose_content_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both look like a node that has lost its sessions: a start in another current directory, and one in memory."""

    def said(place: str = "here", **more: str) -> str:
        wanted = settings(tmp_path, platform_data_dir=place, **more)
        assert asyncio.run(daemon.serve(wanted, [Interrupter([], signal.SIGTERM)])) == 0
        return capsys.readouterr().out

    new = f"[NOTICE] {tmp_path}/here is a new data directory: the node begins without sessions and messages"
    ignored = f"the node ignores the sessions and messages that an earlier start has left in {tmp_path}/here/messages"
    first, second, in_memory = said(), said(), said(message_store__engine="memory")
    assert [new in text for text in (first, second, in_memory)] == [True, False, False]
    assert [ignored in text for text in (first, second, in_memory)] == [False, False, True]
    assert ignored not in said("there", message_store__engine="memory")


class Faulty(Interrupter):
    """An extension whose stop fails."""

    async def stop(self) -> None:
        """For example the folder of its socket is gone."""
        raise OSError("no such folder")


def test_a_stop_that_fails_is_no_start_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a defect, which the log has, and the server stops in order nevertheless."""
    diary: list[str] = []
    stop = Server.stop

    async def noted(server: Server) -> None:
        await stop(server)
        diary.append("server stops")

    monkeypatch.setattr(Server, "stop", noted)
    with pytest.raises(OSError, match="no such folder"):
        asyncio.run(daemon.serve(settings(tmp_path), [Part("one", diary), Faulty(diary, signal.SIGTERM)]))
    assert diary == ["one starts", "interrupter starts", "server stops"]
    said = capsys.readouterr()
    assert "[ERROR] the node has ended because of a defect: OSError('no such folder')" in said.out
    assert "cannot start" not in said.out + said.err
    assert asyncio.run(daemon.serve(settings(tmp_path), [Interrupter(diary, signal.SIGTERM)])) == 0


def test_notices_of_the_configuration_are_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys without effect are named once at start."""
    wanted = settings(tmp_path, erlang__process_limit="32768")
    assert asyncio.run(daemon.serve(wanted, [Interrupter([], signal.SIGTERM)])) == 0
    assert "[WARNING] accepted, but without effect in this broker: erlang.process_limit" in capsys.readouterr().out


def test_the_first_signal_lets_the_node_wait_for_others_and_the_second_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary: list[str] = []

    async def noted(server: Server, at_once: asyncio.Event) -> None:
        assert server.listeners.show() and not at_once.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(at_once.wait(), 5)
        diary.append("waits no more")

    monkeypatch.setattr(Server, "await_copies", noted)
    assert asyncio.run(daemon.serve(settings(tmp_path), [Interrupter(diary, signal.SIGTERM)])) == 0
    assert diary == ["interrupter starts", "waits no more", "interrupter stops"]


def test_the_service_manager_hears_of_the_whole_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/system/test_service.py does it with processes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
        manager.bind(str(tmp_path / "notify"))

        def heard() -> list[str]:
            found = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    found.append(manager.recv(8192).decode())
            return found

        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        diary: list[str] = []
        assert asyncio.run(daemon.serve(settings(tmp_path), [Interrupter(diary, signal.SIGTERM)])) == 0
        assert "NOTIFY_SOCKET" not in os.environ
        assert heard() == [
            "STATUS=The node is starting.",
            "EXTEND_TIMEOUT_USEC=30000000",
            "READY=1\nSTATUS=VerneMQ@127.0.0.1 serves clients.",
            "STOPPING=1\nSTATUS=The node is stopping.\nEXTEND_TIMEOUT_USEC=48000000",
            "STATUS=The node has stopped.",
        ]
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert asyncio.run(daemon.serve(settings(tmp_path), [Waiter("waits", diary)])) == 0
        assert [each.partition("=")[0] for each in heard()] == ["STATUS", "EXTEND_TIMEOUT_USEC", "STOPPING", "STATUS"]
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        parts = [Part("one", diary, ListenError("the port is taken"))]
        assert asyncio.run(daemon.serve(settings(tmp_path), parts)) == 1
        assert heard()[-1] == "STATUS=The node cannot start: the port is taken"
