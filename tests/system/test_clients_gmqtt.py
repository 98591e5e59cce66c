"""gmqtt against a broker process: an MQTT 5 client that was written without paho."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

import gmqtt
import pytest
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from .brokers import WITHIN_S, EveryListener, run_test

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

versions = pytest.mark.parametrize("version", [MQTTv311, MQTTv50])


class Client:
    """A gmqtt client with a queue of messages; `async with` connects and disconnects."""

    def __init__(
        self, shared: EveryListener, client_id: str, version: int, transport: str = "tcp", **options: Any
    ) -> None:
        self.client = gmqtt.Client(client_id, **options)
        self.client.set_config({"reconnect_retries": 0, "reconnect_delay": 0})
        self.place = ("127.0.0.1", shared.port(transport))
        self.tls: Any = ssl.create_default_context(cafile=str(shared.pem.ca)) if transport == "ssl" else False
        self.version = version
        self.messages: asyncio.Queue[tuple[str, bytes, int, dict[str, Any]]] = asyncio.Queue()
        self.granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self.connack: dict[str, Any] = {}
        self.flags = -1
        self.client.on_message = self._message
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda client, mid, qos, properties: self.granted.put_nowait(tuple(qos))

    def _message(self, client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0

    def _connected(self, client: Any, flags: int, reason: int, properties: dict[str, Any]) -> None:
        self.flags, self.connack = flags, properties

    async def __aenter__(self) -> Client:
        await asyncio.wait_for(self.client.connect(*self.place, ssl=self.tls, version=self.version), WITHIN_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        # asyncio's TLS calls it an error that acknowledgements were still on their way
        with contextlib.suppress(ssl.SSLError):
            await asyncio.wait_for(self.client.disconnect(), WITHIN_S)

    async def subscribe(self, text: str, qos: int, **properties: Any) -> tuple[int, ...]:
        """Subscribe; returns the granted QoS."""
        self.client.subscribe(gmqtt.Subscription(text, qos=qos), **properties)
        return await asyncio.wait_for(self.granted.get(), WITHIN_S)

    async def next(self) -> tuple[str, bytes, int, dict[str, Any]]:
        """Returns the next message: topic, payload, QoS, properties."""
        return await asyncio.wait_for(self.messages.get(), WITHIN_S)


@versions
@pytest.mark.parametrize("transport", ["tcp", "ssl"])
def test_publish_and_subscribe(shared: EveryListener, name: str, version: int, transport: str) -> None:
    """Each QoS in order. [MQTT-4.6.0-6] [MQTT5-4.6.0-5]"""

    async def run() -> None:
        async with (
            Client(shared, f"{name}-r", version, transport) as reader,
            Client(shared, f"{name}-w", version, transport) as writer,
        ):
            assert await reader.subscribe(f"{name}/#", 2) == (2,)
            for number in range(30):
                writer.client.publish(f"{name}/{number % 3}", str(number), qos=number % 3)
            got: dict[int, list[int]] = {0: [], 1: [], 2: []}
            for _ in range(30):
                _, payload, qos, _ = await reader.next()
                got[qos].append(int(payload))
            assert got == {qos: list(range(qos, 30, 3)) for qos in range(3)}

    run_test(run())


def test_properties_and_aliases(shared: EveryListener, name: str) -> None:
    """User properties, expiry, content type, subscription identifier; gmqtt handles the aliases of the broker."""

    async def run() -> None:
        async with (
            Client(shared, f"{name}-r", MQTTv50, topic_alias_maximum=5) as reader,
            Client(shared, f"{name}-w", MQTTv50) as writer,
        ):
            await reader.subscribe(f"{name}/#", 1, subscription_identifier=9)
            for number in range(20):
                writer.client.publish(
                    f"{name}/{number % 4}",
                    str(number),
                    qos=1,
                    user_property=[("n", str(number))],
                    content_type="text/plain",
                    response_topic="back",
                    message_expiry_interval=100,
                )
            for number in range(20):
                topic, payload, _, properties = await reader.next()
                assert (topic, payload) == (f"{name}/{number % 4}", b"%d" % number)
                assert properties["user_property"] == [("n", str(number))]
                assert properties["content_type"] == ["text/plain"]
                assert properties["response_topic"] == ["back"]
                assert properties["subscription_identifier"] == [9]
                assert 95 <= properties["message_expiry_interval"][0] <= 100

    run_test(run())


@versions
def test_a_persistent_session(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] [MQTT5-3.1.2-5] [MQTT5-3.2.2-3]"""
    stays: dict[str, Any] = {"clean_session": False}
    if version == MQTTv50:
        stays["session_expiry_interval"] = 600

    async def run() -> None:
        async with Client(shared, f"{name}-r", version, **stays) as reader:
            assert reader.flags == 0
            await reader.subscribe(f"{name}/#", 2)
        async with Client(shared, f"{name}-w", version) as writer, Client(shared, f"{name}-w2", version) as second:
            await second.subscribe(f"{name}/#", 2)
            for number in range(20):
                writer.client.publish(f"{name}/x", str(number), qos=1 + number % 2)
            for _ in range(20):
                await second.next()
        async with Client(shared, f"{name}-r", version, **stays) as reader:
            assert reader.flags == 1
            numbers = [int((await reader.next())[1]) for _ in range(20)]
            assert sorted(numbers) == list(range(20))

    run_test(run())


def test_a_shared_subscription(shared: EveryListener, name: str) -> None:
    """[MQTT5-4.8.2-4]: each message to one member."""

    async def run() -> None:
        async with (
            Client(shared, f"{name}-1", MQTTv50) as one,
            Client(shared, f"{name}-2", MQTTv50) as two,
            Client(shared, f"{name}-w", MQTTv50) as writer,
        ):
            received: asyncio.Queue[int] = asyncio.Queue()

            def note(_client: object, _topic: str, payload: bytes, _qos: int, _properties: object) -> int:
                received.put_nowait(int(payload))
                return 0

            for member in (one, two):
                member.client.on_message = note
                await member.subscribe(f"$share/g/{name}", 1)
            await writer.subscribe(f"{name}-end", 1)
            for number in range(40):
                writer.client.publish(name, str(number), qos=1)
            got = [await asyncio.wait_for(received.get(), WITHIN_S) for _ in range(40)]
            writer.client.publish(f"{name}-end", "end", qos=1)
            assert (await writer.next())[1] == b"end"
            assert sorted(got) == list(range(40)) and received.empty()

    run_test(run())
