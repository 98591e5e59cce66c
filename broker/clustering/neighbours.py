"""Asks all addresses that the sources of discovery name which node is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from ...cluster.membership.admission import MalformedCall
from ...cluster.membership.discovery import WHO, WhoAnswer, decode_who
from ...cluster.transport.wire import CallFailed, Transport, Unproven
from ..discovery.source import Announcement, Say, Source

WHO_S = 2.0
"""How long a node may take to say which one it is, in seconds."""


class Neighbourhood(Struct, frozen=True):
    """One look: the address and answer of each node that answered, with or without this one; sentences about the nodes
    that refuse this one, and about what else failed; `unsure`: there may be nodes that this look has missed."""

    nodes: tuple[tuple[str, WhoAnswer], ...]
    refusals: tuple[str, ...]
    problems: tuple[str, ...]
    unsure: bool


class Neighbours:
    """The nodes at the addresses of all sources together. `name` is this node."""

    def __init__(self, name: str, sources: Sequence[Source], transport: Transport) -> None:
        self._name = name
        self._sources = sources
        self._transport = transport

    def begin(self, me: Announcement, say: Say) -> None:
        """Begin to look, with all sources."""
        for source in self._sources:
            source.begin(me, say)

    async def look(self) -> Neighbourhood:
        """Look once. Does not raise."""
        seen = await asyncio.gather(*[source.look() for source in self._sources])
        addresses = list(dict.fromkeys([address for each in seen for address in each.addresses]))
        answers = await asyncio.gather(*[self._who(address) for address in addresses])
        refusals = tuple([answer for answer in answers if isinstance(answer, str)])
        return Neighbourhood(
            tuple(
                [
                    (address, each)
                    for address, each in zip(addresses, answers, strict=True)
                    if isinstance(each, WhoAnswer)
                ]
            ),
            refusals,
            tuple([problem for each in seen for problem in each.problems]),
            any(each.unsure for each in seen) or bool(refusals),
        )

    async def claim(self) -> str:
        """Return "" if this node may found a cluster, otherwise why a source does not allow it."""
        for source in self._sources:
            if reason := await source.claim():
                return reason
        return ""

    def overrule(self) -> None:
        """This node founds a cluster because an operator has asked for it."""
        for source in self._sources:
            source.overrule()

    async def close(self) -> None:
        """End all sources."""
        for source in self._sources:
            await source.close()

    async def _who(self, address: str) -> WhoAnswer | str | None:
        """Returns the answer; a sentence if a node answers, but this node cannot know which; None if none answers."""
        try:
            return decode_who(await self._transport.call(address, WHO, self._name.encode(), WHO_S))
        except Unproven as error:
            return str(error)
        except (CallFailed, MalformedCall):
            return None
