"""The datagrams of other nodes to Raft and to the leader. A node speaks only for itself.

A peer with a bug, or with damaged memory, may name another node in a message. Such a message is dropped, and the first
one of each peer is logged. Otherwise it could vote for others, keep a dead node in the view, or fill the log with
starts.
"""

from __future__ import annotations

from ..identity import SLOTS
from ..ports import Datagram
from ..raft.messages import decode_message
from ..slots.requests import may_ask
from ..slots.table import HOLDERS_MOST
from .boot import AGAIN_MS
from .commands import Boot, RecoverSlots, SetSlots, decode_command
from .host import Host
from .messages import decode_goodbye, decode_request

KINDS = frozenset((Datagram.RAFT, Datagram.LEASE_REQUEST, Datagram.BOOT, Datagram.GOODBYE, Datagram.SET_SLOTS))
"""The datagrams that `MembershipInbox.received` takes."""

_REMEMBERED = 100
"""The most nodes whose last start, or first wrong message, is remembered."""


class MembershipInbox:
    """Checks who has sent a datagram, and gives it to Raft or to the leader's part of this node, `host`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._said: set[str] = set()
        self._starts: dict[str, tuple[str, float]] = {}
        """Node -> the process whose start was taken last, and when."""

    def received(self, node: str, kind: int, data: bytes) -> None:
        """A datagram of one of `KINDS` arrived from a node. Raises the error of its kind's decoder."""
        host = self._host
        consensus, leases = host.consensus, host.lease_service
        if consensus is None or leases is None:
            return
        if kind == Datagram.SET_SLOTS:
            self._asked(node, data)
        elif kind == Datagram.RAFT:
            message = decode_message(data)
            if self._is_own(node, kind, message.sender.rpartition("/")[0]):
                consensus.take(message)
        elif kind == Datagram.LEASE_REQUEST:
            request = decode_request(data)
            if self._is_own(node, kind, request.node):
                leases.requested(request)
        elif kind == Datagram.GOODBYE:
            goodbye = decode_goodbye(data)
            if self._is_own(node, kind, goodbye.node):
                leases.accept_goodbye(goodbye)
        elif kind == Datagram.BOOT and consensus.leads:
            self._started(node, data)

    def _is_own(self, node: str, kind: int, named: str) -> bool:
        if named == node:
            return True
        self._drop(node, f"{Datagram(kind).name} for {named:.100}: a node speaks only for itself")
        return False

    def _drop(self, node: str, problem: str) -> None:
        """A datagram of a node is ignored: log it, if it is the first one."""
        if node in self._said:
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said.add(node)
        self._host.ports.log(
            "error",
            f"{node} has sent {problem}. It is ignored, and further ones of {node} without a line: look for an error "
            f"in the log of {node}, and restart it",
        )

    def _started(self, node: str, data: bytes) -> None:
        """A process reports its start: propose it, unless the log has it or it was proposed just now."""
        boot = decode_command(data)
        if not isinstance(boot, Boot) or not self._is_own(node, Datagram.BOOT, boot.node):
            return
        host, now_ms = self._host, self._host.ports.now_ms()
        hello, row = host.links.hello_of(boot.node), host.membership.members.get(boot.node)
        if hello is not None and (hello.disk, hello.boot, hello.process) != (boot.disk, boot.boot, boot.process):
            self._drop(boot.node, f"BOOT for start {boot.boot}, and is start {hello.boot} itself")
            return
        process, taken_ms = self._starts.get(boot.node, ("", 0.0))
        if process == boot.process and now_ms - taken_ms < AGAIN_MS / 2:
            return
        if row is not None and (row.disk, row.boot, row.process) == (boot.disk, boot.boot, boot.process):
            return
        if len(self._starts) >= _REMEMBERED:
            self._starts.clear()
        self._starts[boot.node] = boot.process, now_ms
        assert host.lease_service is not None
        host.lease_service.submit(boot)

    def _asked(self, node: str, data: bytes) -> None:
        command = decode_command(data)
        if isinstance(command, SetSlots):
            self.slots_requested(node, command)
        elif isinstance(command, RecoverSlots) and self._is_own(node, Datagram.SET_SLOTS, command.by):
            self.recovery_requested(command)

    def recovery_requested(self, command: RecoverSlots) -> None:
        """An operator at a node asks to give slots without primary to other nodes: propose that, if this node leads."""
        host, table = self._host, self._host.membership.slots
        if host.lease_service is None or host.consensus is None or not host.consensus.leads:
            return
        changes = [each for each in command.changes if table.row(each.slot).primary is None and len(each.in_sync) < 2]
        if changes:
            host.lease_service.recover_slots(RecoverSlots(tuple(changes[:SLOTS]), command.by))

    def slots_requested(self, node: str, command: SetSlots) -> None:
        """A node asks to change rows: propose those for which it may ask, if this node leads."""
        host = self._host
        if host.lease_service is None or host.consensus is None or not host.consensus.leads:
            return
        large = next((each for each in command.changes if len(each.in_sync) > HOLDERS_MOST), None)
        if large is not None:
            self._drop(node, f"SET_SLOTS with {len(large.in_sync)} holders of slot {large.slot}, not {HOLDERS_MOST}")
        leaving, slots = node if command.leaving else "", host.membership.slots
        asked = [each for each in command.changes if may_ask(node, each, slots.row(each.slot), bool(leaving))]
        if asked:
            host.lease_service.request_slots(SetSlots(tuple(asked), leaving))
