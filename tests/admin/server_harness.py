"""A test harness: a whole node in the event loop of the test, real clients, and vmq-admin."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import uvloop

from strogoff.admin.cli import main
from strogoff.admin.server import AdminServer
from strogoff.broker.process.server import Server
from strogoff.configs import load
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode
from tests.harness.waiting import until

both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


class Answer(msgspec.Struct):
    """Exit status and output of vmq-admin."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The parsed output."""
        return json.loads(self.out)

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows of the only table in JSON output."""
        (rows,) = [part["table"] for part in self.json if part["type"] == "table"]
        return list(rows)


class Client:
    """An MQTT client on a real socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.reader = reader
        self.writer = writer
        self.version = version
        self.decoder = Decoder("client", version)
        self.came: list[Any] = []

    @property
    def port(self) -> int:
        """Its own port."""
        return int(self.writer.get_extra_info("sockname")[1])

    def send(self, packet: Any) -> None:
        """Send a packet."""
        self.writer.write(encode(packet, self.version))

    async def packet(self) -> Any:
        """The next packet, None at the end of the connection."""
        async with asyncio.timeout(10):
            while not self.came:
                data = await self.reader.read(65536)
                if not data:
                    return None
                self.came += self.decoder.feed(data)
        return self.came.pop(0)

    async def subscribe(self, *wanted: tuple[str, int]) -> None:
        """SUBSCRIBE, and wait for the answer."""
        self.send(packets.Subscribe(1, [packets.SubscribeOptions(*each) for each in wanted]))
        assert isinstance(await self.packet(), packets.Suback)

    async def publish(self, topic: str, payload: bytes, retain: bool = False, **properties: Any) -> None:
        """PUBLISH with QoS 1, and wait for the answer."""
        self.send(packets.Publish(topic, payload, 1, retain, False, 7, properties or None))
        assert isinstance(await self.packet(), packets.Puback)

    async def leave(self) -> None:
        """DISCONNECT, and wait until the node has closed."""
        self.send(packets.Disconnect())
        assert await self.packet() is None
        self.writer.close()


class ServerHarness:
    """A node with its administration server."""

    def __init__(self, directory: Path, overrides: dict[str, str]) -> None:
        self.directory = directory
        self.overrides = {
            "platform_data_dir": str(directory / "d"),
            "listener.tcp.default": "127.0.0.1:0",
            "allow_anonymous": "on",
            "eventlog.level": "off",
            "systree_enabled": "off",
            **overrides,
        }
        self.lines: list[str] = []
        self.server: Server
        self.service: AdminServer
        self._clients: list[Client] = []

    async def start(self) -> None:
        """Start the node in its directory."""
        self.server = Server(load(None, {}, self.overrides), lambda level, line: self.lines.append(f"{level} {line}"))
        self.service = AdminServer()
        await self.server.start()
        try:
            await self.service.start(self.server)
        except BaseException:
            await self.server.stop()
            raise

    async def stop(self) -> None:
        """Stop it."""
        for client in self._clients:
            client.writer.close()
        await self.service.stop()
        await self.server.stop()

    @property
    def context(self) -> Any:
        """The context of the commands."""
        assert self.service.context is not None
        return self.service.context

    @property
    def port(self) -> int:
        """The port of the first MQTT listener."""
        return self.server.listeners.show()[0].port

    async def client(self, client_id: str, version: int = 4, clean: bool = True, **fields: Any) -> Client:
        """A connected client."""
        return await self.client_at(self.port, client_id, version, clean, **fields)

    async def client_at(self, port: int, client_id: str, version: int = 4, clean: bool = True, **fields: Any) -> Client:
        """A client that is connected to that port."""
        client = Client(*await asyncio.open_connection("127.0.0.1", port), version)
        self._clients.append(client)
        properties = {"session_expiry_interval": 1000} if version == 5 and not clean else None
        client.send(packets.Connect(client_id, version, clean, properties=properties, **fields))
        connack = await client.packet()
        assert isinstance(connack, packets.Connack) and connack.reason == 0, connack
        return client

    async def admin(self, *words: str) -> Answer:
        """vmq-admin with these words, in a thread while the node goes on."""
        return await asyncio.to_thread(_captured, ["--data-dir", self.overrides["platform_data_dir"], *words])

    async def good(self, *words: str) -> Answer:
        """The same, and it must succeed."""
        answer = await self.admin(*words)
        assert (answer.status, answer.err) == (0, ""), answer
        return answer

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the event loop run until the condition is true."""
        await until(condition, 10)

    @property
    def url(self) -> str:
        """The first HTTP listener."""
        return f"http://127.0.0.1:{self.context.http.show()[0].port}"

    async def get(self, path: str, key: str = "", method: str = "GET", **headers: str) -> tuple[int, str]:
        """Status and text of a page of the first HTTP listener, asked for with an API key if there is one."""
        sent = {**headers, **({"x-api-key": key} if key else {})}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, headers=sent) as response,
        ):
            return response.status, await response.text()

    async def remote(self, *words: str, key: str = "") -> Answer:
        """vmq-admin with these words, over HTTP."""
        return await self.at(["--url", self.url, *(["--api-key", key] if key else []), *words])

    async def at(self, argv: list[str]) -> Answer:
        """vmq-admin with this command line."""
        return await asyncio.to_thread(_captured, argv)


def _captured(argv: list[str]) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(argv)
    return Answer(status, out.getvalue(), err.getvalue())


@asynccontextmanager
async def running_server(directory: Path, **overrides: str) -> AsyncIterator[ServerHarness]:
    """A running node; `__` in a name stands for a dot."""
    harness = ServerHarness(directory, {name.replace("__", "."): value for name, value in overrides.items()})
    await harness.start()
    try:
        yield harness
    finally:
        await harness.stop()


def run_with_server(
    directory: Path, test: Callable[[ServerHarness], Awaitable[None]], loop: str = "asyncio", **overrides: str
) -> None:
    """Run a test with a running node, on that kind of event loop."""

    async def bounded() -> None:
        async with asyncio.timeout(60), running_server(directory, **overrides) as harness:
            await test(harness)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(bounded())
