"""Ports of tests: no other process gets a port between its choice and the start of the listener."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.broker_process import free_port

TAKE = (
    "from bench.broker_process import free_port as take; print(*(take() for _ in range({count})), flush=True); input()"
)


@pytest.mark.slow
def test_no_two_processes_get_the_same_port() -> None:
    """They choose at the same time, and keep their ports until they end."""
    code = TAKE.format(count=300)
    taking = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        ports = {free_port() for _ in range(300)}
        for each in taking:
            assert each.stdout is not None
            theirs = set(map(int, each.stdout.readline().split()))
            assert len(theirs) == 300 and not theirs & ports
            ports |= theirs
    finally:
        for each in taking:
            each.communicate("\n", timeout=10)


def test_the_system_gives_no_such_port_to_an_outgoing_connection() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1] < low
        with socket.create_connection(server.getsockname()) as caller:
            assert caller.getsockname()[1] >= low
