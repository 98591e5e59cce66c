"""The shell of a node's part in the cluster: its address, transport, Raft's disk, discovery, and operators' commands.

It implements `OperatorPort`, which the operators' commands call.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...cluster.links.frames import MalformedFrame
from ...cluster.links.hello import decode_hello
from ...cluster.links.ports import Timer
from ...cluster.membership.admission import JOIN, CallAnswer, JoinRequest, MalformedCall, encode_call
from ...cluster.membership.discovery import WHO, AddressError, WhoAnswer, decode_who, encode_who, parse_address, written
from ...cluster.membership.join_leave import VERSIONS
from ...cluster.node import CLUSTERED, ClusterNode
from ...cluster.ports import GOODBYE_S, HAND_OVER_S, Identity, Ports, Settings
from ...cluster.raft.interface import Rng
from ...cluster.slots.table import SlotTable
from ...cluster.transport.wire import Accepted, CallFailed, Refused, Stamps, Transport, Wire
from ...netsplit.policy import ViewState
from ...storage.store import Store
from ..cluster_port import Starting
from ..connection.connection import FAILOVER_GRACE_S
from ..discovery.settings import DiscoverySettings
from ..discovery.source import Announcement
from ..options import promised
from ..shared_config import SharedConfig
from .adapter import CLUSTER_SPACES, ClusterAdapter
from .asking import CALL_S, ask_leader, not_asked, until
from .config_calls import VALUES, answer_values, ask_values, spread
from .discovery import Discovery
from .leaving import DEPART, PASS_ON_S, SOON_S, Leaving, passed_on
from .listening import listen
from .neighbours import Neighbours
from .operator_port import ClusterError, MustStartAgain, NameTaken, NodeRow, Orphan, StatusRow
from .rows import lacking_without, node_rows, slots_and_zones, status_row
from .slot_evacuation import BETWEEN_S, outcome_of
from .slot_recovery import orphan_rows, recover
from .unknown_membership import NOTE_S, UnknownMembership

if TYPE_CHECKING:
    from ...storage.directory import DataDirectory
    from ..node import Node

SERVE_S = 60.0
"""How long a join waits until this node serves: it first gets the metadata of the other nodes."""
SPREAD_S = 10.0
"""How long a change of the configuration may take to be at every node of the view."""

Clocks = tuple[Callable[[], float], Callable[[], float]]
"""Wall clock and monotonic clock, in milliseconds."""
OF_THE_MACHINE: Clocks = (lambda: time.time() * 1000, lambda: time.monotonic() * 1000)

OPERATE = "operate"
"""The call that asks a node to carry out an operator's command for its own sessions."""
OPERATE_S = 5.0
"""How long a node may take to answer it."""
MOVE_S = 3.0
"""How long `move_slot` waits for the end of a move."""
ON_LOSES = (
    "{} = on: while this node is cut off, it acknowledges messages that sessions at other nodes may never get, or get "
    "late, twice or out of order (docs/netsplit.md). The value majority keeps all promises"
)


