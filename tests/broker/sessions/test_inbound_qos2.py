"""Open QoS 2 handshakes of a publisher: in memory, on disk if the session lasts, and known to the cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strogoff.broker.cluster_port import NO_MEMBERS, Standalone
from strogoff.broker.queues.message import Mid
from strogoff.broker.queues.records import InboundRecord, decode_inbound
from strogoff.broker.routing.pending_acks import PendingAcks
from strogoff.broker.routing.remote import Elsewhere, RemoteMembers
from strogoff.broker.routing.router import NO_SLOT
from strogoff.broker.sessions.inbound_qos2 import UNKNOWN, InboundHandshakes
from strogoff.cluster.identity import slot_of
from strogoff.storage import keys
from tests.harness.broker import BrokerHarness, publish

ELSEWHERE = [("g", "t", "n2")]
GONE = RemoteMembers("g", "t", "n2", 1, 0)


class Listener(Standalone):
    """A cluster that notes the handshakes that the broker reports."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []

    def handshake_opened(self, mid: Mid, members: Mapping[str, int] = NO_MEMBERS) -> None:
        self.told.append(("opened", *mid[1:]))

    def handshake_closed(self, mid: Mid) -> None:
        self.told.append(("closed", *mid[1:]))


class Owner:
    """A session of client `p`."""

    def __init__(self, durable: bool) -> None:
        self.key = keys.client_key(0, "", "p")
        self.incarnation = 3
        self.durable = durable


class Publishing(BrokerHarness):
    """The handshakes of one session."""

    def __init__(self, durable: bool = True) -> None:
        super().__init__()
        self.cluster = Listener()
        self.node.env.cluster = self.cluster
        self.owner = Owner(durable)
        self.inbound = InboundHandshakes(self.node.env, self.owner)

    def open(self, packet_id: int, counter: int = 8) -> InboundRecord:
        record = InboundRecord(1, counter, False)
        self.inbound.open(packet_id, record)
        return record

    def key(self, packet_id: int) -> bytes:
        return keys.inbound_prefix(self.owner.key, 3) + packet_id.to_bytes(2, "big")

    def row(self, packet_id: int) -> InboundRecord:
        self.settle()
        return decode_inbound(b"", self.disk.content()[self.key(packet_id)])

    def rows(self) -> list[bytes]:
        return self.keys(b"i")


@pytest.mark.parametrize("durable", [True, False])
def test_open_writes_a_row_for_a_durable_session(durable: bool) -> None:
    broker = Publishing(durable)
    record = InboundRecord(1, 8, False)
    assert broker.inbound.open(7, record) is durable
    assert broker.inbound.records == {7: record}
    assert broker.cluster.told == [("opened", 1, 8)]
    assert broker.rows() == [broker.key(7)] * durable
    if durable:
        assert broker.row(7) == record


@pytest.mark.parametrize("routed", [True, False])
def test_a_restored_message_goes_to_other_nodes_again_if_it_was_routed(routed: bool) -> None:
    broker = Publishing()
    record = InboundRecord(1, 8, routed)
    broker.inbound.restore(7, record)
    assert broker.inbound.records == {7: record}
    assert broker.inbound.forward_again == ({7} if routed else set())
    assert broker.cluster.told == [("opened", 1, 8)]
    assert broker.rows() == []


def test_a_node_restores_the_handshakes_of_its_sessions() -> None:
    broker = BrokerHarness()
    broker.persistent("p").publish("t", b"m", 2, 7)
    broker.settle()
    broker.restart()
    session = broker.node.sessions.get("", "p")
    assert session is not None
    assert [(packet_id, record.routed) for packet_id, record in session.inbound.records.items()] == [(7, True)]
    assert session.inbound.forward_again == {7}


@pytest.mark.parametrize("durable", [True, False])
def test_routed_is_remembered(durable: bool) -> None:
    broker = Publishing(durable)
    record, pending = broker.open(7), PendingAcks()
    broker.inbound.routed(7, ELSEWHERE, pending)
    assert (record.routed, record.elsewhere) == (True, ELSEWHERE)
    assert broker.inbound.pending_acks == {7: pending}
    assert broker.rows() == [broker.key(7)] * durable
    if durable:
        assert broker.row(7).routed


