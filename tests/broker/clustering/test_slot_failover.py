"""Copies of slots while processes die, stand still and return: each test breaks one rule of H-46."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from strogoff.broker.clustering import slot_filling, slot_replicator
from strogoff.broker.clustering.copy_codec import Begin, Changes, CopyAttempt, decode_item, encode
from strogoff.broker.clustering.slot_copies import SlotCopies
from strogoff.broker.clustering.slot_departure import COPYING
from strogoff.broker.clustering.slot_filling import ASKED, COUNTED, FILLING, Copy
from strogoff.broker.clustering.table_locator import TableLocator
from strogoff.cluster.links.ports import Refuse
from strogoff.cluster.membership.commands import SetSlots, encode_command
from strogoff.cluster.ports import Datagram
from strogoff.cluster.slots.table import SlotRow
from strogoff.storage import keys
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient, publish


class Asking(CopiedCluster):
    """The slot of `sub` is at n2, a copy at node `follower` is complete, and requests of n2 to the leader are held up.

    No other node is down. `asked` has the requests for the slot, and `let_go` sends the last one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[SlotRow] = []
        self[2].member.request_slots = self._hold  # type: ignore[method-assign]
        self.give("sub", self[2])
        subscriber(self, 2).leave()
        self.until(lambda: bool(self.asked))
        (holder,) = [each for each in self.asked[-1].in_sync if each.node != "n2"]
        self.follower = int(holder.node[1:])

    def _hold(self, changes: tuple[SlotRow, ...], leaving: bool = False) -> None:
        self.asked += [each for each in changes if each.slot == self.slot]

    def let_go(self) -> None:
        leader = next(each for each in self.nodes if each.leads)
        leader.member.datagram("n2", Datagram.SET_SLOTS, encode_command(SetSlots((self.asked[-1],))))
        self.until(lambda: len(self.row().in_sync) == 2)

    def hold_no_more(self, wanted: int) -> None:
        """Requests go to the leader again, and a certain node is to have the copy."""
        vars(self[2].member).pop("request_slots", None)
        self.replicator(2).preferred[self.slot] = f"n{wanted}"

    def has_copy(self, number: int) -> bool:
        return f"n{number}" in [holder.node for holder in self.row().in_sync if self.row().primary != holder]


@pytest.fixture
def cluster() -> CopiedCluster:
    return CopiedCluster()


@pytest.fixture
def asking() -> Asking:
    return Asking()


def copies_at(cluster: CopiedCluster, number: int) -> SlotCopies:
    clustering = cluster[number].host.clustering
    assert clustering is not None
    return clustering.slots.copies


def in_phase(cluster: CopiedCluster, primary: int, phase: int) -> Copy:
    """Let time pass until a copy of the slot is in a phase, and return it."""

    def found() -> list[Copy]:
        copies = cluster.replicator(primary).copies.get(cluster.slot, ())
        return [copy for copy in copies if copy.phase == phase]

    cluster.until(found)
    return found()[0]


def stalled_fill(cluster: CopiedCluster, primary: int, stalled: int, seconds: float) -> Copy:
    """Let time pass until rows of the slot are under way, and stall the disk of a node then. Returns the copy."""
    filling, found = cluster.replicator(primary)._filling, list[Copy]()
    send = filling._send

    def first(copy: Copy, feed: Any) -> None:
        if copy.attempt.slot == cluster.slot and not found:
            found.append(copy)
            cluster[stalled].disks[0].stall_until = cluster.loop.now_s + seconds
            cluster[stalled].node.env.store.put(b"test", b"")  # from now on a commit is under way
        send(copy, feed)

    filling._send = first  # type: ignore[method-assign]
    cluster.until(lambda: bool(found))
    return found[0]


def ten_messages_under_way(cluster: CopiedCluster) -> tuple[int, int, PacketClient, Copy]:
    """Ten messages wait for the subscriber, its follower is killed, and the third node gets a copy on a slow disk.

    Returns the numbers of the primary and the third node, the publisher at the primary, and the copy.
    """
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    third = cluster.third()
    writer = cluster[primary].client("writer")
    client.leave()
    for number in range(10):
        writer.publish("t", b"%d" % number, 1)
    cluster[follower].kill()
    return primary, third, writer, stalled_fill(cluster, primary, third, 1)


