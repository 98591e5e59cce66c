"""Clients that flood a real broker: other clients are served meanwhile, and a signal is handled."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port
from tests.harness.thinning import thinned

from .brokers import WITHIN_S, Background

CONNECT = b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0"
PUBLISH = b"\x30\x03\0\x01f"
PUBLISH_1 = b"\x32\x05\0\x01t\0\x01"
PINGREQ = b"\xc0\0"

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]


@pytest.fixture
def broker(background: Background, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker without access control."""
    process = BrokerProcess(tmp_path / "data", free_port())
    background.run(process.start())
    yield process
    background.run(process.stop())
    assert process.tracebacks() == []


def connected(port: int) -> socket.socket:
    """Returns an accepted connection."""
    client = socket.create_connection(("127.0.0.1", port), WITHIN_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(CONNECT)
    assert client.recv(4) == b"\x20\x02\0\0"
    return client


@contextmanager
def flood(port: int, frame: bytes) -> Iterator[None]:
    """Eight connections that send as much as the broker reads, and read no answer."""
    over = threading.Event()
    clients = [connected(port) for _ in range(8)]
    data = frame * (100_000 // len(frame))

    def send(client: socket.socket) -> None:
        client.settimeout(1)
        while not over.is_set():
            try:
                client.sendall(data)
            except OSError:
                return  # it is not read any more, or the broker has stopped

    threads = [threading.Thread(target=send, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(WITHIN_S)
        for client in clients:
            client.close()


@pytest.mark.parametrize("frame", thinned([PUBLISH, PINGREQ], 2))
def test_others_are_served_and_the_broker_stops_during_a_flood(
    background: Background, broker: BrokerProcess, frame: bytes
) -> None:
    """Round trips of a quiet client stay short, and SIGTERM ends the process as fast as without a flood."""
    with connected(broker.port) as polite, flood(broker.port, frame):
        took = []
        for _ in range(30):
            begin = time.monotonic()
            polite.sendall(PUBLISH_1)
            assert polite.recv(4) == b"\x40\x02\0\x01"
            took.append(time.monotonic() - begin)
        assert statistics.median(took) < 0.3, took
        begin = time.monotonic()
        assert background.run(broker.stop(), within_s=20) == 0
        assert time.monotonic() - begin < 6
