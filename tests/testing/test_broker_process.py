"""The broker as a process: a port that is kept, a real kill, and a failed start with its reason."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from strogoff.testing.broker_process import BrokerProcess
from strogoff.testing.client import Client

from .run_sample import run_sample

pytest_plugins = "pytester"
pytestmark = pytest.mark.system


def test_kill_and_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledged data is restored, on the same port. Values come from `conf` alone, and not from the environment."""
    monkeypatch.setenv("DOCKER_VERNEMQ_MAX_CLIENT_ID_SIZE", "1")

    async def talk(port: int, present: bool) -> None:
        async with Client("rx", port=port, clean_start=False) as rx:
            assert rx.session_present is present
            await rx.subscribe("t", qos=1)

    with BrokerProcess({"systree_enabled": False, "max_inflight_messages": 7}, tmp_path) as broker:
        port, pid = broker.port, broker.pid
        assert not broker.ended
        assert broker.url == f"mqtt://127.0.0.1:{port}"
        asyncio.run(talk(port, False))
        broker.kill()
        assert broker.ended
        with pytest.raises(RuntimeError, match="does not run"):
            assert broker.pid
        broker.start()
        assert broker.port == port and broker.pid != pid
        pid = broker.pid
        with pytest.raises(RuntimeError, match=f"runs already, as process {pid}"):
            broker.start()
        assert broker.pid == pid
        asyncio.run(talk(port, True))
    broker.close()


def test_the_fixture_starts_it_again_for_the_next_test(pytester: pytest.Pytester) -> None:
    """With its port and its data. If it has ended by itself, tests fail: that may be a defect."""
    source = """
        import asyncio, os, signal
        import pytest
        from strogoff.testing import Client

        async def talk(port, present):
            async with Client("rx", port=port, clean_start=False) as rx:
                assert rx.session_present is present

        def test_kill(mqtt_broker_proc):
            asyncio.run(talk(mqtt_broker_proc.port, False))
            mqtt_broker_proc.kill()

        def test_without():
            pass

        def test_again(mqtt_broker_proc):
            asyncio.run(talk(mqtt_broker_proc.port, True))
            os.kill(mqtt_broker_proc.pid, signal.SIGKILL)
            mqtt_broker_proc._process.wait()

        def test_ended_by_itself(mqtt_broker_proc):
            with pytest.raises(ConnectionRefusedError):
                asyncio.run(talk(mqtt_broker_proc.port, True))
            mqtt_broker_proc.start()

        def test_started(mqtt_broker_proc):
            asyncio.run(talk(mqtt_broker_proc.port, True))
    """
    run_sample(pytester, source).assert_outcomes(passed=5)


@pytest.mark.parametrize(("key", "value"), [("log.console", "off"), ("log.console.level", "error")])
def test_a_start_that_logs_nothing(key: str, value: str, tmp_path: Path) -> None:
    """The port is known nevertheless, and no other program has it while the broker does not run."""

    async def talk(port: int) -> None:
        async with Client("rx", port=port) as rx:
            await rx.subscribe("t", qos=1)

    with BrokerProcess({key: value}, tmp_path) as broker:
        assert not [line for line in broker.output if "listening" in line]
        asyncio.run(talk(broker.port))
        broker.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((broker.host, broker.port))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((broker.host, broker.port))


def test_a_failed_start_reports_the_reason() -> None:
    """With the broker's own error; temporary files are removed."""
    broker = BrokerProcess({"max_inflight_mesages": "3"})
    with pytest.raises(RuntimeError, match=r"did not start:(.|\n)*max_inflight_mesages"):
        broker.start()
    broker.close()


def test_a_start_that_is_interrupted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the process nor its data."""
    broker = BrokerProcess()
    seen: list[Any] = []

    def interrupted(timeout: float) -> bool:
        seen.extend([broker._process, broker._temporary])
        raise KeyboardInterrupt

    monkeypatch.setattr(broker._ready, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), broker:
        pass
    process, temporary = seen
    assert process.returncode == -9 and not temporary.exists()