# -- a copy begins and ends


def test_a_copy_is_complete_when_it_is_on_disk_and_commits_wait_for_it_before_that(asking: Asking) -> None:
    cluster = asking
    primary = cluster.replicator(2)
    sent = primary._end

    def stalled(copy: Copy) -> None:
        if copy.attempt.slot == cluster.slot:
            cluster[int(copy.holder.node[1:])].disks[0].stall_until = cluster.loop.now_s + 0.6
        sent(copy)

    primary._end = stalled  # type: ignore[method-assign]
    cluster.isolate(cluster.follower)
    cluster.until(lambda: cluster[2].member.view.incarnation(f"n{cluster.follower}") is None)
    copy = in_phase(cluster, 2, COUNTED)
    writer = cluster[2].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.4)
    assert copy.phase == COUNTED, "the last row of the copy is not on its disk"
    assert not writer.take(), "the follower may be asked for at any moment, and has not the message"
    cluster.until(lambda: bool(writer.take()))


def test_changes_while_rows_are_under_way_reach_the_copy(cluster: CopiedCluster) -> None:
    primary, third, writer, copy = ten_messages_under_way(cluster)
    again, _ = cluster[primary].connect("sub", clean=False, expiry_s=600)
    assert len(again.drain()) == 10
    writer.publish("t", b"last", 1)
    assert copy.phase == FILLING
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    cluster.pass_s(1)
    assert cluster.rows(third) == cluster.rows(primary)