def test_a_message_for_a_member_in_a_lost_slot_is_given_to_a_member_again() -> None:
    """H-46: another node has the slot now, perhaps without the message."""
    broker = Publishing()
    for packet_id in (7, 8):
        broker.open(packet_id)
    broker.inbound.routed(7, [], None, (), {"$share/g/s/#": 3, "$share/h/s/#": 4})
    broker.inbound.routed(8, [], None, (), {"$share/g/s/#": 4})
    broker.inbound.lose_slot(3)
    record = broker.inbound.records[7]
    assert (record.elsewhere, record.members) == ([("g", "s/#", "")], {"$share/h/s/#": 4})
    assert broker.inbound.forward_again == {7}
    assert broker.row(7).elsewhere == record.elsewhere and broker.inbound.records[8].elsewhere == []
    broker.inbound.finish()
    broker.inbound.lose_slot(4)
    assert broker.inbound.forward_again == {7}, "every receiver had the message"


def test_the_record_names_no_clean_member() -> None:
    broker = Publishing()
    broker.open(7)
    broker.inbound.routed(7, [], None, (), {"$share/g/s/#": 3, "$share/h/s/#": NO_SLOT})
    assert broker.row(7).members == {"$share/g/s/#": 3}


def test_the_members_of_a_former_primary_are_forgotten() -> None:
    """They were at its node. A restart of this node would take them for its own (H-47)."""
    broker = Publishing()
    members = {"$share/g/t": 3}
    for packet_id, done in ((7, False), (8, True)):
        broker.inbound.restore(packet_id, InboundRecord(1, 8, True, done=done, origin="#3", members=members))
    broker.inbound.arrived()
    assert broker.row(7).members == broker.inbound.records[7].members == {}
    assert broker.rows() == [broker.key(7)], "nobody sends the other one again"


def test_a_repeated_publish_reaches_the_group_whose_member_is_in_a_lost_slot() -> None:
    broker = BrokerHarness()
    member = broker.persistent("member")
    member.subscribe(("$share/g/t", 2))
    member.leave()
    writer = broker.persistent("writer")
    writer.publish("t", b"m", 2, 7)
    slot = slot_of("", "member")
    assert broker.node.sessions.get("", "writer").inbound.records[7].members == {"$share/g/t": slot}  # type: ignore[union-attr]
    broker.node.slot_sessions.lose(slot, Elsewhere("n2", False))
    for session in broker.node.sessions.in_memory():
        session.inbound.lose_slot(slot)
    other = broker.client("other")
    other.subscribe(("$share/g/t", 2))
    for _ in range(2):
        writer = broker.persistent("writer")
        writer.send(publish("t", b"m", 2, 7, dup=True))
        broker.settle()
    assert [each.payload for each in other.drain()] == [b"m"]


def test_the_record_names_the_members_here_that_replace_others() -> None:
    """After a restart of this node, or when a member's slot is lost, nobody else knows that they have the message."""
    broker = BrokerHarness()
    for name in ("g", "h"):
        broker.persistent(name).subscribe((f"$share/{name}/t", 2))
    broker.persistent("writer").publish("t", b"m", 2, 7)
    session = broker.node.sessions.get("", "writer")
    assert session is not None
    record = session.inbound.records[7]
    members, record.members = record.members, {}
    record.elsewhere = [("g", "t", UNKNOWN), ("h", "t", UNKNOWN)]
    session.inbound.forward_again.add(7)
    broker.persistent("writer").send(publish("t", b"m", 2, 7, dup=True))
    broker.settle()
    (key,) = broker.keys(b"i")
    assert decode_inbound(key, broker.disk.content()[key]).members == members != {}


