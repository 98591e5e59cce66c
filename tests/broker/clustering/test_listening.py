"""A port that a connection holds while no process listens on it: the start waits for this case only."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest

from strogoff.broker.clustering import listening
from strogoff.broker.clustering.listening import PortState, listen, port_state
from strogoff.cluster.transport.wire import TransportError

AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: close with a reset, without TIME-WAIT."""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        yield listening_socket


def outgoing(server: socket.socket) -> socket.socket:
    """A connection whose local port the system has chosen, as it could choose 44053.

    It has an address of its own: no connection of another process takes the port when this one is closed.
    """
    caller = socket.create_connection(server.getsockname(), source_address=("127.0.0.3", 0))
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    return caller


def address(of: socket.socket) -> str:
    host, port = of.getsockname()
    return f"{host}:{port}"


class Serves:
    """A transport that binds as gRPC does; `tries` counts its attempts."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.tries = 0

    async def serve(self, address: str, accept: object, calls: object) -> str:
        self.tries += 1
        host, _, port = address.rpartition(":")
        with socket.socket() as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                if self.broken:
                    raise OSError("no certificate")
                bound.bind((host, int(port)))
            except OSError as error:
                raise TransportError("cannot listen") from error
        return address


def start(transport: Serves, where: str, log: object) -> str:
    return asyncio.run(listen(transport, where, None, None, log))  # type: ignore[arg-type]


def test_port_state_tells_held_free_and_listening_ports(server: socket.socket) -> None:
    with outgoing(server) as caller:
        assert port_state(address(caller)) is PortState.HELD
        free = address(caller)
    assert port_state(free) is PortState.FREE
    assert port_state(address(server)) is PortState.LISTENING
    for wrong in ("192.0.2.1:44053", "127.0.0.1:0", "no.such.name.invalid:1"):
        assert port_state(wrong) is PortState.FREE


def test_time_wait_holds_a_port(server: socket.socket) -> None:
    """The end that closes first keeps the port for a minute; SO_REUSEADDR does not help with the port of a client."""
    caller = socket.create_connection(server.getsockname())
    where = address(caller)
    accepted, _ = server.accept()
    caller.close()
    assert accepted.recv(1) == b""
    accepted.close()
    assert port_state(where) is PortState.HELD


def test_the_start_waits_until_the_port_is_free_and_logs_it_once(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "AGAIN_S", 0.01)
    caller = outgoing(server)
    where, lines, transport = address(caller), list[str](), Serves()

    def log(level: str, text: str) -> None:
        lines.append(f"{level}: {text}")
        asyncio.get_running_loop().call_later(0.1, caller.close)

    assert start(transport, where, log) == where
    (line,) = lines
    assert line.startswith(f"warning: listener.vmq: {where} is held by a connection") and transport.tries > 2


def test_a_port_that_becomes_free_between_attempt_and_check_is_taken(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = outgoing(server)
    where, transport = address(caller), Serves()

    def closed_meanwhile(held: str) -> PortState:
        caller.close()
        return port_state(held)

    monkeypatch.setattr(listening, "port_state", closed_meanwhile)
    assert start(transport, where, lambda level, text: pytest.fail(text)) == where
    assert transport.tries == 2


@pytest.mark.parametrize(("broken", "tries"), [(False, 1), (True, 2)])
def test_a_listener_or_another_error_ends_the_start_at_once(server: socket.socket, broken: bool, tries: int) -> None:
    transport = Serves(broken)
    # no process uses this port of 127.0.0.2, because this test holds the same port of 127.0.0.1
    free = f"127.0.0.2:{server.getsockname()[1]}"
    with pytest.raises(TransportError):
        start(transport, free if broken else address(server), lambda level, text: pytest.fail(text))
    assert transport.tries == tries


def test_the_wait_for_a_port_is_bounded(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "AGAIN_S", 0.01)
    monkeypatch.setattr(listening, "PATIENCE_S", 0.05)
    with outgoing(server) as caller, pytest.raises(TransportError):
        start(Serves(), address(caller), lambda level, text: None)
