"""Takes members out of the cluster: this node, another one that runs, or one that does not run.

A node that leaves closes its listeners, gives its durable sessions to other nodes slot by slot, ends what is left, and
leaves. Its operator may be at another node: that one repeats the call `depart` until the node has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import cycle

from ...cluster.membership.admission import LEAVE, LeaveRequest, encode_call
from ...cluster.node import ClusterNode
from ...cluster.slots.recovery import lost_with
from ...cluster.slots.table import ranges
from ...cluster.transport.wire import CallFailed, Transport
from ...storage.engine import StorageError
from ..node import Node
from ..sessions.wills import DOUBT_MS
from .adapter import ClusterAdapter
from .asking import CALL_S, ask_leader, until
from .operator_port import ClusterError
from .routes import LASTING
from .slot_evacuation import SlotEvacuation

DONE = "Done"
"""The last line of a leave that has succeeded begins with it."""
REPEAT = "Repeat the command, or use --accept-loss to lose them"
DEPART = "depart"
"""The call that asks a node to leave: whether it gives its sessions away and leaves, whether it may lose some, and the
seconds that it may take, 4 bytes."""
ROUND_S = 3.0
"""How often a node that leaves tells how far it is."""
FORGOTTEN_S = CALL_S
"""How long a node remembers why it has not left, for the operator who asks again and again."""
LEASE_S = 3.0
"""How long a leave waits for a lease of the asked node, and of the one that leaves: on a busy machine one may lapse and
come again."""
ASK_AGAIN_S = 0.5
"""The pause before a node asks the leader again to take it out."""
PASS_ON_S = 2.0
"""How long a node that stops or leaves waits until the other nodes have its wills and its ended sessions' messages."""
WILLS_S = 2 * DOUBT_MS / 1000
"""How long a node that leaves waits until its wills are published: some are in doubt, longer after a lost lease."""
SOON_S = 0.002
"""How often a node that stops looks whether it can go on: publishers at other nodes wait for it."""


async def passed_on(clustering: ClusterAdapter, member: ClusterNode) -> None:
    """Wait until the other nodes have all that was written, and the messages that it leads to: with these they have
    other writes. Not until nothing waits for the disk, which other nodes' publishers may keep busy for long."""
    await _copied(clustering)
    passing_on, up = clustering.sender.passing_on, member.links.up
    if passing_on(up):
        with suppress(ClusterError):
            await until(lambda: not passing_on(up), PASS_ON_S, "", SOON_S)
        await _copied(clustering)


async def _copied(clustering: ClusterAdapter) -> None:
    copied = asyncio.Event()
    clustering.slots.complete_copies(copied.set)
    await copied.wait()


