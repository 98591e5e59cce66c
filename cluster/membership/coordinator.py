"""The leader's decisions: which nodes get a lease, which commands and voter changes it proposes (H-05, H-06, H-21).

Three steps make views safe: *stop granting, wait until the last lease has certainly ended, propose the view without the
node*. A lease certainly ends `expiry_ms` after the leader got the request for it. Leases of former leaders end
`expiry_ms` after this leader's election: a former leader granted only after a majority had confirmed it, and no
majority confirms it after the election.

There is one object for each process. It forgets everything when this node is elected (`elected` or a new term).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ..slots.table import SlotRow
from .clique import largest_clique
from .commands import Away, Boot, Command, Join, Leave, RecoverSlots, SetSlots, Settle, SetView, Stale
from .messages import Goodbye, LeaseReply, LeaseRequest
from .next_view import Outlook, next_view
from .settings import Settings
from .state_machine import MemberRow, MembershipState, peer_of
from .voters import Peers, VoterChange, next_change

SLOTS_MS = 100
"""The shortest time between two entries with requested changes of the slot table."""

SUBMITTED_MOST = 1000
"""The most requested commands that wait until they are safe."""

_NONE_SLOW: Mapping[str, int] = {}

RequestedCommand = Settle | Join | Boot | Leave | Stale
"""Commands that a node or an operator asks the leader for."""

Proposal = Command | VoterChange
"""A decision of `decide`: a command for `Raft.propose`, a `Change` for `Raft.change`, or a `Transfer`."""


class Heard(Struct, frozen=True):
    """The last request of a node, and when it arrived, in milliseconds of the leader's monotonic clock."""

    at_ms: float
    request: LeaseRequest


class _Due(Struct):
    """The earliest times of the next entries of three rare kinds, on the leader's clock: about members that are away,
    changes of the voters, and requested changes of the slot table."""

    forget_ms: float
    change_ms: float
    slots_ms: float


class _SlotRequests(Struct):
    """Requests about slots that are not proposed yet. `changes`: the follower that takes itself out, "" for primaries
    -> slot -> the change. `recoveries`: the node of the operator -> the request."""

    changes: dict[str, dict[int, SlotRow]] = {}
    recoveries: dict[str, RecoverSlots] = {}

    def __bool__(self) -> bool:
        return bool(self.changes or self.recoveries)


