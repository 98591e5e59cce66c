"""Links on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from strogoff.cluster.links.links import Lane, LinkPorts, Links, PeerInfo
from strogoff.cluster.transport.grpc_settings import Tls
from strogoff.cluster.transport.grpc_wire import GrpcTransport
from tests.cluster.transport.authority import Authority, Node
from tests.harness.waiting import until


def test_links_deliver_over_grpc_after_a_break_and_a_restart() -> None:
    """Items in both directions, a break, and a restart of one side, on real sockets."""
    asyncio.run(_over_grpc())


def test_an_acknowledgement_over_tls_waits_for_no_further_item(tmp_path: Path) -> None:
    """The receiver says that it has handled an item, and acknowledges it a moment later, when its disk has it."""
    asyncio.run(_one_after_the_other(Node(tmp_path / "node", Authority(), "n1.example").tls()))


class _Keeper:
    """A listener on a real loop."""

    def __init__(self, watermarks: dict[tuple[str, int, int], int], disk_s: float = 0.0) -> None:
        self.watermarks = watermarks
        self.disk_s = disk_s
        self.items: list[bytes] = []
        self.links: Links | None = None
        self.changed = asyncio.Event()

    def check(self, hello: PeerInfo) -> str | None:
        return None

    def applied(self) -> int:
        return 0

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        return self.watermarks.get((node, boot, lane), 0)

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        self.items.append(data)

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        assert self.links is not None
        self.items.append(payload)
        peer = self.links._in[node].peer
        assert peer is not None
        self.watermarks[node, peer.boot, lane] = seq
        if self.disk_s:
            asyncio.get_running_loop().call_later(self.disk_s, self.links.ack, node, Lane(lane), seq)
        else:
            self.links.ack(node, Lane(lane), seq)
        self.changed.set()

    def acked(self, node: str, lane: int, upto: int) -> None:
        self.changed.set()

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        self.changed.set()

    def up(self, node: str, hello: PeerInfo) -> None:
        self.changed.set()

    def down(self, node: str, reason: str) -> None:
        pass

    def heard(self, node: str) -> None:
        pass

    def relieved(self, node: str) -> None:
        pass

    def room(self, node: str) -> None:
        pass

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


async def start(name: str, boot: int, address: str, coordinator: _Keeper, tls: Tls | None = None) -> Any:
    loop, transport = asyncio.get_running_loop(), GrpcTransport(tls)
    ports = LinkPorts(
        transport, lambda: loop.time() * 1000, loop.call_later, loop.call_soon, Random(boot), lambda *_: None
    )
    coordinator.links = Links(PeerInfo(name, boot, f"disk {name}", f"{name}{boot}", "c", address), ports, coordinator)
    bound = await transport.serve(address, coordinator.links.accept)
    return transport, coordinator, coordinator.links, bound


async def _one_after_the_other(tls: Tls) -> None:
    here, mine, a, a_address = await start("a", 1, "127.0.0.1:0", _Keeper({}), tls)
    there, _, b, b_address = await start("b", 1, "127.0.0.1:0", _Keeper({}, disk_s=0.02), tls)
    a.set_peers({"b": b_address})
    b.set_peers({"a": a_address})
    await mine.until(lambda: a.up("b"))
    for _ in range(5):
        a.send("b", Lane.PUBLISH, b"message")
        await mine.until(lambda: a.waiting_items("b", Lane.PUBLISH) == 0)
    for links, transport in ((a, here), (b, there)):
        links.close()
        await transport.close()


async def _over_grpc() -> None:
    kept: dict[tuple[str, int, int], int] = {}
    here, mine, a, a_address = await start("a", 1, "127.0.0.1:0", _Keeper({}))
    there, theirs, b, b_address = await start("b", 1, "127.0.0.1:0", _Keeper(kept))
    a.set_peers({"b": b_address})
    b.set_peers({"a": a_address})
    await mine.until(lambda: a.up("b"))
    for number in range(1000):
        a.send("b", Lane.PUBLISH, b"%d" % number)
    await mine.until(lambda: a.waiting_items("b", Lane.PUBLISH) == 0)
    b.close()
    await there.close()
    for number in range(1000, 2000):
        a.send("b", Lane.PUBLISH, b"%d" % number)
    there, again, b, _ = await start("b", 2, b_address, _Keeper(kept))
    await mine.until(lambda: a.waiting_items("b", Lane.PUBLISH) == 0)
    assert theirs.items + again.items == [b"%d" % number for number in range(2000)]
    for links, transport in ((a, here), (b, there)):
        links.close()
        await transport.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})  # grpcio's own tasks end a moment later
