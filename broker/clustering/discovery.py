"""A node without a cluster looks for other nodes, where its sources of discovery name them. Meanwhile it takes no
clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...cluster.membership.discovery import Found, Join, Wait, WhoAnswer, plan
from ..discovery.source import Announcement
from .neighbours import Neighbourhood, Neighbours
from .operator_port import ClusterError, MustStartAgain, NameTaken

LOOK_S = 0.25
"""How often a node without a cluster looks, in seconds."""
FIRST_S = 10.0
"""How long a start waits while there is a node or cluster to join. Then the start continues, without clients."""
AGAIN_S = 5.0
"""How often a member looks for members that it does not reach: a restart may have changed their addresses."""
TAKEN_S = 30.0
"""A node that a running member of its name has kept out for this long, in seconds, never takes the place of that one.
The stream of a process that has just ended keeps its successor out for less."""
TAKEN = (
    "a running member has had the name of this node for {:.0f} s. This process does not join any more, also when that "
    "member stops: choose another name, or restart this process when that member has stopped for good"
)
SAY_AGAIN_S = 60.0
"""A problem is logged when it begins, and again if it was away for this long."""


class Discovery:
    """Finds the cluster of node `name`. `run` works as long as the node lives.

    `neighbours` are the nodes that can be asked, `founders` is `DiscoverySettings.founders`. `found` says whether this
    node is in a cluster, `missing` whether it does not reach some member. `join` joins the cluster of a node and raises
    `ClusterError`, `NameTaken` or `MustStartAgain`; `create` founds a cluster. `hint` gets the answer of a node and its
    address. `holds` says whether this node has sessions or retained messages: then it cannot join another node. `doubt`
    is why this node, which is in no cluster, must not found one: it may be a member of another one, or about to be one;
    else "".

    `waits_for` is the reason why this node is still in no cluster, "" when it is in one.
    """

    def __init__(
        self,
        name: str,
        neighbours: Neighbours,
        founders: Callable[[bool], int],
        found: Callable[[], bool],
        join: Callable[[str], Awaitable[None]],
        missing: Callable[[], bool],
        hint: Callable[[WhoAnswer, str], None],
        log: Callable[[str, str], None],
        holds: Callable[[], bool],
        create: Callable[[], None],
        doubt: Callable[[], str],
    ) -> None:
        self._name = name
        self._neighbours = neighbours
        self._founders = founders
        self._found = found
        self._join = join
        self._missing = missing
        self._hint = hint
        self._log = log
        self._holds = holds
        self._create = create
        self._doubt = doubt
        self.waits_for = "the node looks for its cluster"
        self._saw: tuple[str, ...] = ()
        self._said: dict[str, float] = {}
        self._settled = asyncio.Event()

    @property
    def sees(self) -> tuple[str, ...]:
        """The other nodes without a cluster that this node saw; none if it may be a member of one: so no other node
        counts it when it founds a cluster."""
        return () if self._doubt() else self._saw

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

    async def run(self, me: Announcement) -> None:
        """Ask all nodes that can be found, again and again, and do what `plan` says. `me` is this node."""
        self._neighbours.begin(me, self._say)
        hints = asyncio.create_task(self._hint_again())
        taken_since: float | None = None
        clock = asyncio.get_running_loop().time
        try:
            while True:
                if taken_since is not None and clock() - taken_since >= TAKEN_S and not self._found():
                    # else this node would get the place of that member, with an empty disk, as soon as it restarts
                    self.waits_for = TAKEN.format(TAKEN_S)
                    self._say(self.waits_for, "error")
                else:
                    taken = await self._look()
                    taken_since = (taken_since or clock()) if taken else None
                await asyncio.sleep(AGAIN_S if self._found() else LOOK_S)
        finally:
            hints.cancel()
            await self._neighbours.close()

    async def _hint_again(self) -> None:
        """Look for members that this node does not reach, also while its `join` waits: the log may have their former
        addresses."""
        while True:
            await asyncio.sleep(AGAIN_S)
            if self._found() and self._missing():
                for address, answer in (await self._seen()).nodes:
                    self._hint(answer, address)

    def overrule(self) -> None:
        """This node founds a cluster because an operator has asked for it."""
        self._neighbours.overrule()

    async def _look(self) -> bool:
        """Look once, and join or found a cluster. The start continues unless there is a node or cluster to join, or
        there may be one because a source does not answer. Returns whether a running member has the name of this node.
        """
        waits = taken = False
        if not self._found():
            seen = await self._seen()
            others = {answer.node: answer for _, answer in seen.nodes if answer.node != self._name}
            self._saw = tuple(sorted([name for name, answer in others.items() if not answer.cluster_id]))
            size = self._founders(self._name in [answer.node for _, answer in seen.nodes])
            action = plan(self._name, seen.nodes, size, self._holds(), self._doubt())
            if seen.unsure and isinstance(action, Found):
                action = Wait("there may be a cluster that this node does not see now")
            if not self._found():
                taken = await self._do(action, seen)
            clusters = any(answer.cluster_id for answer in others.values())
            silent = seen.unsure and not seen.refusals  # who has refused this node refuses it in ten seconds, too
            waits = (isinstance(action, Join) or clusters or silent) and not self._found()
        if self._found():
            self.waits_for = ""
        if not waits:
            self._settled.set()
        return taken

    async def _do(self, action: Join | Found | Wait, seen: Neighbourhood) -> bool:
        if isinstance(action, Found):
            reason = await self._neighbours.claim() or self._doubt()  # a join may have begun
            if not reason and not self._found():
                self._log(
                    "notice",
                    f"discovery: {self._name} founds a cluster; {', '.join(self.sees) or 'no other node'} can join",
                )
                self._create()
            elif reason:
                self._wait(Wait(reason), seen)
        elif isinstance(action, Wait):
            self._wait(action, seen)
        else:
            try:
                await self._join(action.address)
            except ClusterError as error:
                self.waits_for = f"the node cannot join the cluster: {error}"
                self._say(str(error), "notice" if isinstance(error, MustStartAgain) else "warning")
                return isinstance(error, NameTaken)
        return False

    def _wait(self, wait: Wait, seen: Neighbourhood) -> None:
        """Say why this node waits. A node that refuses it is the likely cause, and may be in a cluster: whoever founds
        another one then has two."""
        reason = wait.reason
        if wait.advice and not seen.unsure:
            reason += f". {wait.advice}"
        self.waits_for = ". ".join([*seen.refusals, reason, *seen.problems])
        self._say(reason, "notice")

    async def _seen(self) -> Neighbourhood:
        seen = await self._neighbours.look()
        for problem in (*seen.refusals, *seen.problems):
            self._say(problem)
        return seen

    def _say(self, problem: str, level: str = "warning") -> None:
        now_s = asyncio.get_running_loop().time()
        lasts = {text: at_s for text, at_s in self._said.items() if now_s - at_s < SAY_AGAIN_S}
        if problem not in lasts:
            self._log(level, f"discovery: {problem}")
        self._said = {**lasts, problem: now_s}
