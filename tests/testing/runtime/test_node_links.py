"""The transports between nodes: each node keeps its address."""

from __future__ import annotations

import socket

import pytest

from strogoff.testing.faults.fault_gate import FaultGate
from strogoff.testing.runtime.idle import IdleDetector
from strogoff.testing.runtime.node_links import Links, NodeLinks

from ..run_loop import run


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_an_address_is_kept(kind: Links) -> None:
    """It is kept when transports end; no other process gets its port meanwhile."""

    async def test() -> None:
        node_links = NodeLinks(kind, ["a", "b"], 1)
        assert node_links.address(0) != node_links.address(1)
        gate = FaultGate(lambda link, origin: None, lambda connection: None, IdleDetector(), [])  # type: ignore[arg-type, return-value]
        for _ in range(2):
            transport = node_links.transport(0, gate)
            bound = await transport.serve(node_links.address(0), lambda hello, wire: None)  # type: ignore[arg-type, return-value]
            assert bound == node_links.address(0) and node_links.network_faults.addresses == {bound: 0}
            await transport.close()
        if kind == "grpc":
            port = int(bound.rpartition(":")[2])
            with socket.socket() as thief, pytest.raises(OSError, match="in use"):
                thief.bind(("127.0.0.1", port))
        node_links.release()

    run(test())
