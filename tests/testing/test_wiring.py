"""What connects nodes: each keeps its address."""

from __future__ import annotations

import socket

import pytest

from strogoff.testing.activity import Activity
from strogoff.testing.gate import Gate
from strogoff.testing.wiring import Links, Wiring

from .runner import run


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_an_address_is_kept(kind: Links) -> None:
    """Over the ends of transports; nobody else gets its port meanwhile."""

    async def test() -> None:
        wiring = Wiring(kind, ["a", "b"], 1)
        assert wiring.address(0) != wiring.address(1)
        gate = Gate(lambda link, origin: None, lambda connection: None, Activity(), [])  # type: ignore[arg-type, return-value]
        for _ in range(2):
            transport = wiring.transport(0, gate)
            bound = await transport.serve(wiring.address(0), lambda hello, wire: None)  # type: ignore[arg-type, return-value]
            assert bound == wiring.address(0) and wiring.lines.addresses == {bound: 0}
            await transport.close()
        if kind == "grpc":
            port = int(bound.rpartition(":")[2])
            with socket.socket() as thief, pytest.raises(OSError, match="in use"):
                thief.bind(("127.0.0.1", port))
        wiring.release()

    run(test())
