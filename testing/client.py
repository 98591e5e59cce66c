"""A small MQTT client for tests, on the broker's own codec: 3.1 (`version=3`), 3.1.1 (4) and 5.0 (5).

It keeps its half of the session from one connection to the next. When the broker resumes the session, the client sends
unacknowledged messages again. It gives out a repeated QoS 2 message once. Every wait has a timeout in seconds. A
connection belongs to the event loop in which it was made: in another loop each method raises `MqttClosed` at once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from msgspec import structs

from ..mqtt import packets
from ..mqtt.decoder import Decoder
from ..mqtt.encoder import encode
from ..mqtt.packets import Connack, Publish, Subscribe, SubscribeOptions, Unsubscribe, Will
from .client_errors import ConnectionLost, MqttClosed, reason_text, refusal
from .client_session import Message, SessionState
from .hidden_frames import of_documented_errors
from .inbox import Inbox

__tracebackhide__ = of_documented_errors

_T = TypeVar("_T")
NEVER = 0xFFFFFFFF
TIMEOUT_S = 10.0
"""How long a test waits by default, in seconds. If a node is killed, the wills of its clients come after about 5 s."""


class Client(asyncio.Protocol):
    """A client with the client id `name`. `Cluster.client` makes one for a node; `host` and `port` name another broker.

    With `clean_start=False` and version 5 the session never expires, unless `session_expiry` (seconds) says otherwise.
    With `auto_ack=False` the test acknowledges messages itself, by `ack`. `keepalive` is in seconds; 0 sends no pings.
    `properties` are those of CONNECT. `tls` is for a listener with TLS. Raises ValueError and TypeError for arguments
    that no client can have.
    """

    def __init__(
        self,
        name: str,
        *,
        host: str = "127.0.0.1",
        port: int = 1883,
        version: int = 5,
        clean_start: bool = True,
        session_expiry: int | None = None,
        keepalive: int = 0,
        username: str | None = None,
        password: bytes | str | None = None,
        will: Will | None = None,
        auto_ack: bool = True,
        properties: dict[str, Any] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.received: list[Message] = []
        """Every message so far, in order; a repeated QoS 2 message is in it once."""
        self.session = SessionState()
        self.connack: Connack | None = None
        self.closed_by: packets.Disconnect | None = None
        """The broker's DISCONNECT that ended the last connection, if it sent one."""
        self.auto_ack = auto_ack
        self.on_data: Callable[[], None] = lambda: None
        self.address_of: Callable[[int], tuple[str, int]] = lambda _: (host, port)
        expiry = session_expiry if session_expiry is not None else (0 if clean_start else NEVER)
        wanted = dict(properties or {})
        if version == 5 and expiry:
            wanted.setdefault("session_expiry_interval", expiry)
        secret = password.encode() if isinstance(password, str) else password
        if version not in (3, 4, 5):
            raise ValueError(f"version = {version!r}: 3 is MQTT 3.1, 4 is 3.1.1, and 5 is 5.0")
        if will is not None:
            will = _checked_will(will)
        self._connect = packets.Connect(
            name, version, clean_start, keepalive, username, secret, will, (wanted or None) if version == 5 else None
        )
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._decoder: Decoder
        self._waiting: dict[tuple[type, int], asyncio.Future[Any]] = {}
        self._inbox = Inbox()
        self._gone: asyncio.Future[None] | None = None
        """Done when the connection has ended; None before the first one. It belongs to the loop of the connection."""
        self._ping: asyncio.TimerHandle | None = None

    # -- the connection

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the connection, and the connection has not ended."""
        return self._transport is not None and self.connack is not None

    @property
    def session_present(self) -> bool:
        """Whether the last CONNACK said that the broker has resumed a session."""
        return self.connack is not None and self.connack.session_present

    async def connect(self, node: int = 0, timeout: float = TIMEOUT_S) -> Connack:
        """Connect and wait for CONNACK. `node` is the number of a node of the cluster.

        Raises `MqttRefused`, `ConnectionLost`, OSError or TimeoutError, and `MqttClosed` if it is connected already.
        """
        self._check_loop()
        if self._transport is not None:
            raise MqttClosed(f"{self.name} is connected")
        self._decoder = Decoder("client", self.version)
        self.connack = self.closed_by = None
        self.session.aliases.clear()
        try:
            connack = await self._within(timeout, "no CONNACK", self._accepted(*self.address_of(node)))
        except BaseException:
            self.abort()  # without a CONNACK the connection is of no use: the next attempt opens a new one
            await self._end()
            raise
        if connack.reason:
            await self._until_gone()
            raise refusal("CONNECT", connack.reason, self.version)
        self.connack = connack
        properties = connack.properties or {}
        if properties.get("assigned_client_identifier"):
            self.name = self._connect.client_id = properties["assigned_client_identifier"]
        self._keep_alive(properties.get("server_keep_alive", self._connect.keepalive_s))
        for packet in self.session.resume(connack.session_present):
            self._send(packet)
        return connack

    async def _accepted(self, host: str, port: int) -> Connack:
        """Open a connection, send CONNECT, and return the CONNACK."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, host, port, ssl=self._tls)
        except OSError as error:
            raise error.with_traceback(None) from None  # without the frames of asyncio, which say nothing
        answered = self._expect(Connack, 0)
        self._send(self._connect)
        connack: Connack = await answered
        return connack

    async def reconnect(self, node: int = 0, clean_start: bool = False, timeout: float = TIMEOUT_S) -> Connack:
        """Connect again, by default to the same session. An open connection is aborted first.

        Result and errors are those of `connect`.
        """
        self._check_loop()
        self.abort()
        await self._until_gone()
        self._connect.clean_start = clean_start
        return await self.connect(node, timeout)

    async def disconnect(self, reason: int = 0, properties: dict[str, Any] | None = None) -> None:
        """Send DISCONNECT and wait for the end of the connection; no effect if it has ended."""
        self._check_loop()
        if self._transport is None:
            return
        self._send(packets.Disconnect(reason, properties) if self.version == 5 else packets.Disconnect())
        self._transport.close()
        await self._until_gone()

    def abort(self) -> None:
        """Close the connection without DISCONNECT: the broker publishes the will."""
        if self._transport is not None:
            self._transport.abort()

    async def closed(self, timeout: float = TIMEOUT_S) -> packets.Disconnect | None:
        """Wait until the connection has ended. Returns the broker's DISCONNECT, or None. Raises TimeoutError."""
        self._check_loop()
        await self._within(timeout, "the connection did not end", self._end())
        return self.closed_by

    async def __aenter__(self) -> Self:
        if self._transport is None:
            await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    # -- publishing and subscribing

    async def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        qos: int = 0,
        retain: bool = False,
        timeout: float = TIMEOUT_S,
        **properties: Any,
    ) -> int:
        """Publish and wait for PUBACK or PUBCOMP. Returns its reason code (16: no subscriber); 0 for QoS 0.

        Raises `MqttRefused` for a code of 128 or above, TypeError for another payload, and ValueError for what no
        PUBLISH may have. Raises `ConnectionLost` if the connection ends before the answer, and TimeoutError. After
        these two the broker may or may not have the message; the client sends it again when the session is resumed.
        """
        packet = Publish(topic, _encoded(payload), qos, retain, False, 0, properties or None)
        if qos == 0:
            self._send(packet)
            return 0
        packet_id = packet.packet_id = self.session.new_id()
        encoded = encode(packet, self.version)  # first: what cannot be encoded is no part of the session
        answered = self._expect(Publish, packet_id)
        self.session.outgoing[packet_id] = packet
        self._live().write(encoded)
        reason: int = await self._within(timeout, f"no acknowledgement of PUBLISH {packet_id} on {topic}", answered)
        if reason >= 0x80:
            raise refusal(f"PUBLISH on {topic}", reason, self.version)
        return reason

    async def subscribe(
        self,
        filters: str | SubscribeOptions | Iterable[str | SubscribeOptions],
        qos: int = 0,
        timeout: float = TIMEOUT_S,
        **properties: Any,
    ) -> list[int]:
        """Subscribe and wait for SUBACK. Returns the granted QoS of each filter.

        Raises `MqttRefused` if the broker refuses a filter, `ConnectionLost` or TimeoutError, and TypeError for
        anything but strings and `SubscribeOptions`.
        """
        wanted = [SubscribeOptions(each, qos) if isinstance(each, str) else each for each in _listed(filters)]
        packet_id = self.session.new_id()
        answered = self._expect(packets.Suback, packet_id)
        self._send(Subscribe(packet_id, wanted, properties or None))
        filters_text = ", ".join(each.filter for each in wanted)
        suback: packets.Suback = await self._within(timeout, f"no SUBACK for {filters_text}", answered)
        for each, reason in zip(wanted, suback.reasons, strict=True):
            if reason >= 0x80:
                raise refusal(f"SUBSCRIBE to {each.filter}", reason, 5)
        return suback.reasons

    async def unsubscribe(self, filters: str | Iterable[str], timeout: float = TIMEOUT_S) -> list[int]:
        """Unsubscribe and wait for UNSUBACK. Returns its reason codes; before MQTT 5.0 it has none.

        Raises `MqttRefused`, `ConnectionLost` or TimeoutError.
        """
        many = [filters] if isinstance(filters, str) else list(filters)
        packet_id = self.session.new_id()
        answered = self._expect(packets.Unsuback, packet_id)
        self._send(Unsubscribe(packet_id, many))
        unsuback: packets.Unsuback = await self._within(timeout, f"no UNSUBACK for {', '.join(many)}", answered)
        for text, reason in zip(many, unsuback.reasons, strict=False):
            if reason >= 0x80:
                raise refusal(f"UNSUBSCRIBE from {text}", reason, 5)
        return unsuback.reasons

    # -- messages

    async def message(self, timeout: float = TIMEOUT_S) -> Message:
        """Wait for the next message that was not taken yet.

        Raises TimeoutError, or at once `ConnectionLost` if there is no connection on which it could come. Their texts
        say how many messages arrived before.
        """
        self._check_loop()
        try:
            async with asyncio.timeout(timeout):
                return await self._inbox.next(self._check_connected)
        except TimeoutError:
            count = len(self.received)
            raise TimeoutError(f"{self.name} got no message within {timeout:g} s, {count} before") from None

    def _check_connected(self) -> None:
        """Raises `ConnectionLost` if no message can come."""
        if self._transport is None:
            count = len(self.received)
            raise ConnectionLost(f"{self.name} got no message, {count} before: it is not connected{self._why()}")

    async def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Yield messages as they arrive. With `timeout`, end when none arrives for that many seconds.

        Raises `ConnectionLost` when there is no connection, and all messages were taken.
        """
        self._check_loop()
        while True:
            try:
                async with asyncio.timeout(timeout):
                    found = await self._inbox.next(self._check_connected)
            except TimeoutError:
                return
            yield found

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.messages()

    def take(self) -> list[Message]:
        """Returns all messages that have arrived and were not taken yet; does not wait."""
        return self._inbox.take()

    def put_back(self, message: Message) -> None:
        """Let a message be the next one again that is taken: its taker was cancelled."""
        self._inbox.put_back(message)

    def ack(self, message: Message) -> None:
        """Send PUBACK or PUBREC for a message, with `auto_ack=False`; no effect for QoS 0."""
        if message.qos == 1:
            self._send(packets.Puback(message.packet_id))
        elif message.qos == 2:
            self._send(packets.Pubrec(message.packet_id))

    def send(self, packet: packets.Packet | bytes) -> None:
        """Send a packet, or raw bytes. Raises `MqttClosed` if the client is not connected."""
        if isinstance(packet, bytes):
            self._live().write(packet)
        else:
            self._send(packet)

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is open."""
        # the class of uvloop's transport does not inherit from asyncio.Transport
        self._transport = cast(asyncio.Transport, transport)
        self._gone = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have arrived from the broker. Handle each complete packet in them."""
        self.on_data()
        for packet in self._decoder.feed(data):
            self._handle(packet)
        if self._decoder.error is not None:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection has ended. Raise `ConnectionLost` in every call that waits for an answer."""
        self.on_data()
        self._transport = None
        self._inbox.wake()
        if self._ping is not None:
            self._ping.cancel()
        why = self._why() or f": {exc or 'closed'}"
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"{self.name}: the connection ended{why}"))
                future.exception()  # mark it as retrieved: after a timeout no call awaits it, and asyncio would log it
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _handle(self, packet: packets.Packet) -> None:
        if isinstance(packet, Publish):
            self._received(packet)
        elif isinstance(packet, Connack):
            self._resolve(Connack, 0, packet)
        elif isinstance(packet, packets.Suback | packets.Unsuback):
            self._resolve(type(packet), packet.packet_id, packet)
        elif isinstance(packet, packets.Disconnect):
            self.closed_by = packet
        else:
            answer, finished = self.session.answer(packet)
            if answer is not None:
                self._send(answer)
            if finished is not None:
                self._resolve(Publish, *finished)

    def _received(self, packet: Publish) -> None:
        message = self.session.accept(packet)
        if message is not None:
            self.received.append(message)
            self._inbox.put(message)
        if self.auto_ack and packet.qos:
            kind = packets.Puback if packet.qos == 1 else packets.Pubrec
            self._send(kind(packet.packet_id))

    # -- helpers

    def _expect(self, kind: type, packet_id: int) -> asyncio.Future[Any]:
        self._live()
        future = asyncio.get_running_loop().create_future()
        self._waiting[kind, packet_id] = future
        return future

    def _resolve(self, kind: type, packet_id: int, value: Any) -> None:
        future = self._waiting.pop((kind, packet_id), None)
        if future is not None and not future.done():
            future.set_result(value)

    async def _within(self, timeout: float, what: str, awaited: Awaitable[_T]) -> _T:
        """Wait for at most `timeout` seconds. Raises TimeoutError whose text has `what`, the missing event."""
        try:
            async with asyncio.timeout(timeout):
                return await awaited
        except TimeoutError:
            raise TimeoutError(f"{self.name}: {what} within {timeout:g} s") from None

    def _live(self) -> asyncio.Transport:
        if self._transport is None:
            raise MqttClosed(f"{self.name} is not connected{self._why()}")
        self._check_loop()
        return self._transport

    def _why(self) -> str:
        """Returns why the connection has ended, if the broker has said so."""
        return "" if self.closed_by is None else f": the broker closed it: {reason_text(self.closed_by.reason)}"

    def _check_loop(self) -> None:
        """Raises `MqttClosed` if there is a connection, and it belongs to another loop: nothing arrives there now."""
        if self._transport is None or self._gone is None:
            return
        mine = self._gone.get_loop()
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = mine
        if running is not mine or mine.is_closed():
            raise MqttClosed(
                f"{self.name} belongs to another event loop: connect, use and disconnect it in the same asyncio.run"
            )

    def _send(self, packet: packets.Packet) -> None:
        transport = self._live()
        transport.write(encode(packet, self.version))

    async def _until_gone(self) -> None:
        await self._within(TIMEOUT_S, "the connection did not end", self._end())

    async def _end(self) -> None:
        """Wait until there is no connection."""
        if self._gone is not None:
            await asyncio.wait([self._gone])

    def _keep_alive(self, seconds: int) -> None:
        if seconds:
            self._ping = asyncio.get_running_loop().call_later(seconds * 0.75, self._pinging, seconds)

    def _pinging(self, seconds: int) -> None:
        if self._transport is not None:
            self._send(packets.Pingreq())
            self._keep_alive(seconds)


def _encoded(payload: Any) -> bytes:
    """Returns a payload as bytes. Raises TypeError if it is neither bytes nor text."""
    data = payload.encode() if isinstance(payload, str) else payload
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a payload is bytes or str, not {type(payload).__name__}: give json.dumps(...) of it")
    return cast(bytes, data)


def _checked_will(will: Any) -> Will:
    """Returns a will whose payload is bytes. Raises TypeError for anything else than a will."""
    if not isinstance(will, Will):
        raise TypeError(f"will is a Will(topic, payload), not {type(will).__name__}")
    return structs.replace(will, payload=_encoded(will.payload))


def _listed(filters: Any) -> list[str | SubscribeOptions]:
    """Returns one filter or several as a list. Raises TypeError for a mapping, whose values would be lost, and more."""
    many: list[Any] = [filters] if isinstance(filters, str | SubscribeOptions | Mapping) else list(filters)
    for each in many:
        if not isinstance(each, str | SubscribeOptions):
            raise TypeError(f"a filter is a str or SubscribeOptions(filter, qos), not {type(each).__name__}")
    return many
