"""paho-mqtt for tests: calls wait for the broker's answer within a time limit; messages are read one by one."""

from __future__ import annotations

import queue
import socket
import threading
from typing import Any, Literal

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from .brokers import WITHIN_S, EveryListener

MQTT_5 = 5
TRANSPORTS: dict[str, Literal["tcp", "websockets", "unix"]] = {
    "tcp": "tcp",
    "proxied": "tcp",
    "ssl": "tcp",
    "ws": "websockets",
    "wss": "websockets",
    "unix": "unix",
}


def properties(kind: str, **values: Any) -> Properties:
    """Returns properties of a packet (CONNECT, PUBLISH, ...), by paho's names."""
    made = Properties(getattr(PacketTypes, kind))  # type: ignore[no-untyped-call]
    for key, value in values.items():
        setattr(made, key, value)
    return made


def properties_of(message: paho.MQTTMessage) -> Any:
    """Returns the properties of a message, by paho's names."""
    assert message.properties is not None
    return message.properties


class Paho:
    """One client of `shared` over tcp, ws, ssl, wss or unix, or of the broker at `port`. Leaving `with` disconnects."""

    def __init__(
        self, shared: EveryListener | None, client_id: str, version: int, transport: str = "tcp", **options: Any
    ) -> None:
        clean = {} if version == MQTT_5 else {"clean_session": options.pop("clean", True)}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion(version),
            transport=TRANSPORTS[transport],
            reconnect_on_failure=False,
            **clean,
        )
        self.version = version
        if transport in ("ssl", "wss"):
            assert shared is not None
            self.client.tls_set(str(shared.pem.ca))
        if transport in ("ws", "wss"):
            self.client.ws_set_options("/mqtt")
        self.place = ("127.0.0.1", options.pop("port", 0))
        if shared is not None and self.place[1] == 0:
            self.place = (str(shared.unix), 1) if transport == "unix" else ("127.0.0.1", shared.port(transport))
        self.connect_properties: dict[str, Any] = options.pop("connect", {})
        self.clean_start: bool = options.pop("clean", True)
        self.keepalive: int = options.pop("keepalive", 60)
        if (user := options.pop("user", None)) is not None:
            self.client.username_pw_set(user, options.pop("password"))
        if (will := options.pop("will", None)) is not None:
            self.client.will_set(**will)
        self.expected: int = options.pop("expect", 0)
        assert not options, options
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self._answers: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.gone = threading.Event()
        self.gone_reason: Any = None
        self._wire()

    def _wire(self) -> None:
        client = self.client
        client.on_connect = lambda _c, _u, flags, reason, props: self._answers.put(("connect", (flags, reason, props)))
        client.on_message = lambda _c, _u, message: self.messages.put(message)
        client.on_subscribe = lambda _c, _u, _mid, reasons, _p: self._answers.put(("subscribe", reasons))
        client.on_unsubscribe = lambda _c, _u, _mid, reasons, _p: self._answers.put(("unsubscribe", reasons))
        client.on_publish = lambda _c, _u, mid, reason, _p: self._answers.put(("publish", (mid, reason)))

        def disconnected(_c: Any, _u: Any, _flags: Any, reason: Any, _props: Any) -> None:
            self.gone_reason = reason
            self.gone.set()

        client.on_disconnect = disconnected

    def __enter__(self) -> Paho:
        if self.version == MQTT_5:
            made = properties("CONNECT", **self.connect_properties)
            self.client.connect(*self.place, self.keepalive, clean_start=self.clean_start, properties=made)
        else:
            self.client.connect(*self.place, self.keepalive)
        self.client.loop_start()
        flags, reason, props = self.answer("connect")
        self.connack: int = reason.value
        if self.connack != self.expected:
            self.client.loop_stop()
            raise AssertionError(f"CONNACK {reason}")
        self.session_present = bool(flags.session_present)
        self.server: dict[str, Any] = {} if props is None else props.json()
        return self

    def __exit__(self, *_: object) -> None:
        if self.client.is_connected():
            self.client.disconnect()
        self.client.loop_stop()

    def answer(self, kind: str) -> Any:
        """Returns the next answer of the broker, which must be of this kind."""
        got, what = self._answers.get(timeout=WITHIN_S)
        assert got == kind, (got, what)
        return what

    def subscribe(self, text: str, qos: int = 0, identifier: int = 0, **options: Any) -> list[int]:
        """Subscribe; returns the reason codes of the SUBACK."""
        if self.version == MQTT_5:
            made = properties("SUBSCRIBE", SubscriptionIdentifier=identifier) if identifier else None
            self.client.subscribe(text, options=SubscribeOptions(qos, **options), properties=made)
        else:
            self.client.subscribe(text, qos)
        return [code.value for code in self.answer("subscribe")]

    def unsubscribe(self, text: str) -> list[int]:
        """Unsubscribe; returns the reason codes of the UNSUBACK, none before version 5."""
        self.client.unsubscribe(text)
        return [code.value for code in self.answer("unsubscribe")]

    def publish(self, topic: str, payload: bytes | str, qos: int = 0, retain: bool = False, **props: Any) -> int:
        """Publish, and wait for the answer that the QoS requires; returns the reason code."""
        made = properties("PUBLISH", **props) if self.version == MQTT_5 else None
        sent = self.client.publish(topic, payload, qos, retain, made)
        mid, reason = self.answer("publish")
        assert mid == sent.mid
        return int(reason.value)

    def next(self) -> paho.MQTTMessage:
        """The next message."""
        return self.messages.get(timeout=WITHIN_S)

    def payloads(self, count: int) -> list[bytes]:
        """The payloads of the next `count` messages."""
        return [bytes(self.next().payload) for _ in range(count)]

    def payloads_until(self, last: bytes) -> list[bytes]:
        """Returns the payloads of the next messages, up to the payload `last`, which is left out."""
        found = []
        while (payload := bytes(self.next().payload)) != last:
            found.append(payload)
        return found

    def vanish(self) -> None:
        """Cut the connection without a DISCONNECT."""
        self._socket().shutdown(socket.SHUT_RDWR)
        self.client.loop_stop()

    def local_address(self) -> tuple[str, int]:
        """Host and port of this side of the connection."""
        host, port = self._socket().getsockname()
        return host, port

    def _socket(self) -> socket.socket:
        peer = self.client.socket()
        assert isinstance(peer, socket.socket)
        return peer