class MembershipCoordinator:
    """`node` is the leader itself, `membership` its state machine, `cluster_ms` its cluster clock.

    All `now_ms` are the leader's monotonic clock. The caller applies committed entries before it passes on a
    confirmation, and calls `decide` after each entry, after each confirmation, and at least once each heartbeat.
    """

    def __init__(
        self, node: str, membership: MembershipState, cluster_ms: Callable[[], int], settings: Settings | None = None
    ) -> None:
        self.node = node
        self.membership = membership
        self.settings = settings or Settings()
        self._cluster_ms = cluster_ms
        self._ticket = 0
        self._term = 0
        self.elected(0.0)

    def elected(self, now_ms: float) -> None:
        """This node leads from now on. It does not know the leases that were granted before."""
        self.elected_ms = now_ms
        self._decided_ms = self._woke_ms = now_ms
        self._heard: dict[str, Heard] = {}
        self._kept: tuple[str, ...] = ()
        self._joined: tuple[list[str], dict[str, tuple[str, ...]]] = ([], {})
        self._clique: tuple[str, ...] = ()
        self._pending: dict[int, Heard] = {}
        self._granted: dict[str, float] = {}
        self._being_removed: dict[str, int] = {}
        self._absent: dict[str, float] = {}
        self._notices: dict[str, int] = {}
        self._submitted: list[RequestedCommand] = []
        self._slot_requests = _SlotRequests()
        self._proposed: tuple[tuple[int, bool], float] | None = None
        self._due = _Due(now_ms, now_ms, now_ms)
        self._views: dict[int, float] = {}
        self._gone: dict[str, str] = {}

    # -- leases

    def request(self, request: LeaseRequest, now_ms: float) -> int | None:
        """A node asks for a lease. Returns a ticket for `Raft.confirm`, or None if the node cannot have a lease now."""
        member = self.membership.members.get(request.node)
        if member is None or (request.boot, request.process) != (member.boot, member.process):
            return None
        if self._has_gone(request.node):
            return None  # the node sent this request before its goodbye
        last = self._heard.get(request.node)
        if last and last.request.process == request.process and request.number <= last.request.number:
            return None
        heard = self._heard[request.node] = Heard(now_ms, request)
        self._consider(now_ms)
        if not self._may_grant(request):
            return None
        self._ticket += 1
        while (
            self._pending and now_ms - self._pending[first := next(iter(self._pending))].at_ms > self.settings.lease_ms
        ):
            del self._pending[first]  # a lease from that request would be over
        self._pending[self._ticket] = heard
        return self._ticket

    def confirmed(
        self, ticket: int, now_ms: float, known_slow: Mapping[str, int] = _NONE_SLOW
    ) -> list[tuple[str, LeaseReply]]:
        """A majority of the voters has confirmed this leader since the request. Returns (node, reply) to send at once;
        none if the node may no longer have a lease. `known_slow`: the slow disks that the last lease of this node named
        (`LeaseHolder.slow`)."""
        heard = self._pending.pop(ticket, None)
        if heard is None or not self._may_grant(heard.request):
            return []
        request = heard.request
        self._granted[request.node] = max(heard.at_ms, self._granted.get(request.node, heard.at_ms))
        full = tuple(sorted(name for name, other in self._heard.items() if other.request.full))
        reply = LeaseReply(
            request.node,
            request.boot,
            request.process,
            request.number,
            request.entered_in_view,
            self._cluster_ms(),
            full,
            int(now_ms - heard.at_ms),
            self._slow(known_slow),
        )
        return [(request.node, reply)]

    def _slow(self, known_slow: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        """The nodes of the view whose disk is slow. Those that this leader has not heard yet are as they were under the
        former leader: else primaries would make copies there in the meantime."""
        known = {**known_slow, **{node: heard.request.slow_ms for node, heard in self._heard.items()}}
        return tuple([(node, ms) for node in self.membership.view.nodes if (ms := known.get(node, 0))])

    def goodbye(self, goodbye: Goodbye, peers: Peers, now_ms: float) -> bool:
        """A process stops and holds no lease any more: remove its row without waiting.

        Returns False if the process is unknown or the others need it. They need it if one of them may be dead
        (`_doubtful`), or if the remaining serving nodes are no majority of the voters: then no node could serve anyway,
        and after a view without it the other nodes would have to wait for the nodes in that view
        (`MembershipState.informed_members`).
        """
        node, member = goodbye.node, self.membership.members.get(goodbye.node)
        if member is None or (goodbye.boot, goodbye.process) != (member.boot, member.process):
            return False
        if self._doubtful(node, now_ms):
            return False
        voters, serving = peers.configuration.voters, self.membership.view.serving
        rows = [self.membership.members[name] for name in serving if name != node and not self._has_gone(name)]
        near = [row for row in rows if peer_of(row) in voters and peers.caught_up(peer_of(row))]
        if 2 * len(near) <= len(voters):
            return False
        self._gone[node] = goodbye.process
        self._heard.pop(node, None)
        return True

    def _has_gone(self, node: str) -> bool:
        """Whether the member's last start has said goodbye."""
        member = self.membership.members.get(node)
        return member is not None and self._gone.get(node) == member.process

    def _may_grant(self, request: LeaseRequest) -> bool:
        """True if the view has this incarnation of the process and is going to keep it."""
        row = self.membership.view.row(request.node)
        member = self.membership.members.get(request.node)
        if row is None or member is None or request.node not in self._kept or self._has_gone(request.node):
            return False
        same = (row.boot, row.entered_in_view, member.process) == (
            request.boot,
            request.entered_in_view,
            request.process,
        )
        return (
            same and self._being_removed.get(request.node) != row.entered_in_view and not self._is_leaving(request.node)
        )

    def _consider(self, now_ms: float) -> None:
        """Choose the nodes to keep: the largest clique around the leader among the nodes of the view that it has heard.

        Before the leader's own first request it is unknown which peers the leader hears, so all nodes are kept.
        """
        view = self.membership.view
        if view.id not in self._views:
            self._views[view.id] = now_ms
            self._views = {number: at_ms for number, at_ms in self._views.items() if number + 100 > view.id}
        names = [name for name in view.nodes if name in self._heard]
        fresh = [name for name in names if not self.silent(name, now_ms) and not self._is_behind(name, now_ms)]
        if self.node not in self._heard or self.silent(self.node, now_ms):
            self._kept = tuple(fresh)
            return
        joined = (fresh, {name: heard.request.hears for name, heard in self._heard.items()})
        if joined != self._joined:
            self._joined = joined
            self._clique = largest_clique(self.node, *joined)
        self._kept = self._clique

    # -- what is known of a node

    def silent(self, node: str, now_ms: float) -> bool:
        """True if no request came from the node for the detection time.

        A new leader waits until the old leases have ended. A leader that stood still waits four heartbeats more.
        """
        settings = self.settings
        if self._gone and self._has_gone(node):
            return True
        heard = self._heard.get(node)
        last_ms = heard.at_ms if heard else self.elected_ms - (settings.detection_ms - settings.expiry_ms)
        last_ms = max(last_ms, self._woke_ms - (settings.detection_ms - settings.hearing_ms))
        return now_ms - last_ms >= settings.detection_ms

    def _is_behind(self, node: str, now_ms: float) -> bool:
        """True if the node has not applied a view that is older than the detection time: its Raft peer hangs.

        It never answers exchanges, so no joining node could serve while it is in the view (H-04).
        """
        applied = self._heard[node].request.view
        if applied >= self.membership.view.id:
            return False
        missed = [at_ms for view, at_ms in self._views.items() if view > applied]
        return any(now_ms - at_ms >= self.settings.detection_ms for at_ms in missed)

    @property
    def _stuck_since_ms(self) -> float:
        own = self._heard.get(self.node)
        return max(own.at_ms if own else self.elected_ms, self._woke_ms)

    def expired(self, node: str, now_ms: float) -> bool:
        """True if no lease of the node can be valid any more, from this leader or a former one."""
        if self._gone and self._has_gone(node):
            return True
        since_ms = max(self.elected_ms, self._granted.get(node, self.elected_ms))
        return now_ms - since_ms >= self.settings.expiry_ms

    def _is_leaving(self, node: str) -> bool:
        return node in self._leaving()

    def _leaving(self) -> list[str]:
        return [command.node for command in self._submitted if self._takes_away(command)]

    def _takes_away(self, command: RequestedCommand) -> bool:
        """True if the command removes a row whose process may be alive and hold a lease."""
        member = self.membership.members.get(command.node)
        if member is None or self.membership.view.row(command.node) is None:
            return False
        return isinstance(command, Leave) or (isinstance(command, Join) and command.disk != member.disk)

    # -- decisions

    def submit(self, command: RequestedCommand) -> None:
        """Take a requested command: `decide` proposes it as soon as that is safe.

        `Leave`, and the `Join` of a node in the view with another disk, wait until the node's last lease has ended.
        `Boot` waits while another node of the view may be dead: it takes the row of the former process away, and the
        slots of both would stay with the dead node alone, perhaps without its disk (H-46). Otherwise it is safe at
        once: the lock of the data directory guarantees that the former process of a disk has ended before the next one
        starts. A command is proposed once; the sender repeats it until it gets an answer. The last `Boot` of a node
        replaces an earlier one that waits. More than `SUBMITTED_MOST` commands do not wait.
        """
        if isinstance(command, Boot) and command not in self._submitted:
            boots = [each for each in self._submitted if isinstance(each, Boot) and each.node == command.node]
            self._submitted = [each for each in self._submitted if each not in boots]
        if command not in self._submitted and len(self._submitted) < SUBMITTED_MOST:
            self._submitted.append(command)

    @property
    def takes_out(self) -> bool:
        """Whether a command that gives up the disk of a member waits."""
        members = self.membership.members
        return any(
            isinstance(each, Leave) or (isinstance(each, Join) and each.node in members and not self._knows(each))
            for each in self._submitted
        )

    def _knows(self, join: Join) -> bool:
        return self.membership.members[join.node].disk == join.disk

    def withdraw(self, command: RequestedCommand) -> bool:
        """Do not propose a command. Returns False if it does not wait: perhaps it is in the log already."""
        waits = command in self._submitted
        if waits:
            self._submitted.remove(command)
        return waits

    def request_slots(self, command: SetSlots) -> None:
        """Take requested changes of the slot table: `decide` proposes them, several requests in one entry.

        A later change of a slot replaces an earlier one. The requester repeats it until the row has changed. Requests
        of primaries share an entry. Each follower that takes itself out has entries of its own, which name it.
        """
        changes = self._slot_requests.changes.setdefault(command.leaving, {})
        changes.update({change.slot: change for change in command.changes})

    def recover_slots(self, command: RecoverSlots) -> None:
        """Take the request of an operator at the node `by`, for slots without primary. It replaces an earlier one."""
        self._slot_requests.recoveries[command.by] = command

    def _slot_command(self, now_ms: float) -> list[SetSlots | RecoverSlots]:
        asked = self._slot_requests
        if not asked or now_ms < self._due.slots_ms:
            return []
        self._due.slots_ms = now_ms + SLOTS_MS
        followers = [leaving for leaving in asked.changes if leaving]
        commands: list[SetSlots | RecoverSlots] = list(asked.recoveries.values())
        asked.recoveries.clear()
        for leaving in ["", *followers[:1]]:
            changes = asked.changes.pop(leaving, {})
            if changes:
                commands.append(SetSlots(tuple([changes[slot] for slot in sorted(changes)]), leaving))
        return commands

    def decide(self, now_ms: float, peers: Peers) -> list[Proposal]:
        """Returns the proposals to make now, in order; `peers` is this node's Raft.

        The caller may ignore `ChangePending` and `Rejected`: the next call decides again. A proposal stays in this
        leader's log until it is applied or the leadership ends, so a node that a proposal removes gets no lease.
        """
        if peers.term != self._term:
            # Forget everything from an earlier term: this node has been elected again.
            self._term = peers.term
            self.elected(now_ms)
        if now_ms - self._decided_ms > self.settings.hearing_ms:
            self._woke_ms = now_ms  # This leader stood still: it has not read the requests of that time yet.
        self._decided_ms = now_ms
        self._consider(now_ms)
        if self._being_removed:
            entrances = [(row.node, row.entered_in_view) for row in self.membership.view.rows]
            self._being_removed = {
                name: entered_in_view
                for name, entered_in_view in self._being_removed.items()
                if (name, entered_in_view) in entrances
            }
        asked = self._safe_commands(now_ms)
        settled = bool(self.membership.cluster_id) and not asked
        views = self._view_command(now_ms) if settled and not self._is_complete else []
        forgetting = self._forgetting(now_ms, peers) if settled and not views else []
        slots = self._slot_command(now_ms) if settled else []
        return [*asked, *views, *forgetting, *slots, *self._voter_changes(now_ms, peers)]

    def calm(self, now_ms: float) -> bool:
        """Whether no better view is possible and all members have asked for a lease lately."""
        latest = now_ms - self.settings.hearing_ms / 2
        names = self.membership.view.nodes
        return (
            self._is_complete
            and not self._slot_requests
            and all(name in self._heard and self._heard[name].at_ms >= latest for name in names)
        )

    @property
    def _is_complete(self) -> bool:
        """True if all members are in the view, serve, and are to stay: then there is no better view."""
        view = self.membership.view
        all_serve = self._kept == view.nodes == view.serving and len(view.rows) == len(self.membership.members)
        return all_serve and not self._being_removed and not self._submitted

    def _forgetting(self, now_ms: float, peers: Peers) -> list[Away | Stale]:
        """Record the members that are away, and give up one that is away for too long if its disk is not needed.

        Giving up takes two entries: a notice, and `Stale` once the notice is committed. The committed notice proves
        that the other voters are a majority. A single `Stale` entry could wait in the log until the member itself is
        back and commits it.
        """
        rows = self.membership.view.nodes
        absent = [row for row in self.membership.members.values() if row.node not in rows and not row.stale]
        self._absent = {row.node: self._absent.get(row.node, now_ms) for row in absent}
        self._notices = {name: at_ms for name, at_ms in self._notices.items() if name in self._absent}
        is_due = now_ms >= self._due.forget_ms
        proposals: list[Away | Stale] = []
        for row in absent:
            passed_ms = now_ms - self._absent[row.node]
            if passed_ms < self.settings.away_ms:
                continue
            if row.away_ms:
                proposals += self._giving_up(row, now_ms, peers, is_due)
            elif is_due:
                proposals.append(Away(row.node, max(1, self._cluster_ms() - int(passed_ms))))
        if proposals:
            self._due.forget_ms = now_ms + self.settings.proposal_ms
        return proposals

    def _giving_up(self, row: MemberRow, now_ms: float, peers: Peers, is_due: bool) -> list[Away | Stale]:
        """Returns the next step: a notice, or `Stale` if the others have not needed the member since the notice."""
        is_late = self._cluster_ms() - row.away_ms > self.settings.forget_after_ms
        if not is_late or not self._spares(row, now_ms, peers):
            self._notices.pop(row.node, None)
            return []
        if row.notice_ms and row.notice_ms == self._notices.get(row.node):
            del self._notices[row.node]
            return [Stale(row.node)]
        if not is_due:
            return []
        return [Away(row.node, row.away_ms, self._notices.setdefault(row.node, self._cluster_ms()))]

    def gives_notice(self, node: str) -> bool:
        """Whether this leader has given notice for the member, so that `Stale` may come next."""
        return node in self._notices

    def _spares(self, row: MemberRow, now_ms: float, peers: Peers) -> bool:
        """True if the member is silent, and the voters that answer are a majority without it.

        A member that is given up has to come back with an empty disk, so its vote is lost. A member that is heard may
        be needed, although its disk or its loop keeps it out of the view. Without the majority the entry would wait in
        the log until the member itself is back and commits it.
        """
        peer, voters = peer_of(row), peers.configuration.voters
        if peers.answers(peer) or not self.silent(row.node, now_ms):
            return False
        others = [voter for voter in voters if voter != peer and peers.caught_up(voter)]
        return 2 * len(others) > len(voters)

    def _safe_commands(self, now_ms: float) -> list[RequestedCommand]:
        if not self._submitted:
            return []
        waiting = [c for c in self._submitted if self._has_to_wait(c, now_ms)]
        safe = [command for command in self._submitted if command not in waiting]
        for command in safe:
            row = self.membership.view.row(command.node)
            if row is not None and self._takes_away(command):
                self._being_removed[row.node] = row.entered_in_view
        self._submitted = waiting
        return safe

    def _has_to_wait(self, command: RequestedCommand, now_ms: float) -> bool:
        if isinstance(command, Boot):
            return self.membership.view.row(command.node) is not None and self._doubtful(command.node, now_ms)
        return self._takes_away(command) and not self.expired(command.node, now_ms)

    def _doubtful(self, node: str, now_ms: float) -> bool:
        """True if another node of the view may be dead: the leader has not heard it lately, and knows of no start of it
        that waits. It is in doubt until the leader hears it, or until a view without it.
        """
        others = [name for name in self.membership.view.nodes if name not in (node, self.node, *self._starting)]
        return any(
            name not in self._heard or now_ms - self._heard[name].at_ms > self.settings.hearing_ms for name in others
        )

    @property
    def _starting(self) -> list[str]:
        """The nodes whose start waits to be proposed."""
        return [command.node for command in self._submitted if isinstance(command, Boot)]

    def _view_command(self, now_ms: float) -> list[SetView]:
        view = self.membership.view
        present = view.id, self.membership.barriers_allowed
        if self._proposed and self._proposed[0] == present and now_ms < self._proposed[1]:
            return []
        command = next_view(self._outlook(now_ms))
        if command is None:
            return []
        staying = {(row.node, row.entered_in_view) for row in command.rows}
        self._being_removed.update(
            (row.node, row.entered_in_view) for row in view.rows if (row.node, row.entered_in_view) not in staying
        )
        self._proposed = (present, now_ms + self.settings.proposal_ms)
        return [command]

    def _outlook(self, now_ms: float) -> Outlook:
        names = self.membership.view.nodes
        fresh = [name for name, heard in self._heard.items() if now_ms - heard.at_ms <= self.settings.hearing_ms]
        lost = [name for name in names if name in self._being_removed or self.silent(name, now_ms)]
        leaving = self._leaving()
        # A node outside the clique that still sends requests is removed; one that does not has the detection time left.
        lost += [name for name in names if name not in self._kept and name in fresh]
        return Outlook(
            self.membership,
            {name: heard.request for name, heard in self._heard.items()},
            tuple(name for name in names if name in lost and self.expired(name, now_ms)),
            tuple(name for name in names if name in lost or name not in self._kept or name in leaving),
            tuple(name for name in sorted(fresh) if name not in leaving),
            now_ms - self.elected_ms < self.settings.detection_ms,
        )

    def _voter_changes(self, now_ms: float, peers: Peers) -> list[VoterChange]:
        if now_ms < self._due.change_ms or not self.membership.cluster_id:
            return []
        # A leader whose own disk or loop hangs cannot even propose the view without itself (H-06).
        # One whose start waits in `_submitted` gets no lease before that: it is not stuck.
        asleep = now_ms - self._stuck_since_ms > self.settings.hearing_ms and self.node not in self._starting
        stuck = asleep or self._has_gone(self.node)
        change = next_change(self.membership, peers, stuck)
        if change is None:
            return []
        self._due.change_ms = now_ms + self.settings.heartbeat_ms
        return [change]