def test_a_message_of_a_former_primary_goes_to_a_member_once_although_its_member_was_in_a_lost_slot() -> None:
    """H-12: the message goes to all receivers, and a member of the group is chosen for that."""
    broker = BrokerHarness()
    member = broker.client("member")
    member.subscribe(("$share/g/t", 2))
    broker.persistent("writer")
    session = broker.node.sessions.get("", "writer")
    assert session is not None
    session.inbound.restore(7, InboundRecord(1, 8, True, origin="#3", members={"$share/g/t": 3}))
    session.inbound.lose_slot(3)
    assert session.inbound.inherited == session.inbound.forward_again == {7}
    assert not session.inbound.only_answered(7)
    for _ in range(2):
        broker.persistent("writer").send(publish("t", b"m", 2, 7, dup=True))
        broker.settle()
        assert session.inbound.only_answered(7)
    assert [each.payload for each in member.drain()] == [b"m"]


def test_routed_writes_only_changes() -> None:
    broker = Publishing()
    broker.open(7)
    broker.inbound.routed(7, [], None)
    broker.settle()
    broker.inbound.routed(7, [], None)
    assert not broker.node.env.store.is_waiting(broker.key(7))
    broker.inbound.routed(7, ELSEWHERE, None)
    assert broker.node.env.store.is_waiting(broker.key(7))
    assert broker.row(7).elsewhere == ELSEWHERE


def test_routed_knows_messages_without_a_handshake() -> None:
    broker, pending = Publishing(), PendingAcks()
    broker.inbound.routed(7, ELSEWHERE, pending)
    assert broker.inbound.records == {}
    assert broker.inbound.pending_acks == {7: pending}
    assert (pending.reselected, broker.rows()) == (None, [])


@pytest.mark.parametrize("durable", [True, False])
def test_other_members_are_written(durable: bool) -> None:
    broker = Publishing(durable)
    record = broker.open(7)
    broker.settle()
    assert broker.inbound.reselected(7, record, ELSEWHERE) is durable
    assert record.elsewhere == ELSEWHERE
    if durable:
        assert broker.row(7).elsewhere == ELSEWHERE


@pytest.mark.parametrize(("node", "left"), [("n3", [("g", "t", "n3")]), (None, [])])
def test_a_member_on_another_node_replaces_a_gone_member(node: str | None, left: list[tuple[str, str, str]]) -> None:
    broker, pending = Publishing(), PendingAcks()
    record = broker.open(7)
    other = ("other", "t", "n2")
    broker.inbound.routed(7, [*ELSEWHERE, other], pending)
    broker.settle()
    assert pending.reselected is not None
    members = {} if node else {"$share/g/t": 3}
    assert pending.reselected(GONE, node, members) is True
    assert record.elsewhere == [other, *left]
    assert (broker.row(7).elsewhere, broker.row(7).members) == ([other, *left], members)


def test_members_do_not_change_after_pubrel() -> None:
    broker, pending = Publishing(), PendingAcks()
    broker.open(7)
    broker.inbound.routed(7, ELSEWHERE, pending)
    broker.inbound.close(7)
    broker.open(7, counter=9)
    broker.settle()
    assert pending.reselected is not None
    assert pending.reselected(GONE, "n3", NO_MEMBERS) is False
    assert broker.row(7).elsewhere == []


def test_a_message_without_other_members_reselects_none() -> None:
    broker, pending = Publishing(), PendingAcks()
    broker.open(7)
    broker.inbound.routed(7, [], pending)
    assert pending.reselected is None


def test_cancelled_messages_go_to_other_nodes_again() -> None:
    """A message that was not routed yet has no copies to lose."""
    broker = Publishing()
    broker.open(7)
    broker.open(8)
    broker.inbound.routed(7, [], PendingAcks())
    broker.inbound.cancel_forwards()
    assert broker.inbound.forward_again == {7}
    assert broker.inbound.pending_acks == {}
    assert sorted(broker.inbound.records) == [7, 8]


