"""Several nodes on virtual time, joined into a cluster, for transcripts: clients at each, and a network that obeys."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from strogoff.broker.node import Node
from strogoff.broker.options import Options
from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.cluster_host import ClusterHost
from strogoff.sim.disk import SimDisk
from strogoff.sim.host import AllowAll, Host
from strogoff.sim.loop import VirtualLoop
from tests.broker.stage import Client, connect

PATIENCE_S = 20.0


class Spot:
    """One node as a stage of its own: what `Client` wants to know."""

    def __init__(self, theatre: Theatre, disks: list[SimDisk]) -> None:
        self.theatre = theatre
        self.host: ClusterHost
        self.disks = disks
        self.loop = theatre.loop

    @property
    def node(self) -> Node:
        assert self.host.node is not None
        return self.host.node

    def settle(self) -> None:
        self.theatre.settle()

    def client(self, client_id: str, version: int = 5, clean: bool = True, **fields: Any) -> Client:
        """A connected client."""
        client, connack = self.connect(client_id, version, clean, **fields)
        assert connack.reason == 0, connack
        return client

    def connect(
        self, client_id: str, version: int = 5, clean: bool = True, **fields: Any
    ) -> tuple[Client, packets.Connack]:
        client = Client(self, version)  # type: ignore[arg-type]
        client.send(connect(client_id, version, clean, fields.pop("expiry_s", None), **fields))
        self.settle()
        connack, *client.received = client.take()
        assert isinstance(connack, packets.Connack)
        return client, connack

    def kill(self, power: bool = False) -> None:
        for disk in self.disks:
            disk.crash(power)
        self.host.kill()

    def start(self) -> None:
        self.disks[:] = [disk.reopen() for disk in self.disks]
        self.host.start()


def _both(spot: Spot) -> tuple[Callable[[Host], SimDisk], Callable[[Host], SimDisk]]:
    return lambda _: spot.disks[0], lambda _: spot.disks[1]


class Theatre:
    """`nodes` nodes named n1, n2, ... joined into one cluster unless `joined` is False."""

    def __init__(self, nodes: int = 3, joined: bool = True, seed: int = 0, level: int = 1, **options: Any) -> None:
        self.loop = loop = VirtualLoop()
        self.network = MemoryNetwork(loop.call_soon, loop.call_later)
        self.spots: list[Spot] = []
        settings = Options(**{"allow_anonymous": True, "systree_enabled": False, **options})
        for number in range(1, nodes + 1):
            name = f"n{number}"
            spot = Spot(self, [self._disk(f"{seed}/{name}/a"), self._disk(f"{seed}/{name}/b")])
            disk, meta = _both(spot)
            spot.host = host = ClusterHost(
                loop, self.network, disk, meta, settings, seed, name, {"plugin": AllowAll()}
            )
            host.event_level = level
            self.spots.append(spot)
            host.start()
        if joined:
            for spot in self.spots[1:]:
                problems: list[str] = []
                spot.host.join("n1:1", problems.append)
                self.until(lambda problems=problems: bool(problems))
                assert problems == [""]
            self.whole()

    def _disk(self, name: str) -> SimDisk:
        return SimDisk(Random(name), self.loop.call_later, lambda: self.loop.now_s, "sync", (0.0, 0.0))

    def __getitem__(self, number: int) -> Spot:
        """Node n1 has number 1."""
        return self.spots[number - 1]

    def settle(self) -> None:
        self.loop.settle()

    def pass_s(self, seconds: float) -> None:
        self.loop.run_for(seconds)

    def until(self, true: Any, patience_s: float = PATIENCE_S) -> float:
        """Let time pass until something is so; how long it took."""
        begin = self.loop.now_s
        while not true():
            assert self.loop.now_s - begin < patience_s, "it did not become so in time"
            self.loop.run_for(0.01)
        return self.loop.now_s - begin

    def whole(self) -> float:
        """All nodes that are up see all members."""
        return self.until(lambda: all(state is ViewState.WHOLE for state in self.states()))

    def states(self) -> list[ViewState]:
        return [spot.node.view_state for spot in self.spots if spot.host.up]
