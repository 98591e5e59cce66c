"""Raft with its disk, and the replicated membership: every member applies the committed entries in the same order.

One step: messages and ticks go into the Raft core, and the core returns a batch. The batch is written; after the fsync
its messages are sent and its committed entries are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from ...storage.engine import Corrupted
from ..raft.core import Raft
from ..raft.interface import Contradicted, Ready, Rng
from ..raft.interface import Settings as RaftSettings
from ..raft.messages import Change, Kind, MalformedMessage, Message, MessageKind, decode_message, encode_message
from ..raft.stable import RaftStable
from .commands import Command, MalformedCommand, decode_command, encode_command
from .events import BarriersAllowed, Booted, Joined, Left, MembershipEvent, SlotsChanged, ViewChanged, WentStale
from .state_machine import MemberRow, MembershipState, peer_of

_REMEDY = "Run `strogoff reset` on the data directory and start the node: it joins as after a lost disk."


class Consensus:
    """One peer. `now_ms` is monotonic; `send` takes a node and bytes and may lose them.

    The constructor raises `Corrupted` if the saved log or state cannot be read, and `StorageError`.

    Callbacks: `on_applied(events)` after each applied entry, `on_confirmed(tickets)` for `Raft.confirm`, `on_beat()`
    after a leader has sent its heartbeats, `on_role()` when this peer begins or ceases to lead, `on_broken(error)`
    when it stops for good: by `Contradicted`, or by an error of the program in the middle of a batch.
    """

    def __init__(
        self,
        peer: str,
        stable: RaftStable,
        settings: RaftSettings,
        rng: Rng,
        now_ms: Callable[[], float],
        send: Callable[[str, bytes], None],
    ) -> None:
        self.peer = peer
        self.membership = MembershipState()
        self._stable = stable
        self._now_ms = now_ms
        self._send = send
        try:
            saved = stable.load()
            if saved.snapshot is not None and saved.snapshot.data:
                self.membership.restore(saved.snapshot.data)
        except (MalformedMessage, MalformedCommand) as error:
            raise Corrupted("the log of the membership", f"it cannot be read ({error})", _REMEDY) from error
        self.raft = Raft(peer, saved, settings, rng, now_ms())
        self._snapshot_every = settings.snapshot_every
        self._busy_ms: float | None = None  # since when a batch is being carried out
        self._leads = False
        self._snapshot_at = saved.snapshot.index if saved.snapshot is not None else 0
        commands = [each.index for each in saved.entries if each.kind == Kind.COMMAND]
        self._read_at = max([index for index in commands if index <= saved.hard.commit], default=0)
        self.closed = False
        self.on_applied: Callable[[tuple[MembershipEvent, ...]], None] = _nobody
        self.on_confirmed: Callable[[tuple[int, ...]], None] = _nobody
        self.on_beat: Callable[[], None] = _nothing
        self.on_role: Callable[[], None] = _nothing
        self.on_broken: Callable[[Exception], None] = _nobody

    # -- in

    @property
    def leads(self) -> bool:
        """Whether this peer is the leader, as far as it knows."""
        return self.raft.role == "leader" and not self.closed

    @property
    def read(self) -> bool:
        """Whether this peer has applied every command that was known to be committed when the process started."""
        return self.raft.applied_index >= self._read_at

    @property
    def leader(self) -> str | None:
        """The node that leads; None if unknown."""
        leader = None if self.closed else self.raft.leader
        return node_of(leader) if leader else None

    def tick(self) -> None:
        """Let Raft act on its timeouts, and carry out the batches."""
        self.raft.tick(self._now_ms())
        self.pump()

    def receive(self, data: bytes) -> None:
        """Handle a message of another peer. Raises `MalformedMessage`."""
        self.take(decode_message(data))

    def take(self, message: Message) -> None:
        """Handle a message of another peer."""
        if message.to != self.peer or self.closed:
            return
        try:
            self.raft.step(message, self._now_ms())
        except Contradicted as error:
            self._break(error)
        self.pump()

    def propose(self, command: Command) -> int:
        """Propose a command for the log. Returns its index. Raises `NotLeader`."""
        index = self.raft.propose(encode_command(command))
        self.pump()
        return index

    def unapplied(self) -> list[Command]:
        """Returns the commands of a leader's log that are not applied yet, as far as they can be read."""
        commands = []
        for entry in self.raft.unapplied():
            if entry.kind == Kind.COMMAND:
                with suppress(MalformedCommand):
                    commands.append(decode_command(entry.data))
        return commands

    def change(self, change: Change) -> None:
        """Propose a change of voters or learners. Raises `NotLeader`, `ChangePending`, `Rejected`."""
        self.raft.change(change)
        self.pump()

    def confirm(self, ticket: int, at_once: bool = True) -> None:
        """Call `on_confirmed` with the ticket once a majority has answered from now on; see `Raft.confirm`."""
        self.raft.confirm(ticket, at_once)
        if at_once:
            self.pump()

    def beat(self) -> None:
        """Send the leader's heartbeats now."""
        self.raft.beat()
        self.pump()

    def hand_over(self) -> bool:
        """This process stops, and the view is without it: if it leads, let a node of the view lead, and tell all which
        entries are committed. Else the others learn of that view only when they have elected a leader.

        Returns False if there is nobody, or if this peer does not lead. `leads` tells when it is done.
        """
        raft, membership = self.raft, self.membership
        if not self.leads:
            return False
        if not raft.handing_over:
            near = [peer_of(membership.members[node]) for node in membership.view.serving]
            heir = next((peer for peer in raft.configuration.voters if peer in near and raft.caught_up(peer)), None)
            if heir is None or heir == self.peer:
                return False
            raft.transfer(heir)
        self.beat()
        return True

    def waiting_ms(self) -> float:
        """How long the disk has not answered the present batch, in ms; 0 if none waits. Meanwhile this peer sends no
        heartbeats, and neither votes nor stands for election."""
        return 0.0 if self._busy_ms is None else self._now_ms() - self._busy_ms

    # -- the batches

    def pump(self) -> None:
        """Carry out the core's batches, one after the other."""
        if self._busy_ms is not None or self.closed:
            return
        ready = self.raft.ready()
        if ready is None:
            self._tell_role()
            return
        self._busy_ms = self._now_ms()
        if ready.sync:
            self._stable.save(ready, lambda: self._durable(ready))
        else:
            self._stable.save(ready, _nothing)
            self._durable(ready)

    def _durable(self, ready: Ready) -> None:
        if self.closed:
            return
        try:
            self._finish(ready)
        except Exception as error:
            self._break(error)  # an entry may be applied in part: nothing here may act on that
            raise

    def _break(self, error: Exception) -> None:
        if not self.closed:
            self.closed = True
            self.on_broken(error)

    def _finish(self, ready: Ready) -> None:
        if ready.snapshot is not None:
            self._restore(ready.snapshot.data)
        beat = False
        for message in ready.messages:
            beat = beat or message.kind is MessageKind.HEARTBEAT
            self._transmit(message)
        if beat:
            self.on_beat()  # messages that this callback sends share the frames of the heartbeats
        for entry in ready.committed:
            if entry.kind == Kind.COMMAND:
                self._apply(entry.index, entry.data)
        self.raft.advance(ready)
        self._busy_ms = None
        self._compact()
        if ready.confirmed:
            self.on_confirmed(ready.confirmed)
        self._tell_role()
        self.pump()

    def _transmit(self, message: Message) -> None:
        self._send(node_of(message.to), encode_message(message))

    def _apply(self, index: int, data: bytes) -> None:
        try:
            happened = self.membership.apply(index, data)
        except MalformedCommand:
            return  # every member ignores it in the same way
        if happened:
            self.on_applied(happened)

    def _restore(self, data: bytes) -> None:
        membership = self.membership
        before, members, slots = membership.view, membership.members, membership.slots
        membership.restore(data)
        skipped = _skipped(members, membership.members)
        happened = (BarriersAllowed(membership.barriers_allowed), *skipped, ViewChanged(before, membership.view))
        changed = () if membership.slots == slots else (SlotsChanged(slots, membership.slots),)
        self.on_applied((*happened, *changed))

    def _compact(self) -> None:
        applied = self.raft.applied_index
        if applied - self._snapshot_at >= self._snapshot_every:
            self._snapshot_at = applied
            self.raft.compact(applied, self.membership.snapshot())

    def _tell_role(self) -> None:
        if self.leads is not self._leads:
            self._leads = self.leads
            self.on_role()

    def own_row_is(self, boot: int, process: str) -> bool:
        """Whether the log has this start of this node."""
        row = self.membership.members.get(node_of(self.peer))
        return row is not None and peer_of(row) == self.peer and (row.boot, row.process) == (boot, process)


@lru_cache
def node_of(peer: str) -> str:
    """Returns the node of a Raft peer `node/disk`."""
    return peer.rpartition("/")[0]


def _skipped(before: dict[str, MemberRow], after: dict[str, MemberRow]) -> list[MembershipEvent]:
    """Returns the events about members that the log entries in a received snapshot would have caused."""
    happened: list[MembershipEvent] = [Left(node) for node in before if node not in after]
    for node, row in after.items():
        known = before.get(node)
        if known is None or known.disk != row.disk:
            happened.append(Joined(node, known is not None))
        elif known.boot != row.boot:
            happened.append(Booted(node, row.boot))
        if row.stale and not (known is not None and known.stale and known.disk == row.disk):
            happened.append(WentStale(node))
    return happened


def _nobody(_: object) -> None:
    """Default of a callback with an argument."""


def _nothing() -> None:
    """Default of a callback without arguments."""