@pytest.mark.parametrize("durable", [True, False])
def test_close_forgets_the_handshake(durable: bool) -> None:
    broker = Publishing(durable)
    broker.open(7)
    broker.inbound.routed(7, [], PendingAcks())
    broker.inbound.forward_again.add(7)
    broker.open(8, counter=9)
    broker.inbound.by_policy.update((7, 8))
    broker.settle()
    assert broker.inbound.close(7) is durable
    assert broker.inbound.by_policy == {8}
    assert list(broker.inbound.records) == [8]
    assert (broker.inbound.pending_acks, broker.inbound.forward_again) == ({}, set())
    assert broker.cluster.told[2:] == [("closed", 1, 8)]
    assert broker.rows() == [broker.key(8)] * durable


def test_a_packet_id_of_a_former_process_begins_anew() -> None:
    """That of this process does not: its removal was not lost."""
    broker = Publishing()
    present = broker.node.env.numbers.boot
    for packet_id, boot in ((7, present - 1), (8, present)):
        broker.inbound.restore(packet_id, InboundRecord(boot, 1, True))
    assert [broker.inbound.begins_anew(packet_id, True, b"5") for packet_id in (7, 8)] == [True, False]
    assert list(broker.inbound.records) == [8] and broker.inbound.forward_again == {8}
    assert broker.cluster.told[2:] == [("closed", present - 1, 1)]


def test_a_packet_id_of_a_former_primary_begins_anew() -> None:
    broker = Publishing()
    epoch = broker.cluster.slot_epoch(3)
    for packet_id, boot in ((7, epoch + 1), (8, epoch)):
        broker.inbound.restore(packet_id, InboundRecord(boot, 1, True, origin="#3"))
    assert [broker.inbound.begins_anew(packet_id, True, b"5") for packet_id in (7, 8)] == [True, False]
    assert list(broker.inbound.records) == [8] and broker.inbound.inherited == {8}


@pytest.mark.parametrize("origin", ["", "#3"])
def test_a_packet_id_that_came_with_its_slot_begins_anew(origin: str) -> None:
    """The number of its boot is one of a former primary. Its client has connected since: a repetition has DUP."""
    broker = Publishing()
    present = broker.cluster.slot_epoch(3) if origin else broker.node.env.numbers.boot
    broker.inbound.restore(7, InboundRecord(present, 1, True, done=True, origin=origin))
    assert broker.inbound.begins_anew(7, True, b"5") and not broker.inbound.records
    assert broker.cluster.told == [("closed", present, 1)] * bool(origin)


@pytest.mark.parametrize(("kept", "anew"), [(b"5", False), (b"6", True), (b"", False)])
@pytest.mark.parametrize("done", [True, False])
def test_another_message_with_dup_begins_anew(kept: bytes, anew: bool, done: bool) -> None:
    """A loss of power has undone the removal of the packet id, and the answer to the next message of that id was lost
    before. A record of a former version has no digest."""
    broker = Publishing()
    earlier = broker.node.env.numbers.boot - 1
    broker.inbound.restore(7, InboundRecord(earlier, 1, True, done=done, digest=kept))
    assert broker.inbound.begins_anew(7, False, b"5") == anew
    assert list(broker.inbound.records) == ([] if anew else [7])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("routed", "digest", "anew"), [
    (False, b"5", False), (False, b"6", True), (True, b"5", False), (True, b"6", False),
])  # fmt: skip
def test_another_message_takes_the_place_of_none_that_this_process_accepted(
    routed: bool, digest: bytes, anew: bool, first: bool
) -> None:
    """It is new if the first one still has to be routed. Otherwise it is a repetition, which gets an answer alone."""
    broker = Publishing()
    broker.inbound.open(7, InboundRecord(broker.node.env.numbers.boot, 1, routed, digest=b"5"))
    assert broker.inbound.begins_anew(7, first, digest) == anew
    assert list(broker.inbound.records) == ([] if anew else [7])


@pytest.mark.parametrize("origin", ["", "#3", "n9"])
def test_a_handshake_that_moves_keeps_the_name_of_its_origin(origin: str) -> None:
    broker = Publishing()
    own = broker.node.env.origin.node
    broker.inbound.restore(7, InboundRecord(1, 8, True, done=origin == "n9", origin=origin))
    broker.inbound.inherited.clear()  # the client has repeated its message
    assert broker.inbound.finish() == []
    record = broker.inbound.records[7]
    assert broker.inbound.mid(record) == (origin or own, 1, 8)
    if origin != "n9":
        assert broker.row(7).origin == record.origin == (origin or own)


