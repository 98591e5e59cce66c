"""A node that is alone looks for others, at the addresses that it is configured with, until it is in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...cluster.admission import MalformedCall
from ...cluster.discovery import WHO, AddressError, WhoAnswer, choose, decode_who, parse_address
from ...cluster.transport.wire import CallFailed, Transport, Unproven
from .names import Names, NoAnswerError
from .office import ClusterError

LOOK_S = 0.5
"""How often a node that is alone looks."""
FIRST_S = 10.0
"""How long a node that starts looks, before it takes clients, while somebody is there whom it is to join."""
AGAIN_S = 5.0
"""How often a member looks for others that it does not reach where they were: after a restart they may be elsewhere."""


class Discovery:
    """`run` for the life of the node. `found` says that it is in a cluster, `missing` that it does not reach everybody
    there; `hint` is told under which address a node answers. `places` are addresses as operators write them: names are
    asked of DNS anew each time, and all addresses of a name count, as a headless service has one for each node. `join`
    raises `ClusterError`. `holds` says whether this node has sessions or retained messages: then it can join nobody.
    """

    def __init__(
        self,
        name: str,
        places: tuple[str, ...],
        transport: Transport,
        found: Callable[[], bool],
        join: Callable[[str], Awaitable[None]],
        missing: Callable[[], bool],
        hint: Callable[[WhoAnswer, str], None],
        log: Callable[[str, str], None],
        holds: Callable[[], bool],
    ) -> None:
        self._name = name
        self._places = places
        self._transport = transport
        self._found = found
        self._join = join
        self._missing = missing
        self._hint = hint
        self._log = log
        self._holds = holds
        self._said: set[str] = set()
        self._names = Names()
        self._unsure = False
        self._settled = asyncio.Event()

    async def first(self) -> None:
        """While it runs, before clients come: wait until this node is in a cluster or has nobody to join.

        Sessions that it had before would keep it out (`ClusterError`), and be owned here and there.
        """
        try:
            async with asyncio.timeout(FIRST_S):
                await self._settled.wait()
        except TimeoutError:
            self._log("warning", f"discovery: in no cluster after {FIRST_S:.0f} s, clients are let in all the same")

    async def run(self) -> None:
        """Ask all addresses, again and again, and join whom `choose` names."""
        while True:
            await self._look()
            await asyncio.sleep(AGAIN_S if self._found() else LOOK_S)
            if self._found() and self._missing():
                for address, answer in await self._who_is_there():
                    self._hint(answer, address)

    async def _look(self) -> None:
        """Look once, and join. It is settled unless this node is alone and somebody is there whom it is to join, or may
        be: DNS does not say."""
        waits = False
        if not self._found():
            there = await self._who_is_there()
            address = choose(self._name, there, self._holds())
            if address is not None and not self._found():
                try:
                    await self._join(address)
                except ClusterError as error:
                    self._say(str(error))
            clusters = any(answer.cluster_id for _, answer in there if answer.node != self._name)
            waits = (address is not None or clusters or self._unsure) and not self._found()
        if not waits:
            self._settled.set()

    def _say(self, problem: str) -> None:
        if problem not in self._said:
            self._said.add(problem)
            self._log("warning", f"discovery: {problem}")

    async def _who_is_there(self) -> list[tuple[str, WhoAnswer]]:
        self._unsure = False
        found = await asyncio.gather(*[self._resolve(place) for place in self._places])
        addresses = dict.fromkeys([address for each in found for address in each])
        answers = await asyncio.gather(*[self._who(address) for address in addresses])
        return [(address, answer) for address, answer in zip(addresses, answers, strict=True) if answer is not None]

    async def _resolve(self, place: str) -> list[str]:
        try:
            return await self._names.addresses(*parse_address(place))
        except (AddressError, OSError) as error:
            self._unsure = self._unsure or isinstance(error, NoAnswerError)
            self._say(f"{place}: {error}")
            return []

    async def _who(self, address: str) -> WhoAnswer | None:
        try:
            return decode_who(await self._transport.call(address, WHO, b"", 2.0))
        except Unproven as error:
            self._unsure = True  # somebody is there, and this node cannot know who
            self._say(str(error))
            return None
        except (CallFailed, MalformedCall):
            return None
