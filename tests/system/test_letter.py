"""The letter that crosses a country whose wires are cut: real mosquitto clients, a broker killed with SIGKILL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port

from .brokers import need

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]


async def publish(port: int, text: str) -> None:
    process = await asyncio.create_subprocess_exec(
        need("mosquitto_pub"), "-p", str(port), "-t", "letters", "-q", "1", "-m", text, "-V", "mqttv311"
    )
    assert await asyncio.wait_for(process.wait(), 10) == 0


async def read(port: int, count: int, version: str) -> list[str]:
    """What a returning persistent subscriber gets until it has `count` messages, and what comes in the second after."""
    process = await asyncio.create_subprocess_exec(
        *(need("mosquitto_sub"), "-p", str(port), "-t", "letters", "-q", "1", "-i", "reader", "-c", "-V", version),
        *("-W", "2") if count == 0 else ("-C", str(count), "-W", "10"),
        *(("-x", "3600") if version == "mqttv5" else ()),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    return output.decode().split()


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_a_letter_is_never_lost_nor_out_of_order(version: str, tmp_path: Path) -> None:
    """A is read; B and C are published; kill -9; D and E are published; the reader returns to B C D E, each once."""

    async def play() -> None:
        broker = BrokerProcess(tmp_path / "data", free_port(), systree_interval="100")
        await broker.start()
        try:
            reading = asyncio.create_task(read(broker.port, 1, version))
            await subscribed(broker.port)
            await publish(broker.port, "A")
            assert await reading == ["A"]
            await publish(broker.port, "B")
            await publish(broker.port, "C")
            await broker.kill()
            await broker.start()
            await publish(broker.port, "D")
            await publish(broker.port, "E")
            assert await read(broker.port, 4, version) == ["B", "C", "D", "E"]
            assert await read(broker.port, 0, version) == []
        finally:
            await broker.stop()
        assert broker.tracebacks() == []

    asyncio.run(play())


async def subscribed(port: int) -> None:
    """Wait until the reader's subscription is there: a probe on its topic space would be read, so `$SYS` is asked."""
    for _ in range(100):
        process = await asyncio.create_subprocess_exec(
            *(need("mosquitto_sub"), "-p", str(port), "-t", "$SYS/+/router/subscriptions", "-C", "1", "-W", "2"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 20)
        # the probe's own subscription is the other one
        if output.strip() == b"2":
            return
    raise AssertionError("the reader did not subscribe")
