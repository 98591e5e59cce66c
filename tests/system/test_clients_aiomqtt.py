"""aiomqtt against a broker process: tcp, TLS and WebSocket, both versions, every QoS."""

from __future__ import annotations

import asyncio
from typing import Any

import aiomqtt
import pytest

from tests.harness.thinning import thinned

from .brokers import EveryListener, run_test

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

versions = pytest.mark.parametrize("version", [4, 5])


def client(
    shared: EveryListener, identifier: str, version: int, transport: str = "tcp", **options: Any
) -> aiomqtt.Client:
    """A client for one listener of the shared broker."""
    if transport in ("ssl", "wss"):
        options["tls_params"] = aiomqtt.TLSParameters(ca_certs=str(shared.pem.ca))
    if transport in ("ws", "wss"):
        options |= {"transport": "websockets", "websocket_path": "/mqtt"}
    return aiomqtt.Client(
        "127.0.0.1",
        shared.port(transport),
        identifier=identifier,
        protocol=aiomqtt.ProtocolVersion(version),
        **options,
    )


@versions
@pytest.mark.parametrize("transport", thinned(["tcp", "ssl", "ws", "wss"], 2))
def test_publish_and_subscribe(shared: EveryListener, name: str, version: int, transport: str) -> None:
    """Each QoS in order. [MQTT-4.6.0-6] [MQTT5-4.6.0-5]"""

    async def run() -> None:
        async with (
            client(shared, f"{name}-r", version, transport) as reader,
            client(shared, f"{name}-w", version, transport) as writer,
        ):
            await reader.subscribe(f"{name}/#", qos=2)
            for number in range(30):
                await writer.publish(f"{name}/{number % 3}", number, qos=number % 3)
            got: dict[int, list[int]] = {0: [], 1: [], 2: []}
            async for message in reader.messages:
                assert message.topic.matches(f"{name}/{message.qos}")
                assert isinstance(message.payload, bytes)
                got[message.qos].append(int(message.payload))
                if sum(map(len, got.values())) == 30:
                    break
            assert got == {qos: list(range(qos, 30, 3)) for qos in range(3)}

    run_test(run())


@versions
def test_many_clients_on_one_topic(shared: EveryListener, name: str, version: int) -> None:
    """Twenty clients on one topic: each gets each message of each, all of one sender in order."""

    async def one(number: int, ready: asyncio.Barrier) -> list[tuple[int, int]]:
        async with client(shared, f"{name}-{number}", version) as me:
            await me.subscribe(name, qos=1)
            await ready.wait()
            for index in range(10):
                await me.publish(name, f"{number} {index}", qos=1)
            got = []
            async for message in me.messages:
                assert isinstance(message.payload, bytes)
                sender, index = map(int, message.payload.split())
                got.append((sender, index))
                if len(got) == 200:
                    break
            await ready.wait()
            return got

    async def run() -> None:
        ready = asyncio.Barrier(20)
        for got in await asyncio.gather(*(one(number, ready) for number in range(20))):
            assert sorted(got) == [(sender, index) for sender in range(20) for index in range(10)]
            for sender in range(20):
                assert [index for by, index in got if by == sender] == list(range(10))

    run_test(run())


@versions
def test_a_persistent_session(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.1.2-4] [MQTT5-3.1.2-5]"""
    stays: dict[str, Any] = {"clean_session": False}
    if version == 5:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        wanted = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        wanted.SessionExpiryInterval = 600
        stays = {"clean_start": False, "properties": wanted}

    async def run() -> None:
        async with client(shared, f"{name}-r", version, **stays) as reader:
            await reader.subscribe(f"{name}/#", qos=2)
        async with client(shared, f"{name}-w", version) as writer:
            for number in range(20):
                await writer.publish(f"{name}/x", number, qos=2)
        async with client(shared, f"{name}-r", version, **stays) as reader:
            got = []
            async for message in reader.messages:
                assert isinstance(message.payload, bytes)
                got.append(int(message.payload))
                if len(got) == 20:
                    break
            assert got == list(range(20))

    run_test(run())


@versions
def test_a_will(shared: EveryListener, name: str, version: int) -> None:
    """Of a client that is taken over: its connection ends without DISCONNECT. [MQTT-3.1.2-8] [MQTT5-3.1.2-8]"""

    async def run() -> None:
        will = aiomqtt.Will(f"{name}/will", b"gone", qos=1)
        async with client(shared, f"{name}-r", version) as reader:
            await reader.subscribe(f"{name}/#", qos=1)
            with pytest.raises(aiomqtt.MqttError):  # noqa: PT012 - leaving the clients raises
                async with client(shared, name, version, will=will) as first, client(shared, name, version):
                    message = await anext(aiter(reader.messages))
                    assert (str(message.topic), message.payload) == (f"{name}/will", b"gone")
                    async for _ in first.messages:
                        raise AssertionError("a message for a client that was taken over")

    run_test(run())
