"""The client's end of a connection, with packets instead of bytes. Model clients and transcripts use it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ...mqtt import packets
from ...mqtt.decoder import Decoder
from ...mqtt.encoder import encode
from .host import Host
from .pipe import Pipe


class Peer:
    """The client's end of a connection.

    `on_packet` gets every packet; without `on_packet` they are collected in `received`. `on_closed` is called at the
    end of the connection.

    Raises ConnectionRefusedError if the node accepts no connections.
    """

    def __init__(self, host: Host, version: int = 4, rng: Random | None = None, **connect: Any) -> None:
        self.version = version
        self.decoder = Decoder("client", version)
        self.received: list[Any] = []
        self.closed = False
        self.on_packet: Callable[[Any], None] | None = None
        self.on_closed: Callable[[], None] | None = None
        pipe = host.connect(rng or Random(0), **connect)
        if pipe is None:
            raise ConnectionRefusedError(host.name)
        self.pipe: Pipe = pipe
        pipe.to_client.deliver = self._bytes
        pipe.to_client.ended = self._ended

    def send(self, *sent: Any) -> None:
        """Send packets (or raw bytes) in one piece."""
        data = b""
        for packet in sent:
            if isinstance(packet, bytes):
                data += packet
            else:
                frame = encode(packet, self.version)
                assert frame is not None
                data += frame
        self.pipe.to_node.send(data)

    def take(self) -> list[Any]:
        """Returns the packets received since the last call."""
        taken, self.received = self.received, []
        return taken

    def close(self) -> None:
        """Close the connection without DISCONNECT; sent bytes still arrive."""
        self.closed = True
        self.pipe.to_client.cut()
        self.pipe.to_node.end()

    def break_off(self) -> None:
        """Break the connection, as a fault of the network."""
        self.pipe.break_off()

    def _bytes(self, data: bytes) -> None:
        for packet in self.decoder.feed(data):
            if self.on_packet is None:
                self.received.append(packet)
            else:
                self.on_packet(packet)
                if self.closed:
                    return
        if self.decoder.error is not None:
            raise AssertionError(f"the node sent bytes that break the protocol: {self.decoder.error}")

    def _ended(self) -> None:
        self.closed = True
        if self.on_closed is not None:
            self.on_closed()


def connect_packet(client_id: str, version: int = 4, clean: bool = True, **fields: Any) -> packets.Connect:
    """Returns a CONNECT; `keepalive_s` is 0 by default."""
    return packets.Connect(client_id=client_id, version=version, clean_start=clean, **fields)
