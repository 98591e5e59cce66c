"""Listening for other nodes, on a port that something that is over may hold for a while.

The usual port, 44053, is one of those that the system gives to outgoing connections. One of them, or what is left of it
(TIME-WAIT, a minute), holds the port although nobody listens there: then the start waits instead of ending.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from ...cluster.membership.discovery import AddressError, parse_address
from ...cluster.transport.wire import Accept, Calls, Transport, TransportError

PATIENCE_S = 75.0
"""How long the start waits: TIME-WAIT takes 60 s."""
AGAIN_S = 1.0
"""How often it tries."""


async def listen(
    transport: Transport, address: str, accept: Accept, calls: Calls, log: Callable[[str, str], None]
) -> str:
    """`Transport.serve`; where the port is held and nobody listens there, again and again for `PATIENCE_S`. Raises
    `TransportError`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    said = False
    while True:
        try:
            return await transport.serve(address, accept, calls)
        except TransportError:
            if loop.time() >= end or not await loop.run_in_executor(None, held_by_what_passes, address):
                raise
        if not said:
            said = True
            log(
                "warning",
                f"listener.vmq: {address} is held by a connection of this machine, open or just closed, and "
                f"nobody listens there: trying for {PATIENCE_S:.0f} s. To prevent it, take the port out of "
                "net.ipv4.ip_local_port_range with net.ipv4.ip_local_reserved_ports",
            )
        await asyncio.sleep(AGAIN_S)


def held_by_what_passes(address: str) -> bool:
    """Whether the port cannot be had, and not because somebody listens there; blocks for a moment."""
    try:
        host, port = parse_address(address)
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (AddressError, OSError):
        return False
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(place)
            return False  # it can be had again, or it is about something else
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return False
    return not _answers(family, place)


def _answers(family: int, place: tuple[object, ...]) -> bool:
    """Whether somebody listens there: the own connection of whoever holds the port is none."""
    with socket.socket(family, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(place)
        except OSError:
            return False
        itself: bool = caller.getsockname() == caller.getpeername()
        return not itself
