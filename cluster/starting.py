"""A start of a member: the leader is told of it until the log has it, or refuses it (review, hole 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .surroundings import Datagram
from .views.commands import Boot, MalformedCommand, encode_command
from .views.happenings import Refused

if TYPE_CHECKING:
    from .member import Member

AGAIN_MS = 300.0
"""How often the leader is told."""


class BootRefused(msgspec.Struct, array_like=True, frozen=True):
    """The log has refused the start of this process."""

    process: str
    reason: str


class Starting:
    """This process of a node that is a member. `problem` says why the others do not take it; then it never serves."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._next_ms = 0.0
        self.problem = ""

    def _known(self) -> bool:
        member = self._member
        me, consensus = member.me, member.consensus
        return consensus is None or consensus.own_row_is(me.boot, me.process)

    def tick(self) -> None:
        """Time has passed."""
        member = self._member
        me, consensus, standing, now = member.me, member.consensus, member.standing, member.ports.now_ms()
        if consensus is None or standing is None or now < self._next_ms or self.problem:
            return
        if me.node not in member.membership.members or self._known():
            return
        self._next_ms = now + AGAIN_MS
        boot = Boot(me.node, me.disk, me.boot, me.process, me.address)
        if consensus.leads:
            standing.submit(boot)
        elif consensus.leader is not None:
            member.links.datagram(consensus.leader, Datagram.BOOT, encode_command(boot))

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

    def refuse(self, reason: str) -> None:
        """The cluster does not take this start."""
        if self.problem or self._known():
            return
        self.problem = reason
        self._member.ports.log(
            "error",
            f"the cluster does not take this start of {self._member.me.node}: {reason}. Its data directory is an old "
            "copy, or was away for too long: stop the node, move the directory away, and let it join again",
        )
