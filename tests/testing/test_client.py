"""The client against a broker: all versions, all QoS, sessions over connections, and errors with a reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.packets import SubscribeOptions, Will
from strogoff.testing.client import Client
from strogoff.testing.client_errors import ConnectionLost, MqttClosed, MqttRefused
from strogoff.testing.cluster import Cluster

from .run_loop import run


@pytest.mark.parametrize("version", [3, 4, 5])
def test_publish_and_subscribe(version: int) -> None:
    """Every QoS; the grant, and the messages in order."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx", version=version)
            assert await rx.subscribe(["t/0", SubscribeOptions("t/#", 2)], qos=0) == [0, 2]
            tx = await c.client("tx", version=version)
            for qos in (0, 1, 2):
                assert await tx.publish(f"t/{qos + 1}", f"q{qos}", qos=qos) == 0
            assert [(await rx.message()).text for _ in range(3)] == ["q0", "q1", "q2"]
            assert [message.qos for message in rx.received] == [0, 1, 2]
            await rx.unsubscribe("t/#")
            await tx.publish("t/1", "unheard", qos=1)
            await c.settled()
            assert rx.take() == []

    run(test())


def test_a_session_continues_over_connections() -> None:
    """By default a session without Clean Start never expires; unacknowledged messages are sent again."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx", clean_start=False, auto_ack=False)
            await rx.subscribe("t", qos=1)
            tx = await c.client("tx")
            await tx.publish("t", "once", qos=1)
            first = await rx.message()
            connack = await rx.reconnect()
            assert connack.session_present and rx.session_present
            again = await rx.message()
            assert (first.dup, again.dup, again.text, again.packet_id) == (False, True, "once", first.packet_id)
            rx.ack(again)
            await c.settled()
            assert not (await rx.reconnect(clean_start=True)).session_present

    run(test())


def test_a_publish_without_an_answer_is_sent_again() -> None:
    """The error says that the result is unknown; the resumed session completes the message."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx")
            await rx.subscribe("t", qos=2)
            tx = await c.client("tx", clean_start=False)
            drop = c.drop("PUBREC", then="cut")
            with pytest.raises(ConnectionLost):
                await tx.publish("t", "m", qos=2)
            await drop.happened()
            await tx.reconnect()
            await c.settled()
            assert [message.text for message in rx.take()] == ["m"]
            assert tx.session.outgoing == {}

    run(test())


def test_refusals() -> None:
    """CONNECT, SUBSCRIBE and PUBLISH, with the reason code."""

    async def test() -> None:
        async with Cluster(conf={"topic_max_depth": 2}) as c:
            tx = await c.client("tx")
            with pytest.raises(MqttRefused) as publish:
                await tx.publish("$SYS/no", "x", qos=1)
            assert publish.value.reason == 0x90
        async with Cluster(conf={"allow_anonymous": False}) as c:
            with pytest.raises(MqttRefused, match="CONNECT was refused") as connect:
                await c.client("nobody")
            assert connect.value.reason == 0x86
            with pytest.raises(MqttRefused, match=r"not authorized \(0x05\)"):
                await c.client("nobody", version=4)

    run(test())


def test_the_broker_may_close() -> None:
    """Its DISCONNECT can be read; a call that waits for an answer gets an error."""

    async def test() -> None:
        async with Cluster() as c:
            one = await c.client("same")
            two = await c.client("same")
            farewell = await one.closed()
            assert farewell is not None and farewell.reason == 0x8E
            said = r"the broker closed it: session taken over \(0x8e\)"
            with pytest.raises(MqttClosed, match=f"^same is not connected: {said}$"):
                await one.publish("t", "x")
            with pytest.raises(MqttClosed, match="same is connected"):
                await two.connect()
            two.send(b"\x00\x00")
            gone = await two.closed()
            assert gone is not None and gone.reason == 0x81
            await two.reconnect()
            await c.pause(0)
            waiting = asyncio.create_task(two.publish("t", "x", qos=1))
            await asyncio.sleep(0)
            two._handle(packets.Disconnect(0x8E))
            two.abort()
            with pytest.raises(ConnectionLost, match=f"^same: the connection ended: {said}$"):
                await waiting
            await c.resume(0)

    run(test())


def test_a_client_in_another_loop() -> None:
    """It says so at once: its connection cannot be read there, and each call would wait for its timeout."""
    with Cluster.sync() as c:
        mine = Client("mine", port=c.port)
        asyncio.run(mine.connect())
        for work in (mine.publish("t", "x", qos=1), mine.message(), mine.closed(), mine.reconnect(), mine.disconnect()):
            with pytest.raises(MqttClosed, match="mine belongs to another event loop"):
                asyncio.run(work)
        with pytest.raises(MqttClosed, match="mine belongs to another event loop"):
            mine.send(packets.Pingreq())


def test_a_payload_of_another_type() -> None:
    """The error says what to write instead; nothing is sent."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx")
            wrong: Any = {"a": 1}
            with pytest.raises(TypeError, match=r"a payload is bytes or str, not dict: give json\.dumps"):
                await tx.publish("t", wrong, qos=1)
            assert await tx.publish("t", b"x", qos=1) == 16

    run(test())


def test_will_on_abort_and_not_on_disconnect() -> None:
    """The two ways to end a connection."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx")
            await rx.subscribe("will/#", qos=1)
            for name in ("polite", "rude"):
                client = await c.client(name, will=Will(f"will/{name}", b"gone", 1))
                if name == "polite":
                    await client.disconnect()
                    await client.disconnect()
                else:
                    client.abort()
            assert (await rx.message()).topic == "will/rude"
            await c.settled()
            assert rx.take() == []

    run(test())


