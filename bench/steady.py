"""A client that keeps its session state across broken connections, and records the violations of the broker.

It follows the standard strictly: as a sender of QoS 1 and 2 it resends in order with DUP, as a receiver of QoS 2 it
drops duplicates by packet id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

NEVER = 0xFFFFFFFF


class SteadyClient:
    """One client id. `delivered` gets (topic, payload, qos, properties) of each message, QoS 2 only once.

    `acked` gets the payload of each message that a PUBACK or PUBREC acknowledges. `faults` lists the violations of the
    broker.
    """

    def __init__(self, client_id: str, port: int, version: int = 5, host: str = "127.0.0.1", **connect: Any) -> None:
        self.client_id = client_id
        self.host = host
        self.port = port
        self.version = version
        self.connect_fields = connect
        self.delivered: Callable[[str, bytes, int, dict[str, Any]], None] = lambda *_: None
        self.acked: Callable[[bytes], None] = lambda _: None
        self.faults: list[str] = []
        self.outgoing: dict[int, Any] = {}
        self.received: set[int] = set()
        self.inflight: dict[int, bytes] = {}
        self.known = False
        self.present = False
        self.window = 50
        self._next_id = 0
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[tuple[type, int], asyncio.Future[Any]] = {}
        self._room = asyncio.Event()
        self._reader_task: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()
        self.gone.set()
        self.ending = ""
        """When and why the last connection ended: the code of the broker's DISCONNECT, or the error of the socket."""

    @property
    def online(self) -> bool:
        """Whether the client is connected."""
        return not self.gone.is_set()

    async def connect(self, clean: bool = False) -> packets.Connack:
        """Connect and resume the session. Raises OSError if the broker does not listen or refuses."""
        reader, self._writer = await asyncio.open_connection(self.host, self.port)
        decoder = Decoder("client", self.version)
        fields = dict(self.connect_fields)
        if self.version == 5:
            fields["properties"] = {"session_expiry_interval": NEVER, **fields.get("properties", {})}
        self._send(packets.Connect(self.client_id, self.version, clean, **fields))
        first: list[Any] = []
        while not first:
            data = await reader.read(65536)
            if not data:
                raise ConnectionResetError("closed before CONNACK")
            first = decoder.feed(data)
        connack = first[0]
        assert isinstance(connack, packets.Connack), connack
        if connack.reason != 0:
            self._writer.close()
            raise ConnectionRefusedError(f"{self.client_id}: {connack}")
        if self.known and not connack.session_present and not clean:
            self.faults.append(f"{self.client_id}: session not present after a restart")
        self.present = connack.session_present
        self.known = True
        self.gone.clear()
        self.ending = ""
        self._resume(connack.session_present)
        self._reader_task = asyncio.create_task(self._read(reader, decoder, first[1:]))
        return connack

    def _resume(self, present: bool) -> None:
        if not present:
            self.received.clear()
            self.inflight.clear()
        for packet in self.outgoing.values():
            if isinstance(packet, packets.Publish):
                packet.dup = present
            self._send(packet)
        self._room.set()

    async def _read(self, reader: asyncio.StreamReader, decoder: Decoder, first: list[Any]) -> None:
        try:
            todo = first
            while True:
                for packet in todo:
                    self._handle(packet)
                if decoder.error is not None:
                    self.faults.append(f"{self.client_id}: wrong bytes from the broker: {decoder.error}")
                    return
                data = await reader.read(65536)
                if not data:
                    self.ending = self.ending or "the broker closed without DISCONNECT"
                    return
                todo = decoder.feed(data)
        except OSError as error:
            self.ending = self.ending or f"{type(error).__name__}: {error}"
        except Exception as error:
            self.faults.append(f"{self.client_id}: the client itself failed: {type(error).__name__}: {error}")
        finally:
            self.ending = f"{datetime.now(UTC):%H:%M:%S.%f} {self.ending}"
            self.gone.set()
            if self._writer is not None:
                self._writer.close()

    def _handle(self, packet: Any) -> None:
        kind = type(packet)
        if kind is packets.Publish:
            self._publish(packet)
        elif kind is packets.Puback or (kind is packets.Pubcomp and packet.packet_id in self.outgoing):
            sent = self.outgoing.pop(packet.packet_id, None)
            if kind is packets.Puback and sent is not None and packet.reason < 0x80:
                self.acked(sent.payload)
            self._room.set()
        elif kind is packets.Pubrec:
            self._received(packet)
        elif kind is packets.Pubrel:
            self.received.discard(packet.packet_id)
            self.inflight.pop(packet.packet_id, None)
            self._send(packets.Pubcomp(packet.packet_id))
        elif kind in (packets.Suback, packets.Unsuback):
            waiting = self._answers.pop((kind, packet.packet_id), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(packet)
        elif kind is packets.Disconnect:
            self.ending = f"DISCONNECT with code {packet.reason:#04x}"

    def _received(self, packet: packets.Pubrec) -> None:
        sent = self.outgoing.get(packet.packet_id)
        if isinstance(sent, packets.Publish):
            if packet.reason >= 0x80:
                del self.outgoing[packet.packet_id]
                return
            self.acked(sent.payload)
            self.outgoing[packet.packet_id] = packets.Pubrel(packet.packet_id)
        self._send(packets.Pubrel(packet.packet_id))

    def _publish(self, packet: packets.Publish) -> None:
        packet_id, properties = packet.packet_id, packet.properties or {}
        if packet.qos and packet_id in self.inflight and packet.dup and self.inflight[packet_id] != packet.payload:
            before = self.inflight[packet_id]
            self.faults.append(f"{self.client_id}: packet id {packet_id} was {before!r} and is {packet.payload!r}")
        if packet.qos == 2:
            self.inflight[packet_id] = packet.payload
            if packet_id not in self.received:
                self.received.add(packet_id)
                self.delivered(packet.topic, packet.payload, 2, properties)
            self._send(packets.Pubrec(packet_id))
            return
        self.delivered(packet.topic, packet.payload, packet.qos, properties)
        if packet.qos == 1:
            self.inflight.pop(packet_id, None)
            self._send(packets.Puback(packet_id))

    def _send(self, packet: Any) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.write(encode(packet, self.version))

    # -- called by the application

    def _packet_id(self) -> int:
        while True:
            self._next_id = self._next_id % 65535 + 1
            if self._next_id not in self.outgoing:
                return self._next_id

    async def publish(self, topic: str, payload: bytes, qos: int, properties: dict[str, Any] | None = None) -> None:
        """Wait until the window has space, then send a message; does not wait for the acknowledgement."""
        while len(self.outgoing) >= self.window or not self.online:
            self._room.clear()
            await self._room.wait()
        packet_id = self._packet_id()
        packet = packets.Publish(
            topic, payload, qos, False, False, packet_id, properties if self.version == 5 else None
        )
        self.outgoing[packet_id] = packet
        self._send(packet)

    async def subscribe(self, text: str, qos: int) -> packets.Suback:
        """Subscribe, and wait for SUBACK."""
        packet_id = self._packet_id()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[packets.Suback, packet_id] = future
        self._send(packets.Subscribe(packet_id, [packets.SubscribeOptions(text, qos)]))
        answer: packets.Suback = await asyncio.wait_for(future, 10)
        return answer

    async def disconnect(self) -> None:
        """Send DISCONNECT and close the connection; the session stays."""
        if self.online:
            self._send(packets.Disconnect())
            await self.abort()

    async def abort(self) -> None:
        """Close the connection without DISCONNECT."""
        if self._writer is not None:
            self._writer.close()
        await self.gone.wait()
