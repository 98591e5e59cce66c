"""A client that sends exactly the given packets, and returns every packet of the answer."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from bench.cluster_nodes import Node
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

from ..brokers import WITHIN_S

P = TypeVar("P")

CONNACK_S = 15.0
"""How long a CONNECT may wait: a gateway waits 10 s for the primary of the client id."""


async def moment(seconds: float) -> None:
    """Let other tasks run for this time."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


class Probe:
    """One connection. Messages are acknowledged and kept in `messages`; all other packets wait for `expect`."""

    def __init__(self, node: Node, client_id: str, version: int = 5) -> None:
        self.host, self.port = node.host, node.port
        self.client_id = client_id
        self.version = version
        self.messages: list[packets.Publish] = []
        self.came = asyncio.Event()
        self.gone = asyncio.Event()
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._last_id = 0
        self._opened = False
        self._writer: asyncio.StreamWriter
        self._reading: asyncio.Task[None]

    async def connect(self, clean: bool = True, **fields: Any) -> packets.Connack:
        """Connect; returns the answer, whatever it is. Without `clean` the session is persistent.

        Raises `ConnectionError` if the broker closes the connection without an answer."""
        self._opened = False
        reader, self._writer = await asyncio.wait_for(asyncio.open_connection(self.host, self.port), WITHIN_S)
        if self.version == 5 and not clean:
            fields["properties"] = {"session_expiry_interval": 3600}
        self.gone.clear()
        self._reading = asyncio.create_task(self._read(reader, Decoder("client", self.version)))
        self.send(packets.Connect(self.client_id, self.version, clean, **fields))
        connack = await self.next(CONNACK_S)
        if isinstance(connack, ConnectionError):
            raise connack
        assert isinstance(connack, packets.Connack)
        return connack

    async def _read(self, reader: asyncio.StreamReader, decoder: Decoder) -> None:
        try:
            while data := await reader.read(65536):
                for packet in decoder.feed(data):
                    self._take(packet)
            if not self._opened:
                self._answers.put_nowait(ConnectionError("closed without CONNACK"))
        except ConnectionError as error:
            self._answers.put_nowait(error)
        finally:
            self.gone.set()
            self.came.set()

    def _take(self, packet: Any) -> None:
        self._opened = True
        if type(packet) is packets.Pubrel:
            self.send(packets.Pubcomp(packet.packet_id))
            return
        if type(packet) is not packets.Publish:
            self._answers.put_nowait(packet)
            return
        if packet.qos == 1:
            self.send(packets.Puback(packet.packet_id))
        elif packet.qos == 2:
            self.send(packets.Pubrec(packet.packet_id))
        self.messages.append(packet)
        self.came.set()

    def send(self, packet: Any) -> None:
        """Send a packet as it is."""
        self._writer.write(encode(packet, self.version))

    async def next(self, within_s: float = WITHIN_S) -> Any:
        """Returns the next packet other than PUBLISH."""
        return await asyncio.wait_for(self._answers.get(), within_s)

    async def expect(self, kind: type[P], within_s: float = WITHIN_S) -> P:
        """Returns the next packet other than PUBLISH, which must be of this kind."""
        packet = await self.next(within_s)
        assert type(packet) is kind, f"{kind.__name__} was expected, {packet} came"
        return packet

    async def unanswered(self) -> None:
        """Check that earlier packets got no answer: the answer to PINGREQ arrives first."""
        self.send(packets.Pingreq())
        await self.expect(packets.Pingresp)

    def packet_id(self) -> int:
        """Returns a fresh packet id."""
        self._last_id += 1
        return self._last_id

    def offer(self, topic: str, payload: bytes, qos: int, retain: bool = False) -> int:
        """Send a PUBLISH; returns its packet id."""
        packet_id = self.packet_id() if qos else 0
        self.send(packets.Publish(topic, payload, qos, retain, False, packet_id))
        return packet_id

    async def publish(self, topic: str, payload: bytes, retain: bool = False, within_s: float = WITHIN_S) -> int:
        """Publish with QoS 1; returns the reason code of the PUBACK."""
        packet_id = self.offer(topic, payload, 1, retain)
        answer = await self.expect(packets.Puback, within_s)
        assert answer.packet_id == packet_id
        return answer.reason

    async def subscribe(self, text: str, qos: int = 1) -> int:
        """Subscribe; returns the reason code."""
        self.send(packets.Subscribe(self.packet_id(), [packets.SubscribeOptions(text, qos)]))
        return (await self.expect(packets.Suback)).reasons[0]

    async def unsubscribe(self, text: str) -> list[int]:
        """Unsubscribe; returns the reason codes, none before version 5."""
        self.send(packets.Unsubscribe(self.packet_id(), [text]))
        return list((await self.expect(packets.Unsuback)).reasons)

    async def got(self, count: int, within_s: float = WITHIN_S) -> list[bytes]:
        """Returns the payloads of all messages so far, when there are `count` or more."""
        async with asyncio.timeout(within_s):
            while len(self.messages) < count and not self.gone.is_set():
                self.came.clear()
                await self.came.wait()
        assert len(self.messages) >= count, f"{self.client_id}: the connection is gone with {self.messages}"
        return [message.payload for message in self.messages]

    async def close(self) -> None:
        """Disconnect."""
        if not self.gone.is_set():
            self.send(packets.Disconnect())
        self._writer.close()
        await asyncio.wait_for(self.gone.wait(), WITHIN_S)
        self._reading.cancel()
