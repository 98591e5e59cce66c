"""A start of a member: the leader is told of it until the log has it, or refuses it (H-01).

The disk keeps its starts from the last one on that it knows to be in the log. If the log has another one, the disk is
an old copy, however often it was started since: it has forgotten entries, and votes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..links.refusal import RefusalReason, why
from ..ports import Datagram
from .commands import Boot, MalformedCommand, encode_command
from .events import Refused
from .host import Host
from .state_machine import UNLOGGED_MAX, MemberRow

AGAIN_MS = 300.0
"""How often the leader is told."""


STARTS = b"S"
"""Key in the store of Raft: (boot, process) of each start since the last that the log is known to have. With more than
`UNLOGGED_MAX` of them an old copy may be taken for the node."""

OLD = "Its data directory is an old copy, or was away for too long"
TAKEN_OUT = "It was taken out of the cluster. To take it in again"

_starts = msgspec.msgpack.Decoder(tuple[tuple[int, str], ...])


class BootRefused(msgspec.Struct, array_like=True, frozen=True):
    """The log has refused the start of this process."""

    process: str
    reason: str


class BootRegistrar:
    """This process of a node that is a member. `problem` says why the others do not take it; then it never serves, and
    `on_broken()` is called."""

    def __init__(self, member: Host) -> None:
        self._member = member
        self._next_ms = 0.0
        self.problem = ""
        self.on_broken: Callable[[], None] = _nothing
        self._noted = False
        self._row: MemberRow | None = None
        """The row of the log that has this start."""
        meta, known = member.ports.meta, member.ports.meta.get(STARTS)
        self.earlier: tuple[tuple[int, str], ...] = () if known is None else _starts.decode(known)
        self._safe = not self.earlier
        meta.on_state = self._disk_state
        if self.earlier:
            self._note((*self.earlier, (member.me.boot, member.me.process))[-UNLOGGED_MAX:])
            meta.when_committed(meta.open_commit, self._written)

    def _note(self, starts: tuple[tuple[int, str], ...]) -> None:
        self._member.ports.meta.put(STARTS, msgspec.msgpack.encode(starts))

    def _written(self) -> None:
        """The log may know of this start from now on: the next one knows of it, too."""
        self._safe = True

    def known(self) -> bool:
        """Whether the log has this start, or there is none."""
        member = self._member
        me, consensus = member.me, member.consensus
        return consensus is None or consensus.own_row_is(me.boot, me.process)

    def tick(self) -> None:
        """Time has passed."""
        member = self._member
        me, consensus, lease_service, now = member.me, member.consensus, member.lease_service, member.ports.now_ms()
        if consensus is None or lease_service is None or now < self._next_ms or self.problem:
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
        boot = Boot(me.node, me.disk, me.boot, me.process, me.address, self.earlier)
        if consensus.leads:
            lease_service.submit(boot)
        elif consensus.leader is not None:
            member.links.datagram(consensus.leader, Datagram.BOOT, encode_command(boot))

    def _disk_state(self, state: str, detail: str) -> None:
        """The disk of the log takes nothing more, or does again. The lease goes on until there is a view that this node
        cannot apply: then the leader takes it out."""
        me, log = self._member.me.node, self._member.ports.log
        if state == "serving":
            log("warning", "log of the cluster: serving again")
        else:
            until = "there is room" if state == "full" else "it is started again"
            log(
                "error",
                f"log of the cluster: {state}: {detail}. Until {until} {me} does not vote, and is out of the cluster "
                "as soon as members come or go",
            )

    def refused(self, refused: Refused) -> None:
        """The log has refused a command: tell the node whose start it was."""
        member, command = self._member, refused.command
        if not isinstance(command, Boot):
            return
        if command.node == member.me.node and command.process == member.me.process:
            self.refuse(refused.reason)
        elif member.consensus is not None and member.consensus.leads:
            told = BootRefused(command.process, refused.reason)
            member.links.datagram(command.node, Datagram.BOOT_REFUSED, msgspec.msgpack.encode(told))

    def told(self, data: bytes) -> None:
        """The leader says that a start was refused, of this process or of an earlier one. Raises `MalformedCommand`."""
        try:
            told = msgspec.msgpack.decode(data, type=BootRefused)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedCommand(f"BootRefused of {len(data)} bytes: {error}") from error
        if told.process == self._member.me.process:
            self.refuse(told.reason)

    def not_let_in(self, node: str, reason: str) -> None:
        """A peer has no stream for this process: no leader hears of its start, or no peer of this leader's log."""
        member = self._member
        cause = why(reason)
        if cause in (RefusalReason.CONTRADICTED, RefusalReason.STALE):
            # the log here may have this start: one who voted alone when the copy was made commits it with nobody else
            self.broken(f"{node} says: {reason}")
        elif cause is RefusalReason.OLD_COPY:
            self.refuse(f"{node} says: {reason}")
        elif cause is RefusalReason.TAKEN_OUT:
            self.broken(f"{node} says: {reason}", TAKEN_OUT)
        elif cause is RefusalReason.NOT_YET and member.lease_service is not None:
            member.lease_service.coordinator.not_let_in(node, member.ports.now_ms())

    def refuse(self, reason: str) -> None:
        """The cluster does not take this start."""
        if not self.known():
            self.broken(reason)

    def broken(self, reason: str, meaning: str = OLD) -> None:
        """This process can never serve, or not go on: the log of its disk has nothing to do with that of the others."""
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
    """Nobody listens yet."""
