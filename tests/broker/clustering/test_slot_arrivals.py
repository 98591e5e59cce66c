"""The node that gets a slot: what it declines, and what becomes of an attempt."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.slot_transfer import (
    Attempt,
    Declined,
    Drop,
    Offer,
    Piece,
    Ready,
    SlotMessage,
    Took,
    decode_message,
    encode_message,
)
from strogoff.broker.sessions.slot_sessions import ARRIVED, ARRIVING
from strogoff.cluster.links.frames import MalformedFrame
from tests.broker.clustering.moving_cluster import MovingCluster, resumed, subscriber


class Target(MovingCluster):
    """A cluster whose node n2 gets messages of the test; its answers are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[SlotMessage] = []
        self.moves(2).arrivals._send = lambda node, message: self.said.append(message)
        row = self[2].member.slots.row(self.slot)
        self.attempt = Attempt(self.slot, row.epoch, row.version, 5)

    def tell(self, message: SlotMessage) -> list[SlotMessage]:
        self.said.clear()
        self.moves(2).received("n1", encode_message(message))
        self.settle()
        return list(self.said)

    @property
    def mark(self) -> bytes | None:
        return self[2].node.slot_sessions.marks.get(self.slot)


@pytest.fixture
def target() -> Target:
    return Target()


def row(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(4, "big") + len(value).to_bytes(4, "big") + key + value


def test_an_offer_for_another_row_is_declined(target: Target) -> None:
    (answer,) = target.tell(Offer(Attempt(target.slot, target.attempt.epoch, target.attempt.version + 1, 5)))
    assert isinstance(answer, Declined) and answer.reason == "it follows another slot table" and not target.mark


def test_an_offer_is_declined_while_sessions_are_loading_or_without_a_lease(target: Target) -> None:
    target[2].node.sessions.startup.complete = False
    (answer,) = target.tell(Offer(target.attempt))
    assert isinstance(answer, Declined) and answer.reason == "it is still loading its sessions"
    target[2].node.sessions.startup.complete = True
    target.isolate(2)
    target.until(lambda: not target[2].member.leased())
    (answer,) = target.tell(Offer(target.attempt))
    assert isinstance(answer, Declined) and answer.reason == "it has no lease"


def test_a_disk_with_sessions_of_the_slot_gets_no_others(target: Target) -> None:
    target[2].node.env.store.put(b"b%c" % target.slot + b"strange", b"")
    (answer,) = target.tell(Offer(target.attempt))
    assert isinstance(answer, Declined) and "which no client can reach" in answer.reason


def test_pieces_are_taken_once_and_in_order(target: Target) -> None:
    store = target[2].node.env.store
    key = b"a%c" % target.slot + b"one"
    assert target.tell(Offer(target.attempt)) == [Ready(target.attempt)]
    assert target.tell(Offer(target.attempt)) == [Ready(target.attempt)] and target.mark == ARRIVING
    assert not target.tell(Piece(target.attempt, 1, row(key, b"early"), False)), "piece 0 is missing"
    (answer,) = target.tell(Piece(target.attempt, 0, row(key, b"1"), False))
    assert answer.seq == 0 and store.get(key) == b"1"  # type: ignore[union-attr]
    (answer,) = target.tell(Piece(target.attempt, 0, row(key, b"again"), False))
    assert answer.seq == 0 and store.get(key) == b"1"  # type: ignore[union-attr]
    (answer,) = target.tell(Piece(target.attempt, 1, row(key + b"2", b"2"), True))
    assert answer.seq == 1 and target.mark == ARRIVED  # type: ignore[union-attr]


def test_the_last_piece_is_answered_when_it_is_on_disk(target: Target) -> None:
    target.tell(Offer(target.attempt))
    disk = target[2].disks[0]
    disk.stall_until = target.loop.now_s + 0.5
    first = target.tell(Piece(target.attempt, 0, b"", False))
    last = target.tell(Piece(target.attempt, 1, b"", True))
    assert first != [] and last == [], "the first one only asks for more"
    assert target.tell(Piece(target.attempt, 1, b"", True)) == []
    target.pass_s(1)
    assert [each.seq for each in target.said] == [1]  # type: ignore[union-attr]


def test_an_unknown_attempt_is_declined(target: Target) -> None:
    (answer,) = target.tell(Piece(target.attempt, 0, b"", False))
    assert isinstance(answer, Declined) and "given this attempt up" in answer.reason


@pytest.mark.parametrize("data", [row(b"a\x01one", b""), row(b"a", b""), b"\0\0"])
def test_a_row_of_another_slot_or_half_a_row_closes_the_stream(target: Target, data: bytes) -> None:
    target.tell(Offer(target.attempt))
    with pytest.raises(MalformedFrame):
        target.tell(Piece(target.attempt, 0, data, True))


@pytest.mark.parametrize("who", [1, 2])
def test_a_kill_in_the_middle_leaves_the_slot_where_it_was(who: int) -> None:
    cluster = MovingCluster()
    subscriber(cluster).leave()
    cluster.begin(2)
    cluster[1].pause_process() if who == 2 else cluster[2].pause_process()
    cluster.pass_s(0.05)
    cluster[1].resume_process() if who == 2 else cluster[2].resume_process()
    cluster.until(lambda: bool(cluster.phase() == "copying" or cluster.outcome))
    cluster.restart(who)
    cluster.until(lambda: cluster.homes() == {"n1"} or cluster.homes() == {"n2"})
    cluster.whole()
    writer = cluster[3].client("writer")
    cluster.until(lambda: bool(writer.publish("t", b"1", 1)))
    assert resumed(cluster, 3) == [b"1"]
    keeps = [number for number in (1, 2) if cluster.rows(number)]
    home = 1 if cluster.homes() == {"n1"} else 2
    cluster.until(lambda: [number for number in (1, 2) if cluster.rows(number)] == [home])
    assert home in keeps and not cluster[home].node.slot_sessions.marks


def test_a_node_that_leaves_gets_no_slot(target: Target) -> None:
    """It would leave with the sessions: it has looked for some before they come."""
    subscriber(target).leave()
    service = target[2].member.lease_service
    assert service is not None
    service.leaves = True
    assert target.tell(Offer(target.attempt)) == [Declined(target.attempt, "it leaves the cluster")]
    target.until(lambda: "n2" in target[1].member.full)
    assert target.move(2) == "n2 takes no slots: its disk is full, or it leaves"
    assert target.move(3) == ""


class Ended(MovingCluster):
    """The move of the slot from n1 to n2 has ended after n2 had all rows: n2's answers were lost, and so are the first
    messages that say that the attempt is over. `lost` has these."""

    def __init__(self) -> None:
        super().__init__()
        subscriber(self).leave()
        self.lost: list[SlotMessage] = []
        here, there = self.moves(1), self.moves(2)
        self._received = there.received
        there.received = self._all_but_the_end  # type: ignore[method-assign]
        answered = here._answered
        here._answered = (  # type: ignore[method-assign]
            lambda node, message: None if isinstance(message, Took) else answered(node, message)
        )
        assert "n2 has not answered in time" in self.move(2)
        here._answered = answered  # type: ignore[method-assign]
        assert self[2].node.slot_sessions.marks[self.slot] == ARRIVED

    def _all_but_the_end(self, node: str, data: bytes) -> bool:
        message = decode_message(data)
        if isinstance(message, Drop):
            self.lost.append(message)
            return False
        return self._received(node, data)

    def hear(self) -> None:
        """No message is lost any more."""
        self.moves(2).received = self._received  # type: ignore[method-assign]


def test_a_slot_that_has_stayed_moves_although_the_first_message_about_that_was_lost() -> None:
    ended = Ended()
    ended.hear()
    ended.until(lambda: ended.slot not in ended[2].node.slot_sessions.marks)
    assert ended.move(2) == ""


def test_a_session_that_ends_after_a_lost_message_does_not_come_back() -> None:
    """The slot is handed over as an empty one. The target has had all its rows, and opens none of them."""
    ended = Ended()
    ended[1].client("sub", clean=True).leave()
    handover = ended[1].host.clustering.slots.handover  # type: ignore[union-attr]
    handover.place = lambda slot, _: "n2" if slot == ended.slot else "n1"
    ended.pass_s(7)
    assert ended.homes() == {"n1"} and len(ended.lost) > 5
    ended.hear()
    ended.until(lambda: ended.homes() == {"n2"})
    _, connack = ended[2].connect("sub", clean=False, expiry_s=600)
    assert not connack.session_present


def test_an_attempt_ends_when_its_target_has_left_the_view() -> None:
    ended = Ended()
    ended.isolate(2)
    ended.until(lambda: ended[1].member.view.incarnation("n2") is None)
    lost = len(ended.lost)
    ended.pass_s(2)
    ended.network.heal()
    ended.whole()
    ended.until(lambda: ended.slot not in ended[2].node.slot_sessions.marks)
    assert len(ended.lost) == lost, "the next entrance of n2 knows nothing of it"
    assert ended.move(2) == ""