def test_waiting_for_messages() -> None:
    """An iterator that ends after silence, and a timeout error with the number of messages."""

    async def test() -> None:
        async with Cluster() as c, Client("own", port=c[0].port) as own:
            await own.subscribe("t", qos=1)
            for number in range(3):
                await own.publish("t", str(number), qos=1)
            assert [message.text async for message in own.messages(timeout=0.05)] == ["0", "1", "2"]
            with pytest.raises(TimeoutError, match="own got no message within 0 s, 3 before"):
                await own.message(timeout=0)
            await own.publish("t", "last", qos=1)
            async for message in own:
                assert message.text == "last"
                break

    run(test())


def test_properties_and_an_assigned_id() -> None:
    """MQTT 5.0: properties of PUBLISH arrive, an empty client id is replaced by the broker's."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("", keepalive=30)
            assert rx.name.startswith("anon-") and rx.connected
            await rx.subscribe("t", subscription_identifier=7)
            await rx.publish("t", "x", content_type="text/plain")
            assert (await rx.message()).properties == {"content_type": "text/plain", "subscription_identifier": [7]}

    run(test())


def test_an_answer_that_does_not_come() -> None:
    """TimeoutError; the late answer has no effect."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx")
            c.drop("SUBACK")
            with pytest.raises(TimeoutError):
                await tx.subscribe("t", timeout=0.02)
            await c.pause(0)
            ping = asyncio.create_task(tx.publish("t", "x", qos=1))
            await asyncio.sleep(0)
            assert not ping.done()
            await c.resume(0)
            assert await ping == 0
            tx.send(packets.Pingreq())
            await c.settled()

    run(test())


def test_a_timeout_names_the_missing_answer() -> None:
    """Client, awaited item and duration; a connection that was never accepted does not exist afterwards."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx")
            late = Client("late", port=c[0].port)
            await c.pause(0)
            for work, text in (
                (tx.publish("t", "x", qos=1, timeout=0.01), "tx: no acknowledgement of PUBLISH 1 on t within 0.01 s"),
                (tx.subscribe(["a", "b"], timeout=0.01), "tx: no SUBACK for a, b within 0.01 s"),
                (tx.unsubscribe("a", timeout=0.01), "tx: no UNSUBACK for a within 0.01 s"),
                (tx.closed(0.01), "tx: the connection did not end within 0.01 s"),
                (late.connect(timeout=0.01), "late: no CONNACK within 0.01 s"),
            ):
                with pytest.raises(TimeoutError) as caught:
                    await work
                assert str(caught.value) == text
            await c.resume(0)
            await late.connect()
            await late.disconnect()

    run(test())


def test_a_message_that_cannot_come() -> None:
    """The client says at once that it has lost its connection; what has arrived before can be taken."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx")
            await rx.subscribe("t", qos=1)
            waiting = asyncio.create_task(rx.message())
            await asyncio.sleep(0)
            await c.client("rx")
            lost = (
                r"^rx got no message, 0 before: it is not connected: the broker closed it: session taken over \(0x8e\)$"
            )
            with pytest.raises(ConnectionLost, match=lost):
                await waiting
            await rx.reconnect(clean_start=True)
            await rx.subscribe("t", qos=1)
            await rx.publish("t", "last", qos=1)
            await c.settled()
            await rx.disconnect()
            assert (await rx.message()).text == "last"
            with pytest.raises(ConnectionLost, match=r"rx got no message, 1 before: it is not connected$"):
                await anext(rx.messages(timeout=1))

    run(test())


def test_a_publish_that_cannot_be_sent_is_no_part_of_the_session() -> None:
    """The client can connect again, and its packet id is free."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx", clean_start=False)
            with pytest.raises(ValueError, match="a/#"):
                await tx.publish("a/#", "x", qos=1)
            assert tx.session.outgoing == {}
            assert (await tx.reconnect()).session_present
            assert await tx.publish("a", "x", qos=1) == 16

    run(test())


def test_topic_aliases_of_the_broker() -> None:
    """Each message has its topic; another connection has other aliases."""

    async def test() -> None:
        async with Cluster(conf={"topic_alias_max_broker": 5}) as c:
            rx = await c.client("rx", clean_start=False, properties={"topic_alias_maximum": 5})
            await rx.subscribe("t/#")
            for _ in range(2):
                for topic in ("t/1", "t/2"):
                    await rx.publish(topic, "x")
            assert [(await rx.message()).topic for _ in range(4)] == ["t/1", "t/2"] * 2
            assert sorted(rx.session.aliases.values()) == ["t/1", "t/2"]
            await rx.reconnect()
            assert rx.session.aliases == {}

    run(test())


def test_arguments_that_no_client_can_have() -> None:
    """The error says what is right."""
    wrong: Any
    for wrong, text in [
        ({"version": 6}, "version = 6: 3 is MQTT 3.1, 4 is 3.1.1, and 5 is 5.0"),
        ({"will": "gone"}, r"will is a Will\(topic, payload\), not str"),
        ({"will": Will("w", {})}, "a payload is bytes or str, not dict"),  # type: ignore[arg-type]
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            Client("rx", **wrong)
    for wrong, kind in [(("t", 1), "int"), ([("t", 1)], "tuple"), ({"t": 1}, "dict")]:
        with pytest.raises(TypeError, match=rf"a filter is a str or SubscribeOptions\(filter, qos\), not {kind}"):
            asyncio.run(Client("rx").subscribe(wrong))


def test_a_will_may_be_text() -> None:
    """As the payload of a publish."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx")
            await rx.subscribe("w")
            will: Any = Will("w", "gone")  # type: ignore[arg-type]
            (await c.client("mortal", will=will)).abort()
            assert (await rx.message()).text == "gone"

    run(test())
