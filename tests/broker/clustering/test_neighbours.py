"""The nodes at the addresses of all sources together."""

from __future__ import annotations

import asyncio

from strogoff.broker.clustering.neighbours import Neighbours
from strogoff.broker.discovery.source import Announcement, Lookup, Say, Seen
from strogoff.cluster.membership.discovery import WHO, WhoAnswer, encode_who
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import Accepted, CallFailed, Refused, Unproven, Wire

ME = Announcement("b", "h:9", "disk", 1)


class Fixed(Lookup):
    """Names what it is told to name."""

    def __init__(self, seen: Seen, reason: str = "") -> None:
        self.key = "fixed"
        self.seen = seen
        self.reason = reason
        self.done: list[str] = []

    def begin(self, me: Announcement, say: Say) -> None:
        self.done.append(f"begin {me.node}")

    async def look(self) -> Seen:
        return self.seen

    async def claim(self) -> str:
        self.done.append("claim")
        return self.reason

    def overrule(self) -> None:
        self.done.append("overrule")

    async def close(self) -> None:
        self.done.append("close")


def _nobody(hello: bytes, wire: Wire) -> Accepted | Refused:
    return Refused("no streams here")


def test_the_answers_at_all_addresses_and_the_problems_of_all_sources() -> None:
    async def main() -> None:
        network, asked = memory_network(), []

        async def answer(method: str, request: bytes) -> bytes:
            asked.append((method, request))
            return encode_who(WhoAnswer("a", "cluster", True))

        async def broken(method: str, request: bytes) -> bytes:
            return b"?"

        async def failing(method: str, request: bytes) -> bytes:
            raise CallFailed("just starting")

        for port, calls in ((1, answer), (2, broken), (3, failing)):
            await AsyncioMemoryTransport(network, f"h{port}").serve(f"127.0.0.1:{port}", _nobody, calls)
        sources = [
            Fixed(Seen(("127.0.0.1:1", "127.0.0.1:2"), ("one is late",))),
            Fixed(Seen(("127.0.0.1:1", "127.0.0.1:3"), ("two is late",))),
        ]
        neighbours = Neighbours("b", sources, AsyncioMemoryTransport(network, "b"))
        seen = await neighbours.look()
        assert seen.nodes == (("127.0.0.1:1", WhoAnswer("a", "cluster", True)),) and not seen.unsure
        assert seen.problems == ("one is late", "two is late") and asked == [(WHO, b"b")]
        sources[1].seen = Seen(unsure=True)
        assert (await neighbours.look()).unsure

    asyncio.run(main())


def test_a_node_that_cannot_prove_itself_leaves_it_open_who_is_there() -> None:
    class Transport(AsyncioMemoryTransport):
        async def call(self, address: str, method: str, request: bytes, within_s: float) -> bytes:
            raise Unproven("the node at h:1 has another distributed_cookie")

    async def main() -> None:
        seen = await Neighbours("b", [Fixed(Seen(("h:1",)))], Transport(memory_network(), "b")).look()
        assert seen.unsure and seen.nodes == ()
        assert seen.refusals == ("the node at h:1 has another distributed_cookie",) and not seen.problems

    asyncio.run(main())


def test_every_source_begins_claims_and_ends() -> None:
    async def main() -> None:
        first, second = Fixed(Seen()), Fixed(Seen(), "not now")
        neighbours = Neighbours("b", [first, second], AsyncioMemoryTransport(memory_network(), "b"))
        neighbours.begin(ME, lambda text: None)
        assert await neighbours.claim() == "not now"
        second.reason = ""
        assert await neighbours.claim() == ""
        neighbours.overrule()
        await neighbours.close()
        assert first.done == second.done == ["begin b", "claim", "claim", "overrule", "close"]

    asyncio.run(main())
