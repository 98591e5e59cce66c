"""Asks for this node's lease and, while this node leads, grants the leases of all nodes (H-05, H-06)."""

from __future__ import annotations

from collections.abc import Callable

from ...storage.store import Store
from ..raft.interface import ChangePending, NotLeader, Rejected
from ..raft.messages import Change
from .commands import Boot, Join, Leave, RecoverSlots, SetSlots, Settle, Stale
from .commit_pace import CommitPace
from .consensus import Consensus
from .coordinator import MembershipCoordinator
from .events import MembershipEvent, ViewChanged
from .leader_time import LeaderTime
from .lease import LeaseHolder
from .messages import Goodbye, LeaseRequest, decode_reply, decode_request, encode_lease
from .settings import Settings
from .voters import Transfer

ROUND_MS = 50
"""Minimum distance of two rounds of heartbeats, in ms: one round answers all urgent requests of that time."""

ALIVE_KEY = b"nalive"
"""Key written before a lease request if nothing else was written: a request proves that the disk makes progress."""


class LeaseService:
    """The lease of one process and the duties of a leader.

    `now_ms` and `wall_ms` are the machine's clocks, `cluster_ms` cluster time. `ask(leader, request)` and
    `answer(node, reply)` send datagrams; the owner delivers a datagram to this node itself at once. `follow(offset_ms)`
    sets the difference between the leader's cluster time and the monotonic clock, and `time_known` says whether cluster
    time is known.
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
        time_known: Callable[[], bool],
    ) -> None:
        self._node = node
        self._consensus = consensus
        self._store = store
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._ask = ask
        self._answer = answer
        self.pace = CommitPace()
        self.leaves = False
        """This node is about to leave the cluster: like one with a full disk, it gets no more copies of slots."""
        self.holder = LeaseHolder(node, boot, process, settings)
        self.coordinator = MembershipCoordinator(node, consensus.membership, cluster_ms, settings)
        self._time = LeaderTime(node, consensus, cluster_ms, time_known, follow)
        self._can_wait: set[int] = set()
        self._held: list[int] = []
        self._round_ms = 0.0
        self._hurry = False
        consensus.on_confirmed = self._confirmed
        consensus.on_beat = self._beat
        consensus.on_role = self._role
        self.holder.applied(consensus.membership.view)

    # -- the lease

    def valid(self) -> bool:
        """True if this process holds a lease now and the view lets it serve. Call it after matching (H-04)."""
        return self.holder.serving and self.holder.valid(self._now_ms(), self._wall_ms())

    def left_ms(self) -> float:
        """The rest of the lease, in ms."""
        return self.holder.left_ms(self._now_ms(), self._wall_ms())

    def waiting_ms(self) -> float:
        """How long the disk has not answered the write that the next lease needs, in ms; 0 if no write is pending."""
        return self.pace.waiting_ms(self._now_ms())

    def tick(self, pause_ms: float) -> None:
        """Ask for the next lease if it is due, and propose what the coordinator decides if this node leads. The caller
        meant to call this at most `pause_ms` after the last time."""
        self.pace.tick(self._now_ms(), pause_ms)
        self._go_on(piggyback=self._consensus.leads)
        if self._hurry:
            self._hasten()
        self.decide()
        if self._time.settle(lambda node: self.coordinator.silent(node, self._now_ms())):
            self._grant_held()

    def calm(self) -> bool:
        """Whether nothing is due before the next heartbeat: most of the lease is left, and a leader hears all
        members."""
        if self._hurry or self.left_ms() <= self.holder.settings.lease_ms / 2:
            return False
        return not self._consensus.leads or self.coordinator.calm(self._now_ms())

    def piggyback(self) -> None:
        """This turn sends a frame to the leader: send the next request in it, if it may leave already."""
        self._go_on(piggyback=True)

    def _go_on(self, piggyback: bool) -> None:
        """Ask for the next lease if it is due, and start the commit that the request after it needs."""
        self._request(piggyback)
        if self.holder.wants_commit(self._now_ms()):
            self._commit()

    def _request(self, piggyback: bool = False) -> None:
        leader = self._consensus.leader
        if leader is not None:
            full = self._store.state != "serving" or self.leaves
            now_ms = self._now_ms()
            time_ms = self._time.known_ms()
            request = self.holder.request(now_ms, self._wall_ms(), full, piggyback, self.pace.slow_ms(now_ms), time_ms)
            if request is not None:
                self._ask(leader, encode_lease(request))

    def _commit(self) -> None:
        if self._store.state == "full":
            # A full disk still answers: the node stays in the view and reports the full disk (H-20).
            self.holder.committed()
            self.pace.void()
            return
        if self.pace.times:
            return
        self.pace.begin(self._now_ms())
        self._store.put(ALIVE_KEY, int(self._wall_ms()).to_bytes(8, "big"))
        self._store.when_landed(self._store.open_commit, self._committed)

    def _committed(self) -> None:
        self.pace.end(self._now_ms())
        self.holder.committed()
        self._request()

    def reply(self, data: bytes) -> None:
        """The leader has answered: take the lease. Raises `MalformedLease`."""
        if self.holder.reply(decode_reply(data), self._now_ms()):
            self._time.learn(self.holder.offset_ms)

    def applied(self, happened: tuple[MembershipEvent, ...]) -> None:
        """An entry of the log was applied: take note of a new view."""
        for each in happened:
            if isinstance(each, ViewChanged):
                self.holder.applied(each.after)

    def goodbye(self) -> Goodbye:
        """This process stops: give up its lease. Returns the message for the leader."""
        holder = self.holder
        holder.give_back()
        return Goodbye(holder.node, holder.boot, holder.process)

    # -- leading

    def accept_goodbye(self, goodbye: Goodbye) -> None:
        """A process stops: if this node leads, propose the view without it at once."""
        if self._consensus.leads and self.coordinator.goodbye(goodbye, self._consensus.raft, self._now_ms()):
            self.decide()

    def request(self, data: bytes) -> None:
        """A node asks for a lease: if this node leads, ask Raft to confirm that. Raises `MalformedLease`."""
        self.requested(decode_request(data))

    def requested(self, request: LeaseRequest) -> None:
        """As `request`, for a request that is decoded."""
        if not self._consensus.leads:
            return
        now_ms = self._now_ms()
        if self._time.heard(request, now_ms):
            self._grant_held()
        ticket = self.coordinator.request(request, now_ms)
        if ticket is None or self._is_mute():
            return
        if not request.urgent and request.node != self._node:
            self._can_wait.add(ticket)
        self._try(lambda: self._consensus.confirm(ticket, at_once=False))
        if request.urgent:
            self._hasten()

    def _hasten(self) -> None:
        """Begin a round of heartbeats for urgent requests, unless the last round has only just begun."""
        self._hurry = self._now_ms() - self._round_ms < ROUND_MS
        if not self._hurry:
            self._consensus.beat()

    def _beat(self) -> None:
        """Heartbeats leave in this turn: send the leases of non-urgent requests in the same frames."""
        self._round_ms = self._now_ms()
        self._grant_held()

    def _grant_held(self) -> None:
        held, self._held = self._held, []
        self._grant(held)

    def _confirmed(self, tickets: tuple[int, ...]) -> None:
        self._held += [ticket for ticket in tickets if ticket in self._can_wait]
        self._grant([ticket for ticket in tickets if ticket not in self._can_wait])
        self._can_wait.difference_update(tickets)
        self.decide()

    def _grant(self, tickets: list[int]) -> None:
        if not self._time.known():
            self._held += tickets  # a lease says the leader's cluster time
            return
        for ticket in tickets:
            for node, reply in self.coordinator.confirmed(ticket, self._now_ms(), self.holder.slow):
                self._answer(node, encode_lease(reply))

    def _role(self) -> None:
        self._can_wait.clear()
        self._held.clear()
        self._hurry = False
        if self._consensus.leads:
            self._time.elected()  # before it sends its cluster time to others
            self.decide()  # the coordinator begins its term now: it forgets earlier commands, but keeps later ones

    def submit(self, command: Join | Boot | Leave | Stale | Settle) -> None:
        """Propose a command as soon as that is safe. Call it on the leader."""
        self.coordinator.submit(command)
        self.decide()

    def takes_out(self) -> bool:
        """For a leader: whether it is about to give up the disk of a member: its command waits, or is not applied."""
        return self.coordinator.takes_out or any(
            isinstance(command, Leave | Join | Stale) for command in self._consensus.unapplied()
        )

    def request_slots(self, command: SetSlots) -> None:
        """Propose changes of the slot table, perhaps together with others. Call it on the leader."""
        self.coordinator.request_slots(command)
        self.decide()

    def recover_slots(self, command: RecoverSlots) -> None:
        """Propose to give slots without primary to other nodes. Call it on the leader."""
        self.coordinator.recover_slots(command)
        self.decide()

    def decide(self) -> None:
        """Propose what the coordinator decides now."""
        consensus = self._consensus
        raft = consensus.raft
        if not consensus.leads or raft.handing_over or self._is_mute():
            return  # submitted commands wait: this node proposes them if the transfer fails, or the disk answers
        for proposal in self.coordinator.decide(self._now_ms(), raft):
            if isinstance(proposal, Change):
                self._try(lambda change=proposal: consensus.change(change))  # type: ignore[misc]
            elif isinstance(proposal, Transfer):
                self._try(lambda to=proposal.peer: raft.transfer(to))  # type: ignore[misc]
            else:
                self._try(lambda command=proposal: consensus.propose(command))  # type: ignore[misc]

    def _is_mute(self) -> bool:
        """Whether the disk of the log has not answered for so long that a proposal would be due again. The only voter
        leads even then, for days if that disk is full. What it proposed or confirmed would only pile up."""
        return self._consensus.waiting_ms() > self.holder.settings.proposal_ms

    def _try(self, act: Callable[[], object]) -> None:
        """Run `act`, and ignore a refusal of Raft: the coordinator decides again."""
        try:
            act()
        except (NotLeader, ChangePending, Rejected):
            return
