"""Links between broker processes that can be cut, on loopback and without root.

Each node listens for other nodes at an address that only its relay knows, and tells them the address of the relay. So
all bytes between nodes pass this process. The relay finds in /proc which process has dialled. A cut behaves as with
TCP: the bytes wait, no connection opens, none is closed, and at the heal what waits goes on. Clients reach all nodes
directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path

from .broker_process import free_port
from .cluster_nodes import Node

_CHUNK = 64 << 10
_NONE = "0"
"""The inode of a socket that belongs to no process any more."""
_MAPPED = "0000000000000000FFFF0000" if sys.byteorder == "little" else "00000000000000000000FFFF"
"""An IPv4 address as one of IPv6, as /proc writes it, up to its last 32 bits."""


class RelayedNode(Node):
    """A node behind a relay. `number` counts from 1: it listens at 127.0.1.NUMBER, its relay at 127.0.2.NUMBER."""

    def __init__(self, folder: Path, number: int, **settings: str) -> None:
        super().__init__(folder, f"n{number}", f"127.0.1.{number}", **settings)
        self.number = number
        self.relay = f"127.0.2.{number}"
        self.data_port = free_port()
        self.settings["cluster.address"] = self.relay
        self.settings["cluster.data_port"] = str(self.data_port)

    @property
    def address(self) -> str:
        """The address at which other nodes reach it: that of its relay."""
        return f"{self.relay}:{self.links}"


class Relays:
    """The relays of some nodes. `start` them before the nodes."""

    def __init__(self, nodes: Iterable[RelayedNode]) -> None:
        self.nodes = list(nodes)
        self._cuts: set[frozenset[int]] = set()
        self._whole = asyncio.Event()
        self._whole.set()
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for connections to all nodes."""
        for node in self.nodes:
            for port in (node.links, node.data_port):
                self._servers.append(await asyncio.start_server(self._taken(node, port), node.relay, port))

    def isolate(self, number: int) -> None:
        """Cut a node off from all others."""
        self._cuts |= {frozenset((number, node.number)) for node in self.nodes if node.number != number}
        self._whole.clear()

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()
        self._whole.set()

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _taken(self, node: RelayedNode, port: int):  # type: ignore[no-untyped-def]
        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._open.add(task)
            try:
                await self._relay(node, port, reader, writer)
            finally:
                self._open.discard(task)
                writer.close()

        return taken

    async def _relay(
        self, node: RelayedNode, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        source = self._dialler(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        pair = frozenset((source, node.number))
        await self._until_whole(pair)
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(node.host, port)
            try:
                there = asyncio.ensure_future(self._pump(reader, far_writer, pair))
                back = asyncio.ensure_future(self._pump(far_reader, writer, pair))
                await _first_of(there, back)
            finally:
                far_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: frozenset[int]) -> None:
        while True:
            data = await reader.read(_CHUNK)
            await self._until_whole(pair)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    async def _until_whole(self, pair: frozenset[int]) -> None:
        while pair in self._cuts:
            await self._whole.wait()

    def _dialler(self, peer: tuple[str, int], here: tuple[str, int]) -> int:
        """The number of the node whose process has the other end of a connection; 0: of no node."""
        inode = _inode(peer, here)
        running = [node for node in self.nodes if node.process is not None]
        return next((node.number for node in running if inode and _has(node.pid, inode)), 0)


async def _first_of(*pumps: Awaitable[None]) -> None:
    """Wait for the end of one direction, then end the other one."""
    tasks = [asyncio.ensure_future(each) for each in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _inode(own: tuple[str, int], other: tuple[str, int]) -> str:
    """The inode of the TCP socket with this address and that of its other end, from /proc; "" if there is none. gRPC
    has sockets of IPv6 for IPv4, too. A port may be in use by several sockets, to different addresses, and for a while
    by a connection that has ended, which belongs to no process."""
    ends = [_hexadecimal(*own), _hexadecimal(*other)]
    for table, wanted in (("tcp", ends), ("tcp6", [_MAPPED + each for each in ends])):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1:3] == wanted and fields[9] != _NONE:
                return fields[9]
    return ""


def _hexadecimal(host: str, port: int) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def _has(pid: int, inode: str) -> bool:
    """Whether a process has the socket with this inode."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                    return True
    return False