def test_a_copy_has_a_batch_of_the_primary_as_a_whole(cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read from the batch that is still open: the copy does not end before it has the rest of that batch."""
    monkeypatch.setattr(slot_filling, "LARGE", (100, 100))
    monkeypatch.setattr(slot_filling, "SMALL", (100, 100))
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[primary].client("writer")
    for number in range(20):
        writer.publish("t", b"%d" % number + bytes(100), 1)
    cluster[follower].kill()
    copy = stalled_fill(cluster, primary, primary, 1)
    writer.send(publish("t", b"new", 1, 1))
    cluster.until(lambda: copy.filled)
    cluster.pass_s(0.2)
    assert copy.phase == FILLING and cluster.loop.now_s < cluster[primary].disks[0].stall_until
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    cluster.pass_s(0.5)
    other = cluster.copied()[1]
    assert cluster.rows(other) == cluster.rows(primary)


def test_a_follower_begins_no_copy_under_a_later_table_than_its_own(cluster: CopiedCluster) -> None:
    """It may have entered the view again under that table: the copy would be one of its former entrance."""
    cluster.copied()
    member, row = cluster[2].member, cluster[2].member.slots.row(cluster.slot)
    attempt = CopyAttempt(cluster.slot, row.epoch, 99)
    with pytest.raises(Refuse, match="this node follows table"):
        copies_at(cluster, 2).take("n1", 1, encode(Begin(attempt, member.slots.index + 1)))


def test_a_node_takes_copies_from_the_primary_and_epoch_of_its_table(cluster: CopiedCluster) -> None:
    primary, follower = cluster.copied()
    third = cluster.third()
    copies, row, own = copies_at(cluster, third), cluster.row(), cluster[third].member.own_holder
    assert own is not None
    for node, epoch in ((f"n{follower}", row.epoch), (f"n{primary}", row.epoch - 1), (f"n{primary}", row.epoch)):
        assert cluster.slot not in copies
        copies._begin(node, CopyAttempt(cluster.slot, epoch, 99), own)
    assert cluster.slot in copies


def test_a_copy_has_no_number_that_an_empty_slot_has_left(cluster: CopiedCluster) -> None:
    """The slot was here once, and went away while it was empty (3 nodes, copies, groups, seed 300101)."""
    primary, _ = cluster.copied()
    third = cluster.third()
    cluster[third].node.env.store.put(keys.reserved_key(cluster.slot), (9000).to_bytes(8, "big"))
    cluster.lose_follower()
    assert cluster.copied()[1] == third
    cluster.until(lambda: cluster.rows(third) == cluster.rows(primary))


def test_a_node_takes_copies_when_it_has_loaded_its_sessions(cluster: CopiedCluster) -> None:
    """Until then the rows of a copy would be loaded as sessions of its own."""
    third = cluster.third()
    startup = cluster[third].node.sessions.startup
    startup.complete = False
    cluster.lose_follower()
    cluster.pass_s(3)
    assert cluster.slot not in copies_at(cluster, third)
    startup.complete = True
    assert cluster.copied()[1] == third


def test_a_new_attempt_has_no_row_of_the_last_one(cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    primary, third, writer, _ = ten_messages_under_way(cluster)
    cluster.until(lambda: len([key for key in cluster.rows(third) if key[:1] == b"q"]) == 10)
    with monkeypatch.context() as patched:
        patched.setattr(slot_replicator, "BEHIND_BYTES", 0)
        writer.publish("t", b"more", 1)
        cluster.until(lambda: cluster.slot not in cluster.replicator(primary).copies)
    again, _ = cluster[primary].connect("sub", clean=False, expiry_s=600)
    assert len(again.drain()) == 11
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    cluster.pass_s(1)
    assert cluster.rows(third) == cluster.rows(primary)
    assert not [key for key in cluster.rows(third) if key[:1] == b"q"]


def test_a_row_that_cannot_be_read_is_in_the_copy(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    store = cluster[primary].node.env.store
    (row,) = store.keys(b"b%c" % cluster.slot, b"b%c" % (cluster.slot + 1))
    store.put(row + b"/2", b"\xff")
    cluster.pass_s(0.1)
    assert cluster.rows(follower)[row + b"/2"] == b"\xff"
    assert cluster.rows(follower) == cluster.rows(primary)


# -- a copy that was asked for


def test_a_follower_that_was_asked_for_counts_however_long_the_log_takes(asking: Asking) -> None:
    cluster = asking
    cluster.pass_s(3)
    assert in_phase(cluster, 2, ASKED).counts
    cluster[cluster.follower].disks[0].stall_until = cluster.loop.now_s + 0.5
    writer = cluster[2].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.4)
    assert not writer.take()
    cluster.let_go()
    cluster.until(lambda: bool(writer.take()))


def test_a_copy_that_was_asked_for_is_not_begun_anew(asking: Asking) -> None:
    """The log may still put it into the in-sync set."""
    cluster = asking
    copies, own = copies_at(cluster, cluster.follower), cluster[cluster.follower].member.own_holder
    before = copies._copies[cluster.slot]
    assert own is not None and before.said and not before.listed
    copies._begin("n2", CopyAttempt(cluster.slot, cluster.row().epoch, 99), own)
    assert copies._copies[cluster.slot] is before


def test_a_copy_that_was_asked_for_is_promoted_after_a_restart_of_its_primary(asking: Asking) -> None:
    """The request is applied while the next process of the primary is not in the view yet."""
    cluster = asking
    cluster[2].client("writer").publish("t", b"1", 1)
    copies = copies_at(cluster, cluster.follower)
    before = copies._acks["n2"].boot
    row = cluster.row()
    cluster[2].kill()
    cluster[2].start()
    cluster.until(lambda: copies._acks["n2"].boot != before)
    clustering = cluster[cluster.follower].host.clustering
    assert clustering is not None and cluster.row() == row
    clustering.slots.follow()
    cluster.pass_s(0.02)
    cluster.let_go()
    assert cluster.taken_over(2) == cluster.follower
    cluster.whole()
    assert resumed(cluster, cluster.follower) == [b"1"]


def test_a_copy_that_was_asked_for_goes_on_after_its_disk_was_full(asking: Asking) -> None:
    cluster = asking
    disk = cluster[cluster.follower].disks[0]
    disk.full = True
    writer = cluster[2].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(1.5)
    assert cluster[cluster.follower].node.env.store.state == "full" and not writer.take()
    disk.full = False
    cluster.until(lambda: bool(writer.take()))
    writer.publish("t", b"2", 1)
    cluster.let_go()
    cluster[2].kill()
    assert cluster.taken_over(2) == cluster.follower
    assert resumed(cluster, cluster.follower) == [b"1", b"2"]


def test_a_copy_whose_primary_has_begun_an_epoch_is_made_anew(asking: Asking) -> None:
    """The slot had only one holder, and waited for it: no request of the former process is accepted any more."""
    cluster = asking
    cluster[2].kill()
    cluster.until(lambda: cluster.row().primary is None)
    cluster[2].start()
    cluster.whole()
    cluster.hold_no_more(cluster.follower)
    cluster.until(lambda: cluster.has_copy(cluster.follower), 60)


def test_a_copy_whose_node_has_entered_again_is_made_anew(asking: Asking) -> None:
    cluster = asking
    cluster[cluster.follower].pause_process()
    cluster.until(lambda: cluster[2].member.view.incarnation(f"n{cluster.follower}") is None)
    cluster[cluster.follower].resume_process()
    cluster.whole()
    cluster.hold_no_more(cluster.follower)
    cluster.until(lambda: cluster.has_copy(cluster.follower), 60)


# -- acknowledgements


def test_a_restarted_follower_acknowledges_nothing_before_it_is_out_of_the_set(cluster: CopiedCluster) -> None:
    """Its next process gets the items again, and has no copy: an acknowledgement would be one of the former process."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    before = cluster.row().in_sync
    writer = cluster[primary].client("writer")
    cluster[follower].kill()
    cluster[follower].start()
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: bool(writer.take()))
    assert cluster[primary].member.slots.row(cluster.slot).in_sync != before


