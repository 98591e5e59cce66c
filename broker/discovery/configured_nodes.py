"""`discovery.nodes`: addresses and names that the operator has written down."""

from __future__ import annotations

import asyncio

from ...cluster.membership.discovery import AddressError, parse_address
from .host_names import NoAnswerError, Resolver
from .source import Lookup, Seen


class ConfiguredNodes(Lookup):
    """The nodes at `places`, which are addresses as operators write them. Each look asks DNS again for the names, and
    uses all addresses of a name: a headless service has one for each node."""

    key = "discovery.nodes"

    def __init__(self, places: tuple[str, ...]) -> None:
        self._places = places
        self._names = Resolver()

    async def look(self) -> Seen:
        """As `Source.look`."""
        found = await asyncio.gather(*[self._resolve(place) for place in self._places])
        return Seen(
            tuple([address for each in found for address in each.addresses]),
            tuple([problem for each in found for problem in each.problems]),
            any(each.unsure for each in found),
        )

    async def _resolve(self, place: str) -> Seen:
        try:
            return Seen(tuple(await self._names.addresses(*parse_address(place))))
        except (AddressError, OSError) as error:
            return Seen(problems=(f"{place}: {error}",), unsure=isinstance(error, NoAnswerError))
