"""What a source does that has nothing to announce."""

from __future__ import annotations

import asyncio

from strogoff.broker.discovery.source import Announcement, Lookup


def test_a_lookup_lets_every_node_found() -> None:
    async def main() -> None:
        source = Lookup()
        source.begin(Announcement("n1", "127.0.0.1:1", "d", 1), lambda text: None)
        assert await source.claim() == ""
        source.overrule()
        await source.close()

    asyncio.run(main())
