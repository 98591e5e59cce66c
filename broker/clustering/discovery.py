"""A node without a cluster looks for other nodes at its configured addresses. Meanwhile it takes no clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...cluster.membership.admission import MalformedCall
from ...cluster.membership.discovery import (
    WHO,
    AddressError,
    Found,
    Join,
    Wait,
    WhoAnswer,
    decode_who,
    expected,
    parse_address,
    plan,
)
from ...cluster.transport.wire import CallFailed, Transport, Unproven
from .dns import NoAnswerError, Resolver
from .operator_port import ClusterError

LOOK_S = 0.25
"""How often a node without a cluster looks, in seconds."""
FIRST_S = 10.0
"""How long a start waits while there is a node or cluster to join. Then the start continues, without clients."""
AGAIN_S = 5.0
"""How often a member looks for members that it does not reach: a restart may have changed their addresses."""


class Discovery:
    """Finds the cluster of a node. `run` works as long as the node lives.

    `places` are addresses as operators write them. Each look asks DNS again for the names, and uses all addresses of a
    name: a headless service has one for each node. `found` says whether this node is in a cluster, `missing` whether
    it does not reach some member. `join` joins the cluster of a node and raises `ClusterError`; `create` founds a
    cluster. `hint` gets the answer of a node and its address. `holds` says whether this node has sessions or retained
    messages: then it cannot join another node. `size` is how many nodes found a cluster together, 0 for all nodes that
    `places` names.

    `waits_for` is the reason why this node is still in no cluster, "" when it is in one. `sees` are the other nodes
    without a cluster that it saw.
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
        create: Callable[[], None],
        size: int = 0,
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
        self._create = create
        self._size = size
        self.waits_for = "the node looks for its cluster"
        self.sees: tuple[str, ...] = ()
        self._said: set[str] = set()
        self._names = Resolver()
        self._unsure = False
        self._settled = asyncio.Event()

    async def first(self) -> None:
        """Wait, as a part of the start, until this node is in a cluster, or finds no cluster that it can join now.
        `run` has to run meanwhile."""
        try:
            async with asyncio.timeout(FIRST_S):
                await self._settled.wait()
        except TimeoutError:
            self._log(
                "warning",
                f"discovery: this node is in no cluster after {FIRST_S:.0f} s. It takes no clients until it is in one",
            )

    def settle(self) -> None:
        """End the wait of the start (`first`)."""
        self._settled.set()

    async def run(self) -> None:
        """Ask all addresses, again and again, and do what `plan` says."""
        while True:
            await self._look()
            await asyncio.sleep(AGAIN_S if self._found() else LOOK_S)
            if self._found() and self._missing():
                for address, answer in await self._who_is_there():
                    self._hint(answer, address)

    async def _look(self) -> None:
        """Look once, and join or found a cluster. The start continues unless there is a node or cluster to join, or
        there may be one because DNS does not answer."""
        waits = False
        if not self._found():
            there = await self._who_is_there()
            others = {answer.node: answer for _, answer in there if answer.node != self._name}
            self.sees = tuple(sorted([name for name, answer in others.items() if not answer.cluster_id]))
            size = self._size or expected(self._places, self._name in [answer.node for _, answer in there])
            action = plan(self._name, there, size, self._holds())
            if not self._found():
                await self._do(action)
            clusters = any(answer.cluster_id for answer in others.values())
            waits = (isinstance(action, Join) or clusters or self._unsure) and not self._found()
        if self._found():
            self.waits_for = ""
        if not waits:
            self._settled.set()

    async def _do(self, action: Join | Found | Wait) -> None:
        if isinstance(action, Wait):
            self.waits_for = action.reason
            self._say(action.reason, "notice")
        elif isinstance(action, Found):
            self._log(
                "notice",
                f"discovery: {self._name} founds a cluster; {', '.join(self.sees) or 'no other node'} can join",
            )
            self._create()
        else:
            try:
                await self._join(action.address)
            except ClusterError as error:
                self.waits_for = f"the node cannot join the cluster: {error}"
                self._say(str(error))

    def _say(self, problem: str, level: str = "warning") -> None:
        if problem not in self._said:
            self._said.add(problem)
            self._log(level, f"discovery: {problem}")

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
            return decode_who(await self._transport.call(address, WHO, self._name.encode(), 2.0))
        except Unproven as error:
            self._unsure = True  # a node answers there, but this node cannot know which
            self._say(str(error))
            return None
        except (CallFailed, MalformedCall):
            return None