class ClusterRuntime:
    """The cluster node of one broker node, on asyncio. Make it before the broker node opens, and start it after. Call
    `stop` before the store closes.

    `host` is where other nodes reach this one, `listen` the address to listen on, `discovery` says where this node
    looks for others. `stop_mqtt` suspends the listeners for clients, and with True ends their connections. `when_left`
    is called when this node has left its cluster for good, `when_renumbered` when it must start again before it can
    join. `later`, `rng` and `clocks` are timers, random numbers, and wall clock and monotonic clock in milliseconds.
    `in_force` returns the value of a setting, for other nodes that ask and for the event log.
    """

    def __init__(
        self,
        node: Node,
        directory: DataDirectory,
        meta: Store,
        transport: Transport,
        listen: str,
        host: str,
        discovery: DiscoverySettings,
        stop_mqtt: Callable[[bool], Awaitable[None]],
        settings: Settings | None = None,
        later: Callable[[float, Callable[[], None]], Timer] | None = None,
        rng: Rng | None = None,
        clocks: Clocks = OF_THE_MACHINE,
    ) -> None:
        self.name = node.name
        self._node = node
        self._directory = directory
        self._meta = meta
        self._transport = transport
        self._listen = listen
        self._host = host
        self._discovery = discovery
        self._search: Discovery | None = None
        self._probe: asyncio.Task[None] | None = None
        self._unknown = UnknownMembership(node.name, meta)
        self._renumbered = ""
        self.probes = 0
        """How often this node, while in no cluster, asked a member that connected to it: am I in your cluster?"""
        self._settings = settings or Settings()
        self._loop = asyncio.get_running_loop()
        self._later = later or self._loop.call_later
        self._rng = rng or random.SystemRandom()
        self._wall_ms, self._mono_ms = clocks
        self._looking: asyncio.Task[None] | None = None
        self._joining = asyncio.Lock()
        self.member: ClusterNode | None = None
        self.clustering = ClusterAdapter(node)
        self._leaving = Leaving(node, self.clustering, transport, stop_mqtt)
        self.when_left: Callable[[], None] = lambda: None
        self.in_force: Callable[[str], str | None] = lambda key: None
        self.operate: Callable[[bytes], Awaitable[bytes]] | None = None
        self.when_renumbered: Callable[[], None] = lambda: None
        member = meta.get(CLUSTERED) is not None
        if member:
            node.env.cluster = Starting(FAILOVER_GRACE_S)
        if member or discovery.wanted:
            node.policy.view_state = ViewState.MINORITY  # until it has a lease
        node.policy.fenced = not member and discovery.wanted
        if not member and self._unknown.asked:  # a killed process may have noted the id of that cluster
            directory.adopt_cluster(str(uuid.uuid4()))
        if member:
            node.env.clock.resume_member()
        else:
            node.env.clock.trust_wall()

    # -- life

    async def start(self) -> None:
        """Listen, and continue with the log on the disk, or look for other nodes. After this the node may take clients.
        Raises `TransportError`."""
        node, loop = self._node, self._loop
        self._transport.use_stamps(Stamps(node.env.events.stamp, node.env.events.observe))
        bound = await listen(self._transport, self._listen, self._accept, self._answer, node.env.log)
        address = written(self._host, int(bound.rpartition(":")[2]))
        directory = self._directory
        start = (self.name, directory.disk_uuid, directory.boot, uuid.uuid4().hex)
        me = Identity(*start, address, directory.cluster_id, directory.incomplete)
        ports = Ports(
            now_ms=self._mono_ms,
            wall_ms=self._wall_ms,
            cluster_ms=node.env.clock.now_ms,
            follow=node.env.follow,
            time_known=lambda: node.env.clock.known,
            ask_time=node.env.clock.ask_cluster,
            stamp=node.env.events.stamp,
            observe=node.env.events.observe,
            soon=loop.call_soon,
            later=self._later,
            rng=self._rng,
            meta=self._meta,
            store=node.env.store,
            transport=self._transport,
            log=node.env.log,
            event=node.env.event,
        )
        member = ClusterNode(me, ports, self._settings, CLUSTER_SPACES, self.clustering)
        self.clustering.bind(member)
        member.open()
        self.clustering.load()
        self.clustering.config.load()
        member.on_left = lambda: self.when_left()
        member.join_leave.waits_for = lambda: self.serves_nobody
        self.member = member
        self._leaving.bind(member)
        if not member.clustered and self._unknown.asked:
            self._bar()
        if on := node.policy.operations_on:
            node.env.log("warning", ON_LOSES.format(" and ".join(f"allow_{name}_during_netsplit" for name in on)))
        if (wanted := self._discovery).wanted:
            self._search = look = Discovery(
                self.name, Neighbours(self.name, wanted.sources(), self._transport), wanted.founders,
                lambda: member.clustered, lambda address: self.join(address, False, True, True), self._misses_somebody,
                self._hint, node.env.log, self._holds, self._found,
                lambda: f"{self.name} is about to join a cluster" if self._joining.locked() else self._unknown.why,
            )  # fmt: skip
            self._looking = loop.create_task(look.run(Announcement(self.name, address, me.disk, me.boot)))
            await look.first()

    @property
    def serves_nobody(self) -> str:
        """Why this node takes no clients although no network is cut, and what to do; "" if it takes clients."""
        member = self._member
        if member.registrar.failure:
            return member.registrar.failure
        if member.registrar.problem:
            return (
                f"{member.registrar.problem}. To take it in again, with no sessions: stop the node, run `strogoff "
                f"reset {self._directory.path}`, and start the node"
            )
        if member.clustered or not self._node.policy.fenced:
            return ""
        return self._search.waits_for if self._search is not None else self._unknown.why

    def _found(self) -> None:
        self._member.join_leave.found()
        self._unknown.note(None)
        self.clustering.unbar()

    def _dialled(self, hello: bytes) -> None:
        """A cluster member connects to this node: ask it whether it counts this node as a member of its cluster."""
        if self._probe is None and not self._discovery.wanted and not self._unknown.why:
            self.probes += 1
            with suppress(MalformedFrame):
                self._probe = self._loop.create_task(self._ask_who_dialled(decode_hello(hello).address))

    async def _ask_who_dialled(self, address: str) -> None:
        try:
            answer = decode_who(await self._transport.call(address, WHO, self.name.encode(), CALL_S))
            async with self._joining:  # a join that is under way may make it one
                if answer.knows and not self._member.clustered:
                    self._unknown.claimed(answer.node, address)
                    self._bar()
        except (CallFailed, MalformedCall):
            return
        finally:
            self._probe = None

    def _bar(self) -> None:
        """This node may be a member, and does not know the log: serve no client. Discovery has barred it already."""
        if not self._discovery.wanted:
            self._node.env.log("error", self._unknown.why)
            self.clustering.bar("the node does not know its cluster")

    async def await_copies(self, limit_s: float, at_once: asyncio.Event) -> None:
        """This node is about to stop: wait until the other nodes can do without it, for at most `limit_s` seconds, or
        until `at_once` is set. Meanwhile the node serves."""
        log, why = self._node.env.log, self._needed()
        self._node.policy.stops_soon = True
        if not why:
            return
        log("notice", f"this node stops in {limit_s:.0f} s at the latest: {why}. A second signal stops it at once")
        with suppress(ClusterError):
            await until(lambda: at_once.is_set() or not self._needed(), limit_s, "")
        if why := self._needed():
            log("warning", f"this node stops although {why}")

    def _needed(self) -> str:
        return "" if self.serves_nobody else lacking_without(self._member, self.clustering.slots)

    async def stop(self) -> None:
        """Tell the other nodes that this node stops, so that they need not detect it; then close."""
        for task in (self._looking, self._probe):
            if task is not None:
                task.cancel()
        self._leaving.stop()
        if self.member is not None:
            await passed_on(self.clustering, self.member)
            await self._goodbye(self.member)
            self.member.close()
            await self._note_that_it_left(self.member)
        await self._transport.close()

    async def _note_that_it_left(self, member: ClusterNode) -> None:
        """If this node was taken out, make that durable: the next start can then report it."""
        if member.registrar.problem:
            await self._is_noted(PASS_ON_S)

    async def _is_noted(self, limit_s: float) -> bool:
        """Whether the disk of Raft takes all writes so far within this time."""
        noted = asyncio.Event()
        self._meta.flush(noted.set)
        with suppress(TimeoutError):
            await asyncio.wait_for(noted.wait(), limit_s)
        return noted.is_set()

    async def _goodbye(self, member: ClusterNode) -> None:
        """Ask for a view without this node now, so that the other nodes need not wait for the detection time. If this
        node leads, let another one lead: they need not elect one either."""
        if member.goodbye():
            with suppress(ClusterError):
                await until(lambda: member.has_left_view, GOODBYE_S, "", SOON_S)
                consensus = member.consensus
                if consensus is not None and consensus.hand_over():
                    await until(lambda: not consensus.leads, HAND_OVER_S, "", SOON_S)

    def _misses_somebody(self) -> bool:
        member = self._member
        return any(name != self.name and not member.links.up(name) for name in member.membership.members)

    def _hint(self, answer: WhoAnswer, address: str) -> None:
        member = self._member
        if answer.node != self.name and answer.cluster_id == member.me.cluster_id and not member.links.up(answer.node):
            member.hint(answer.node, address)

    @property
    def address(self) -> str:
        """Where other nodes reach this one."""
        return self._member.me.address

    @property
    def _member(self) -> ClusterNode:
        assert self.member is not None, "not started"
        return self.member

    def _accept(self, hello: bytes, wire: Wire) -> Accepted | Refused:
        if self.member is None:
            return Refused(f"{self.name} is just starting")
        result = self.member.links.accept(hello, wire)
        if isinstance(result, Refused) and not self.member.clustered:
            self._dialled(hello)
        return result

    async def _answer(self, method: str, request: bytes) -> bytes:
        if self.member is None:
            raise CallFailed(f"{self.name} is just starting")
        if method == DEPART:
            return await self._leaving.answer(request)
        if method == VALUES:
            return answer_values(request, self.in_force)
        if method == OPERATE:
            if self.operate is None:
                raise CallFailed(f"{self.name} does not accept operators' commands from other nodes")
            return await self.operate(request)
        if method == WHO:
            return self._who(request.decode(errors="replace"))
        answer: asyncio.Future[bytes] = self._loop.create_future()
        try:
            self.member.answer_call(method, request, lambda data: None if answer.done() else answer.set_result(data))
        except MalformedCall as error:
            raise CallFailed(str(error)) from None
        return await answer

    def _who(self, asker: str) -> bytes:
        member = self._member
        cluster_id, serving = (member.me.cluster_id, member.leased()) if member.clustered else ("", False)
        return encode_who(
            WhoAnswer(
                self.name,
                cluster_id,
                serving,
                self._holds(),
                seeks=not member.clustered and self._node.policy.fenced,
                sees=self._search.sees if self._search is not None else (),
                knows=asker != self.name and asker in member.membership.members,
            )
        )

    def _holds(self) -> bool:
        return bool(len(self._node.sessions) or self._node.retained.count)

    # -- operator queries

    def rows(self) -> list[NodeRow]:
        """Return a row for each member, this node included."""
        return node_rows(self._member, self.serves_nobody)

    def status(self) -> StatusRow:
        """The cluster as it is now."""
        return status_row(
            self._member,
            self._node.policy.view_state.value,
            self.clustering.incidents.incident_log.detected,
            self.serves_nobody,
            self.clustering.slots,
            self._node.options.allow_register_during_netsplit == "on",
        )

    def slots(self) -> tuple[SlotTable, dict[str, str]]:
        """The slot table that this node has applied, and node -> zone of all members."""
        return slots_and_zones(self._member)

    async def move_slot(self, slot: int, node: str) -> bool:
        """Give a slot of this node to another node, as `OperatorPort.move_slot`."""
        primary = self._member.slots.row(slot).primary
        if primary is not None and primary.node == node:
            return True
        balance = self.clustering.slots.balance
        balance.hold()
        try:
            if balance.moving not in (None, slot):
                await until(lambda: balance.moving is None, MOVE_S, "")
        except ClusterError:
            return False
        try:
            problem = await asyncio.wait_for(outcome_of(self.clustering.slots.moves.begin, slot, node), MOVE_S)
        except TimeoutError:
            return False
        if problem:
            raise ClusterError(problem)
        await asyncio.sleep(BETWEEN_S)  # an operator may move many slots
        return True

    def check_copies(self, slots: list[int]) -> int:
        """As `OperatorPort.check_copies`."""
        return self.clustering.slots.check.begin(slots)

    def orphans(self) -> list[Orphan]:
        """Return the slots without primary, by the table that this node has applied."""
        return orphan_rows(self._member)

    async def recover_slots(self, slots: list[int]) -> dict[int, tuple[str, bool]]:
        """As `OperatorPort.recover_slots`."""
        return await recover(self._member, slots)

    def incidents(self) -> list[dict[str, Any]]:
        """The last incidents that this node has seen, the oldest first."""
        return self.clustering.incidents.incident_log.rows()

    @property
    def counters(self) -> dict[str, int]:
        """VerneMQ's counters of the cluster, and those of incidents."""
        traffic = self._member.links.traffic
        return {
            "cluster_bytes_received": traffic.bytes_in,
            "cluster_bytes_sent": traffic.bytes_out,
            "cluster_bytes_dropped": 0,
            **self.clustering.incidents.incident_log.metrics(),
        }

    # -- operator commands

    @property
    def config(self) -> SharedConfig:
        """The settings and API keys that operators set for all nodes."""
        return self.clustering.config

    async def spread(self) -> None:
        """Wait until every node of the view has the setting. Raises `ClusterError`."""
        await spread(self._member, SPREAD_S)

    async def values(self, node: str, keys: list[str]) -> list[str | None]:
        """The values in force at another member. Raises `ClusterError`."""
        return await ask_values(self._transport, node, self._address_of(node), keys)

    async def ask(self, node: str, request: bytes) -> bytes:
        """Return the answer of another member's `operate`. Raises `ClusterError`."""
        try:
            return await self._transport.call(self._address_of(node), OPERATE, request, OPERATE_S)
        except CallFailed as error:
            raise ClusterError(str(error)) from None

    def _address_of(self, node: str) -> str:
        row = self._member.membership.members.get(node)
        if row is None:
            raise ClusterError(f"{node} is not a member of this cluster")
        return row.address

    async def found(self) -> None:
        """Found a cluster of this node alone, which others can join. Raises `ClusterError` if it is in one already."""
        if self._member.clustered or self._joining.locked():
            raise ClusterError(f"{self.name} is a member of a cluster already, or about to join one")
        self._node.env.log("notice", f"{self.name} founds a cluster: an operator has asked for it")
        if self._search is not None:
            self._search.overrule()
        self._found()

    async def join(self, discovery_node: str, merge: bool, replace: bool = False, if_safe: bool = False) -> None:
        """Become a member of the cluster of that node (`JoinRequest`). Raises `ClusterError`."""
        if self._joining.locked():
            raise ClusterError(f"{self.name} is joining already")
        async with self._joining:
            self._member.join_leave.joining = self._node.gateways.joining = True
            try:
                await self._join(discovery_node, merge, replace, if_safe)
            finally:
                self._member.join_leave.joining = self._node.gateways.joining = False

    async def _join(self, discovery_node: str, merge: bool, replace: bool, if_safe: bool) -> None:
        member = self._member
        if member.registrar.problem:
            raise ClusterError(self.serves_nobody)
        if member.clustered:
            others = ", ".join(sorted(set(member.membership.members) - {self.name})) or "no other node"
            raise ClusterError(f"{self.name} is a member of a cluster already, with {others}")
        if self._renumbered:
            raise MustStartAgain(self._renumbered)
        sessions, retained = len(self._node.sessions), self._node.retained.count
        if durable := self._node.sessions.durable:
            raise ClusterError(
                f"{self.name} has {durable} durable sessions of its own. In the cluster other nodes would have their "
                "client ids, and no client would find them. Let the nodes without sessions join this one, or start "
                "this node with an empty data directory"
            )
        if (sessions or retained) and not merge:
            raise ClusterError(
                f"{self.name} has {sessions} sessions and {retained} retained messages of its own: use --merge to "
                "bring them into the cluster, or start this node with an empty data directory"
            )
        try:
            address = written(*parse_address(discovery_node))
        except AddressError as error:
            raise ClusterError(str(error)) from None
        me = member.me
        start = (me.node, me.disk, me.boot, me.process, me.address)
        request = JoinRequest(*start, VERSIONS, replace, self._settings.zone, if_safe=if_safe)
        self._refuse_writes(self._directory.boot_above)
        answer = await self._ask_to_join(address, encode_call(request))
        if answer.boot >= me.boot:
            self._refuse_writes(answer.boot)
            await self._note(self._directory.raise_boot, answer.boot)
            then = ", and joins by itself" if self._discovery.wanted else ". Then join again with --replace"
            self._renumbered = (
                f"{self.name} was a member with another disk, which may have been started {answer.boot} times: its "
                f"number of starts is set to that now. This node starts again{then}"
            )
            if self._search is not None:
                self._search.settle()
            self.when_renumbered()
            raise MustStartAgain(self._renumbered)
        if answer.problem:
            raise (NameTaken if answer.taken else ClusterError)(self._with_remedy(answer.problem))
        self._node.join_run(answer.cluster_id, promised(self.in_force))
        member.adopt(answer)
        self._unknown.note(None)  # not before the log begins: a node that is killed must not forget both
        self.clustering.unbar()
        await until(
            lambda: member.lease_service is not None and member.lease_service.holder.serving and member.leased(),
            SERVE_S,
            f"{self.name} has joined, but does not serve after {SERVE_S:.0f} s: see `vmq-admin cluster show --verbose`",
        )

    async def _ask_to_join(self, address: str, request: bytes) -> CallAnswer:
        """Ask the cluster of the node at this address. If this node does not get to know the answer, it serves
        nobody: the log may make it a member (H-49). Raises `ClusterError`."""
        try:
            who = decode_who(await self._transport.call(address, WHO, self.name.encode(), CALL_S))
        except (CallFailed, MalformedCall) as error:
            raise ClusterError(not_asked(address, error)) from None
        earlier, noted = self._unknown.ask(address, who.cluster_id), False
        try:
            noted = await self._is_noted(NOTE_S)
        finally:
            if not noted:
                self._unknown.note(earlier)  # nobody was asked
        if not noted:
            raise ClusterError(f"the disk of {self.name} has not taken the request to join within {NOTE_S:.0f} s")
        try:
            answer = await ask_leader(self._transport, address, JOIN, request)
            if not answer.problem:
                await self._note(self._directory.adopt_cluster, answer.cluster_id)
        except BaseException as error:
            self._bar()
            if isinstance(error, ClusterError):
                raise ClusterError(self._with_remedy(str(error))) from None
            raise
        if answer.problem and not answer.undecided:
            self._unknown.refused(answer, earlier)
            await self._is_noted(NOTE_S)
        if answer.problem and self._unknown.asked:
            self._bar()
        elif self._node.policy.fenced and not (answer.boot or self._unknown.why or self._discovery.wanted):
            self.clustering.unbar()
        return answer

    def _with_remedy(self, problem: str) -> str:
        barred = self._unknown.asked and not self._discovery.wanted
        return f"{problem}. {self._unknown.why}" if barred else problem

    def _refuse_writes(self, boot: int) -> None:
        """Raise `ClusterError` if this node wrote to the replicated map in a start up to `boot`: an earlier disk of
        this node used the same boots, so other nodes would confuse these writes with its writes."""
        if self._member.metadata.wrote(boot):
            raise ClusterError(
                f"{self.name} was a member with another disk, and this disk has settings or retained messages of its "
                "own: other nodes would confuse them with the writes of the other disk. Start this node with an empty "
                "data directory"
            )

    async def _note(self, write: Callable[[Any], None], what: object) -> None:
        """Save a number of starts or the cluster's identity in the data directory. Raises `ClusterError`: the other
        nodes may already list this node as a member, so the operator has to join again."""
        try:
            await self._loop.run_in_executor(None, write, what)
        except OSError as error:
            raise ClusterError(
                f"the data directory of {self.name} cannot be written ({error}): make room there, then join again"
            ) from None

    async def leave(
        self, node: str, kill_sessions: bool, interval_s: float, timeout_s: float, accept_loss: bool
    ) -> AsyncIterator[str]:
        """Take a member out. Raises `ClusterError`."""
        async for line in self._leaving.leave(node, kill_sessions, interval_s, timeout_s, accept_loss):
            yield line
