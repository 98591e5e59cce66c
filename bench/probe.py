"""A client without an event loop that measures the response times of a node.

    python -m bench.probe PORT

It publishes to itself at QoS 1 every 10 ms, and prints the times when its standard input is closed.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from typing import Any

from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

from .steady import NEVER

EVERY_S = 0.01


class PlainClient:
    """A client at 127.0.0.1. Its calls block, and raise TimeoutError after `within_s` seconds.

    `present` is the flag of CONNACK: the node had a session of this client id.
    """

    def __init__(self, port: int, client_id: str, within_s: float = 60, clean: bool = True, version: int = 4) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), within_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._version = version
        self._decoder = Decoder("client", version)
        self._came: list[Any] = []
        self._packet_id = 0
        lasting = {"session_expiry_interval": NEVER} if version == 5 and not clean else None
        self.send(packets.Connect(client_id, version, clean, properties=lasting))
        connack = self.receive(packets.Connack)
        if connack.reason:
            raise ConnectionError(f"{client_id} is refused with {connack.reason}")
        self.present: bool = connack.session_present

    def send(self, packet: Any) -> None:
        """Send one packet."""
        frame = encode(packet, self._version)
        assert frame is not None
        self._socket.sendall(frame)

    def receive(self, kind: type) -> Any:
        """Wait for the next packet of this kind; drop others. Raises `ConnectionError` at the end of the stream."""
        while True:
            while self._came:
                packet = self._came.pop(0)
                if isinstance(packet, kind):
                    return packet
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the node has closed the connection")
            self._came = list(self._decoder.feed(data))

    def subscribe(self, filters: list[str], qos: int = 1) -> float:
        """Subscribe to the filters in one packet. Returns the seconds until SUBACK. Raises `ValueError` if refused."""
        self._packet_id = self._packet_id % 65535 + 1
        began = time.monotonic()
        self.send(packets.Subscribe(self._packet_id, [packets.SubscribeOptions(each, qos) for each in filters]))
        suback = self.receive(packets.Suback)
        if any(reason > 2 for reason in suback.reasons):
            raise ValueError(f"SUBACK with {max(suback.reasons)}")
        return time.monotonic() - began

    def publish(self, topic: str, payload: bytes = b"") -> None:
        """Publish at QoS 1, without waiting for PUBACK."""
        self._packet_id = self._packet_id % 65535 + 1
        self.send(packets.Publish(topic, payload, 1, packet_id=self._packet_id))

    def answer(self, publish: packets.Publish) -> None:
        """Send PUBACK for a received message."""
        self.send(packets.Puback(publish.packet_id))

    def close(self) -> None:
        """Close the connection without DISCONNECT."""
        self._socket.close()


def percentile(sorted_values: list[float], share: float) -> float:
    """Returns the value below which this share (0 to 1) of the values lies; 0 if the list is empty."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else 0.0


def main() -> int:
    """Run the command line."""
    client = PlainClient(int(sys.argv[1]), f"probe-{sys.argv[1]}")
    topic = f"probe/{sys.argv[1]}"
    client.subscribe([topic])
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    took_ms: list[float] = []
    while not over.wait(EVERY_S):
        began = time.monotonic()
        client.publish(topic)
        client.answer(client.receive(packets.Publish))
        took_ms.append((time.monotonic() - began) * 1000)
    took_ms.sort()
    figures = [len(took_ms), *(percentile(took_ms, share) for share in (0.5, 0.99, 1.0))]
    print(" ".join(f"{each:.1f}" for each in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
