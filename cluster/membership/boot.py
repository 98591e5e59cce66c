"""Registers the start of a member: this process reports it to the leader until the log has it or refuses it (H-01).

The disk keeps a list of its starts, beginning with the last one that it knows to be in the log. If the log has a start
that is not in the list, the disk is an old copy: it lacks log entries and votes that the node once had. The list shows
that even if the copy was started many times.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..links.refusal import RefusalReason, why
from ..ports import Datagram
from ..raft.interface import Contradicted, Forgotten
from .commands import Boot, MalformedCommand, encode_command
from .events import Refused
from .host import Host
from .state_machine import UNLOGGED_MAX, MemberRow

AGAIN_MS = 300.0
"""Interval of the reports to the leader, in milliseconds."""


STARTS = b"S"
"""Key in the store of Raft: (boot, process) of each start, from the last one known to be in the log. After more than
`UNLOGGED_MAX` unlogged starts the check for an old copy is not reliable."""

FORGOTTEN = b"F"
"""Key in the store of Raft: this disk is an old copy, so no process may vote with it. The value is the reason."""

OLD = "Its data directory is an old copy, or was away for too long"
TAKEN_OUT = "It was taken out of the cluster. To take it in again"
RESTART = "Stop the node and start it again, and report the error with the lines around it"

_starts = msgspec.msgpack.Decoder(tuple[tuple[int, str], ...])


class BootRefused(msgspec.Struct, array_like=True, frozen=True):
    """Message of the leader: the log has refused the start of the process `process`."""

    process: str
    reason: str


class BootRegistrar:
    """Registers one process of a member.

    `problem` is the reason why the cluster refuses this process, "" if it does not. After a refusal the process never
    serves, and `on_broken()` is called. `failure`: the error that has the same effect, and what to do; "" if there is
    none.
    """

    def __init__(self, member: Host) -> None:
        self._member = member
        self._next_ms = 0.0
        self.problem = self.failure = ""
        self.on_broken: Callable[[], None] = _nothing
        self._noted = False
        self._row: MemberRow | None = None
        """The member's row in the log that has this start."""
        meta, known = member.ports.meta, member.ports.meta.get(STARTS)
        self.earlier: tuple[tuple[int, str], ...] = () if known is None else _starts.decode(known)
        self._safe = not self.earlier
        self._forgotten = meta.get(FORGOTTEN)
        meta.on_state = self._disk_state
        if self.earlier:
            self._note((*self.earlier, (member.me.boot, member.me.process))[-UNLOGGED_MAX:])
            meta.when_committed(meta.open_commit, self._written)

    def _note(self, starts: tuple[tuple[int, str], ...]) -> None:
        self._member.ports.meta.put(STARTS, msgspec.msgpack.encode(starts))

    def _written(self) -> None:
        """The list of starts is on disk: from now on this start may be sent to the leader."""
        self._safe = True

    def known(self) -> bool:
        """Whether the log has this start, or this node has no log."""
        member = self._member
        me, consensus = member.me, member.consensus
        return consensus is None or consensus.own_row_is(me.boot, me.process)

    def tick(self) -> None:
        """Report this start to the leader if that is due; once the log has the start, shorten the list on disk."""
        member = self._member
        me, consensus, lease_service, now = member.me, member.consensus, member.lease_service, member.ports.now_ms()
        if consensus is None or lease_service is None or now < self._next_ms or self.problem:
            return
        if self._forgotten is not None:
            self.broken(self._forgotten.decode())
            return
        row = member.membership.members.get(me.node)
        if row is None or row is self._row:
            return
        if self.known():
            self._row = row
            if not self._noted:
                self._noted = True
                self._note(((me.boot, me.process),))
            return
        if not self._safe:
            return
        self._next_ms = now + AGAIN_MS
        start = (me.node, me.disk, me.boot, me.process, me.address)
        boot = Boot(*start, self.earlier, member.settings.zone, me.incomplete)
        if consensus.leads:
            lease_service.submit(boot)
        elif consensus.leader is not None:
            member.links.datagram(consensus.leader, Datagram.BOOT, encode_command(boot))

    def _disk_state(self, state: str, detail: str) -> None:
        """The store of Raft has changed its state: log it.

        A node that cannot write the log keeps its lease, but cannot apply the next view. Then the leader removes it.
        """
        me, log = self._member.me.node, self._member.ports.log
        if state == "serving":
            log("warning", "log of the cluster: serving again")
        else:
            until = "the disk has free space" if state == "full" else "it is started again"
            log(
                "error",
                f"log of the cluster: {state}: {detail}. Until {until}, {me} does not vote, and the leader removes it "
                "from the view at the next change of the view",
            )

    def refused(self, refused: Refused) -> None:
        """The log has refused a command. If it was a `Boot`, stop this process or, as the leader, inform its node."""
        member, command = self._member, refused.command
        if not isinstance(command, Boot):
            return
        if command.node == member.me.node and command.process == member.me.process:
            self.refuse(refused.reason)
        elif member.consensus is not None and member.consensus.leads:
            refusal = BootRefused(command.process, refused.reason)
            member.links.datagram(command.node, Datagram.BOOT_REFUSED, msgspec.msgpack.encode(refusal))

    def refusal_received(self, data: bytes) -> None:
        """The leader reports that the log refused a start of this node. Raises `MalformedCommand`.

        A report about an earlier process is ignored.
        """
        try:
            refusal = msgspec.msgpack.decode(data, type=BootRefused)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedCommand(f"BootRefused of {len(data)} bytes: {error}") from error
        if refusal.process == self._member.me.process:
            self.refuse(refusal.reason)

    def stream_refused(self, node: str, reason: str) -> None:
        """A peer refused this process's stream: act on the code in its `reason`."""
        cause = why(reason)
        if cause in (RefusalReason.CONTRADICTED, RefusalReason.STALE):
            # This node's own log may have this start: if it was the only voter when the copy was made, it committed
            # the start without the others.
            self.broken(f"{node} says: {reason}")
        elif cause is RefusalReason.OLD_COPY:
            self.refuse(f"{node} says: {reason}")
        elif cause is RefusalReason.TAKEN_OUT:
            self.broken(f"{node} says: {reason}", TAKEN_OUT)

    def stopped(self, error: Exception) -> None:
        """Raft has stopped here. Either the disk is an old copy: if only the leader of this term can tell
        (`Forgotten`), note it for later starts. Or an error has stopped this process in the middle of an entry."""
        if isinstance(error, Forgotten):
            reason = f"it has forgotten what it had acknowledged: {error}"
            self._member.ports.meta.put(FORGOTTEN, reason.encode())
            self.broken(reason)
        elif isinstance(error, Contradicted):
            self.broken(f"its log is of another history: {error}")
        else:
            self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, error: str) -> None:
        member = self._member
        if member.lease_service is not None:
            member.lease_service.holder.give_back()
        self.failure = (
            f"an error has stopped {member.me.node} while it applied the log of the cluster: {error}. {RESTART}"
        )
        self.problem = self.problem or self.failure
        member.ports.log("error", f"{self.failure}. Until then it has no lease, and takes no clients")
        self.on_broken()

    def refuse(self, reason: str) -> None:
        """The cluster refuses this start: stop for good, unless the log as applied here has it."""
        if not self.known():
            self.broken(reason)

    def broken(self, reason: str, meaning: str = OLD) -> None:
        """Stop this process for good: it never serves again. `meaning` is the cause, for the log line."""
        if self.problem:
            return
        self.problem = reason
        if self._member.consensus is not None:
            self._member.consensus.closed = True
        self._member.ports.log(
            "error",
            f"the cluster does not take this start of {self._member.me.node}: {reason}. {meaning}: stop the node, run "
            "`strogoff reset` on its data directory, and start it again: it joins with no sessions",
        )
        self.on_broken()


def _nothing() -> None:
    """Default for `on_broken`."""
