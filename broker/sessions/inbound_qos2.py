"""The QoS 2 handshakes that a session's client has open as a publisher: packet id -> message, until PUBREL.

Each change is written in the batch of its cause, so that a repeated PUBLISH is known again after a restart (H-12).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from ...cluster.identity import slot_of_origin
from ...mqtt.topics import parse_shared
from ...storage import keys
from ..cluster_port import NO_MEMBERS
from ..environment import Environment
from ..queues.message import Mid
from ..queues.records import InboundRecord, encode
from ..routing.pending_acks import PendingAcks
from ..routing.remote import RemoteMembers
from ..routing.router import NO_SLOT

UNKNOWN = ""
"""The node of a group's member in `InboundRecord.elsewhere` that is to be chosen anew."""


class Owner(Protocol):
    """The session that the handshakes belong to."""

    key: bytes
    incarnation: int
    durable: bool


class InboundHandshakes:
    """The open handshakes of one session.

    `records` has them by packet id; `forward_again` has the packet ids whose messages must be sent to other nodes
    again; `inherited` those that an earlier process, here or at a former primary, may have routed: whether or not they
    are in `forward_again`, all receivers get them that lack them; `by_policy` those whose messages a policy accepted
    without a lease; `pending_acks` has the conditions that the PUBREC of a message waits for.
    """

    __slots__ = ("_env", "_owner", "by_policy", "forward_again", "inherited", "pending_acks", "records")

    def __init__(self, env: Environment, owner: Owner) -> None:
        self._env = env
        self._owner = owner
        self.records: dict[int, InboundRecord] = {}
        self.forward_again: set[int] = set()
        self.inherited: set[int] = set()
        self.by_policy: set[int] = set()
        self.pending_acks: dict[int, PendingAcks] = {}

    def restore(self, packet_id: int, record: InboundRecord) -> None:
        """Restore a handshake after a restart. If its message was routed, other nodes may lack it: send it again."""
        self.records[packet_id] = record
        if record.done:
            return
        self._env.cluster.handshake_opened(self.mid(record))
        if record.origin:
            self.inherited.add(packet_id)
        elif record.routed:
            self.forward_again.add(packet_id)

    def only_answered(self, packet_id: int) -> bool:
        """True if the message of this open packet id was routed, and no node has to get it again."""
        return (
            self.records[packet_id].routed and packet_id not in self.forward_again and packet_id not in self.inherited
        )

    def mid(self, record: InboundRecord) -> Mid:
        """The mid of the message of a handshake."""
        return record.origin or self._env.origin.node, record.boot, record.counter

    def open(self, packet_id: int, record: InboundRecord) -> bool:
        """Remember the packet id until PUBREL. True if the record must be safe before a copy leaves (H-12)."""
        self.records[packet_id] = record
        self._env.cluster.handshake_opened(self.mid(record))
        return self._write(packet_id, record)

    def reselected(
        self,
        packet_id: int,
        record: InboundRecord,
        elsewhere: list[tuple[str, str, str]],
        members: Mapping[str, int] = NO_MEMBERS,
    ) -> bool:
        """Record that these members elsewhere get the message, and that these members here have got it. True if the
        record must be safe before a copy leaves (H-12)."""
        record.elsewhere = elsewhere
        _note_members(record, members)
        return self._write(packet_id, record)

    def _replace_member(
        self,
        packet_id: int,
        record: InboundRecord,
        gone: RemoteMembers,
        node: str | None,
        members: Mapping[str, int],
    ) -> bool:
        """Record that members on `node`, or one on this node (None, with `members`), get the message instead of `gone`.

        True if the record must be safe before a copy leaves (H-12).
        """
        if self.records.get(packet_id) is not record:
            return False
        record.elsewhere = [each for each in record.elsewhere if each[:2] != (gone.group, gone.filter)]
        if node is not None:
            record.elsewhere.append((gone.group, gone.filter, node))
        _note_members(record, members)
        return self._write(packet_id, record)

    def routed(
        self,
        packet_id: int,
        elsewhere: list[tuple[str, str, str]],
        pending: PendingAcks | None,
        slots: Collection[int] = (),
        members: Mapping[str, int] = NO_MEMBERS,
    ) -> None:
        """Record, in the open batch, that the message was routed: a repeated PUBLISH only gets an answer.

        `elsewhere`, `slots` and `members` as in `InboundRecord`; `pending`: the conditions that its answer waits for.
        """
        record = self.records.get(packet_id)
        if pending is not None:
            self.pending_acks[packet_id] = pending
            if record is not None and elsewhere:
                pending.reselected = partial(self._replace_member, packet_id, record)
        if record is None:
            return
        _note_members(record, members)  # written with the record, or only of use to this process
        more = bool(slots) and not set(record.slots).issuperset(slots)
        if more or not record.routed or record.elsewhere != elsewhere:
            record.routed = True
            record.elsewhere = elsewhere
            if more:
                record.slots = sorted({*record.slots, *slots})
            self._write(packet_id, record)

    def keeping(self, packet_id: int, answer: Callable[[], None]) -> Callable[[], None]:
        """Return a function that sends the answer to a retained message, and notes that all nodes have the message. If
        it is sent to other nodes again, it replaces no later retained message (H-16)."""
        record = self.records.get(packet_id)

        def send() -> None:
            if record is not None and self.records.get(packet_id) is record:
                record.kept = True
                self._write(packet_id, record)
            answer()

        return send

    def cancel_forwards(self) -> None:
        """This node left the view: send routed messages again when their publishers repeat them (H-04, H-12).

        Other nodes may have skipped the copies that this node sent. Clients that subscribed there meanwhile were not
        matched. A publisher without PUBREC repeats its PUBLISH.
        """
        routed = [packet_id for packet_id, record in self.records.items() if record.routed and not record.done]
        self.forward_again.update(routed)
        self.pending_acks.clear()

    def arrived(self) -> None:
        """The slot of the session has come here: the members that its former primary chose were not on this node. A
        restart of this node would take them for its own (H-47)."""
        for packet_id, record in self.records.items():
            if record.members and not record.done:
                record.members = {}
                self._write(packet_id, record)

    def lose_slot(self, slot: int) -> None:
        """Another node has taken this slot over, and may lack the messages that members of groups in it got last: give
        each of them to a member again when its publisher repeats it (H-46)."""
        for packet_id, record in self.records.items():
            lost = [text for text, home in record.members.items() if home == slot]
            if not lost or record.done:
                continue
            record.members = {text: home for text, home in record.members.items() if home != slot}
            for text in lost:
                group, pattern = parse_shared(text)
                assert group is not None
                record.elsewhere = [*record.elsewhere, (group, pattern, UNKNOWN)]
            self.forward_again.add(packet_id)
            self._write(packet_id, record)

    def unfinished(self) -> bool:
        """True if a receiver of a routed message may lack it, and the next primary of the slot could not go on with the
        handshake: not all have acknowledged the message, or it has a mid of this node, and was not repeated yet."""
        waiting = [packet_id for packet_id, each in self.pending_acks.items() if each.open]
        return not all(self._moves_open(packet_id) for packet_id in (*self.forward_again, *waiting))

    def _moves_open(self, packet_id: int) -> bool:
        """True if this message is sent again when its publisher repeats it, and the next primary of the slot can do so,
        under the same mid. A publisher may stay away for as long as its session lasts: no move waits for it."""
        record, pending = self.records.get(packet_id), self.pending_acks.get(packet_id)
        again = packet_id in self.forward_again or packet_id in self.inherited
        return record is not None and bool(record.origin) and (again or (pending is not None and pending.failed))

    def finish(self) -> list[Mid]:
        """The slot of the session moves to another node, and nothing is `unfinished`. If the client repeats a routed
        PUBLISH there, it only gets the answer; one that was not routed counts as new. But a handshake that cannot be
        finished without the client stays open: the next primary goes on with it as after a failover (H-47). Returns the
        mids of these.

        Other nodes recognise a routed message until that is safe. If this node is cut off before, another one takes the
        slot over without it, and sends the message again. It speaks for the mids of the slot, this node for its own.
        """
        own: list[Mid] = []
        left_open: list[Mid] = []
        for packet_id, record in list(self.records.items()):
            if self._moves_open(packet_id):
                left_open.append(self.mid(record))
                self._name_this_node(packet_id, record)
            elif not record.routed:
                self.close(packet_id)
            elif not record.done:
                record.done = True
                if not record.origin:
                    own.append(self.mid(record))
                    record.origin = self._env.origin.node
                self._write(packet_id, record)
        self.pending_acks.clear()
        if own:
            self._env.store.when_committed(self._env.store.open_commit, lambda: self._closed(own))
        return left_open

    def _name_this_node(self, packet_id: int, record: InboundRecord) -> None:
        """Record for the next primary which groups have got the message from members on this node."""
        if record.members:
            for text in record.members:
                group, pattern = parse_shared(text)
                assert group is not None
                record.elsewhere = [*record.elsewhere, (group, pattern, self._env.origin.node)]
            record.members = {}
            self._write(packet_id, record)

    def _closed(self, mids: list[Mid]) -> None:
        for mid in mids:
            self._env.cluster.handshake_closed(mid)

    def begins_anew(self, packet_id: int, first: bool, digest: bytes) -> bool:
        """Whether a PUBLISH with this open packet id has another message than that of the id. Then the id is forgotten.

        So it is if an earlier process left the id, here or at a former primary, and a loss of power has undone its
        removal (H-12). The client sends a message for the `first` time without DUP [MQTT-3.3.1-1]. With DUP the
        `digest` of the message differs: the client has had no answer to its first attempt. In the process that accepted
        the first message a second one is a repetition [MQTT-4.3.3-2]. But if that message still has to be routed, the
        second one would take its place, although nobody has asked whether the client may publish it."""
        record, env = self.records[packet_id], self._env
        same = record.digest in (b"", digest)
        if not record.done:
            present = env.cluster.slot_epoch(slot_of_origin(record.origin)) if record.origin else env.numbers.boot
            if record.boot == present and (same or self.only_answered(packet_id)):
                return False
        if not first and same:
            return False
        self.close(packet_id)
        return True

    def close(self, packet_id: int) -> bool:
        """PUBREL: forget the packet id. True if the deletion must be safe before PUBCOMP."""
        record = self.records.pop(packet_id, None)
        if record is None:
            return False
        self.pending_acks.pop(packet_id, None)
        self.forward_again.discard(packet_id)
        self.inherited.discard(packet_id)
        self.by_policy.discard(packet_id)
        self._forget(packet_id, record)
        return self._owner.durable

    def discard(self) -> None:
        """The session has ended: forget all its handshakes."""
        for packet_id, record in self.records.items():
            self._forget(packet_id, record)
        self.records.clear()
        self.pending_acks.clear()

    def drop(self) -> None:
        """Another node has the session now. Nobody hears that its handshakes are over, because other nodes still have
        to recognise their messages."""
        self.records.clear()
        self.forward_again.clear()
        self.inherited.clear()
        self.pending_acks.clear()

    def _forget(self, packet_id: int, record: InboundRecord) -> None:
        if not record.done or slot_of_origin(record.origin) >= 0:  # `finish` has not closed one of a slot
            self._env.cluster.handshake_closed(self.mid(record))
        if self._owner.durable:
            self._env.store.delete(self._key(packet_id))

    def _write(self, packet_id: int, record: InboundRecord) -> bool:
        if self._owner.durable:
            self._env.store.put(self._key(packet_id), encode(record))
        return self._owner.durable

    def _key(self, packet_id: int) -> bytes:
        return keys.inbound_prefix(self._owner.key, self._owner.incarnation) + packet_id.to_bytes(2, "big")


def _note_members(record: InboundRecord, members: Mapping[str, int]) -> None:
    durable = {text: slot for text, slot in members.items() if slot != NO_SLOT}
    record.members = {**record.members, **durable}
