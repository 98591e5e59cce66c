"""A relay on the path between two nodes: it records the bytes of the dialer, and can stop all traffic."""

from __future__ import annotations

import asyncio


class Relay:
    """A TCP relay to a local port. `sent` has the bytes of the dialer for each connection. After `cut` no bytes pass,
    and the sockets stay open.
    """

    def __init__(self, port: int) -> None:
        self.sent: list[bytearray] = []
        self._port = port
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Start the relay; returns the address to dial instead."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Let no bytes pass any more."""
        self._whole.clear()

    async def close(self) -> None:
        """End all connections."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._port)
        kept = bytearray()
        self.sent.append(kept)
        loop = asyncio.get_running_loop()
        self._tasks += [
            loop.create_task(self._relay(reader, out, kept)),
            loop.create_task(self._relay(there, writer, bytearray())),
        ]

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray) -> None:
        try:
            while data := await source.read(65536):
                await self._whole.wait()
                kept += data
                sink.write(data)
        finally:
            sink.close()
