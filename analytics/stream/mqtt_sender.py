"""Publishes the alerts of a stream to an MQTT broker, perhaps of the cluster that they are about.

The Parquet files of the alerts are the queue: a thread publishes one batch after the other with QoS 1, and notes the
last batch whose alerts the broker has acknowledged. A broker that is away delays alerts, and does not stop the stream.
After a kill the alerts of one batch may be published again; their ids are the same.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ...mqtt import packets
from ...mqtt.decoder import Decoder
from ...mqtt.encoder import encode
from ...mqtt.topics import valid_topic_name
from ..manifest import place
from ..trouble import Trouble
from . import alerts_table

SENT: Final = "mqtt-sent"
"""The file that names the last batch whose alerts are acknowledged."""
ANSWER_S: Final = 10.0
"""So long the sender waits for an answer of the broker."""
WAIT_S: Final = (1.0, 30.0)
"""The first and the longest pause after a failure."""
WINDOW: Final = 20
"""Most alerts without an acknowledgement."""

_VERSION: Final = 4
_REFUSED: Final = 0x80


@dataclass(frozen=True, slots=True)
class Broker:
    """Where alerts are published."""

    host: str
    port: int
    tls: bool
    username: str | None
    password: bytes | None
    topic: str


def broker_of(url: str, topic: str) -> Broker:
    """The broker of `mqtt://[USER[:PASSWORD]@]HOST[:PORT]` or `mqtts://...`. Raises `Trouble`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise Trouble(f"--mqtt {url}: give mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS")
    if not topic or not valid_topic_name(topic):
        raise Trouble(f"--topic {topic}: give the name of a topic, without + and #")
    tls = parts.scheme == "mqtts"
    password = None if parts.password is None else unquote(parts.password).encode()
    username = None if parts.username is None else unquote(parts.username)
    return Broker(parts.hostname, port or (8883 if tls else 1883), tls, username, password, topic)


class Sender:
    """Publishes the alerts below `out`. `start` and `stop` are called once."""

    def __init__(self, out: Path, broker: Broker, client_id: str) -> None:
        self._out = out
        self._broker = broker
        self._client_id = client_id
        self._more = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._failing = False

    def start(self) -> None:
        """Begin to publish."""
        self._more.set()
        self._thread.start()

    def wake(self) -> None:
        """There are new alerts."""
        self._more.set()

    def stop(self) -> int:
        """End; what is there is tried once more. Returns how many batches with alerts are not published yet."""
        self._stopping.set()
        self._more.set()
        self._thread.join(4 * ANSWER_S)
        return len(self._waiting())

    def send(self) -> None:
        """Publish all alerts that wait. Raises OSError, also if the broker refuses."""
        waiting = self._waiting()
        if waiting:
            with _connected(self._broker, self._client_id) as link:
                for number, path in waiting:
                    link.publish(self._broker.topic, alerts_table.read(path))
                    self._note(number)

    def _run(self) -> None:
        wait_s = WAIT_S[0]
        while True:
            self._more.wait()
            self._more.clear()
            last = self._stopping.is_set()
            try:
                self.send()
                wait_s = WAIT_S[0]
                self._failing = False
            except OSError as error:
                if not self._failing:
                    where = f"{self._broker.host}:{self._broker.port}"
                    print(f"alerts wait for the broker at {where}: {error}", file=sys.stderr, flush=True)
                self._failing = True
                self._more.set()
                if not last:
                    self._stopping.wait(wait_s)
                wait_s = min(2 * wait_s, WAIT_S[1])
            if last:
                return

    def _waiting(self) -> list[tuple[int, Path]]:
        try:
            sent = int((self._out / SENT).read_text())
        except FileNotFoundError:
            sent = -1
        return alerts_table.batches(self._out, sent)

    def _note(self, number: int) -> None:
        fresh = self._out / f"{SENT}.new"
        fresh.write_text(f"{number}\n")
        place(self._out, fresh, SENT)


class _Link:
    """A connection that the broker has accepted."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = Decoder("client", _VERSION)
        self._packet_id = 0
        self._open: set[int] = set()

    def connect(self, connect: packets.Connect) -> None:
        """Send CONNECT, and wait for CONNACK. Raises OSError."""
        self._send(connect)
        while not (answer := self._received()):
            pass
        if not isinstance(answer[0], packets.Connack) or answer[0].reason:
            raise ConnectionRefusedError(f"CONNECT was answered by {answer[0]}")

    def publish(self, topic: str, alerts: Iterator[dict[str, Any]]) -> None:
        """Publish alerts, and wait until all are acknowledged. Raises OSError."""
        for alert in alerts:
            self._packet_id = self._packet_id % 0xFFFF + 1
            self._open.add(self._packet_id)
            self._send(packets.Publish(topic, alerts_table.as_json(alert), qos=1, packet_id=self._packet_id))
            self._until(WINDOW)
        self._until(1)

    def disconnect(self) -> None:
        """Send DISCONNECT."""
        self._send(packets.Disconnect())

    def _until(self, fewer: int) -> None:
        while len(self._open) >= fewer:
            for packet in self._received():
                if isinstance(packet, packets.Puback):
                    if packet.reason >= _REFUSED:
                        raise ConnectionRefusedError(f"an alert was refused with code {packet.reason}")
                    self._open.discard(packet.packet_id)

    def _received(self) -> list[packets.Packet]:
        """The packets that are complete with the next bytes; perhaps none."""
        data = self._link.recv(65536)
        if not data:
            raise ConnectionResetError("the broker has closed the connection")
        found = self._decoder.feed(data)
        if self._decoder.error is not None:
            raise ConnectionResetError(f"the broker has sent no MQTT: {self._decoder.error}")
        return found

    def _send(self, packet: packets.Packet) -> None:
        self._link.sendall(encode(packet, _VERSION))


@contextmanager
def _connected(broker: Broker, client_id: str) -> Iterator[_Link]:
    with socket.create_connection((broker.host, broker.port), ANSWER_S) as plain:
        secured = ssl.create_default_context().wrap_socket(plain, server_hostname=broker.host) if broker.tls else plain
        with secured:
            link = _Link(secured)
            link.connect(packets.Connect(client_id, _VERSION, True, username=broker.username, password=broker.password))
            yield link
            link.disconnect()
