"""Requests to join or to leave: each waits until the log has the change, or until `CALL_TIMEOUT_S` have passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from ..links.hello import NEWEST, OLDEST
from ..slots.recovery import only_with
from ..slots.table import ranges
from .admission import CALL_TIMEOUT_S, CallAnswer, JoinRequest, LeaveRequest, decode_join, decode_leave, encode_call
from .boot import BootRegistrar
from .commands import Join, Leave, Settle
from .events import Joined, Left, MembershipEvent, Refused
from .host import Host
from .state_machine import peer_of

VERSIONS = (OLDEST, NEWEST)
"""The lowest and highest version of the protocol between nodes that this process speaks."""


class _Waiting(Struct):
    """A pending request; `submitted` once the leader's coordinator has it.

    `proposed`: a `join` that a leader's coordinator has, or had once, so the log may have it. `unknown`: a `leave` for
    a node that was not a member when the request came, by the log as applied here. If it says itself that it is empty,
    it repeats a request whose answer was lost.
    """

    request: JoinRequest | LeaveRequest
    reply: Callable[[bytes], None]
    until_ms: float
    submitted: bool = False
    proposed: bool = False
    unknown: bool = False


class Founder(Host, Protocol):
    """A node that may found a cluster when another node asks to join it."""

    @property
    def registrar(self) -> BootRegistrar:
        """The registration of this start."""
        ...

    @property
    def clustered(self) -> bool:
        """This node is, or was, a member of a cluster."""
        ...

    def found(self) -> None:
        """Found a cluster of this node alone."""
        ...


class JoinLeaveService:
    """The requests of nodes and operators to one node: keeps each until it can answer."""

    def __init__(self, member: Founder) -> None:
        self._member = member
        self._waiting: list[_Waiting] = []
        self._rivals: dict[str, str] = {}  # name of a running member -> the disk that was last refused that name
        self.joining = False
        """True while this node asks to join another cluster. Meanwhile it founds none."""
        self.waits_for: Callable[[], str] = lambda: ""
        """Returns the reason why this node, which is in no cluster, must not found one now; "" if it may."""

    def join(self, data: bytes, reply: Callable[[bytes], None]) -> None:
        """Handle the request of a node to become a member. Raises `MalformedCall`."""
        request = decode_join(data)
        problem = self._problem(request)
        if problem:
            reply(encode_call(CallAnswer(problem)))
            return
        if not self._member.clustered:
            self._member.found()
        self._wait(request, reply)

    def found(self) -> None:
        """Found a cluster of this node alone, which others can join."""
        if not self._member.clustered:
            self._member.found()
        self.tick()

    def leave(self, data: bytes, reply: Callable[[bytes], None]) -> None:
        """Handle the request to remove a node. Raises `MalformedCall`.

        Only a leader answers "not a member", because only a leader knows the whole log: a second request of an operator
        must not get that answer from a node that has not applied the first one.
        """
        request = decode_leave(data)
        if not self._member.clustered:
            reply(encode_call(CallAnswer(_no_member(request))))
            return
        self._wait(request, reply, request.node not in self._member.membership.members)

    def _problem(self, request: JoinRequest) -> str:
        member = self._member
        if request.node == member.me.node:
            return f"{request.node} cannot join itself"
        lowest, highest = request.versions
        if highest < VERSIONS[0] or lowest > VERSIONS[1]:
            return f"{request.node} speaks version {lowest} to {highest}, this cluster {VERSIONS[0]} to {VERSIONS[1]}"
        if request.cluster_id not in ("", member.me.cluster_id):
            return (
                f"{member.me.node} is not in the cluster {request.cluster_id}, which takes it for its leader: perhaps "
                "its data directory was replaced. Ask again when the cluster has another leader"
            )
        if self.joining and not member.clustered:
            return f"{member.me.node} is about to join a cluster itself"
        if not member.clustered and (reason := self.waits_for()):
            return f"{member.me.node} is in no cluster itself: {reason}"
        return member.registrar.problem

    def _name_taken(self, request: JoinRequest) -> str:
        """Returns the reason why a node cannot join under its name, which a running member with another disk has; "" if
        none has it.

        A refusal changes neither the boot in the log nor the boot of the joining node.
        """
        member, node = self._member, request.node
        row = member.membership.members.get(node)
        if row is None or row.disk == request.disk or not (node == member.me.node or member.links.hears(node)):
            return ""
        if self._rivals.get(node) != request.disk:
            self._rivals[node] = request.disk
            member.ports.log(
                "warning",
                f"a process at {request.address} wants to join as {node}, and is refused: a member with that name and "
                f"another disk runs at {row.address}. Give one of the two another nodename",
            )
        return (
            f"{node} is a running member at {row.address}: choose another name, or stop that node and join with "
            "--replace"
        )

    def _disk_kept(self, request: JoinRequest) -> str:
        """Returns the reason why a node cannot take the place of an absent member with another disk; "" if it can."""
        member, node = self._member, request.node
        row = member.membership.members.get(node)
        if row is None or row.disk == request.disk or row.stale or (request.replace and not request.if_safe):
            return ""
        only = only_with(member.membership.slots, node)
        if request.replace and not only:
            return ""
        nowhere = f", and no other node has everything of its slots {' '.join(ranges(only))}" if only else ""
        return (
            f"{node} is a member with another disk, which is away{nowhere}: start it with that disk; if the disk is "
            "lost, join with --replace, which gives up the sessions and messages that only it has"
        )

    def needed(self, node: str) -> str:
        """Returns the reason why a member cannot leave, "" if it can: the remaining voters need to elect a leader."""
        membership, consensus = self._member.membership, self._member.consensus
        if consensus is None or node not in membership.members or len(membership.members) == 1:
            return ""
        raft, others = consensus.raft, [row for row in membership.members.values() if row.node != node]
        for voters in raft.quorums:
            rest = [row for row in others if peer_of(row) in voters]
            silent = [row.node for row in rest if consensus.leads and not raft.answers(peer_of(row))]
            away = [row.node for row in rest if membership.view.row(row.node) is None or row.node in silent]
            if 2 * (len(rest) - len(away)) > len(voters):
                continue
            need = f"{node} is needed for a majority of the members that vote"
            if 2 * len(rest) <= len(voters):
                return f"{need}: let another node join first"
            return f"{need} while {' and '.join(away)} is away: start it again or take it out first"
        return ""

    def _others_go(self) -> bool:
        """Whether another disk is being given up, or one that was given up still counts as a voter. Then it is not
        known yet whom the rest needs: two that go at once may be a majority together."""
        consensus, leases, peers = self._member.consensus, self._member.lease_service, self._member.membership.peers
        assert consensus is not None and leases is not None
        return leases.takes_out() or any(voter not in peers for voters in consensus.raft.quorums for voter in voters)

    def _check_again(self, waiting: _Waiting) -> None:
        """A member that leaves keeps its row until its last lease has ended. Perhaps the others need it by now."""
        request = waiting.request
        problem = self.needed(request.node) if isinstance(request, LeaveRequest) else ""
        if problem and self._withdrawn(waiting):
            self._answer(waiting, CallAnswer(problem))

    def _withdrawn(self, waiting: _Waiting) -> bool:
        """Withdraw a request. Returns False if that is too late: the log of a former or of this leader may have it. A
        join is withdrawn only if this node has never proposed it."""
        request, leases = waiting.request, self._member.lease_service
        if isinstance(request, JoinRequest):
            return not waiting.proposed
        if not waiting.submitted or leases is None:
            return False
        return leases.coordinator.withdraw(Leave(request.node, request.empty))

    def _settle(self) -> None:
        me, zone = self._member.me, self._member.settings.zone
        lease_service = self._member.lease_service
        assert lease_service is not None
        lease_service.submit(Settle(me.cluster_id, me.node, me.disk, me.boot, me.process, me.address, zone, slots=True))

    def _wait(self, request: JoinRequest | LeaveRequest, reply: Callable[[bytes], None], unknown: bool = False) -> None:
        until = self._member.ports.now_ms() + CALL_TIMEOUT_S * 1000
        self._waiting.append(_Waiting(request, reply, until, unknown=unknown))
        self.tick()

    # -- pending requests

    @property
    def open_requests(self) -> int:
        """How many requests to join or leave wait for their answer."""
        return len(self._waiting)

    @property
    def waits(self) -> bool:
        """Whether a request waits for its answer, or the cluster for its identifier."""
        return bool(self._waiting) or not self._member.membership.cluster_id

    def tick(self) -> None:
        """Submit the requests that can be submitted, and answer those that have waited too long."""
        consensus = self._member.consensus
        if consensus is not None and consensus.leads and not self._member.membership.cluster_id:
            self._settle()  # this node has just founded the cluster
        for each in list(self._waiting):
            consensus = self._member.consensus
            if each.submitted and consensus is not None and not consensus.leads:
                each.submitted = False  # this node lost leadership: its coordinator has forgotten the request
            if each.submitted:
                self._check_again(each)
            else:
                self._submit(each)
            if each in self._waiting and self._member.ports.now_ms() >= each.until_ms:
                self._answer(each, self._too_late(each))

    def _submit(self, waiting: _Waiting) -> None:
        member = self._member
        consensus, lease_service = member.consensus, member.lease_service
        assert consensus is not None and lease_service is not None
        if consensus.leads:
            if not member.membership.cluster_id:
                return
            request = waiting.request
            waited_for = request.node in member.membership.missed
            if isinstance(request, JoinRequest) and not lease_service.valid() and not waited_for:
                return  # a joining node must find this node with a lease
            if not consensus.raft.up_to_date:
                return  # newly elected: it may not have applied an earlier request yet
            if self._done_already(request):
                strange = waiting.unknown and not (isinstance(request, LeaveRequest) and request.empty)
                self._answer(waiting, CallAnswer(_no_member(request)) if strange else self._accepted())
                return
            if isinstance(request, JoinRequest) and (problem := self._name_taken(request)):
                self._answer(waiting, self._refused(request, problem, taken=True))
                return
            if isinstance(request, JoinRequest) and (problem := self._disk_kept(request)):
                self._answer(waiting, self._refused(request, problem))
                return
            if isinstance(request, LeaveRequest) and self._others_go():
                return
            if isinstance(request, LeaveRequest) and (problem := self.needed(request.node)):
                self._answer(waiting, CallAnswer(problem))
                return
            waiting.submitted = True
            if isinstance(request, JoinRequest):
                waiting.proposed = True
                start = (request.node, request.disk, request.boot, request.process, request.address)
                lease_service.submit(Join(*start, request.zone))
            else:
                lease_service.submit(Leave(request.node, request.empty))
            return
        leader = member.membership.members.get(consensus.leader or "")
        if isinstance(waiting.request, JoinRequest) and leader is not None and leader.node == waiting.request.node:
            return  # the joining node led until its disk was replaced: wait for another leader, or `_too_late`
        if leader is not None:
            cluster_id, undecided = member.me.cluster_id, waiting.proposed
            self._answer(waiting, CallAnswer(ask=leader.address, cluster_id=cluster_id, undecided=undecided))

    def _done_already(self, request: JoinRequest | LeaveRequest) -> bool:
        row = self._member.membership.members.get(request.node)
        if isinstance(request, LeaveRequest):
            return row is None
        if row is None or row.disk != request.disk:
            return False
        return row.process == request.process or not row.disk_served  # else it may be an old copy: the log decides

    def applied(self, happened: tuple[MembershipEvent, ...]) -> None:
        """Answer the requests that these events fulfil or refuse."""
        for each in happened:
            for waiting in list(self._waiting):
                if waiting.submitted and _fulfils(each, waiting.request) and self._done_already(waiting.request):
                    self._answer(waiting, self._accepted())
                elif isinstance(each, Refused) and _refuses(each, waiting.request):
                    self._answer(waiting, self._refused(waiting.request, each.reason, each.boot))

    def _answer(self, waiting: _Waiting, answer: CallAnswer) -> None:
        self._waiting.remove(waiting)
        waiting.reply(encode_call(answer))

    def _accepted(self) -> CallAnswer:
        member = self._member
        members = tuple([(row.node, row.address) for row in member.membership.members.values()])
        return CallAnswer(cluster_id=member.me.cluster_id, members=members)

    def _refused(
        self, request: JoinRequest | LeaveRequest, problem: str, boot: int = 0, taken: bool = False
    ) -> CallAnswer:
        """The leader's refusal. It names the cluster if the log has no member with the disk of the request."""
        row, cluster_id = self._member.membership.members.get(request.node), self._member.me.cluster_id
        strange = isinstance(request, JoinRequest) and (row is None or row.disk != request.disk)
        return CallAnswer(problem, cluster_id=cluster_id if strange else "", boot=boot, taken=taken)

    def _too_late(self, waiting: _Waiting) -> CallAnswer:
        """The answer to a request that has waited too long."""
        consensus, request = self._member.consensus, waiting.request
        if isinstance(request, JoinRequest) and not waiting.proposed and (problem := self._name_taken(request)):
            return self._refused(request, problem, taken=True)
        problem = f"the cluster did not decide within {CALL_TIMEOUT_S:.0f} s"
        if consensus is None or consensus.leader is None:
            problem = f"there is no leader: {self._member.me.node} does not reach a majority of the members that vote"
        return CallAnswer(problem, undecided=not self._withdrawn(waiting))


def _no_member(request: JoinRequest | LeaveRequest) -> str:
    return f"{request.node} is not a member of this cluster"


def _fulfils(happening: MembershipEvent, request: JoinRequest | LeaveRequest) -> bool:
    """Whether the event completes the request. A `leave` and a `join` of the same node may be pending together."""
    wanted = Joined if isinstance(request, JoinRequest) else Left
    return isinstance(happening, wanted) and happening.node == request.node


def _refuses(refused: Refused, request: JoinRequest | LeaveRequest) -> bool:
    command = refused.command
    if isinstance(request, LeaveRequest):
        return isinstance(command, Leave) and command.node == request.node
    return isinstance(command, Join) and (command.node, command.disk) == (request.node, request.disk)
