"""The daemon: started with a vernemq.conf, refused with a clear line, stopped by a signal."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.broker_process import BrokerProcess, free_port
from tests.harness.thinning import thinned

from ..configs.test_loader import stock
from .brokers import WITHIN_S, Background, Certificates, ConfBroker, until
from .paho_client import MQTT_5, Paho

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

SHIPPED = Path(__file__).parents[2] / "configs"


def start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a `strogoff start` that is expected to end by itself."""
    command = [sys.executable, "-m", "strogoff", "start", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S)


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()


@pytest.fixture
def broker(background: Background, tmp_path: Path, port: int) -> Iterator[BrokerProcess]:
    """A running broker without access control; its log must have no error at the end."""
    process = BrokerProcess(tmp_path / "data", port)
    background.run(process.start())
    yield process
    background.run(process.stop())
    assert process.tracebacks() == []


def test_the_shipped_vernemq_conf(background: Background, tmp_path: Path) -> None:
    """It serves unchanged, apart from the ports; the log is in log/console.log."""
    port, http = free_port(), free_port()
    text = (SHIPPED / "vernemq.conf").read_text().replace("127.0.0.1:1883", f"127.0.0.1:{port}")
    broker = ConfBroker(tmp_path, text.replace("127.0.0.1:8888", f"127.0.0.1:{http}"), port)
    background.run(broker.start())
    try:
        # allow_anonymous is off and there is no password file, so every client is refused
        with Paho(None, "stranger", MQTT_5, port=port, expect=0x86) as stranger:
            assert stranger.gone.wait(WITHIN_S)
        assert (tmp_path / "data" / "strogoff.json").exists()
    finally:
        assert background.run(broker.stop()) == 0
    log = (tmp_path / "log" / "console.log").read_text()
    assert f"listener.tcp.default: listening on 127.0.0.1:{port}" in log and "[NOTICE] stopped" in log
    assert "/etc/vmq.passwd: no client can log in with a password" in log
    assert "Traceback" not in log and broker.tracebacks() == []


def test_a_vernemq_conf_with_every_key_of_vernemq(background: Background, tmp_path: Path) -> None:
    """All 633 keys at their defaults, as an administrator may bring them: the broker starts and serves."""
    Certificates(tmp_path)
    (tmp_path / "etc").mkdir()
    shutil.copy(SHIPPED / "vmq.acl", tmp_path / "etc" / "vmq.acl")
    (tmp_path / "etc" / "vmq.passwd").write_text("alice:wonder\n")
    subprocess.run(
        [sys.executable, "-m", "strogoff.broker.plugins.passwd_cli", "-U", str(tmp_path / "etc" / "vmq.passwd")],
        check=True,
    )
    text = stock(tmp_path)
    text = re.sub(r"(?m)^(listener\.[a-z]+\.stock = [0-9.]+):[0-9]+$", lambda at: f"{at[1]}:{free_port()}", text)
    text += "\ndistributed_cookie = 5f0c\n"  # the only default with which no node of a cluster starts
    found = re.search(r"(?m)^listener\.tcp\.stock = [0-9.]+:([0-9]+)$", text)
    assert found is not None
    port = int(found[1])
    broker = ConfBroker(tmp_path, text, port)
    background.run(broker.start())
    try:
        with Paho(None, "reader", MQTT_5, port=port, user="alice", password="wonder") as reader:
            assert reader.subscribe("greetings/#", 2) == [2]
            with Paho(None, "writer", 4, port=port, user="alice", password="wonder") as writer:
                writer.publish("greetings/morning", b"hello", 2)
            assert reader.next().payload == b"hello"
    finally:
        assert background.run(broker.stop()) == 0
    assert "Traceback" not in (tmp_path / "log" / "console.log").read_text() and broker.tracebacks() == []


