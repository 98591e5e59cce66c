"""A node under a service manager: `strogoff start` with a socket in place of systemd's, `strogoff ping` and `stop`."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port

from .brokers import WITHIN_S, Background, until

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

WATCHDOG_S = 0.1
SILENCE_S = 5 * WATCHDOG_S
CONNECT = b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01c"
ACCEPTED = b"\x20\x02\0\0"
HANGS = """
class Plugin:
    def auth_on_register(self, *arguments):
        open({mark!r}, "w").close()
        open({fifo!r}).close()
        return True
"""


class Service(BrokerProcess):
    """A node whose service manager listens at `notify`, and wants to hear from it every `WATCHDOG_S` seconds."""

    def __init__(self, folder: Path, notify: str, **settings: str) -> None:
        super().__init__(folder / "data", free_port(), **settings)
        self.notify = notify

    def command(self) -> list[str]:
        usec = int(WATCHDOG_S * 1e6)
        variables = f"NOTIFY_SOCKET={shlex.quote(self.notify)} WATCHDOG_USEC={usec} WATCHDOG_PID=$$"
        more = f"PYTHONPATH={shlex.quote(str(self.data.parent))}"
        return ["sh", "-c", f"{variables} {more} exec {shlex.join(super().command())}"]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Manager:
    """The socket of the service manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))

    def next(self, within_s: float = WITHIN_S) -> str:
        """The next datagram. Raises TimeoutError."""
        self.socket.settimeout(within_s)
        return self.socket.recv(8192).decode()

    def hear(self, wanted: str) -> list[str]:
        """All datagrams up to the first that begins with `wanted`."""
        heard = [self.next()]
        while not heard[-1].startswith(wanted):
            heard.append(self.next())
        return heard

    def silence(self) -> bool:
        """Read what was sent before; returns whether nothing comes afterwards."""
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(8192)
        except BlockingIOError:
            pass
        try:
            self.next(SILENCE_S)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


def strogoff(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strogoff", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def test_a_node_tells_how_it_is_and_a_loop_that_hangs_says_nothing(
    background: Background, tmp_path: Path, manager: Manager
) -> None:
    """READY when a client can connect; the watchdog, but not while the process is stopped or a plugin blocks the event
    loop; STOPPING on SIGTERM.
    """
    fifo, mark = tmp_path / "fifo", tmp_path / "mark"
    os.mkfifo(fifo)
    (tmp_path / "hangs.py").write_text(HANGS.format(fifo=str(fifo), mark=str(mark)))
    more = {"allow_anonymous": "off", "plugins__vmq_passwd": "off", "plugins__python__hangs": "hangs:Plugin"}
    node = Service(tmp_path, str(manager.path), **more)
    background.run(node.start())
    try:
        before = manager.hear("READY=1")
        assert before[0] == "WATCHDOG=1" and "STATUS=The node is starting." in before
        assert before[-1] == "READY=1\nSTATUS=VerneMQ@127.0.0.1 serves clients."
        assert [manager.next() for _ in range(3)] == ["WATCHDOG=1"] * 3

        os.kill(node.pid, signal.SIGSTOP)
        until(node.is_stopped)
        assert manager.silence()
        os.kill(node.pid, signal.SIGCONT)
        manager.hear("WATCHDOG=1")

        with socket.create_connection(("127.0.0.1", node.port), WITHIN_S) as client:
            client.sendall(CONNECT)
            until(mark.exists)
            assert manager.silence()
            assert strogoff("ping", "--data-dir", str(node.data), "--timeout", "0.2").returncode == 1
            with fifo.open("w"):
                pass
            assert client.recv(4) == ACCEPTED
        manager.hear("WATCHDOG=1")
    finally:
        status = background.run(node.stop())
    assert status == 0
    after = manager.hear("STATUS=The node has stopped.")
    assert "STOPPING=1\nSTATUS=The node is stopping.\nEXTEND_TIMEOUT_USEC=48000000" in after
    assert node.tracebacks() == []


def test_a_wrong_socket_is_one_warning_and_the_node_serves(background: Background, tmp_path: Path) -> None:
    """Also `strogoff ping` and `strogoff stop`, as an operator uses them."""
    node = Service(tmp_path, str(tmp_path / "nobody"))
    background.run(node.start())
    place = ["--data-dir", str(node.data)]
    ping = strogoff("ping", *place)
    assert (ping.returncode, ping.stdout, ping.stderr) == (0, "pong\n", "")
    stop = strogoff("stop", *place)
    said = f"Process {node.pid} of node 'VerneMQ@127.0.0.1' has stopped.\n"
    assert (stop.returncode, stop.stdout, stop.stderr) == (0, said, "")
    assert node.process is not None and background.run(node.process.wait()) == 0
    lines = node.log.read_text()
    assert lines.count("NOTIFY_SOCKET=") == 1 and f"NOTIFY_SOCKET={tmp_path}/nobody: No such file or dir" in lines
    assert "[NOTICE] stopped" in lines and node.tracebacks() == []


@pytest.mark.slow
def test_a_file_system_that_is_read_only_but_for_the_data(background: Background, tmp_path: Path) -> None:
    """As with `ProtectSystem=strict`, and without a single capability. Nothing is written elsewhere."""
    state = tmp_path / "state"
    state.mkdir()
    home = shlex.quote(str(state))
    prepare = f"mount --make-rprivate / && mount --bind {home} {home} && mount -o remount,bind,ro / && cd {home}"
    probe = ["unshare", "--mount", "sh", "-c", f"{prepare} && ! touch ../refused 2>&1 && touch written"]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    if tried.returncode != 0:
        # not a matter of STROGOFF_NO_SKIP: where mounting is not permitted there is nothing to install
        pytest.skip(f"mounts of its own are not permitted here: {tried.stderr.strip()}")

    class ReadOnly(BrokerProcess):
        def command(self) -> list[str]:
            none = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
            run = f"{prepare} && exec {none} {shlex.join(super().command())}"
            return ["unshare", "--mount", "sh", "-c", run]

    node = ReadOnly(state / "data", free_port())
    node.log = tmp_path / "node.log"
    background.run(node.start())
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
    with socket.create_connection(("127.0.0.1", node.port), WITHIN_S) as client:
        client.sendall(CONNECT)
        assert client.recv(4) == ACCEPTED
    assert background.run(node.stop()) == 0
    assert node.tracebacks() == [] and (state / "data" / "strogoff.json").exists()
