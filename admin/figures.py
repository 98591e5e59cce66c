"""Figures of a node that take too long for a page of metrics: free space, certificates, the state of connections.

A task takes them every few seconds. What reads files runs in a thread, because a disk may hang.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..broker.process.server import Server
from ..cluster.transport.certificates import CertificateError, from_pem, read_expiry
from ..configs import ListenerSettings

if TYPE_CHECKING:
    from ..broker.connection.connection import ClientConnection

EVERY_S = 10.0
"""The time between two looks."""
STEP = 1000
"""Connections to look at before other tasks of the event loop run."""
REASONS = ("cluster", "disk", "hook", "output", "parked", "throttle", "unanswered")
"""What a connection may wait for so long that an operator wants to know it (docs/operations.md#metrics)."""


class Disk(NamedTuple):
    """The file system of the data directory: bytes that the node may still use, and bytes of all."""

    free: int
    size: int


class Figures:
    """The figures as they were at the last look. `disk` is None if the data directory cannot be read.

    `certificates`: listener -> end of its certificate, in seconds since 1970; 0 if the file cannot be read. `paused`:
    each of `REASONS` -> connections that the node did not read because of it. `waiting`: messages in the queues of
    connected clients, without those in flight.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None
        self.disk: Disk | None = None
        self.certificates: dict[str, int] = {}
        self.paused = dict.fromkeys(REASONS, 0)
        self.waiting = 0

    async def start(self) -> None:
        """Look once, and from now on every few seconds."""
        await self.look()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def look(self) -> None:
        """Take all figures now."""
        files = certificate_files(self._server.settings.listeners())
        self.disk, self.certificates = await asyncio.to_thread(_read, self._server.data_dir, files)
        self.paused, self.waiting = await of_connections(self._server.node.connections)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()


def certificate_files(listeners: Iterable[ListenerSettings]) -> dict[str, str]:
    """The files with the certificates of listeners that have one, by the listeners' keys."""
    return {each.key: each.certfile for each in listeners if each.type in ("ssl", "wss", "https", "vmqs")}


async def of_connections(connections: Mapping[int, ClientConnection]) -> tuple[dict[str, int], int]:
    """Count `paused` and `waiting`."""
    paused = dict.fromkeys(REASONS, 0)
    waiting = 0
    for number, connection in enumerate(list(connections.values()), 1):
        for reason in _reasons(connection):
            paused[reason] += 1
        if connection.session is not None:
            waiting += connection.session.queue.known_size
        if number % STEP == 0:
            await asyncio.sleep(0)
    return paused, waiting


def _reasons(connection: ClientConnection) -> Iterator[str]:
    flow = connection.flow
    if flow.paused_for:  # a connection that is held is paused as well
        yield from (reason for reason in REASONS if reason in flow.paused_for or reason in flow.held_for)


def _read(folder: Path, files: Mapping[str, str]) -> tuple[Disk | None, dict[str, int]]:
    return _disk(folder), {key: _expiry(path) for key, path in files.items()}


def _disk(folder: Path) -> Disk | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def _expiry(path: str) -> int:
    """The end of the certificate of this file, or of one of its chain that ends earlier."""
    try:
        return min([read_expiry(der) for der in from_pem(Path(path).read_bytes(), "CERTIFICATE")], default=0)
    except (OSError, CertificateError):
        return 0