def test_a_wrong_configuration_stops_the_start(tmp_path: Path) -> None:
    """All mistakes at once, each with its line and a suggestion; exit 1; nothing is written to disk."""
    conf = tmp_path / "vernemq.conf"
    conf.write_text("allow_anonymous = on\nallow_anonimous = on\nretry_interval = soon\n")
    ended = start(tmp_path, "-c", str(conf))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{conf}:2: allow_anonimous: unknown key" in ended.stderr and "did you mean allow_anonymous?" in ended.stderr
    assert f"{conf}:3: retry_interval: " in ended.stderr and 'found "soon"' in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == [conf]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-c", "no-such-file.conf"], "no-such-file.conf"),
        (["--set", "nothing=1"], "nothing: unknown key"),
        (["--set", "listener.tcp.default=127.0.0.1:99999"], "listener.tcp.default"),
        (["--set", "plugins.python.mine=no_such_module:Plugin"], "no_such_module"),
        (["--data-dir", "/proc/nothing"], "/proc/nothing"),
    ],
)
def test_an_unusable_file_is_named(tmp_path: Path, words: list[str], said: str) -> None:
    """Exit 1 without a traceback in every case."""
    ended = start(tmp_path, "--set", "log.console=off", *words)
    assert ended.returncode == 1
    assert said in ended.stderr and "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 4