def test_a_change_that_cannot_be_read_is_acknowledged_by_nobody(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    replicator = cluster.replicator(primary)
    send, spoilt = replicator._send, list[str]()

    def spoil(node: str, data: bytes) -> int:
        item = decode_item(data)
        if not spoilt and isinstance(item, Changes):
            spoilt.append(node)
            data = b"garbage"
        return send(node, data)

    replicator._send = spoil  # type: ignore[assignment]
    writer = cluster[primary].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: bool(writer.take()))
    assert spoilt == [f"n{follower}"]
    named = [holder.node for holder in cluster[primary].member.slots.row(cluster.slot).in_sync]
    assert f"n{follower}" not in named, "the table may promote it, and it has not the message"


def test_what_waits_for_a_slow_follower_is_bounded() -> None:
    cluster = CopiedCluster(pause_reading_bytes=4000)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[primary].client("writer")
    cluster[follower].disks[0].stall_until = cluster.loop.now_s + 0.8
    for number in range(50):
        writer.send(publish("t", bytes(1000), 1, number + 1))
        cluster.pass_s(0.01)
    store = cluster[primary].node.env.store
    assert store.bytes_waiting == 0 and 4000 < store.bytes_unsafe < 10_000
    cluster.until(lambda: store.bytes_unsafe == 0)


# -- after a promotion


