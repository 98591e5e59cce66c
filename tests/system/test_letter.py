"""The letter that crosses a country whose wires are cut: real mosquitto clients, a broker killed with SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port
from tests.harness.thinning import thinned

from .brokers import run_test
from .mosquitto import Sub, pub

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]


@pytest.mark.parametrize("version", thinned(["mqttv5", "mqttv311"], 2))
def test_a_letter_is_never_lost_nor_out_of_order(version: str, tmp_path: Path) -> None:
    """A is read; B and C are published; kill -9; D and E are published; the reader returns to B C D E, each once."""

    async def run() -> None:
        broker = BrokerProcess(tmp_path / "data", free_port())
        reader = ["-p", str(broker.port), "-t", "letters", "-q", "1", "-i", "reader", "-c", "-V", version]
        reader += ["-x", "3600"] if version == "mqttv5" else []

        async def publish(text: str) -> None:
            assert await pub("-p", str(broker.port), "-t", "letters", "-q", "1", "-m", text, "-V", "mqttv311") == 0

        await broker.start()
        try:
            reading = await Sub.start(*reader)
            await publish("A")
            assert await reading.lines(1) == ["A"]
            assert await reading.stop() == ["A"]
            await publish("B")
            await publish("C")
            await broker.kill()
            await broker.start()
            await publish("D")
            await publish("E")
            reading = await Sub.start(*reader)
            assert await reading.lines(4) == ["B", "C", "D", "E"]
            assert await reading.stop() == ["B", "C", "D", "E"]
            assert await (await Sub.start(*reader)).stop() == []
        finally:
            await broker.stop()
        assert broker.tracebacks() == []

    run_test(run())
