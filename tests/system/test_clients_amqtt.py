"""amqtt's client against a broker process: MQTT 3.1.1 over tcp, TLS, WebSocket and WebSocket over TLS."""

from __future__ import annotations

from typing import Any

import pytest
from amqtt.client import MQTTClient

from .brokers import WITHIN_S, EveryListener, run_test

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

CONFIG: dict[str, Any] = {"auto_reconnect": False, "keep_alive": 60, "plugins": {}}


class Client:
    """An amqtt client; `async with` connects and disconnects."""

    def __init__(
        self, shared: EveryListener, client_id: str, transport: str = "tcp", clean: bool = True, **config: Any
    ) -> None:
        self.client = MQTTClient(client_id, config={**CONFIG, **config})
        scheme = {"tcp": "mqtt", "ssl": "mqtts", "ws": "ws", "wss": "wss"}[transport]
        path = "/mqtt" if transport in ("ws", "wss") else ""
        self.uri = f"{scheme}://localhost:{shared.port(transport)}{path}".replace("localhost", "127.0.0.1")
        self.cafile = str(shared.pem.ca) if transport in ("ssl", "wss") else None
        self.clean = clean

    async def __aenter__(self) -> MQTTClient:
        assert await self.client.connect(self.uri, cleansession=self.clean, cafile=self.cafile) == 0
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.disconnect()


async def next_message(client: MQTTClient) -> tuple[int, bytes]:
    """QoS and payload of the next message."""
    message = await client.deliver_message(WITHIN_S)
    assert message is not None
    return message.qos, bytes(message.data)


@pytest.mark.parametrize("transport", ["tcp", "ssl", "ws", "wss"])
def test_publish_and_subscribe(shared: EveryListener, name: str, transport: str) -> None:
    """Each QoS in order. [MQTT-4.6.0-6] [MQTT-6.0.0-1]"""

    async def run() -> None:
        async with (
            Client(shared, f"{name}-r", transport) as reader,
            Client(shared, f"{name}-w", transport) as writer,
        ):
            assert await reader.subscribe([(f"{name}/#", 2)]) == [2]
            for number in range(30):
                await writer.publish(f"{name}/{number % 3}", b"%d" % number, qos=number % 3)
            got: dict[int, list[int]] = {0: [], 1: [], 2: []}
            for _ in range(30):
                qos, payload = await next_message(reader)
                got[qos].append(int(payload))
            assert got == {qos: list(range(qos, 30, 3)) for qos in range(3)}
            await reader.unsubscribe([f"{name}/#"])

    run_test(run())


@pytest.mark.parametrize("transport", ["tcp", "ws"])
def test_a_persistent_session_and_a_retained_message(shared: EveryListener, name: str, transport: str) -> None:
    """[MQTT-3.1.2-4] [MQTT-3.3.1-6]"""

    async def run() -> None:
        async with Client(shared, f"{name}-r", transport, clean=False) as reader:
            await reader.subscribe([(f"{name}/#", 2)])
        async with Client(shared, f"{name}-w", transport) as writer:
            for number in range(10):
                await writer.publish(f"{name}/x", b"%d" % number, qos=1 + number % 2, retain=number == 9)
        async with Client(shared, f"{name}-r", transport, clean=False) as reader:
            got = [int((await next_message(reader))[1]) for _ in range(10)]
            assert sorted(got) == list(range(10))
        async with Client(shared, f"{name}-late", transport) as late:
            await late.subscribe([(f"{name}/x", 1)])
            assert (await next_message(late)) == (1, b"9")

    run_test(run())


def test_a_will(shared: EveryListener, name: str) -> None:
    """Of a client that another one with its name takes over. [MQTT-3.1.2-8] [MQTT-3.1.4-2]"""

    async def run() -> None:
        will = {"topic": f"{name}/will", "message": "gone", "qos": 1, "retain": False}
        async with Client(shared, f"{name}-r") as reader:
            await reader.subscribe([(f"{name}/#", 1)])
            async with Client(shared, name, will=will), Client(shared, name):
                assert await next_message(reader) == (1, b"gone")

    run_test(run())
