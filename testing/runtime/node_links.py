"""The links between the nodes of a cluster under test: a network in memory or gRPC on 127.0.0.1, with its faults."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Literal

from ...cluster.ports import Settings
from ...cluster.transport.grpc_wire import GrpcTransport
from ...cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from ...cluster.transport.wire import Transport
from ..faults.fault_gate import FaultGate
from ..faults.faulty_transport import FaultyTransport
from ..faults.network_faults import NetworkFaults
from ..reserved_port import reserve
from .clock import ActiveClock
from .time_scale import scaled

Links = Literal["memory", "grpc"]
HOST = "127.0.0.1"


class NodeLinks:
    """The links of a cluster. `names` are the nodes' names, by number. Belongs to the running loop.

    Each node keeps its address over restarts. With gRPC a bound socket that never listens reserves the port.
    """

    def __init__(self, kind: Links, names: Sequence[str], pace: float) -> None:
        self.network_faults = NetworkFaults(pace)
        self.pace = pace
        self.clock = ActiveClock()
        self.clock.start()
        self._numbers = {name: number for number, name in enumerate(names)}
        self._network = memory_network() if kind == "memory" else None
        self._reserved: list[socket.socket] = []
        self._addresses = [self._address(number) for number in range(len(names))]

    def _address(self, number: int) -> str:
        if self._network is not None:
            return f"{HOST}:{number + 1}"  # only a name in the memory network: no port of the machine is used
        reserved = reserve(HOST)
        self._reserved.append(reserved)
        return f"{HOST}:{reserved.getsockname()[1]}"

    def address(self, number: int) -> str:
        """Returns the address on which a node listens for other nodes."""
        return self._addresses[number]

    def transport(self, number: int, gate: FaultGate) -> Transport:
        """Returns the transport for one boot of a node."""
        inner: Transport
        if self._network is not None:
            inner = AsyncioMemoryTransport(self._network, f"node{number}")
        else:
            inner = GrpcTransport()
        return FaultyTransport(inner, number, self._numbers, self.network_faults, gate)

    def tune(self, settings: Settings) -> Settings:
        """Returns the settings of the cluster, scaled to its pace and its number of nodes."""
        return scaled(settings, self.pace, len(self._numbers))

    def release(self) -> None:
        """Release the reserved ports, and stop the clock."""
        self.clock.stop()
        for each in self._reserved:
            each.close()