@pytest.mark.parametrize("routed", [True, False])
def test_a_handshake_of_an_earlier_process_moves_open(routed: bool) -> None:
    """Only its client can end it, and may stay away (H-47). The next primary learns which groups have the message."""
    broker = Publishing()
    own = broker.node.env.origin.node
    record = InboundRecord(1, 8, routed, origin="#3", members={"$share/g/t": 4})
    broker.inbound.restore(7, record)
    assert not broker.inbound.unfinished()
    assert broker.inbound.finish() == [("#3", 1, 8)]
    assert not record.done and broker.row(7) == record
    assert (record.elsewhere, record.members) == ([("g", "t", own)], {})
    assert broker.cluster.told == [("opened", 1, 8)]


@pytest.mark.parametrize(("origin", "moves"), [("#3", True), ("", False)])
@pytest.mark.parametrize("failed", [True, False])
def test_a_handshake_moves_open_only_under_a_mid_of_its_slot(failed: bool, origin: str, moves: bool) -> None:
    """Nobody repeats a barrier that took too long, or sends a message to other nodes again, while the client is
    absent."""
    broker = Publishing()
    broker.inbound.open(7, InboundRecord(1, 8, False, origin=origin))
    pending = PendingAcks().add()
    broker.inbound.routed(7, [], pending)
    assert broker.inbound.unfinished(), "another node will answer"
    if failed:
        pending.fail(lambda again: None)
    else:
        broker.inbound.cancel_forwards()
    assert broker.inbound.unfinished() is not moves
    if moves:
        assert broker.inbound.finish() == [(origin, 1, 8)]
        assert not broker.row(7).done


def test_close_of_an_unknown_packet_id_waits_for_nothing() -> None:
    broker = Publishing()
    broker.open(7)
    assert broker.inbound.close(8) is False
    assert broker.cluster.told == [("opened", 1, 8)]


@pytest.mark.parametrize("durable", [True, False])
def test_discard_forgets_all_handshakes(durable: bool) -> None:
    broker = Publishing(durable)
    broker.open(7)
    broker.open(8, counter=9)
    broker.inbound.routed(7, [], PendingAcks())
    broker.settle()
    broker.inbound.discard()
    assert (broker.inbound.records, broker.inbound.pending_acks) == ({}, {})
    assert broker.cluster.told[2:] == [("closed", 1, 8), ("closed", 1, 9)]
    assert broker.rows() == []


def test_the_session_that_ends_discards_its_handshakes() -> None:
    broker, cluster = BrokerHarness(), Listener()
    broker.node.env.cluster = cluster
    client = broker.persistent("p")
    client.ask(publish("t", b"1", 2, 7), publish("t", b"2", 2, 8))
    assert len(broker.keys(b"i")) == 2
    client.leave()
    broker.client("p").leave()
    assert broker.keys(b"i") == []
    assert [what for what, _, _ in cluster.told] == ["opened", "opened", "closed", "closed"]


@pytest.mark.parametrize("origin", ["", "#3"])
def test_other_nodes_recognise_a_message_until_its_end_is_safe(origin: str) -> None:
    """The node hands the publisher's slot over. If it is cut off before all copies know that the handshake is over, the
    next primary sends the message again.

    The next primary ends a mid of the slot. If the slot stays here, this node ends the mid when PUBREL comes.
    """
    broker = Publishing()
    broker.inbound.restore(7, InboundRecord(1, 8, True, origin=origin))
    broker.inbound.inherited.clear()  # the client has repeated its message
    broker.hold_disk()
    broker.inbound.finish()
    broker.settle()
    assert broker.cluster.told == [("opened", 1, 8)]
    broker.free_disk()
    broker.settle()
    closed = ("closed", 1, 8)
    assert broker.cluster.told[1:] == ([] if origin else [closed])
    assert broker.row(7).done
    broker.inbound.close(7)
    assert broker.cluster.told[1:] == [closed]
