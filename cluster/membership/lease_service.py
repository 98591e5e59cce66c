"""What a node may promise: its own lease, and, while it leads, everybody's (H-05, H-06)."""

from __future__ import annotations

from collections.abc import Callable

from ...storage.store import Store
from ..raft.interface import ChangePending, NotLeader, Rejected
from ..raft.messages import Change
from .commands import Boot, Join, Leave, Settle, Stale
from .consensus import Consensus
from .coordinator import MembershipCoordinator
from .events import MembershipEvent, ViewChanged
from .lease import LeaseHolder
from .messages import Goodbye, decode_reply, decode_request, encode_lease
from .settings import Settings
from .voters import Transfer

ROUND_MS = 50
"""At least so long after a round of heartbeats another one may begin before it is due: one serves all who ask."""

ALIVE_KEY = b"nalive"
"""Written when a lease is due and nothing else was: a lease says that the disk goes on, too."""


class LeaseService:
    """The lease of one process and the duties of a leader.

    `now_ms` and `wall_ms` are the machine's clocks, `cluster_ms` cluster time. `ask(leader, request)` and
    `answer(node, reply)` send datagrams; to this node itself they come back at once by the owner. `follow(offset_ms)`
    is told what the leader's cluster time is, as a difference to the monotonic clock.
    """

    def __init__(
        self,
        node: str,
        boot: int,
        process: str,
        consensus: Consensus,
        store: Store,
        settings: Settings,
        now_ms: Callable[[], float],
        wall_ms: Callable[[], float],
        cluster_ms: Callable[[], int],
        ask: Callable[[str, bytes], None],
        answer: Callable[[str, bytes], None],
        follow: Callable[[float | None], None],
    ) -> None:
        self._node = node
        self._consensus = consensus
        self._store = store
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._ask = ask
        self._answer = answer
        self._follow = follow
        self._writing = False
        self._writing_ms = 0.0
        self.holder = LeaseHolder(node, boot, process, settings)
        self.coordinator = MembershipCoordinator(node, consensus.membership, cluster_ms, settings)
        self._patient: set[int] = set()
        self._held: list[int] = []
        self._round_ms = 0.0
        self._hurry = False
        consensus.on_confirmed = self._confirmed
        consensus.on_beat = self._beat
        consensus.on_role = self._role
        self.holder.applied(consensus.membership.view)

    # -- the lease

    def valid(self) -> bool:
        """A lease is held now, and the view lets this process serve. Ask it after matching (H-04)."""
        return self.holder.serving and self.holder.valid(self._now_ms(), self._wall_ms())

    def left_ms(self) -> float:
        """What remains of the lease."""
        return self.holder.left_ms(self._now_ms(), self._wall_ms())

    def waiting_ms(self) -> float:
        """How long the disk has not answered the write that the next lease needs, in ms; 0 while it owes none."""
        return self._now_ms() - self._writing_ms if self._writing else 0.0

    def tick(self) -> None:
        """Time has passed: ask for the next lease when it is due, decide when this node leads."""
        self._go_on(riding=self._consensus.leads)
        if self._hurry:
            self._hasten()
        self.decide()

    def calm(self) -> bool:
        """Whether nothing is due before the next heartbeat: most of the lease is left, and a leader misses nobody."""
        if self._hurry or self.left_ms() <= self.holder.settings.lease_ms / 2:
            return False
        return not self._consensus.leads or self.coordinator.calm(self._now_ms())

    def ride(self) -> None:
        """A frame leaves for the leader in this turn: the next request goes with it, if it may leave already."""
        self._go_on(riding=True)

    def _go_on(self, riding: bool) -> None:
        """Ask for the next lease if it is due. The commit that the one after it needs begins in the same turn."""
        self._request(riding)
        if self.holder.wants_commit(self._now_ms()):
            self._commit()

    def _request(self, riding: bool = False) -> None:
        leader = self._consensus.leader
        if leader is not None:
            full = self._store.state != "serving"
            request = self.holder.request(self._now_ms(), self._wall_ms(), full, riding)
            if request is not None:
                self._ask(leader, encode_lease(request))

    def _commit(self) -> None:
        if self._store.state == "full":
            # the disk answers, and says that it is full: the node stays, and says so (H-20)
            self.holder.committed()
            return
        if self._writing:
            return
        self._writing = True
        self._writing_ms = self._now_ms()
        self._store.put(ALIVE_KEY, int(self._wall_ms()).to_bytes(8, "big"))
        self._store.when_committed(self._store.open_commit, self._committed)

    def _committed(self) -> None:
        self._writing = False
        self.holder.committed()
        self._request()

    def reply(self, data: bytes) -> None:
        """The leader's answer. Raises `MalformedLease`."""
        if self.holder.reply(decode_reply(data), self._now_ms()):
            self._follow(None if self._consensus.leads else self.holder.offset_ms)

    def applied(self, happened: tuple[MembershipEvent, ...]) -> None:
        """An entry of the log was applied."""
        for each in happened:
            if isinstance(each, ViewChanged):
                self.holder.applied(each.after)

    def goodbye(self) -> Goodbye:
        """This process stops: it gives back its lease. What the leader is to be told."""
        holder = self.holder
        holder.give_back()
        return Goodbye(holder.node, holder.boot, holder.process)

    # -- leading

    def bid_farewell(self, goodbye: Goodbye) -> None:
        """A process stops: have the leader, this node, propose the view without it at once."""
        if self._consensus.leads and self.coordinator.goodbye(goodbye, self._consensus.raft):
            self.decide()

    def request(self, data: bytes) -> None:
        """A node asks for a lease. Raises `MalformedLease`."""
        request = decode_request(data)
        if not self._consensus.leads:
            return
        ticket = self.coordinator.request(request, self._now_ms())
        if ticket is None:
            return
        if not request.urgent and request.node != self._node:
            self._patient.add(ticket)
        self._try(lambda: self._consensus.confirm(ticket, at_once=False))
        if request.urgent:
            self._hasten()

    def _hasten(self) -> None:
        """Begin a round of heartbeats for who waits, unless the last one has only just begun."""
        self._hurry = self._now_ms() - self._round_ms < ROUND_MS
        if not self._hurry:
            self._consensus.beat()

    def _beat(self) -> None:
        """Heartbeats leave in this turn: the leases of those that can wait go in the same frames."""
        self._round_ms = self._now_ms()
        held, self._held = self._held, []
        self._grant(held)

    def _confirmed(self, tickets: tuple[int, ...]) -> None:
        self._held += [ticket for ticket in tickets if ticket in self._patient]
        self._grant([ticket for ticket in tickets if ticket not in self._patient])
        self._patient.difference_update(tickets)
        self.decide()

    def _grant(self, tickets: list[int]) -> None:
        for ticket in tickets:
            for node, reply in self.coordinator.confirmed(ticket, self._now_ms()):
                self._answer(node, encode_lease(reply))

    def _role(self) -> None:
        self._patient.clear()
        self._held.clear()
        self._hurry = False
        if self._consensus.leads:
            self._follow(None)  # before it tells others what time it is
            self.decide()  # the keeper begins its term: what is submitted before that would be forgotten

    def submit(self, command: Join | Boot | Leave | Stale | Settle) -> None:
        """Have the leader, this node, propose a command as soon as that is safe."""
        self.coordinator.submit(command)
        self.decide()

    def decide(self) -> None:
        """Propose what the keeper wants now."""
        consensus = self._consensus
        raft = consensus.raft
        if not consensus.leads or raft.handing_over:
            return  # what was submitted waits: if the other does not take over, it is still wanted
        for proposal in self.coordinator.decide(self._now_ms(), raft):
            if isinstance(proposal, Change):
                self._try(lambda change=proposal: consensus.change(change))  # type: ignore[misc]
            elif isinstance(proposal, Transfer):
                self._try(lambda to=proposal.peer: raft.transfer(to))  # type: ignore[misc]
            else:
                self._try(lambda command=proposal: consensus.propose(command))  # type: ignore[misc]

    def _try(self, act: Callable[[], object]) -> None:
        """What cannot be done now is decided again."""
        try:
            act()
        except (NotLeader, ChangePending, Rejected):
            return
