"""Parts of a member's forwards and metadata, each with one bug, for `cluster_bugs`. For Raft see `membership_parts`."""

from __future__ import annotations

from typing import Any

from ...broker.connection.connection import ClientConnection
from ...broker.connection.publish_state import PublishState
from ...broker.connection.transport import ClientTransport, ConnectionOrigin
from ...broker.queues.message import Message
from ...broker.routing.ack_context import AckContext
from ...broker.routing.remote import RemoteMembers, RemoteTarget
from ...cluster.identity import SLOTS
from ...cluster.links.ports import Refuse
from ...cluster.replicated_map.delta_applier import DeltaApplier
from ...cluster.replicated_map.dvv import Siblings
from ...cluster.replicated_map.messages import Ack, MalformedMapMessage, Part, Writes
from ...cluster.replicated_map.messages import decode as decode_metadata
from ...cluster.replicated_map.replica import Replica
from ...cluster.replicated_map.version_vector import VersionVector
from ..engine.machine import Machine


class ByArrival(Replica):
    """Keeps the one of two concurrent retained messages that arrives last."""

    __slots__ = ()

    def merge(self, key: bytes, theirs: Siblings, context: VersionVector) -> bool:
        """Replace the present siblings by new ones."""
        if key[:1] == b"t" and theirs and not all(self.clock.covers(dot) for dot in theirs[::2]):
            self._set(key, self.siblings(key), theirs)
            return True
        return super().merge(key, theirs, context)


class Credulous(DeltaApplier):
    """Takes over a peer's clock although writes that it covers are missing."""

    def absorb(self, replica: Replica, part: Part) -> list[bytes]:
        """Count everything up to the end of each covered range as seen."""
        part.covered_ranges = [(position, 0, high) for position, _, high in part.covered_ranges]
        return super().absorb(replica, part)


class Forgetful(PublishState):
    """A list of deferred publishes that keeps none."""

    __slots__ = ()

    @property
    def deferred(self) -> list[Any]:
        """A list that nothing reads again."""
        return []

    @deferred.setter
    def deferred(self, value: list[Any]) -> None:
        """Drop the value."""


def acknowledged_first(machine: Machine) -> None:
    """Acknowledge writes of metadata when they arrive, and apply them half a second later."""
    member = machine.member
    assert member is not None
    metadata = member.metadata
    receive = metadata.receive

    def receiving(peer: str, data: bytes) -> None:
        try:
            message = decode_metadata(data)
        except MalformedMapMessage:
            receive(peer, data)
            return
        if not isinstance(message, Writes):
            receive(peer, data)
            return
        upto = max(high for part in message.parts for _, _, high in part.covered_ranges)
        metadata._send(peer, Ack(metadata.boot, message.boot, upto))
        machine.later(0.5, lambda: receive(peer, data))

    metadata.receive = receiving  # type: ignore[method-assign]


def past_a_gap(machine: Machine) -> None:
    """Let the clock of metadata cover writes that are missing."""
    _metadata(machine)._applier.__class__ = Credulous


def by_arrival(machine: Machine) -> None:
    """Order retained messages by their arrival."""
    _metadata(machine)._halves[0].__class__ = ByArrival


def shared_window(machine: Machine) -> None:
    """Acknowledge messages of a node only after that node has acknowledged all of ours."""
    clustering: Any = machine.clustering
    acknowledge = clustering.receiver._acknowledge
    forwarding = clustering.sender

    def waiting(origin: str, *rest: Any) -> None:
        if forwarding._under_way.get(origin):
            machine.later(0.02, lambda: waiting(origin, *rest))
        else:
            acknowledge(origin, *rest)

    clustering.receiver._acknowledge = waiting


def no_guard(machine: Machine) -> None:
    """Send acknowledgements without a check of the lease."""
    node: Any = machine.node
    node.env.cluster.may_acknowledge = lambda connection, operations, frames: True


def nobody_waits(machine: Machine) -> None:
    """Answer a PUBLISH without waiting for other nodes."""
    node: Any = machine.node
    cluster = node.env.cluster
    forward = cluster.forward

    def forwarding(
        message: Message, targets: tuple[RemoteTarget, ...], members: list[RemoteMembers], context: AckContext
    ) -> None:
        before = context.pending
        forward(message, targets, members, context)
        context.pending = before

    cluster.forward = forwarding


def takes_after_gap(machine: Machine) -> None:
    """Skip a refused message, and take the next one."""
    clustering: Any = machine.clustering
    deliver = clustering.deliver

    def delivering(node: str, seq: int, payload: bytes) -> None:
        try:
            deliver(node, seq, payload)
        except Refuse:
            clustering.receiver.skip(node, seq)

    clustering.deliver = delivering


def watermark_in_memory(machine: Machine) -> None:
    """Forget the watermarks of other nodes' lanes at a restart."""
    clustering: Any = machine.clustering
    clustering.receiver._lanes.clear()
    for slot in range(SLOTS):  # the numbers of the slots' messages would do the same
        clustering.gate.drop(slot)


def given_to_a_second(machine: Machine) -> None:
    """Give a QoS 2 message to another member of its group when the first member's node leaves the view, although the
    first member may have it."""
    clustering: Any = machine.clustering
    clustering.sender._may_be_given = lambda copy: False


def drained(machine: Machine) -> None:
    """Continue forwards from before an entrance, and take them at the target."""
    clustering: Any = machine.clustering
    clustering.sender.void_all = lambda: None
    deliver = clustering.deliver
    clustering.deliver = lambda node, seq, payload: deliver(node, seq, bytes(4) + payload[4:])


def clean_sessions_kept(machine: Machine) -> None:
    """Continue the clean sessions of a node that was cut off, although they missed messages."""
    clustering: Any = machine.clustering
    clustering.missed.informed = lambda: None


def dropped_not_parked(machine: Machine) -> None:
    """Drop a refused v3 PUBLISH instead of deferring it."""
    node: Any = machine.node
    accept = node.accept

    def accepting(transport: ClientTransport, origin: ConnectionOrigin) -> ClientConnection:
        connection: ClientConnection = accept(transport, origin)
        connection.publishing.__class__ = Forgetful
        return connection

    node.accept = accepting


def _metadata(machine: Machine) -> Any:
    assert machine.member is not None
    return machine.member.metadata
