"""A reserved port belongs to the test until it is released."""

from __future__ import annotations

import socket

import pytest

from strogoff.testing.reserved_port import reserve

HOST = "127.0.0.1"


def test_another_program_does_not_get_a_reserved_port() -> None:
    with reserve(HOST) as reserved:
        port = reserved.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, port))
    with reserve(HOST, port) as again:
        assert again.getsockname()[1] == port


def test_a_broker_can_listen_on_a_reserved_port() -> None:
    with reserve(HOST) as reserved, socket.socket() as broker:
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        broker.bind(reserved.getsockname())
        broker.listen()
        with socket.create_connection(reserved.getsockname(), 5):
            pass
