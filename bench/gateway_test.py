"""Durable clients that connect anywhere: takeovers under load, and kills of the gateway between client and session.

    python -m bench.gateway_test takeovers --count 10000
    python -m bench.gateway_test qos2 --kills 200

`takeovers`: one client id of each protocol version connects at random nodes again and again. It does not wait until its
former connection ends. Publishers at all three nodes send numbered messages to it. Then many connections of one client
id begin at once at all nodes. The audit checks these claims: each CONNECT is answered; a connection whose client id has
got a newer CONNACK answers nothing and ends; all acknowledged messages arrive, in order per publisher (P1, P2, P3).

`qos2`: the sessions of publishers and subscribers are at two nodes, and the clients are connected to the third one,
which is killed and started again. The audit checks that QoS 2 messages arrive exactly once and in order (P1, P2, P6).

Exit status 1 if a claim is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

from .cluster_nodes import Node, bad_lines, client_at, end, start_joined, until, whole
from .kill_test import Ledger
from .steady import NEVER, SteadyClient

NODES = 3
ANSWER_S = 15.0
"""The longest time, in seconds, to the answer of a CONNECT: a gateway waits 10 s for the primary of the client id."""
CLOSED_S = 10.0
"""The longest time, in seconds, in which a connection ends after its client id has been taken over."""
AT_ONCE = 200
"""Connections of one client id that begin at the same time."""
CONNECT_S = 5.0
TOPIC = "load/{}/q{}"


def three_nodes(folder: Path) -> list[Node]:
    """Returns three nodes that serve while one of them is away, and whose queues have no limit."""
    settings = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
    settings |= {"max_offline_messages": "-1", "max_online_messages": "-1"}
    return [Node(folder, f"n{number}", **settings) for number in range(1, NODES + 1)]


class Line:
    """One connection of a client id, with QoS 1 subscriptions. `delivered` gets the payload of each message."""

    def __init__(self, node: Node, client_id: str, version: int, delivered: Callable[[bytes], None]) -> None:
        self.node = node
        self.client_id = client_id
        self.version = version
        self.delivered = delivered
        self.connack: packets.Connack | None = None
        self.reason: int | None = None
        """The reason code of DISCONNECT."""
        self.pongs = 0
        self.answered = asyncio.Event()
        """CONNACK has arrived, or the connection has ended."""
        self.subscribed = asyncio.Event()
        self.closed = asyncio.Event()
        self._writer: asyncio.StreamWriter
        self._reading: asyncio.Task[None]

    async def open(self, clean: bool) -> None:
        """Send CONNECT. The session of an MQTT 5 client never expires, unless it is `clean`."""
        reader, self._writer = await asyncio.open_connection(self.node.host, self.node.port)
        properties = {"session_expiry_interval": NEVER} if self.version == 5 and not clean else None
        self._reading = asyncio.create_task(self._read(reader))
        self.send(packets.Connect(self.client_id, self.version, clean, properties=properties))

    def send(self, packet: Any) -> None:
        """Send a packet, unless the connection has ended."""
        if not self._writer.is_closing():
            self._writer.write(encode(packet, self.version))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = Decoder("client", self.version)
        try:
            while data := await reader.read(65536):
                for packet in decoder.feed(data):
                    self._take(packet)
        except OSError:
            pass
        finally:
            self._writer.close()
            self.closed.set()
            self.answered.set()

    def _take(self, packet: Any) -> None:
        kind = type(packet)
        if kind is packets.Publish:
            self.delivered(packet.payload)
            if packet.qos:
                self.send(packets.Puback(packet.packet_id))
        elif kind is packets.Connack:
            self.connack = packet
            self.answered.set()
        elif kind is packets.Suback:
            self.subscribed.set()
        elif kind is packets.Pingresp:
            self.pongs += 1
        elif kind is packets.Disconnect:
            self.reason = packet.reason

    @property
    def accepted(self) -> bool:
        """True if CONNACK has accepted the client."""
        return self.connack is not None and self.connack.reason == 0

    async def close(self) -> None:
        """Close the connection without DISCONNECT."""
        self._writer.close()
        await self.closed.wait()


class Takeovers:
    """One run with `count` takeovers of each of two client ids, and `rounds` of connections that begin at once."""

    def __init__(self, count: int, rounds: int, seed: int, folder: Path) -> None:
        self.count = count
        self.rounds = rounds
        self.rng = random.Random(seed)
        self.nodes = three_nodes(folder)
        self.ledger = Ledger()
        self.wrong: list[str] = []
        self.slowest_s = 0.0
        self._over = asyncio.Event()

    async def run(self) -> list[str]:
        """Run everything. Returns the violations."""
        try:
            await start_joined(self.nodes)
            wanderers = [(f"wanderer-{version}", version) for version in (4, 5)]
            for name, _ in wanderers:
                self.ledger.delivered[name] = []
            writers = [SteadyClient(f"writer-{node.port}", node.port) for node in self.nodes]
            lines = [await self._first(name, version) for name, version in wanderers]
            load = [asyncio.create_task(self._publish(writer)) for writer in writers]
            lines = await asyncio.gather(*[self._wander(line) for line in lines])
            self._over.set()
            await asyncio.gather(*load)
            await self._drain(writers)
            for line in lines:
                await line.close()
            for number in range(self.rounds):
                await self._at_once(clean=number % 2 == 0, version=4 + number // 2 % 2)
            for node in self.nodes:
                await node.stop()
        finally:
            await end(self.nodes)
        return self.wrong + self.ledger.audit() + bad_lines(self.nodes)

    async def _connect(self, name: str, version: int, present: bool) -> Line:
        """Connect to a random node. Note a violation if the node refuses the client, or does not answer."""
        node = self.rng.choice(self.nodes)
        line = Line(node, name, version, self.ledger.delivered[name].append)
        began = time.monotonic()
        await line.open(clean=False)
        try:
            await asyncio.wait_for(line.answered.wait(), ANSWER_S)
        except TimeoutError:
            self.wrong.append(f"{name} at {node.name}: no answer to CONNECT within {ANSWER_S:g} s")
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        if not line.accepted:
            self.wrong.append(f"{name} at {node.name}: refused with {line.connack}")
        elif line.connack is not None and line.connack.session_present != present:
            self.wrong.append(f"{name} at {node.name}: session present is {line.connack.session_present}")
        return line

    async def _first(self, name: str, version: int) -> Line:
        line = await self._connect(name, version, False)
        line.send(packets.Subscribe(1, [packets.SubscribeOptions("load/#", 1)]))
        await asyncio.wait_for(line.subscribed.wait(), ANSWER_S)
        return line

    async def _wander(self, line: Line) -> Line:
        for _ in range(self.count):
            if len(self.wrong) > 20:
                return line
            former, line = line, await self._connect(line.client_id, line.version, True)
            pongs = former.pongs
            former.send(packets.Pingreq())  # the newer connection has its CONNACK: nobody may answer this
            try:
                await asyncio.wait_for(former.closed.wait(), CLOSED_S)
            except TimeoutError:
                self.wrong.append(f"{former.client_id} at {former.node.name}: open {CLOSED_S:g} s after a takeover")
            if former.pongs != pongs:
                self.wrong.append(f"{former.client_id} at {former.node.name}: served after a takeover")
            if former.version == 5 and former.reason not in (None, 0x8E):
                self.wrong.append(f"{former.client_id} at {former.node.name}: ended with {former.reason:#x}")
            await asyncio.sleep(self.rng.choice((0, 0, 0.002, 0.02)))
        return line

    async def _publish(self, writer: SteadyClient) -> None:
        writer.acked = self.ledger.acked.append
        await writer.connect(clean=True)
        number = 0
        while not self._over.is_set():
            number += 1
            payload = f"1:{writer.client_id}-{number}".encode()
            await writer.publish(TOPIC.format(writer.client_id, 1), payload, 1)
            await asyncio.sleep(0.01)

    async def _drain(self, writers: list[SteadyClient]) -> None:
        await self.ledger.drain(writers)
        for writer in writers:
            self.wrong += writer.faults
            await writer.disconnect()

    async def _at_once(self, clean: bool, version: int) -> None:
        """Begin many connections of one client id at all nodes: in the end one of them is served."""
        name = f"crowd-{version}-{clean}"
        lines = [Line(self.nodes[n % NODES], name, version, lambda payload: None) for n in range(AT_ONCE)]
        await asyncio.gather(*[line.open(clean) for line in lines])
        what = f"{AT_ONCE} connections of {name} at once"
        try:
            await asyncio.wait_for(asyncio.gather(*[line.answered.wait() for line in lines]), ANSWER_S)
            await until(f"one of {what} is left", lambda: _one_left(lines), CLOSED_S)
        except TimeoutError as error:
            open_lines = [line for line in lines if not line.closed.is_set()]
            self.wrong.append(f"{what}: {len(open_lines)} are open, {error}")
        for line in [line for line in lines if not line.closed.is_set()]:
            line.send(packets.Pingreq())
            if not line.accepted:
                self.wrong.append(f"{what}: the last one has no CONNACK, but {line.connack}")
                continue
            await until(f"the last of {what} is served", lambda line=line: _ponged(line), CLOSED_S)  # type: ignore[misc]
        again = Line(self.rng.choice(self.nodes), name, version, lambda payload: None)
        await again.open(clean=True)
        await asyncio.wait_for(again.answered.wait(), ANSWER_S)
        if not again.accepted:
            self.wrong.append(f"{what}: the next one got {again.connack}")
        for line in [*lines, again]:
            await line.close()


async def _one_left(lines: list[Line]) -> bool:
    return sum(not line.closed.is_set() for line in lines) <= 1


async def _ponged(line: Line) -> bool:
    return line.pongs > 0


class GatewayKills:
    """One run with `kills` of the second node, which is gateway of clients whose sessions are at the other two."""

    def __init__(self, kills: int, seed: int, folder: Path) -> None:
        self.kills = kills
        self.rng = random.Random(seed)
        self.nodes = three_nodes(folder)
        self.ledger = Ledger()
        self.writers: list[SteadyClient] = []
        self.readers: list[SteadyClient] = []
        self._runs = True
        """Whether the gateway runs."""

    async def run(self) -> list[str]:
        """Run all kills and the audit. Returns the violations."""
        first, gateway, third = self.nodes
        try:
            await start_joined(self.nodes)
            for version in (4, 5):
                writer = await client_at(first, f"writer-{version}-")
                reader = await client_at(third, f"reader-{version}-")
                self.writers.append(SteadyClient(writer, gateway.port, version))
                self.readers.append(SteadyClient(reader, gateway.port, version))
            for client in self.readers:
                self.ledger.reader(client)
                await client.connect()
                await client.subscribe("load/#", 2)
            for client in self.writers:
                client.acked = self.ledger.acked.append
            tasks = [asyncio.create_task(self._stay(client)) for client in [*self.readers, *self.writers]]
            load = [asyncio.create_task(self._publish(client)) for client in self.writers]
            for _ in range(self.kills):
                await asyncio.sleep(self.rng.uniform(0.05, 1.5))
                self._runs = False
                await gateway.kill()
                await asyncio.sleep(self.rng.choice((0.0, 0.3, 1.0)))
                await gateway.start()
                self._runs = True
                await asyncio.gather(*[self._return(client) for client in [*self.readers, *self.writers]])
            for task in load:
                task.cancel()
            await whole(self.nodes)
            await self.ledger.drain(self.writers)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*load, *tasks, return_exceptions=True)
            for client in [*self.writers, *self.readers]:
                await client.disconnect()
            for node in self.nodes:
                await node.stop()
        finally:
            await end(self.nodes)
        wrong = self.ledger.audit()
        for client in [*self.writers, *self.readers]:
            wrong += client.faults
        return wrong + bad_lines(self.nodes)

    async def _stay(self, client: SteadyClient) -> None:
        """Connect again whenever the connection ends: at the gateway, or at another node while that does not run."""
        first, gateway, third = self.nodes
        while True:
            await client.gone.wait()
            client.port = gateway.port if self._runs else self.rng.choice((first, third)).port
            try:
                await asyncio.wait_for(client.connect(), CONNECT_S)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)

    async def _return(self, client: SteadyClient) -> None:
        """End connections to other nodes until the client is at the gateway."""
        gateway = self.nodes[1]

        async def is_there() -> bool:
            if client.online and client.port != gateway.port:
                await client.abort()
            return client.online

        await until(f"{client.client_id} is at the gateway", is_there)

    async def _publish(self, client: SteadyClient) -> None:
        number = 0
        while True:
            number += 1
            await client.publish(TOPIC.format(client.client_id, 2), f"2:{client.client_id}-{number}".encode(), 2)
            if self.rng.random() < 0.04:
                await asyncio.sleep(0.05)


async def _takeovers(arguments: argparse.Namespace, folder: Path) -> tuple[list[str], str]:
    run = Takeovers(arguments.count, arguments.rounds, arguments.seed, folder)
    wrong = await run.run()
    said = f"{arguments.count} takeovers of each of 2 client ids, {arguments.rounds} rounds of {AT_ONCE} connections"
    return wrong, f"{said}, slowest CONNACK {run.slowest_s:.2f} s, {len(run.ledger.acked)} messages acknowledged"


async def _qos2(arguments: argparse.Namespace, folder: Path) -> tuple[list[str], str]:
    run = GatewayKills(arguments.kills, arguments.seed, folder)
    wrong = await run.run()
    return wrong, f"{arguments.kills} kills of the gateway, {len(run.ledger.acked)} messages acknowledged"


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="durable clients that connect anywhere, under takeovers and kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep data directories and logs in this folder, which must be new")
    parts = parser.add_subparsers(required=True)
    takeovers = parts.add_parser("takeovers", help="connect one client id at random nodes")
    takeovers.add_argument("--count", type=int, default=10_000)
    takeovers.add_argument("--rounds", type=int, default=8, help=f"rounds of {AT_ONCE} connections of one client id")
    takeovers.set_defaults(run=_takeovers)
    qos2 = parts.add_parser("qos2", help="kill the gateway of clients with QoS 2")
    qos2.add_argument("--kills", type=int, default=200)
    qos2.set_defaults(run=_qos2)
    arguments = parser.parse_args()
    run: Callable[[argparse.Namespace, Path], Coroutine[Any, Any, tuple[list[str], str]]] = arguments.run
    if arguments.keep:
        arguments.keep.mkdir(parents=True)
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="strogoff-gateways-") as folder:
        wrong, said = asyncio.run(run(arguments, arguments.keep or Path(folder)))
    print(f"{said}, {time.time() - began:.0f} s: {'INVALID' if wrong else 'valid'}", flush=True)
    for line in wrong[:20]:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