def test_a_message_that_the_former_primary_took_is_not_taken_again(cluster: CopiedCluster) -> None:
    """The answer of the former primary to the publisher's node was lost with it: that node sends the message again."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    origin = cluster[cluster.third()]
    sender = origin.host.clustering.sender  # type: ignore[union-attr]
    acked = sender.acked
    sender.acked = lambda node, *rest: None if node == f"n{primary}" else acked(node, *rest)  # type: ignore[method-assign]
    writer = origin.client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: any(key[:1] == b"q" for key in cluster.rows(follower)))
    cluster.pass_s(0.1)
    assert not writer.take()
    cluster[primary].kill()
    assert cluster.taken_over(primary) == follower
    cluster.until(lambda: bool(writer.take()))
    assert resumed(cluster, follower) == [b"1"]


@pytest.mark.parametrize("qos", [1, 2])
def test_the_new_primary_answers_its_own_client_when_its_disk_has_the_message(cluster: CopiedCluster, qos: int) -> None:
    """The former primary took the message from the follower, whose copy has it, but only in memory."""
    subscriber(cluster, qos=qos).leave()
    primary, follower = cluster.copied()
    writer = cluster[follower].client("writer")
    disk = cluster[follower].disks[0]
    disk.stall_until = inf
    writer.send(publish("t", b"1", qos, 7))
    cluster.until(lambda: any(key[:1] == b"q" for key in cluster.rows(follower)))
    assert cluster[primary].member.goodbye()
    cluster.until(lambda: (row := cluster.row()).primary is not None and row.primary.node == f"n{follower}")
    cluster.pass_s(0.5)
    assert not writer.take()
    disk.stall_until = 0
    cluster.until(lambda: bool(writer.take()))
    assert resumed(cluster, follower) == [b"1"]


def test_an_answer_for_a_slot_that_came_waits_for_its_rows(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster[primary].kill()
    cluster.taken_over(primary)
    clustering = cluster[follower].host.clustering
    assert clustering is not None
    gate, store = clustering.gate, cluster[follower].node.env.store
    assert 0 < gate.barrier <= store.committed and gate.unsafe == 0
    cluster[follower].disks[0].stall_until = cluster.loop.now_s + 0.2
    store.put(b"test", b"")
    gate.barrier = store.open_commit
    cluster.pass_s(0.1)
    assert gate.unsafe == gate.barrier
    cluster.pass_s(0.2)
    assert gate.unsafe == 0


def test_a_node_that_has_lost_a_slot_gives_up_its_sessions_before_its_commits_end(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    slots, member, seen = clustering.slots, cluster[primary].member, list[bool]()
    cluster[primary].pause_process()
    cluster.taken_over(primary)
    ended = slots.replicator._settle

    def settled() -> None:
        row = member.slots.row(cluster.slot)
        if row.primary is not None and row.primary.node != f"n{primary}":
            seen.append(cluster.slot in slots.opening.lost and clustering.gate.table == member.slots.index)
        ended()

    slots.replicator._settle = settled  # type: ignore[method-assign]
    cluster[primary].resume_process()
    cluster.whole()
    assert seen and all(seen[:1])


def test_a_process_gives_up_no_slot_because_its_table_is_old(cluster: CopiedCluster) -> None:
    """A restarted node reads the log from its beginning, and its slots were at other nodes then."""
    cluster.give("sub", cluster[2])
    subscriber(cluster, 2).leave()
    cluster[2].client("writer").publish("t", b"1", 1)
    cluster.copied()
    for number in (1, 2, 3):
        cluster[number].kill()
        cluster[number].start()
    cluster.whole()
    assert resumed(cluster, 2) == [b"1"]
    assert not [row for row in cluster[2].host.events if row["type"] == "slot.taken"]


# -- the node with the copy


def test_a_node_with_a_copy_routes_by_the_routes_and_makes_no_session(cluster: CopiedCluster) -> None:
    client = subscriber(cluster)
    client.subscribe(("t/#", 1))
    _, follower = cluster.copied()
    writer = cluster[follower].client("writer")
    for topic in ("t", "t/1"):
        writer.send(publish(topic, topic.encode(), 1, 7))
        cluster.until(lambda: bool(writer.take()), 1)
    assert [each.payload for each in client.drain()] == [b"t", b"t/1"]
    node = cluster[follower].node
    assert [session.client_id for session in node.sessions.in_memory()] == ["writer"]


def test_a_node_counts_the_sessions_of_its_own_slots(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    assert cluster[primary].node.sessions.durable == 1 and cluster[follower].node.sessions.durable == 0
    cluster[follower].kill()
    cluster[follower].start()
    for _ in range(300):
        cluster.pass_s(0.01)
        assert cluster[follower].node.sessions.durable == 0


def test_a_slot_of_which_a_node_only_has_the_rows_is_not_held_by_it(cluster: CopiedCluster) -> None:
    """While no holder is in the view the table names all of them, also one whose copy nobody has opened."""
    cluster.copied()
    member = cluster[1].member
    assert TableLocator(member).holds(cluster.slot)
    assert not TableLocator(member, shut={cluster.slot}).holds(cluster.slot)
    assert cluster.locator(1).holds(cluster.slot) and cluster.slot not in cluster[1].node.sessions.elsewhere


def test_a_slot_serves_its_clients_while_the_target_of_its_move_gets_a_copy(cluster: CopiedCluster) -> None:
    client = subscriber(cluster)
    primary, _ = cluster.copied()
    third = cluster.third()
    outcome: list[str] = []
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    cluster[third].disks[0].stall_until = cluster.loop.now_s + 1
    clustering.slots.moves.begin(cluster.slot, f"n{third}", outcome.append)
    cluster.pass_s(0.2)
    assert not client.closed and not outcome
    again, connack = cluster[primary].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present and not outcome
    cluster.until(lambda: bool(outcome))
    assert outcome == [""] and again.closed


def test_a_slot_goes_to_its_follower_when_that_has_its_last_changes(cluster: CopiedCluster) -> None:
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    client.ask(publish("nobody", b"1", 2, 5))  # the slot notes that its handshake needs no message any more
    outcome, moves = list[str](), clustering.slots.moves
    moves.begin(cluster.slot, f"n{follower}", outcome.append)
    departure = moves.departure
    assert departure is not None
    while departure.phase != COPYING:
        assert cluster.loop.turn()
    cluster[follower].disks[0].stall_until = cluster.loop.now_s + 0.5
    cluster.pass_s(0.4)
    assert departure.phase == COPYING and client.closed and not outcome
    cluster.until(lambda: outcome == [""] and cluster.row().home == f"n{follower}")


def test_a_row_that_changes_during_the_fill_is_never_sent_as_it_was(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading ahead must not keep rows from one item to a later one: a change may be sent in between."""
    for name in ("LARGE", "SMALL"):
        monkeypatch.setattr(slot_filling, name, (100, 100))
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    third, store = cluster.third(), cluster[primary].node.env.store
    writer = cluster[primary].client("writer")
    client.leave()
    for number in range(60):
        writer.publish("t", b"%d" % number + bytes(50), 1)
    filling, filled = cluster.replicator(primary)._filling, list[Copy]()
    send = filling._send

    def changing(copy: Copy, feed: Any) -> None:
        send(copy, feed)
        filled.extend([copy] * (copy.attempt.slot == cluster.slot))
        if len(filled) == 20:
            assert copy.phase == FILLING
            for key in store.keys(b"q%c" % cluster.slot, b"q%c" % (cluster.slot + 1)):
                store.put(key, b"changed")

    filling._send = changing  # type: ignore[method-assign]
    cluster[follower].kill()
    cluster.until(lambda: f"n{third}" in [holder.node for holder in cluster.row().in_sync])
    cluster.pass_s(1)
    assert len(filled) > 20
    assert cluster.rows(third) == cluster.rows(primary)


# -- what a dead primary may have delivered


@pytest.mark.parametrize("sender", ["follower", "third"])
def test_a_message_that_a_dead_primary_may_have_delivered_comes_with_dup(cluster: CopiedCluster, sender: str) -> None:
    """The primary delivers it and dies before the follower has it. The origin, perhaps the new primary itself, sends it
    again: the new primary cannot know that it was delivered [MQTT-3.3.1-1]. What comes later has no DUP."""
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    writer = cluster[{"follower": follower, "third": cluster.third()}[sender]].client("writer")
    cluster.replicator(primary)._send = lambda node, item: 1 << 40  # type: ignore[method-assign]
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.1)
    assert [(each.payload, each.dup) for each in client.drain()] == [(b"1", False)]
    assert not writer.take()
    cluster[primary].kill()
    assert cluster.taken_over(primary) == follower
    cluster.until(lambda: bool(writer.take()))
    again, connack = cluster[follower].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert [(each.payload, each.dup) for each in again.drain()] == [(b"1", True)]
    writer.publish("t", b"2", 1)
    cluster.pass_s(0.1)
    assert [(each.payload, each.dup) for each in again.drain()] == [(b"2", False)]
