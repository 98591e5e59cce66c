"""The attackers of `bench.siege`: all kinds of hostile and careless clients at once.

    python -m bench.siege_attacks TARGETS.json      # until SIGTERM; prints a JSON report

TARGETS.json has the nodes. Every attack is bounded in time, connections and bytes, and connects only to 127.0.0.1. It
starts again after a pause. A successful attack reports a breach.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc  # type: ignore[import-untyped]
import msgspec

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode

STRIKE_S = 20.0
"""The longest time of an attack without a pause, in seconds; some have 60 s."""
PAUSE_S = 1.0
IDLE_SOCKETS = 1500
RETAINED = 20_000


@dataclass
class Target:
    """One node: its ports, the address of its listener for nodes, and its data directory."""

    name: str
    mqtt: int
    ws: int
    http: int
    peer: str
    data: str


@dataclass
class Report:
    """The actions of the attackers, and their breaches."""

    strikes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)

    def breach(self, text: str) -> None:
        """Record a breach; only the first hundred are kept."""
        if len(self.breaches) < 100:
            self.breaches.append(text)


class Attack(Protocol):
    """An attack. It returns, raises `Closed`, or is cancelled after `STRIKE_S`."""

    __name__: str

    async def __call__(self, nodes: list[Target], report: Report) -> None:
        """Attack until cancelled."""
        ...


class Closed(Exception):
    """The node has closed the connection, or does not answer: the attack is repelled."""


class Connection:
    """One TCP connection, with only those parts of MQTT that an attack needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, packet: Any, version: int = 4) -> None:
        """Queue one packet."""
        self.writer.write(encode(packet, version))

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until the node has read them. Raises `Closed` if the node closes, or reads too slowly."""
        try:
            async with asyncio.timeout(5):
                self.writer.write(data)
                await self.writer.drain()
                await asyncio.sleep(0)  # drain does not let other tasks run while the buffer has space
        except (OSError, TimeoutError) as error:
            raise Closed from error

    async def read(self, within_s: float = 5.0) -> bytes:
        """Returns the next bytes. Raises `Closed` at the end of the stream, and after `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s):
                data = await self.reader.read(65536)
        except (OSError, TimeoutError) as error:
            raise Closed from error
        if not data:
            raise Closed
        return data


@contextlib.asynccontextmanager
async def opened(port: int) -> AsyncIterator[Connection]:
    """A connection to a port of 127.0.0.1. At the end it is aborted. Raises `Closed`."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError) as error:
        raise Closed from error
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def mqtt(
    port: int, client_id: str, version: int = 4, clean: bool = True, **more: Any
) -> AsyncIterator[Connection]:
    """A connection whose CONNECT is answered."""
    async with opened(port) as connection:
        connection.send(packets.Connect(client_id, version, clean, **more), version)
        await connection.read()
        yield connection


# -- clients without limits


async def flood(nodes: list[Target], report: Report) -> None:
    """Eight publishers send QoS 0 as fast as the node takes it."""
    node = random.choice(nodes)
    frame = encode(packets.Publish("flood/everything", b"x" * 100), 4) * 400

    async def one(number: int) -> None:
        async with mqtt(node.mqtt, f"flood-{number}") as connection:
            while True:
                await connection.write(frame)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(quietly(one(number)))


async def never_read_answers(nodes: list[Target], report: Report) -> None:
    """A publisher of QoS 1 and a sender of PINGREQ never read the answers."""
    node = random.choice(nodes)

    async def one(client_id: str, frame: bytes) -> None:
        async with mqtt(node.mqtt, client_id) as connection:
            connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
            while True:
                await connection.write(frame)

    publishes = b"".join(encode(packets.Publish("deaf", b"x", 1, packet_id=n), 4) for n in range(1, 1001))
    async with asyncio.TaskGroup() as group:
        group.create_task(quietly(one("deaf-publisher", publishes)))
        group.create_task(quietly(one("deaf-pinger", b"\xc0\x00" * 10_000)))


async def websocket_pings(nodes: list[Target], report: Report) -> None:
    """A WebSocket client sends pings of 125 bytes and never reads the pongs."""
    async with opened(random.choice(nodes).ws) as connection:
        key = base64.b64encode(os.urandom(16)).decode()
        await connection.write(
            f"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
        )
        await connection.read()
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        frame = (b"\x89" + bytes([0x80 | 125]) + b"\0\0\0\0" + b"p" * 125) * 200
        while True:
            await connection.write(frame)


async def huge_connect(nodes: list[Target], report: Report) -> None:
    """A CONNECT of 10 MB: two million empty user properties."""
    body = b"\x00\x04MQTT\x05\x02\x00\x3c"
    pairs = b"\x26\x00\x00\x00\x00" * 2_000_000
    body += variable(len(pairs)) + pairs + b"\x00\x01h"
    async with opened(random.choice(nodes).mqtt) as connection:
        await connection.write(b"\x10" + variable(len(body)) + body)
        answer = await connection.read()
        if answer[:1] == b"\x20" and answer[3:4] == b"\x00":
            report.breach("a CONNECT of 10 MB was accepted")


def variable(number: int) -> bytes:
    """A variable byte integer (MQTT 5, section 1.5.5)."""
    data = bytearray()
    while True:
        number, digit = divmod(number, 128)
        data.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(data)


async def many_filters(nodes: list[Target], report: Report) -> None:
    """SUBSCRIBE packets with thousands of filters, then UNSUBSCRIBE."""
    async with mqtt(random.choice(nodes).mqtt, "filters") as connection:
        for packet_id in range(1, 4):
            filters = [packets.SubscribeOptions(f"many/{packet_id}/{n}/+", 1) for n in range(900)]
            await connection.write(encode(packets.Subscribe(packet_id, filters), 4))
            await connection.read(10)
            await asyncio.sleep(1)


async def replay_retained(nodes: list[Target], report: Report) -> None:
    """A client subscribes sixty times to the filter #, with 20,000 retained messages, and reads slowly."""
    async with mqtt(random.choice(nodes).mqtt, f"replay-{random.randrange(3)}") as connection:
        for packet_id in range(1, 61):
            await connection.write(encode(packets.Subscribe(packet_id, [packets.SubscribeOptions("#", 0)]), 4))
        for _ in range(200):
            await connection.read()
            await asyncio.sleep(0.02)


async def large_retained(nodes: list[Target], report: Report) -> None:
    """A client publishes a hundred retained messages of 100 KiB at once; they replace those of the attack before."""
    async with mqtt(random.choice(nodes).mqtt, "large-retained") as connection:
        payload = random.randbytes(100 << 10)
        for number in range(100):
            connection.send(packets.Publish(f"large/{number}", payload, 1, True, packet_id=number + 1))
            await connection.write(b"")
        for _ in range(100):
            await connection.read(STRIKE_S)
    await asyncio.sleep(10)


async def open_handshake(nodes: list[Target], report: Report) -> None:
    """A client never sends PUBREL for one QoS 2 message, while its node forwards thousands of later messages."""
    here, there = random.sample(nodes, 2)
    async with (
        mqtt(there.mqtt, "handshake-reader", clean=False) as reader,
        mqtt(here.mqtt, "handshake-open", clean=False) as stuck,
        mqtt(here.mqtt, "handshake-writer") as writer,
    ):
        reader.send(packets.Subscribe(1, [packets.SubscribeOptions("handshake/#", 2)]))
        stuck.send(packets.Publish("handshake/open", b"never released", 2, packet_id=1))
        await stuck.read()
        for _ in range(100):
            for number in range(1, 21):
                writer.send(packets.Publish("handshake/x", b"x" * 50, 2, packet_id=number))
            await writer.read()
            for number in range(1, 21):
                writer.send(packets.Pubrel(number))
            await writer.read()
            report.strikes["handshakes"] += 20
            await asyncio.sleep(0.05)


async def endless_window(nodes: list[Target], report: Report) -> None:
    """A publisher of MQTT 3.1.1 sends QoS 1 for a session without a connection, and does not wait for PUBACK."""
    here, there = random.sample(nodes, 2)
    async with mqtt(there.mqtt, "away", clean=False) as reader:
        reader.send(packets.Subscribe(1, [packets.SubscribeOptions("away/#", 1)]))
        await reader.read()
    async with mqtt(here.mqtt, "endless") as writer:
        packet_id = 0
        while True:
            for _ in range(200):
                packet_id = packet_id % 65535 + 1
                writer.send(packets.Publish("away/x", b"x" * 500, 1, packet_id=packet_id))
            await writer.write(b"")
            await asyncio.sleep(0.05)


async def wrong_packets(nodes: list[Target], report: Report) -> None:
    """Bytes that are no MQTT, packets that are not allowed, acknowledgements of the wrong kind, topics too deep."""
    port = random.choice(nodes).mqtt
    for data in (
        os.urandom(2000),
        b"\x00",
        b"\xf0\xff\xff\xff",
        b"\x10\xff\xff\xff\xff\xff",
        b"GET / HTTP/1.0\r\n\r\n",
    ):
        with contextlib.suppress(Closed):
            async with opened(port) as connection:
                await connection.write(data)
                await connection.read(2)
    deep = "/".join("d" * 200)
    for packet in (
        packets.Puback(7),
        packets.Pubrec(8),
        packets.Pubcomp(9),
        packets.Publish(deep, b"x", 1, packet_id=1),
        packets.Subscribe(1, [packets.SubscribeOptions(deep, 1)]),
    ):
        with contextlib.suppress(Closed):
            async with mqtt(port, "wrong") as connection:
                connection.send(packet)
                await connection.read(2)


async def takeovers(nodes: list[Target], report: Report) -> None:
    """The same client identifier connects again and again."""
    node = random.choice(nodes)
    for _ in range(200):
        async with mqtt(node.mqtt, "contended", clean=False):
            await asyncio.sleep(0.01)


async def idle_sockets(nodes: list[Target], report: Report) -> None:
    """1,500 connections without any data to one node: they use up its file descriptors."""
    node = random.choice(nodes)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(IDLE_SOCKETS):
            with contextlib.suppress(Closed):
                await stack.enter_async_context(opened(node.mqtt))
                report.strikes["idle sockets"] += 1
        await asyncio.sleep(5)


async def ends(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Whether a process ends within `within_s` seconds. Otherwise, and when the attack is cancelled, it is killed."""
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
        return True
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            process.kill()


# -- administration


async def wrong_http(nodes: list[Target], report: Report) -> None:
    """An HTTP/2 preface, malformed requests, and a body sent byte by byte."""
    port = random.choice(nodes).http
    for data in (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n: \r\n\r\n",
        os.urandom(500) + b"\r\n\r\n",
        b"POST /api/v1/cluster/leave HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    ):
        with contextlib.suppress(Closed):
            async with opened(port) as connection:
                await connection.write(data)
                answer = await connection.read(2)
                if b" 200 " in answer[:20]:
                    report.breach(f"HTTP answered 200 to {data[:20]!r}")
    with contextlib.suppress(Closed):
        async with opened(port) as connection:
            await connection.write(b"POST /api/v1/session/show HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            for _ in range(10):
                await connection.write(b"x")
                await asyncio.sleep(0.5)


async def slow_expression(nodes: list[Target], report: Report) -> None:
    """`vmq-admin session show` with a regular expression of exponential time."""
    node = random.choice(nodes)
    command = [sys.executable, "-m", "strogoff.admin.cli", "--data-dir", node.data]
    command += ["session", "show", "--client_id=~^([a-z0-9-]+)+$x"]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    if not await ends(process, 15):
        report.breach(f"{node.name} did not answer `session show` with an expression in 15 s")
    await asyncio.sleep(5)


# -- attacks on the port between nodes


async def stranger_calls(nodes: list[Target], report: Report) -> None:
    """Calls and hellos on the port between nodes, without the cookie: no answer may contain the name of a node."""
    node = random.choice(nodes)
    names = [each.name.encode() for each in nodes]
    async with grpc.aio.insecure_channel(node.peer) as channel:
        call = channel.unary_unary("/strogoff.Peer/Call")
        for method in ("who", "join", "leave", "depart", "settings"):
            for request in (b"", os.urandom(64), os.urandom(1 << 20)):
                try:
                    answer = await call(msgspec.msgpack.encode([method, request]), timeout=3)
                except grpc.aio.AioRpcError as error:
                    answer = (error.details() or "").encode()
                    report.refused[f"call {method}"] += 1
                leaked = [name for name in names if name in answer]
                if leaked:
                    report.breach(f"the call {method} without a cookie told {leaked[0]!r}")
        for hello in (b"", os.urandom(64), os.urandom(1 << 20)):
            stream = channel.stream_stream("/strogoff.Peer/Stream")(timeout=3)
            try:
                await stream.write(hello)
                answer = await stream.read()
                answer = b"" if answer is grpc.aio.EOF else answer
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                answer = str(error).encode()
                report.refused["hello"] += 1
            if any(name in answer for name in names):
                report.breach("a hello without a cookie was told a node's name")
            stream.cancel()


async def impostor(nodes: list[Target], report: Report) -> None:
    """A real node with the name of a live member and an empty disk; its cookie is correct or a guess, at random."""
    victim, other = random.sample(nodes, 2)
    cookie = random.choice([os.environ["SIEGE_COOKIE"], "a guess"])
    with tempfile.TemporaryDirectory(prefix="strogoff-impostor-") as folder:
        wanted = {
            "nodename": victim.name,
            "distributed_cookie": cookie,
            "listener.vmq.c": "127.0.0.1:0",
            "listener.tcp.default": "127.0.0.1:0",
            "discovery.nodes": other.peer,
        }
        command = [sys.executable, "-m", "strogoff", "start", "--data-dir", str(Path(folder) / "data")]
        for key, value in wanted.items():
            command += ["--set", f"{key}={value}"]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        await ends(process, 8)
    await asyncio.sleep(15)


ATTACKS: tuple[Attack, ...] = (
    flood,
    never_read_answers,
    websocket_pings,
    huge_connect,
    many_filters,
    replay_retained,
    large_retained,
    open_handshake,
    endless_window,
    wrong_packets,
    takeovers,
    idle_sockets,
    wrong_http,
    slow_expression,
    stranger_calls,
    impostor,
)


async def quietly(strike: Awaitable[None]) -> None:
    """Await a part of an attack, and ignore `Closed`: the node has repelled it."""
    with contextlib.suppress(Closed):
        await strike


async def repeat(attack: Attack, nodes: list[Target], report: Report) -> None:
    """Repeat an attack with pauses. An unexpected error counts as a breach, so that the report has it."""
    name = attack.__name__
    while True:
        report.strikes[name] += 1
        try:
            async with asyncio.timeout(STRIKE_S if name not in ("slow_expression", "impostor") else 60):
                await attack(nodes, report)
        except (Closed, TimeoutError):
            report.refused[name] += 1
        except Exception as error:
            report.breach(f"{name}: {type(error).__name__}: {error}")
        await asyncio.sleep(PAUSE_S)


async def fill_retained(node: Target) -> None:
    """Publish 20,000 small retained messages for `replay_retained`."""
    async with mqtt(node.mqtt, "fill-retained") as connection:
        for first in range(0, RETAINED, 500):
            for number in range(first, first + 500):
                connection.send(packets.Publish(f"kept/{number}", b"retained", 1, True, packet_id=number - first + 1))
            await connection.write(b"")
            answered = 0
            while answered < 500 * 4:
                answered += len(await connection.read(30))


async def main(nodes: list[Target]) -> None:
    """Attack until SIGTERM."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # attackers write to closed connections: do not log that
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    report = Report()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await fill_retained(nodes[0])
    print("attacking", flush=True)
    only = set(filter(None, os.environ.get("SIEGE_ATTACKS", "").split(",")))
    chosen = [attack for attack in ATTACKS if not only or attack.__name__ in only]
    tasks = [asyncio.create_task(repeat(attack, nodes, report)) for attack in chosen]
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    told = {"strikes": report.strikes, "refused": report.refused, "breaches": report.breaches}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main([Target(**each) for each in json.loads(Path(sys.argv[1]).read_text())]))
