"""A machine of a cluster: a node with its member, two disks, clocks, and an address on the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...broker.cluster_port import Starting
from ...broker.clustering.adapter import CLUSTER_SPACES, ClusterAdapter
from ...broker.clustering.leaving import DONE, Leaving
from ...broker.connection.connection import FAILOVER_GRACE_S
from ...broker.node import Node
from ...broker.options import Options
from ...cluster.membership.admission import (
    JOIN,
    LEAVE,
    CallAnswer,
    JoinRequest,
    LeaveRequest,
    asked_again,
    decode_answer,
    encode_call,
)
from ...cluster.membership.join_leave import VERSIONS
from ...cluster.node import CLUSTERED, ClusterNode
from ...cluster.ports import GOODBYE_S, Identity, Ports, Settings
from ...cluster.transport.memory_network import MemoryNetwork
from ...cluster.transport.memory_wire import MemoryTransport
from ...cluster.transport.wire import CallFailed, Stamps
from ...netsplit.policy import ViewState
from ...storage.engine import Durability, Engine
from ...storage.store import Store
from ...storage.unsynced import SYNCED, left_unsynced, may_lack_writes
from .host import Host
from .loop import VirtualLoop
from .tasks import Calls, Tasks

CALL_S = 12.0
"""The timeout of a call to another node, in seconds."""


async def _nothing_to_stop(_: bool) -> None:
    """The simulator closes no listeners: clients do not connect to a node that leaves."""


class DiskNote(NamedTuple):
    """What the marker of a data directory says of losses of power (`storage/directory.py`)."""

    unsynced: str = SYNCED
    incomplete: int = 0


class ClusterHost(Host):
    """A `Host` whose node can be a member of a cluster. `meta` makes the engine of Raft's store for each start."""

    def __init__(
        self,
        loop: VirtualLoop,
        network: MemoryNetwork,
        disk: Callable[[Host], Engine],
        meta: Callable[[Host], Engine],
        options: Options | None = None,
        seed: int = 0,
        name: str = "n1",
        plugins: dict[str, object] | None = None,
    ) -> None:
        super().__init__(loop, disk, options, seed, name, plugins)
        self.network = network
        self.address = f"{name}:1"
        self.cluster_id = f"cluster-of-{name}"
        self.disk_id = f"{name}-disk"
        self.settings = Settings()
        self.boot_above = 0
        """The last boot of this name with another disk. A process that joins needs a higher boot."""
        self.durability: Durability = "sync"
        self.note = DiskNote()
        self.member: ClusterNode | None = None
        self.clustering: ClusterAdapter | None = None
        self.transport: MemoryTransport | None = None
        self.meta_store: Store
        self._new_meta = meta

    @property
    def run_id(self) -> str:
        """As `Host.run_id`: the cluster."""
        return self.cluster_id

    def start(self) -> Node:
        """Start a process: the node, and its member with the Raft log of the disk."""
        node = super().start()
        self._note_writes()
        self.transport = transport = self.new_transport()
        transport.use_stamps(Stamps(node.env.events.stamp, node.env.events.observe))
        rng = node.services.rng
        ports = Ports(
            now_ms=self._mono_ms,
            wall_ms=self._wall_ms,
            cluster_ms=node.env.clock.now_ms,
            follow=node.env.follow,
            time_known=lambda: node.env.clock.known,
            ask_time=node.env.clock.ask_cluster,
            stamp=node.env.events.stamp,
            observe=node.env.events.observe,
            soon=self.soon,
            later=self.later,
            rng=rng,  # type: ignore[arg-type]
            meta=self.meta_store,
            store=node.env.store,
            transport=transport,
            log=node.env.log,
            event=node.env.event,
        )
        process = f"{self.name}/{self.boot}/{rng.getrandbits(64):x}"
        start = (self.name, self.disk_id, self.boot, process)
        identity = Identity(*start, self.address, self.cluster_id, self.note.incomplete)
        self.clustering = clustering = ClusterAdapter(node)
        self.member = member = ClusterNode(identity, ports, self.settings, CLUSTER_SPACES, clustering)
        clustering.bind(member)
        self.bound()
        member.open()
        clustering.load()
        transport.listen(self.address, member.links.accept, member.answer_call)
        return node

    def prepare(self, node: Node) -> None:
        """Open Raft's store. A member begins in the state MINORITY, because it acknowledges nothing without a lease."""
        self.meta_store = Store(self._new_meta(self), self.soon, self.later)
        if self.meta_store.get(CLUSTERED) is not None:
            node.env.cluster = Starting(FAILOVER_GRACE_S)
            node.policy.view_state = ViewState.MINORITY
            node.env.clock.resume_member()
        else:
            node.env.clock.trust_wall()

    def _note_writes(self) -> None:
        """As `DataDirectory.note_writes`."""
        former = self.note
        incomplete = self.boot if may_lack_writes(former.unsynced, self.machine) else former.incomplete
        self.note = DiskNote(left_unsynced(self.durability, self.machine, former.unsynced), incomplete)

    def replace_note(self, note: DiskNote) -> None:
        """The data directory is replaced by one with this note."""
        self.note = note

    def bound(self) -> None:
        """Hook: called before the member opens, when node and member are connected."""

    def new_transport(self) -> MemoryTransport:
        """Returns the transport for a new process."""
        return MemoryTransport(self.network, self.name)

    def kill(self) -> None:
        """End the process between two instructions."""
        self._shut()
        super().kill()

    def _shut(self) -> None:
        assert self.transport is not None
        self.transport.shut()
        self.member = self.clustering = self.transport = None

    def say_goodbye(self, then: Callable[[], None]) -> None:
        """Let the followers get all changes, send the leader a goodbye, then call `then`. Each step takes at most
        `GOODBYE_S` seconds."""

        def say() -> None:
            if self.member is not None and self.member.goodbye():
                self.later(GOODBYE_S, then)
            else:
                then()

        if self.clustering is None:
            say()
        else:
            self.clustering.slots.complete_copies(say)

    def _stop_ended(self) -> None:
        if self.member is not None:
            self.member.close()
            self._shut()
        self.note = self.note._replace(unsynced=SYNCED)
        super()._stop_ended()

    # -- operations

    def join(self, other: str, then: Callable[[str], None]) -> None:
        """Join the cluster of the node at an address. `then` gets the reason as a sentence if that fails, else ""."""
        member = self.member
        assert member is not None
        me = member.me
        request = JoinRequest(me.node, me.disk, me.boot, me.process, me.address, VERSIONS, replace=True)

        def answered(answer: CallAnswer) -> None:
            if answer.boot >= me.boot:
                self.boot_above = answer.boot
            if not answer.problem:
                self.cluster_id = answer.cluster_id
                assert self.node is not None
                self.node.join_run(answer.cluster_id, self.promised(self.node))
                member.adopt(answer)
            then(answer.problem)

        self._call(other, JOIN, encode_call(request), answered)

    def claim(self, node: str, boot: int, then: Callable[[str], None]) -> None:
        """Ask this host for membership as a stranger with its own disk and the name of a node, whose boot is `boot`."""
        request = JoinRequest(node, f"{node}-stranger", boot + 1_000_000, f"{node}-stranger", f"{node}:1", VERSIONS)
        self._call(self.address, JOIN, encode_call(request), lambda answer: then(answer.problem))

    def leave(self, node: str, then: Callable[[str], None]) -> None:
        """Remove a member from this host's cluster. `then` gets the reason as a sentence if that fails, else ""."""
        request = LeaveRequest(node, True)
        self._call(self.address, LEAVE, encode_call(request), lambda answer: then(answer.problem))

    def depart(self, timeout_s: float, then: Callable[[str], None]) -> None:
        """Leave the cluster, with the code of a real node: give all sessions to other nodes first. `then` gets the
        reason if that fails, else "". The owner lets no client connect meanwhile."""
        assert self.node is not None and self.clustering is not None and self.transport is not None
        node, member = self.node, self.member
        assert member is not None
        leaving = Leaving(node, self.clustering, Calls(self.transport), _nothing_to_stop)  # type: ignore[arg-type]
        leaving.bind(member)
        request = bytes((True, False)) + int(timeout_s).to_bytes(4, "big")

        async def work() -> None:
            try:
                while await leaving.answer(request) != DONE.encode():
                    pass
                problem = ""
            except CallFailed as error:
                problem = str(error)
            then(problem)

        Tasks(self, lambda: self._mono_ms() / 1000).start(work())  # type: ignore[abstract]

    def _call(self, address: str, method: str, request: bytes, then: Callable[[CallAnswer], None]) -> None:
        assert self.transport is not None

        def came(result: Any) -> None:
            if isinstance(result, CallFailed):
                then(CallAnswer(str(result)))
                return
            answer = decode_answer(result)
            if answer.ask and answer.ask != address:
                self._call(answer.ask, method, asked_again(method, request, answer), then)
            else:
                then(answer)

        self.transport.ask(address, method, request, CALL_S, came)
