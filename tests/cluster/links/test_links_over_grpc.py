"""Links on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from strogoff.cluster.links.links import Lane, LinkPorts, Links, PeerInfo
from strogoff.cluster.transport.grpc_wire import GrpcTransport


def test_links_deliver_over_grpc_after_a_break_and_a_restart() -> None:
    """Items in both directions, a break, and a restart of one side, on real sockets."""
    asyncio.run(_over_grpc())


class _Keeper:
    """A listener on a real loop."""

    def __init__(self, watermarks: dict[tuple[str, int, int], int]) -> None:
        self.watermarks = watermarks
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


async def _over_grpc() -> None:
    loop = asyncio.get_running_loop()

    async def start(name: str, boot: int, address: str, kept: dict[tuple[str, int, int], int]) -> Any:
        transport, coordinator = GrpcTransport(), _Keeper(kept)
        ports = LinkPorts(
            transport, lambda: loop.time() * 1000, loop.call_later, loop.call_soon, Random(boot), lambda *_: None
        )
        coordinator.links = Links(
            PeerInfo(name, boot, f"disk {name}", f"{name}{boot}", "c", address), ports, coordinator
        )
        bound = await transport.serve(address, coordinator.links.accept)
        return transport, coordinator, coordinator.links, bound

    kept: dict[tuple[str, int, int], int] = {}
    here, mine, a, a_address = await start("a", 1, "127.0.0.1:0", {})
    there, theirs, b, b_address = await start("b", 1, "127.0.0.1:0", kept)
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
    there, again, b, _ = await start("b", 2, b_address, kept)
    await mine.until(lambda: a.waiting_items("b", Lane.PUBLISH) == 0)
    assert theirs.items + again.items == [b"%d" % number for number in range(2000)]
    for links, transport in ((a, here), (b, there)):
        links.close()
        await transport.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
