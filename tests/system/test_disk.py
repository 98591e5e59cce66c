"""A real broker on a damaged, a full and a read-only disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.broker_process import BrokerProcess, free_port

from .brokers import WITHIN_S, Background, until
from .paho_client import MQTT_5, Paho, properties

pytestmark = [pytest.mark.system, pytest.mark.timeout(90)]

STAYS: dict[str, Any] = {"clean": False, "connect": {"SessionExpiryInterval": 100_000}}
KEPT = 300


def strogoff(*words: str) -> subprocess.CompletedProcess[str]:
    """A command that is expected to end by itself."""
    command = [sys.executable, "-m", "strogoff", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)


@pytest.fixture
def used(background: Background, tmp_path: Path) -> BrokerProcess:
    """A stopped broker that holds 300 messages for one client."""
    broker = BrokerProcess(tmp_path / "data", free_port(), max_offline_messages="-1", max_online_messages="-1")
    background.run(broker.start())
    with Paho(None, "reader", MQTT_5, port=broker.port, **STAYS) as reader:
        reader.subscribe("x", 1)
    with Paho(None, "writer", MQTT_5, port=broker.port) as writer:
        for number in range(KEPT):
            writer.publish("x", b"%d" % number, 1)
    assert background.run(broker.stop()) == 0
    assert broker.tracebacks() == []
    return broker


def refused(broker: BrokerProcess) -> str:
    """Returns the error line of a refused start."""
    ended = strogoff(*broker.command()[3:], "--set", "log.console=off")
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


def what_is_left(background: Background, broker: BrokerProcess) -> list[int]:
    """Start it again, and return the messages of the client."""
    background.run(broker.start())
    try:
        with Paho(None, "reader", MQTT_5, port=broker.port, **STAYS) as reader:
            if not reader.session_present:
                return []
            reader.publish("x", b"-1", 1)
            got = list(iter(lambda: int(reader.next().payload), -1))
    finally:
        assert background.run(broker.stop()) == 0
    assert broker.tracebacks() == []
    return got


@pytest.mark.slow
def test_a_lost_list_of_files_is_repaired_without_loss(background: Background, used: BrokerProcess) -> None:
    """The start is refused with file, loss and remedy; `strogoff repair` reports no loss, and nothing is lost."""
    (used.data / "messages" / "CURRENT").unlink()
    line = refused(used)
    assert str(used.data / "messages") in line and "strogoff repair" in line
    repaired = strogoff("repair", str(used.data))
    assert repaired.returncode == 0, repaired
    assert what_is_left(background, used) == list(range(KEPT))


@pytest.mark.slow
def test_a_damaged_log_costs_the_writes_that_repair_reports(background: Background, used: BrokerProcess) -> None:
    """Exit 3 and the number of lost writes; the rest is in order and each message there once."""
    logs = sorted((used.data / "messages").glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(logs[-1].read_bytes())
    middle = len(content) // 2
    content[middle : middle + 300] = bytes(300)
    logs[-1].write_bytes(content)
    line = refused(used)
    assert logs[-1].name in line or str(used.data / "messages") in line
    assert "strogoff repair" in line
    repaired = strogoff("repair", str(used.data))
    assert repaired.returncode == 3, repaired
    assert " writes are lost" in repaired.stdout and logs[-1].name in repaired.stdout
    left = what_is_left(background, used)
    assert left == sorted(set(left)) and len(left) < KEPT


def test_a_missing_database_is_not_created_again(used: BrokerProcess) -> None:
    """A marker says that the database existed."""
    for file in (used.data / "messages").iterdir():
        file.unlink()
    (used.data / "messages").rmdir()
    line = refused(used)
    assert str(used.data / "messages") in line and "the database is missing" in line
    assert not (used.data / "messages").exists()


def test_repair_of_a_directory_without_data(tmp_path: Path) -> None:
    """Exit 1 and a line."""
    ended = strogoff("repair", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr == f"strogoff repair: {tmp_path} holds no database of a node\n"


@pytest.mark.slow
def test_repair_while_the_node_runs_is_refused(background: Background, used: BrokerProcess) -> None:
    """The database is locked; the broker continues."""
    background.run(used.start())
    try:
        ended = strogoff("repair", str(used.data))
        assert ended.returncode == 1 and "in use" in ended.stderr
        with Paho(None, "asks", MQTT_5, port=used.port) as client:
            assert client.publish("nobody", b"", 1) == 0x10
    finally:
        assert background.run(used.stop()) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 96 MB; a skip where this user may not mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "strogoff-test", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        # not a matter of STROGOFF_NO_SKIP: where mounting is not permitted there is nothing to install
        pytest.skip(f"mounting a tmpfs is not permitted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Write a file that takes all free space."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


@pytest.mark.parametrize("durability", ["os", pytest.param("sync", marks=pytest.mark.slow)])
def test_a_full_disk_refuses_and_recovers(background: Background, small_disk: Path, durability: str) -> None:
    """QoS 1 is refused with 0x97 while the disk is full, and accepted afterwards without a restart. The one PUBLISH
    that met the full disk is answered then. Acknowledged messages are kept, also after a restart.
    """
    broker = BrokerProcess(small_disk / "data", free_port(), message_store__durability=durability)
    broker.log = small_disk.parent / "broker.log"
    background.run(broker.start())
    try:
        with Paho(None, "reader", MQTT_5, port=broker.port, **STAYS) as reader:
            reader.subscribe("x", 1)
        with (
            Paho(None, "first", MQTT_5, port=broker.port) as first,
            Paho(None, "then", MQTT_5, port=broker.port) as then,
        ):
            assert first.publish("x", bytes(8000), 1) == 0
            filler = fill(small_disk)
            met = first.client.publish("x", bytes(8000), 1, properties=properties("PUBLISH"))
            until(lambda: "No space left on device" in broker.log.read_text())
            assert [then.publish("x", b"refused", 1) for _ in range(5)] == [0x97] * 5
            then.subscribe("live", 0)
            then.publish("live", b"QoS 0 needs no disk", 0)
            assert then.next().payload == b"QoS 0 needs no disk"
            assert not met.is_published()
            filler.unlink()
            mid, reason = first.answer("publish")
            assert (mid, reason.value) == (met.mid, 0)
            assert then.publish("x", b"accepted", 1) == 0
        assert background.run(broker.stop()) == 0
        background.run(broker.start())
        with Paho(None, "reader", MQTT_5, port=broker.port, **STAYS) as reader:
            assert reader.session_present
            assert reader.payloads(3) == [bytes(8000), bytes(8000), b"accepted"]
            assert reader.publish("x", b"end", 1) == 0
            assert reader.next().payload == b"end"
    finally:
        assert background.run(broker.stop()) == 0
    assert "Traceback" not in broker.log.read_text()


def test_a_read_only_disk(small_disk: Path) -> None:
    """The start names the directory; exit 1."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ended = strogoff("start", "--data-dir", str(small_disk / "data"), "--set", "log.console=off")
    assert ended.returncode == 1
    assert str(small_disk) in ended.stderr and "Read-only file system" in ended.stderr
    assert "Traceback" not in ended.stderr