def test_a_wrong_command_line_is_status_2(tmp_path: Path) -> None:
    """With the usage, as other programs do."""
    for words in (["--nothing"], ["--set", "no-equals-sign"]):
        ended = start(tmp_path, *words)
        assert ended.returncode == 2 and "usage: strogoff start" in ended.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    """One clear line."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"127.0.0.1:{other.getsockname()[1]}"
        ended = start(tmp_path, "--set", f"listener.tcp.default={place}", "--set", "log.console=off")
    assert ended.returncode == 1
    assert ended.stderr == (
        f"strogoff: the node cannot start: listener.tcp.default: cannot listen on {place}: address already in use\n"
    )


def test_a_data_directory_in_use(broker: BrokerProcess, tmp_path: Path) -> None:
    """The second process names the first; the first continues."""
    process = broker.process
    assert process is not None
    ended = start(tmp_path, "--data-dir", str(broker.data), "--set", "log.console=off")
    assert ended.returncode == 1
    assert f"{broker.data} is in use by process {process.pid}: stop that process first" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    with Paho(None, "still", MQTT_5, port=broker.port) as client:
        assert client.publish("still/here", b"", 1) == 0x10


def test_the_data_of_another_node(background: Background, broker: BrokerProcess, tmp_path: Path) -> None:
    """The error has both names, and nothing is changed."""
    background.run(broker.stop())
    marker = (broker.data / "strogoff.json").read_bytes()
    ended = start(tmp_path, "--data-dir", str(broker.data), "--set", "nodename=other@127.0.0.1")
    assert ended.returncode == 1
    assert "holds the data of node 'VerneMQ@127.0.0.1', but this node is 'other@127.0.0.1'" in ended.stderr
    assert (broker.data / "strogoff.json").read_bytes() == marker


@pytest.mark.parametrize("how", thinned(["SIGTERM", "SIGINT"], 2))
def test_a_signal_stops_the_broker_and_clients_get_a_disconnect(
    background: Background, broker: BrokerProcess, how: str
) -> None:
    """Exit 0 within a bound, also with clients that have much to get and do not read; version 5 gets 0x8B.

    [MQTT5-4.13.1-1] allows DISCONNECT with the reason before the connection is closed.
    """
    with (
        Paho(None, "five", MQTT_5, port=broker.port) as five,
        Paho(None, "four", 4, port=broker.port) as four,
        socket.create_connection(("127.0.0.1", broker.port)) as silent,
        socket.create_connection(("127.0.0.1", broker.port)) as deaf,
    ):
        deaf.sendall(b"\x10\x10\0\x04MQTT\x04\x02\0\0\0\x04deaf" + b"\x82\x06\0\x01\0\x01#\0")
        assert deaf.recv(4) == b"\x20\x02\0\0" and deaf.recv(5) == b"\x90\x03\0\x01\0"
        for _ in range(30):
            five.publish("much", bytes(1 << 20), 0)
        five.publish("much", b"", 1)
        status = background.run(broker.stop() if how == "SIGTERM" else broker.interrupt(), within_s=20)
        assert status == 0
        assert five.gone.wait(WITHIN_S) and four.gone.wait(WITHIN_S)
        assert five.gone_reason.value == 0x8B
        silent.settimeout(WITHIN_S)
        assert silent.recv(1) == b""


def test_a_restart_remembers(background: Background, broker: BrokerProcess) -> None:
    """Sessions, subscriptions, queued and retained messages. [MQTT-4.1.0-2] [MQTT5-4.1.0-1]"""
    stays: dict[str, Any] = {"clean": False, "connect": {"SessionExpiryInterval": 1000}}
    with Paho(None, "reader", MQTT_5, port=broker.port, **stays) as reader:
        reader.subscribe("news/#", 2)
    with Paho(None, "writer", MQTT_5, port=broker.port) as writer:
        writer.publish("news/kept", b"retained", 1, retain=True)
        for number in range(10):
            writer.publish("news/live", b"%d" % number, 2)
    assert background.run(broker.stop()) == 0
    background.run(broker.start())
    with Paho(None, "reader", MQTT_5, port=broker.port, **stays) as reader:
        assert reader.session_present
        assert reader.payloads(11) == [b"retained", *(b"%d" % number for number in range(10))]
    with Paho(None, "late", 4, port=broker.port) as late:
        late.subscribe("news/kept", 1)
        assert late.next().payload == b"retained"


@pytest.mark.slow
def test_log_files_and_broken_rules_while_running(background: Background, tmp_path: Path, port: int) -> None:
    """log.console = both: file and terminal. An ACL file that becomes wrong is an error, and the old rules stay."""
    (tmp_path / "vmq.acl").write_text("topic open/#\n")
    broker = BrokerProcess(
        tmp_path / "data",
        port,
        log__console="both",
        log__console__file=str(tmp_path / "logs" / "console.log"),
        log__error="on",
        log__error__file=str(tmp_path / "logs" / "error.log"),
        vmq_acl__acl_file=str(tmp_path / "vmq.acl"),
        vmq_acl__acl_reload_interval="1",
    )
    background.run(broker.start())
    try:
        (tmp_path / "vmq.acl").write_text("nonsense\n")
        errors = tmp_path / "logs" / "error.log"
        until(lambda: errors.exists() and "the old rules stay" in errors.read_text())
        assert f"{tmp_path}/vmq.acl:1: " in errors.read_text()
        with Paho(None, "client", MQTT_5, port=port) as client:
            assert client.subscribe("open/#", 1) == [1]
            assert client.subscribe("closed/#", 1) == [0x87]
            (tmp_path / "vmq.acl").write_text("topic closed/#\n")
            until(lambda: client.subscribe("closed/#", 1) == [1])
    finally:
        assert background.run(broker.stop()) == 0
    console = (tmp_path / "logs" / "console.log").read_text()
    assert "[NOTICE] stopped" in console and "[NOTICE] stopped" in broker.log.read_text()
    assert "Traceback" not in console + errors.read_text()


def test_clients_that_connect_during_the_stop(background: Background, broker: BrokerProcess) -> None:
    """Connections that come in the midst of stopping neither hang it nor leave a traceback."""

    async def knock() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                writer.write(b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0")
                await reader.read()
                writer.close()
            except OSError:
                return

    async def run_test() -> int:
        crowd = [asyncio.create_task(knock()) for _ in range(50)]
        with socket.create_connection(("127.0.0.1", broker.port)) as first:
            first.sendall(b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0")
            assert await asyncio.to_thread(first.recv, 4) == b"\x20\x02\0\0"
        status = await broker.stop()
        await asyncio.wait_for(asyncio.gather(*crowd), WITHIN_S)
        return status

    assert background.run(run_test()) == 0