class Leaving:
    """Takes this node or another one out of the cluster, when an operator asks this node. `stop_mqtt` closes the
    listeners of this node; with True it also closes the connections."""

    def __init__(
        self,
        node: Node,
        clustering: ClusterAdapter,
        transport: Transport,
        stop_mqtt: Callable[[bool], Awaitable[None]],
    ) -> None:
        self._node = node
        self._member: ClusterNode
        self._evacuation: SlotEvacuation
        self._clustering = clustering
        self._transport = transport
        self._stop_mqtt = stop_mqtt
        self._departing: asyncio.Task[str] | None = None
        self._waits_for = ""

    def bind(self, member: ClusterNode) -> None:
        """Connect the leaves to the cluster node, after the clustering."""
        sessions = self._node.sessions
        self._member = member
        self._evacuation = SlotEvacuation(
            self._node.name,
            lambda: member.membership,
            sessions.empty,
            lambda: sessions.durable,
            self._clustering.slots.moves.begin,
            lambda: member.full,
        )

    async def leave(
        self, node: str, kill_sessions: bool, interval_s: float, timeout_s: float, accept_loss: bool
    ) -> AsyncIterator[str]:
        """As `OperatorPort.leave`; the last line begins with `DONE`."""
        member, name = self._member, self._node.name
        with suppress(ClusterError):
            await until(lambda: member.leased() or not member.view.serving, LEASE_S, "")
        if node not in member.membership.members:
            if not member.leased():  # its log may be behind
                raise ClusterError(
                    f"{name} knows of no member {node}, but it has no lease, and may not know all members: ask a "
                    "node that has a lease"
                )
            raise ClusterError(f"{node} is not a member of this cluster")
        if len(member.membership.members) == 1:
            raise ClusterError(f"{node} is the only member of its cluster")
        if not member.leased() and member.view.serving:
            raise ClusterError(
                f"{name} has no lease: to take a member out, a majority of the members that vote must be reachable"
            )
        if node == name or member.view.row(node) is not None:
            yield f"{node} runs: it is asked to {'leave' if kill_sessions else 'close its listeners'}"
            told = asyncio.get_running_loop().time()
            async for line in self._lead_out(node, kill_sessions, timeout_s, accept_loss):
                if line.startswith(DONE) or asyncio.get_running_loop().time() - told >= interval_s:
                    told = asyncio.get_running_loop().time()
                    yield line
            return
        lost = {row.slot for row in lost_with(member.slots, node)}
        if lost and not accept_loss:
            subscriptions = sum(key[1] in lost for key, _ in member.metadata.scan(LASTING))
            raise ClusterError(
                f"{node} does not run, and no other node has everything of its slots {' '.join(ranges(lost))}. Their "
                f"durable sessions have {subscriptions} subscriptions; some may have none, and messages nevertheless: "
                "use --accept-loss to lose them"
            )
        yield f"{node} does not run: it is removed for good"
        await self._take_out(node)
        yield await self._known(node)

    async def _lead_out(
        self, node: str, kill_sessions: bool, timeout_s: float, accept_loss: bool
    ) -> AsyncIterator[str]:
        """Ask a node that runs, perhaps this one, to leave, until it has."""
        request = bytes((kill_sessions, accept_loss)) + int(timeout_s).to_bytes(4, "big")
        address = self._member.membership.members[node].address
        end = asyncio.get_running_loop().time() + timeout_s + CALL_S
        while True:
            try:
                if node == self._node.name:
                    said = (await self.answer(request)).decode()
                else:
                    said = (await self._transport.call(address, DEPART, request, 3 * CALL_S)).decode()
            except CallFailed as error:
                said = await self._left_or(node, str(error))
            if said == DONE and node != self._node.name:
                said = await self._known(node)
            yield said
            if said.startswith(DONE):
                return
            if asyncio.get_running_loop().time() > end:
                raise ClusterError(f"{node} has not left within {timeout_s:.0f} s. It continues: see its log")

    async def _left_or(self, node: str, problem: str) -> str:
        """A node that leaves gives no answer. Returns `DONE` if it has left, and ended. Raises `ClusterError`."""
        members = self._member.membership
        await until(lambda: node not in members.members, ASK_AGAIN_S, problem)
        return DONE

    async def _known(self, node: str) -> str:
        """The last line of the leave of another node, when this one knows of it: what its operator asks next must
        show it."""
        members = self._member.membership
        try:
            await until(lambda: node not in members.members, CALL_S, f"{self._node.name} has not heard of it yet")
        except ClusterError as error:
            return f"{DONE}, but {error}"
        return DONE

    async def answer(self, request: bytes) -> bytes:
        """The answer to a call `DEPART`: that this node has left, or how far it is. Raises `CallFailed`."""
        if len(request) != 6:
            raise CallFailed(f"{DEPART}: six bytes are expected, not {len(request)}")
        if self._departing is None:
            timeout_s = int.from_bytes(request[2:], "big")
            self._departing = asyncio.create_task(self._depart(bool(request[0]), bool(request[1]), timeout_s))
            self._departing.add_done_callback(self._departed)
        departing = self._departing
        await asyncio.wait((departing,), timeout=ROUND_S)
        if not departing.done():
            return (self._waits_for or self._evacuation.progress).encode()
        self._departing = None
        try:
            return departing.result().encode()
        except (ClusterError, StorageError) as error:
            raise CallFailed(str(error)) from None

    def _departed(self, departing: asyncio.Task[str]) -> None:
        """Say in the log why this node has not left, and soon forget it: its operator may not ask any more, and the
        next one asks for another leave."""
        if departing.cancelled() or (error := departing.exception()) is None:
            return
        self._node.env.log("warning", f"{self._node.name} has not left: {error}")
        asyncio.get_running_loop().call_later(FORGOTTEN_S, self._forget, departing)

    def _forget(self, departing: asyncio.Task[str]) -> None:
        if self._departing is departing:
            self._departing = None

    async def _depart(self, kill_sessions: bool, accept_loss: bool, timeout_s: float) -> str:
        """Stop to take clients. With `kill_sessions` give the durable sessions to other nodes, end the others, and
        leave the cluster."""
        node, sessions = self._node, self._node.sessions
        if kill_sessions and (needed := self._member.join_leave.needed(node.name)):
            raise ClusterError(needed)
        if kill_sessions:
            await self._knows_its_slots()
        self._clustering.slots.balance.leaving = True
        if kill_sessions and self._member.lease_service is not None:
            self._member.lease_service.leaves = True
        await self._stop_mqtt(False)
        if not kill_sessions:
            return f"{DONE}! Use -k to give the sessions that are still there to other nodes, and to leave"
        end = asyncio.get_running_loop().time() + timeout_s
        await self._evacuation.run(timeout_s)
        await self._get_no_slots(end)
        await self._evacuation.run(end - asyncio.get_running_loop().time())
        node.gateways.closing = True  # no session begins any more
        try:
            if (lasting := sessions.durable) and not accept_loss:
                reason = self._evacuation.problem or f"not all have moved within {timeout_s:.0f} s"
                raise ClusterError(
                    f"{node.name} still has {lasting} durable sessions ({reason}). Repeat the command, if needed with "
                    "a longer --timeout, or use --accept-loss to lose them"
                )
            node.end_sessions("left_cluster")
            await self._stop_mqtt(True)  # connections that have no session yet
            still = f"{len(sessions)} sessions of {node.name} are still there"
            await until(lambda: not len(sessions), timeout_s, still)
            try:
                await until(lambda: not node.wills.waiting, WILLS_S, f"{node.name} has wills that wait. {REPEAT}")
            except ClusterError:
                if not accept_loss:
                    raise
            await passed_on(self._clustering, self._member)
            if (owed := self._owed_to()) and not accept_loss:
                raise ClusterError(
                    f"{node.name} has wills, or messages of ended sessions, for {' and '.join(owed)}. Repeat the "
                    "command when that node runs again or was taken out, or use --accept-loss to lose them"
                )
            await self._knows_its_slots()
            await self._take_out(node.name, empty=True)
        except (ClusterError, StorageError):
            node.gateways.closing = False
            raise
        self._member.left()
        return DONE

    async def _knows_its_slots(self) -> None:
        """Wait for a lease. Raises `ClusterError` if none comes. A process that has not been in the view may have got
        slots with sessions that it does not know of: it cannot say that it is empty."""
        problem = (
            f"{self._node.name} has no lease, so it does not know which sessions it has. Repeat the command when "
            "`vmq-admin cluster show` says that it serves; if that never happens, stop it first"
        )
        await until(self._member.leased, LEASE_S, problem)

    def _owed_to(self) -> list[str]:
        """The members that have not acknowledged messages that only this node can send again."""
        members, passing_on = self._member.membership.members, self._clustering.sender.passing_on
        return [name for name in members if passing_on(lambda other, name=name: other == name)]  # type: ignore[misc]

    async def _get_no_slots(self, end: float) -> None:
        """Have no copies of slots of other nodes any more: if one of these nodes ends now, this node gets none of its
        slots, which would be lost when it leaves. Until `end` other nodes have time to make these copies."""
        slots, name = self._clustering.slots, self._node.name
        able = [each for each in self._member.view.serving if each != name and each not in self._member.full]
        if len(able) > 1:
            self._waits_for = f"{name} waits until other nodes have the copies that it has of their slots"
            with suppress(ClusterError):
                await until(lambda: not slots.may_get_slots, end - asyncio.get_running_loop().time(), "")
        self._waits_for = ""
        slots.copies.give_up(f"{name} leaves the cluster")
        reason = f"{name} still has copies of slots of other nodes, and may get these slots. Repeat the command"
        await until(lambda: not slots.may_get_slots, CALL_S, reason)

    async def _take_out(self, node: str, empty: bool = False) -> None:
        """Ask the leader to take a node out. `empty`: this node, which says that it has no session. It asks until it
        gets an answer: without one the log may have its word, and no session may begin here. The other members answer
        a node that is out already."""
        request = encode_call(LeaveRequest(node, True, empty))
        me, members = self._member.me, self._member.membership.members.values()
        addresses = cycle([me.address, *[row.address for row in members if row.node != me.node]])
        while True:
            try:
                answer = await ask_leader(self._transport, next(addresses), LEAVE, request)
                if not (empty and answer.undecided):
                    break
                why = answer.problem
            except ClusterError as error:
                if not empty:
                    raise
                why = str(error)
            self._waits_for = f"{node} asks to leave again, because it does not know whether it has left: {why}"
            await asyncio.sleep(ASK_AGAIN_S)
        self._waits_for = ""
        if answer.problem:
            raise ClusterError(answer.problem)

    def stop(self) -> None:
        """The process ends."""
        if self._departing is not None:
            self._departing.cancel()
