"""The memory transport on asyncio: behaviour beyond the contract in `test_wire`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import CallFailed
from tests.harness.loop_errors import collect_loop_errors

from .wire_server import Recorder, WireServer


def test_faults_work_on_an_asyncio_loop() -> None:
    """A cut is noticed after the network's time, and heals."""

    async def main() -> None:
        network = memory_network(notice_s=0.05, dial_s=0.05)
        here, there = AsyncioMemoryTransport(network, "here"), AsyncioMemoryTransport(network, "there")
        place, mine, later = WireServer(there), Recorder(), Recorder()
        here.dial(await place.open("there:0"), b"me", mine)
        await mine.until("opened")
        network.cut("here", "there")
        await mine.until("closed")
        await place.accepted[0].until("closed")
        network.heal()
        here.dial(place.address, b"me", later)
        await later.until("opened")
        await here.close()
        await there.close()

    asyncio.run(main())


def test_an_error_in_a_handler() -> None:
    """The caller gets an error, and the loop reports it."""

    async def main() -> None:
        network = memory_network()
        here, there = AsyncioMemoryTransport(network, "here"), AsyncioMemoryTransport(network, "there")
        complaints: list[dict[str, Any]] = []
        collect_loop_errors(complaints)

        async def calls(method: str, request: bytes) -> bytes:
            raise ZeroDivisionError

        address = await WireServer(there).open("there:0", calls)
        with pytest.raises(CallFailed, match="ZeroDivisionError"):
            await here.call(address, "m", b"", 1)
        assert [type(complaint["exception"]) for complaint in complaints] == [ZeroDivisionError]
        await here.close()
        await there.close()

    asyncio.run(main())
