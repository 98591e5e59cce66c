"""mosquitto_pub, mosquitto_sub and a bridge of mosquitto for tests."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .brokers import WITHIN_S, require_program


class Sub:
    """mosquitto_sub, subscribed when `start` returns. `got` has its output so far, without debug lines."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.got: list[str] = []

    @classmethod
    async def start(cls, *words: str) -> Sub:
        """Start it, and wait for its SUBACK. Its output is a pipe, so the lines must not be buffered."""
        process = await asyncio.create_subprocess_exec(
            *("stdbuf", "-oL", require_program("mosquitto_sub"), "-d", "-W", f"{3 * WITHIN_S:.0f}"), *words, stdout=PIPE
        )
        sub = cls(process)
        while not (await sub._line()).startswith("Subscribed"):
            pass
        return sub

    async def _line(self) -> str:
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), WITHIN_S)).decode()
        assert line, f"mosquitto_sub ended after {self.got}"
        if not line.startswith(("Client ", "Subscribed")):
            self.got.append(line.rstrip("\n"))
        return line

    async def lines(self, count: int) -> list[str]:
        """Returns its output, when it has `count` lines or more."""
        while len(self.got) < count:
            await self._line()
        return self.got

    async def up_to(self, line: str) -> list[str]:
        """Returns its output, when it has this line."""
        while line not in self.got:
            await self._line()
        return self.got

    async def finish(self, count: int) -> list[str]:
        """Returns its output, when it has `count` lines or more and is stopped."""
        await self.lines(count)
        return await self.stop()

    async def stop(self) -> list[str]:
        """Kill it; returns its output. It has acknowledged every printed message.

        It does not use -C: with it mosquitto_sub exits at once, perhaps with an unread SUBACK, and the system then
        discards unsent PUBACKs.

        It sends no signal with a handler: the handler prints, and an interrupted line would be printed twice.
        """
        self.process.kill()
        output, _ = await asyncio.wait_for(self.process.communicate(), WITHIN_S)
        rest = [line for line in output.decode().splitlines() if not line.startswith(("Client ", "Subscribed"))]
        self.got += rest
        return self.got


async def pub(*words: str, data: bytes | None = None) -> int:
    """Run mosquitto_pub; returns its exit status."""
    process = await asyncio.create_subprocess_exec(
        require_program("mosquitto_pub"), *words, stdin=PIPE if data is not None else None, stderr=PIPE
    )
    await asyncio.wait_for(process.communicate(data), WITHIN_S)
    assert process.returncode is not None
    return process.returncode


@asynccontextmanager
async def bridge(folder: Path, port: int, name: str, remote: int, *topics: str) -> AsyncIterator[None]:
    """Run a mosquitto with a bridge of this name to the port `remote`, which has subscribed there when the body runs.

    `topics` are lines of its file, such as `out/# out 1`. All else is mosquitto's default, but for the shortest pause
    between two attempts: the broker refuses the first one, which has the version number of a bridge.
    """
    lines = (
        *(f"listener {port} 127.0.0.1", "allow_anonymous true", "log_dest stderr", "log_type all"),
        *(f"connection {name}", f"address 127.0.0.1:{remote}", "restart_timeout 1"),
        *(f"topic {topic}" for topic in topics),
    )
    conf = folder / "mosquitto.conf"
    conf.write_text("\n".join(lines) + "\n")
    process = await asyncio.create_subprocess_exec(require_program("mosquitto", "mosquitto"), "-c", conf, stderr=PIPE)
    assert process.stderr is not None
    try:
        log = [""]
        while "Received SUBACK" not in log[-1]:
            log.append((await asyncio.wait_for(process.stderr.readline(), WITHIN_S)).decode())
            assert log[-1], f"mosquitto ended after {log}"
        yield
    finally:
        process.kill()
        await asyncio.wait_for(process.communicate(), WITHIN_S)
