"""A broker in its own process, for tests and benchmarks that kill it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
import tempfile
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import IO

READY_S = 30.0


PORTS = Path(tempfile.gettempdir()) / f"strogoff-ports-{os.getuid()}"
"""A folder with a file for each port that was ever reserved. The process that has locked the file has the port."""
_FIRST_PORT = 20_000
_taken: list[IO[str]] = []


def free_port() -> int:
    """Reserve a port of 127.0.0.1 for this process: no other test and no outgoing connection can take it.

    The system may give a port of its own choice to another process before the broker listens. So this port is below the
    range of outgoing connections, and a file lock reserves it. Raises OSError if no port is free.
    """
    PORTS.mkdir(exist_ok=True)
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(_FIRST_PORT, above), above - _FIRST_PORT):
        lock = (PORTS / str(port)).open("w")
        try:
            flock(lock, LOCK_EX | LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _taken.append(lock)
        return port
    raise OSError(f"no port from {_FIRST_PORT} to {above - 1} is free")


class BrokerProcess:
    """`strogoff start` on a data directory. The file `log` has the output of all its boots."""

    def __init__(self, data: Path, port: int, **settings: str) -> None:
        self.data = data
        self.port = port
        self.settings = settings
        self.log = data.parent / f"{data.name}.log"
        self.folder: Path | None = None
        """The working directory of the process; None means that of its parent."""
        self.module = "strogoff"
        """The module that Python runs; `bench.turns` in place of it reports long turns of the event loop."""
        self.process: asyncio.subprocess.Process | None = None

    def command(self) -> list[str]:
        """Returns the command line."""
        wanted = {
            "allow_anonymous": "on",
            "log.console": "console",
            "log.error": "off",
            "listener.tcp.default": f"127.0.0.1:{self.port}",
            **{name.replace("__", "."): value for name, value in self.settings.items()},
        }
        command = [sys.executable, "-m", self.module, "start", "--data-dir", str(self.data)]
        for key, value in wanted.items():
            command += ["--set", f"{key}={value}"]
        return command

    async def start(self) -> None:
        """Start the broker and wait until its log says that it is ready.

        Raises RuntimeError with its output if it ends before that, and TimeoutError after `READY_S` seconds.
        """
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command(),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        assert self.process.stdout is not None
        ready = asyncio.get_running_loop().create_future()
        self._drain = asyncio.create_task(self._keep(self.process.stdout, ready))
        async with asyncio.timeout(READY_S):
            if not await ready:
                raise RuntimeError("the broker did not start:\n" + self.log.read_text()[-4000:])

    async def _keep(self, stream: asyncio.StreamReader, ready: asyncio.Future[bool]) -> None:
        with self.log.open("ab", buffering=0) as log:
            while line := await stream.readline():
                log.write(line)
                if b"is ready" in line and not ready.done():
                    ready.set_result(True)
        if not ready.done():
            ready.set_result(False)

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Send SIGTERM and wait for the end of the process. Returns the exit status."""
        return await self._end(signal.SIGTERM)

    async def interrupt(self) -> int:
        """Send SIGINT, as Ctrl-C does, and wait for the end of the process. Returns the exit status."""
        return await self._end(signal.SIGINT)

    async def _end(self, number: int) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.returncode is None:
            process.send_signal(number)
        status = await asyncio.wait_for(process.wait(), 30)
        await self._drain
        return status

    def tracebacks(self) -> list[str]:
        """Returns the lines of the log that show a defect: tracebacks and errors."""
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text().splitlines() if "Traceback" in line or "[ERROR]" in line]
