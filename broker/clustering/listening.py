"""Listening for other nodes, on a port that a closed connection may still hold for a while.

The usual port, 44053, is one of those that the system gives to outgoing connections. Such a connection, or its
TIME-WAIT (a minute), holds the port although no process listens there: then the start waits instead of ending.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from enum import Enum, auto

from ...cluster.membership.discovery import AddressError, parse_address
from ...cluster.transport.wire import Accept, Calls, Transport, TransportError

PATIENCE_S = 75.0
"""How long the start waits: TIME-WAIT takes 60 s."""
AGAIN_S = 1.0
"""The time between two attempts."""


async def listen(
    transport: Transport, address: str, accept: Accept, calls: Calls, log: Callable[[str, str], None]
) -> str:
    """Call `Transport.serve`. If a connection holds the port and no process listens there, try again for `PATIENCE_S`.
    Raises `TransportError`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    said = False
    while True:
        try:
            return await transport.serve(address, accept, calls)
        except TransportError:
            if loop.time() >= end:
                raise
            state = await loop.run_in_executor(None, port_state, address)
            if state is PortState.LISTENING:
                raise
        if state is PortState.FREE:
            # it became free since the attempt; any other error comes again
            return await transport.serve(address, accept, calls)
        if not said:
            said = True
            log(
                "warning",
                f"listener.vmq: {address} is held by a connection of this machine, open or just closed, and no process "
                f"listens there: trying again for {PATIENCE_S:.0f} s. To prevent this, take the port out of "
                "net.ipv4.ip_local_port_range with net.ipv4.ip_local_reserved_ports",
            )
        await asyncio.sleep(AGAIN_S)


class PortState(Enum):
    """FREE: a listener can have the port now, or the address is wrong; HELD: a connection has it, and no process
    listens there; LISTENING: a process listens there."""

    FREE = auto()
    HELD = auto()
    LISTENING = auto()


def port_state(address: str) -> PortState:
    """Find out whether a listener can bind the port. Blocks, for up to about a second."""
    try:
        host, port = parse_address(address)
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (AddressError, OSError):
        return PortState.FREE
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return PortState.LISTENING if _answers(family, place) else PortState.HELD
    return PortState.FREE


def _answers(family: int, place: tuple[object, ...]) -> bool:
    """True if a process listens there; a connection that holds the port does not count."""
    with socket.socket(family, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(place)
        except OSError:
            return False
        itself: bool = caller.getsockname() == caller.getpeername()
        return not itself
