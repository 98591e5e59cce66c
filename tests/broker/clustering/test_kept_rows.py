"""A node that returns keeps the rows of its slots, and gets what differs from those of the primary (H-46)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strogoff.broker.clustering import slot_comparison, slot_filling, slot_opening
from strogoff.broker.clustering.copy_codec import (
    Begin,
    CopyItem,
    Different,
    Digests,
    End,
    Rows,
    decode_answer,
    decode_item,
    encode,
)
from strogoff.broker.clustering.slot_comparison import Size
from strogoff.broker.clustering.slot_transfer import Attempt
from strogoff.broker.sessions.slot_sessions import ARRIVED, ARRIVING, KEPT
from strogoff.mqtt import packets
from strogoff.storage.engine import StorageError
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import option, publish
from tests.harness.thinning import thinned


class Returning(CopiedCluster):
    """The slot of `sub` is at `primary`, with 60 messages, and `returning` has a copy. While that node is away, the
    primary makes no copy at the third node."""

    def __init__(self) -> None:
        super().__init__()
        subscriber(self).leave()
        self.primary, self.returning = self.copied()
        self.other = self.third()
        self.writer = self[self.other].client("writer")
        for number in range(60):
            self.writer.publish("t", b"%d" % number, 1)
        self.expected = [b"%d" % number for number in range(60)]
        self.items: list[CopyItem] = []
        """The items about the slot that the primary has sent, without changes."""
        self.sent: Callable[[CopyItem], None] = lambda item: None
        """Called with each of them."""

    def publish(self, payload: bytes) -> None:
        self.writer.publish("t", payload, 1)
        self.expected.append(payload)

    def leave(self) -> None:
        """The other node with a copy is killed."""
        self.make_copies(1)
        assert self.lose_follower() == self.returning

    def make_copies(self, wanted: int) -> None:
        """Each slot of the primary is to have so many copies."""
        self.replicator(self.primary)._wanted = wanted

    def come_back(self) -> None:
        """It returns, and has not got a copy yet."""
        self[self.returning].start()
        self.whole()

    def watch(self) -> None:
        """Note what the primary sends from now on."""
        replicator = self.replicator(self.primary)
        send = replicator._send

        def noted(node: str, data: bytes) -> int:
            seq = send(node, data)
            item: Any = decode_item(data)
            if hasattr(item, "attempt") and item.attempt.slot == self.slot:
                self.items.append(item)
                self.sent(item)
            return seq

        replicator._send = noted  # type: ignore[assignment]

    def catch_up(self) -> None:
        """Let time pass until it has a copy, and compare the rows."""
        self.watch()
        self.make_copies(2)
        assert self.copied() == (self.primary, self.returning)
        assert self.rows(self.returning) == self.rows(self.primary)
        assert self[self.returning].node.env.counters.queue_copy_repairs == 0

    def promote(self) -> None:
        """The primary dies. The node that had returned is the next one, and delivers each message of the slot once."""
        self[self.primary].kill()
        assert self.taken_over(self.primary) == self.returning
        assert resumed(self, self.other) == self.expected

    def mark(self) -> bytes | None:
        return self[self.returning].node.slot_sessions.marks.get(self.slot)

    def count(self, kind: type[CopyItem]) -> int:
        return len([item for item in self.items if isinstance(item, kind)])


@pytest.fixture
def cluster() -> Returning:
    return Returning()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps for few rows."""
    monkeypatch.setattr(slot_comparison, "LEVELS", (Size(16, 1000), Size(4, 300)))
    monkeypatch.setattr(slot_comparison, "STEP", Size(16, 1000))
    monkeypatch.setattr(slot_filling, "SMALL", (200, 200))
    monkeypatch.setattr(slot_filling, "LARGE", (200, 200))


# -- what crosses the link


def test_a_node_that_returns_gets_only_what_has_changed(cluster: Returning) -> None:
    cluster.leave()
    cluster.publish(b"one more")
    cluster.come_back()
    cluster.catch_up()
    sent = sum([len(item.rows) // 2 for item in cluster.items if isinstance(item, Rows)])
    assert 2 <= sent <= 64 and cluster.count(Digests) == 2
    copied = [row for row in cluster[cluster.primary].host.events if row["type"] == "slot.copied"]
    (*_, last) = [row["bytes"] for row in copied if row["slot"] == cluster.slot]
    size = sum([len(key) + len(value) for key, value in cluster.rows(cluster.primary).items()])
    assert last < size / 2 and size > 3000
    cluster.promote()


def test_rows_that_are_equal_are_not_sent(cluster: Returning) -> None:
    cluster.leave()
    cluster.come_back()
    cluster.catch_up()
    assert [type(item) for item in cluster.items] == [Begin, Digests, End]
    cluster.promote()


def test_an_event_counts_the_bytes_of_items_and_answers(cluster: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.leave()
    cluster.come_back()
    replicator, heard = cluster.replicator(cluster.primary), list[int]()
    taken = replicator.received

    def noted(node: str, data: bytes) -> None:
        if decode_answer(data).attempt.slot == cluster.slot:
            heard.append(len(data))
        taken(node, data)

    monkeypatch.setattr(replicator, "received", noted)
    cluster.catch_up()
    copied = [row for row in cluster[cluster.primary].host.events if row["type"] == "slot.copied"]
    (*_, last) = [row["bytes"] for row in copied if row["slot"] == cluster.slot]
    assert last == sum(heard) + sum([len(encode(item)) for item in cluster.items])


def test_a_node_compares_the_digests_of_one_slot_at_a_time(cluster: Returning) -> None:
    """Its turns stay short, however many copies begin."""
    cluster.all_copied()
    for number in range(40):
        cluster[1].client(f"c{number}", clean=False, expiry_s=600).leave()
    cluster.leave()
    cluster.come_back()
    replicator, open_items, most = cluster.replicator(cluster.primary), list[object](), [0]
    send, taken = replicator._send, replicator.received

    def noted(node: str, data: bytes) -> int:
        item = decode_item(data)
        if isinstance(item, Digests) and node == f"n{cluster.returning}":
            open_items.append(item.attempt)
            most.append(len(open_items))
        return send(node, data)

    def answered(node: str, data: bytes) -> None:
        answer = decode_answer(data)
        if isinstance(answer, Different):
            open_items.remove(answer.attempt)
        taken(node, data)

    replicator._send = noted  # type: ignore[assignment]
    replicator.received = answered  # type: ignore[method-assign]
    cluster.make_copies(2)
    cluster.all_copied()
    assert len(most) > 20 and max(most) == 1


def test_digests_whose_answer_is_lost_are_sent_again(cluster: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.leave()
    cluster.come_back()
    replicator, heard = cluster.replicator(cluster.primary), list[Different]()
    taken = replicator.received

    def all_but_the_first(node: str, data: bytes) -> None:
        answer = decode_answer(data)
        if isinstance(answer, Different) and answer.attempt.slot == cluster.slot:
            heard.append(answer)
            if len(heard) == 1:
                return
        taken(node, data)

    monkeypatch.setattr(replicator, "received", all_but_the_first)
    cluster.catch_up()
    assert [answer.number for answer in heard] == [1, 2]


# -- changes and crashes meanwhile


def test_rows_that_were_kept_get_all_changes_while_they_are_compared(cluster: Returning, small: None) -> None:
    cluster.leave()
    for number in range(20):
        cluster.publish(b"away %d" % number)
    cluster.come_back()
    client, _ = cluster[cluster.primary].connect("sub", clean=False, expiry_s=600)
    live, sent = cluster[cluster.primary].client("live"), [0]
    cluster.watch()
    cluster.make_copies(2)

    def done() -> bool:
        """Whenever an item has been sent, a message comes, and those that have come are answered."""
        if len(cluster.items) > sent[0]:
            sent[0] = len(cluster.items)
            live.send(publish("t", b"%d" % sent[0], 1, sent[0]))
            for packet in client.take():
                client.answer(packet)
        return len(cluster.row().in_sync) == 2

    cluster.until(done, 60)
    client.drain()
    cluster.pass_s(1)
    assert cluster.count(Digests) > 4 and cluster.count(Rows) > 4
    assert cluster.rows(cluster.returning) == cluster.rows(cluster.primary)
    client.leave()
    cluster.expected = []
    cluster.publish(b"last")
    cluster.promote()


@pytest.mark.parametrize("victim", ["primary", "returning"])
@pytest.mark.parametrize("step", thinned([3, 1, 2, 5, 8, 11], 6))
def test_a_comparison_that_is_interrupted_begins_again(cluster: Returning, victim: str, step: int, small: None) -> None:
    """Begin, digests of large and of small ranges, rows, End: after each of them a node is killed."""
    cluster.leave()
    for number in range(20):
        cluster.publish(b"away %d" % number)
    cluster.come_back()
    assert cluster.mark() == KEPT
    cluster.watch()
    cluster.make_copies(2)
    cluster.until(lambda: len(cluster.items) >= step)
    number = getattr(cluster, victim)
    cluster[number].kill()
    cluster.until(lambda: cluster[number].host.up is False)
    cluster[number].start()
    cluster.whole()
    cluster.copied()
    cluster.primary, cluster.returning = cluster.copied()
    cluster.until(lambda: cluster.rows(cluster.returning) == cluster.rows(cluster.primary))
    cluster.promote()


def test_the_mark_says_that_a_copy_is_incomplete_until_its_end(cluster: Returning, small: None) -> None:
    cluster.leave()
    cluster.publish(b"one more")
    cluster.come_back()
    marks = list[tuple[type, bytes | None]]()
    cluster.sent = lambda item: marks.append((type(item), cluster.mark()))
    assert cluster.mark() == KEPT
    cluster.catch_up()
    assert {mark for kind, mark in marks if kind in (Digests, Rows)} == {ARRIVING}
    assert cluster.mark() == ARRIVED


def test_a_follower_that_is_killed_while_it_compares_is_not_the_next_primary(cluster: Returning, small: None) -> None:
    cluster.leave()
    cluster.publish(b"one more")
    cluster.come_back()
    cluster.watch()
    cluster.make_copies(2)
    cluster.until(lambda: cluster.count(Rows) > 0)
    cluster[cluster.primary].kill()
    cluster.until(lambda: cluster.row().primary is None)
    cluster.pass_s(2)
    assert cluster.row().primary is None
    cluster[cluster.primary].start()
    cluster.whole()
    assert cluster.copied() == (cluster.primary, cluster.returning)
    cluster.promote()


# -- rows that differ


def test_rows_that_are_damaged_or_missing_are_replaced(cluster: Returning) -> None:
    cluster.leave()
    cluster.come_back()
    store, rows = cluster[cluster.returning].node.env.store, cluster.rows(cluster.returning)
    for number, (key, value) in enumerate(rows.items()):
        if number % 7 == 1:
            store.put(key, b"damaged")
        elif number % 7 == 2 and key[:1] != b"b":
            store.delete(key)
        elif number % 7 == 3 and key[:1] == b"q":
            store.put(key + b"more", value)
    cluster.pass_s(1)
    cluster.catch_up()
    cluster.promote()


@pytest.mark.parametrize("step", ["_compare", "_write"])
def test_rows_that_cannot_be_read_are_no_copy(cluster: Returning, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read for the digests, and again when rows arrive. The primary tries again until they can be read."""
    cluster.leave()
    cluster.publish(b"one more")
    cluster.come_back()
    copies = cluster[cluster.returning].host.clustering.slots.copies  # type: ignore[union-attr]
    done, tried = getattr(copies, step), list[str]()

    def unreadable(slot: int, after: bytes = b"", upto: bytes = b"") -> Any:
        raise StorageError("damaged")

    def reading(node: str, item: Any) -> None:
        with monkeypatch.context() as patched:
            if item.attempt.slot == cluster.slot:
                tried.append(step)
                patched.setattr(cluster[cluster.returning].node.slot_sessions, "rows", unreadable)
            done(node, item)

    monkeypatch.setattr(copies, step, reading)
    cluster.make_copies(2)
    cluster.until(lambda: len(tried) > 2, 60)
    assert len(cluster.row().in_sync) == 1
    monkeypatch.undo()
    cluster.catch_up()
    cluster.promote()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_former_primary_loses_what_nobody_has_acknowledged(restarted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cut off, and has a message and a subscription that only its disk has. The next primary has other
    messages."""
    cluster = Returning()
    former, present = cluster.primary, cluster.returning
    monkeypatch.setattr(slot_opening, "wanted_followers", lambda *_: [f"n{former}"])
    client, _ = cluster[former].connect("sub", clean=False, expiry_s=600)
    client.drain()
    cluster.pass_s(0.1)
    local = cluster[former].client("local")
    cluster.isolate(former)
    client.send(packets.Subscribe(9, [option("lost", 1)]))
    local.send(publish("t", b"never acknowledged", 1, 7))
    cluster.pass_s(0.3)
    assert cluster.taken_over(former) == present
    cluster.primary, cluster.returning = present, former
    cluster.make_copies(1)
    for number in (cluster.other, present):
        cluster[number].client(f"w{number}").publish("t", b"%d" % number, 1)
    if restarted:
        cluster[former].kill()
        cluster[former].start()
    cluster.network.heal()
    cluster.whole()
    assert cluster.mark() == KEPT
    cluster.pass_s(0.5)
    stale, true = cluster.rows(former), cluster.rows(present)
    assert [key for key in stale if key not in true and key[:1] in (b"b", b"q")]
    cluster.replicator(present).preferred[cluster.slot] = f"n{former}"
    cluster.watch()
    cluster.make_copies(2)
    cluster.until(lambda: f"n{former}" in [holder.node for holder in cluster.row().in_sync])
    assert cluster.count(Digests) > 0 and cluster.rows(former) == cluster.rows(present)
    table = cluster[former].node.router.table("")
    assert not table.match("lost") and len(table.dormant("t")) == 1
    cluster.expected = [b"%d" % cluster.other, b"%d" % present]
    cluster.promote()


def test_a_subscription_that_was_never_on_disk_is_in_no_table(
    cluster: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot is lost in the instant in which it is written."""
    former, present = cluster.primary, cluster.returning
    monkeypatch.setattr(slot_opening, "wanted_followers", lambda *_: [f"n{former}"])
    sessions = cluster[former].node.slot_sessions
    lose = sessions.lose

    def late(slot: int, *elsewhere: Any) -> None:
        if slot == cluster.slot:
            (row, value) = next(each for each in cluster.rows(former).items() if each[0][:1] == b"b")
            sessions.apply(row[:-1] + b"late", value)
        lose(slot, *elsewhere)

    monkeypatch.setattr(sessions, "lose", late)
    cluster[former].pause_process()
    assert cluster.taken_over(former) == present
    cluster.primary, cluster.returning = present, former
    cluster.replicator(present).preferred[cluster.slot] = f"n{former}"
    cluster[former].resume_process()
    cluster.whole()
    cluster.until(lambda: f"n{former}" in [holder.node for holder in cluster.row().in_sync])
    table = cluster[former].node.router.table("")
    assert cluster.rows(former) == cluster.rows(present)
    assert not table.match("late") and len(table.match("t")) == 1


def test_nothing_but_the_lane_changes_the_rows_of_a_copy(cluster: Returning) -> None:
    """The memory of a node that has restarted had the numbers of the slot's messages."""
    cluster.leave()
    cluster.come_back()
    gate = cluster[cluster.returning].host.clustering.gate  # type: ignore[union-attr]
    assert gate.last(cluster.slot, f"n{cluster.other}") > (0, 0)
    cluster.catch_up()
    gate.forget(f"n{cluster.other}", 1 << 30)
    cluster.pass_s(0.1)
    assert cluster.rows(cluster.returning) == cluster.rows(cluster.primary)


def test_a_new_session_with_the_same_filter_keeps_its_subscription(
    cluster: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that returns has the row of a former session. It gets the one of the present session, which begins while
    the rows are compared, before it deletes that one."""
    cluster.leave()
    cluster[cluster.primary].client("sub", clean=True).leave()
    cluster.come_back()
    replicator, lost = cluster.replicator(cluster.primary), list[bytes]()
    taken = replicator.received

    def all_but_the_first(node: str, data: bytes) -> None:
        answer = decode_answer(data)
        if isinstance(answer, Different) and answer.attempt.slot == cluster.slot and not lost:
            lost.append(data)
        else:
            taken(node, data)

    monkeypatch.setattr(replicator, "received", all_but_the_first)
    cluster.make_copies(2)
    cluster.until(lambda: bool(lost))
    client = cluster[cluster.primary].client("sub", clean=True, expiry_s=600)
    client.subscribe(("t", 1))
    client.leave()
    both = [key for key in cluster.rows(cluster.returning) if key[:1] == b"b"]
    assert len(both) == 2 and len(cluster.row().in_sync) == 1
    assert cluster.copied() == (cluster.primary, cluster.returning)
    cluster.pass_s(1)
    assert cluster.rows(cluster.returning) == cluster.rows(cluster.primary)
    assert len(cluster[cluster.returning].node.router.table("").dormant("t")) == 1
    cluster.expected = []
    cluster.publish(b"new")
    cluster.promote()


# -- rows without a copy


def test_rows_of_a_slot_that_goes_to_another_node_are_deleted(
    cluster: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.leave()
    monkeypatch.setattr(slot_opening, "wanted_followers", lambda *_: [f"n{cluster.other}"])
    cluster.come_back()
    cluster.until(lambda: not cluster.rows(cluster.returning))
    assert cluster.mark() is None


@pytest.mark.parametrize("at_once", [False, True])
def test_rows_that_were_kept_are_deleted_when_the_slot_comes_empty(
    cluster: Returning, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session has ended while this node was away: no client may find it again. The node may get several changes of
    the table at once."""
    cluster.leave()
    cluster[cluster.primary].client("sub", clean=True).leave()
    cluster.come_back()
    assert cluster.mark() == KEPT and cluster.rows(cluster.returning)
    slots = cluster[cluster.returning].host.clustering.slots  # type: ignore[union-attr]
    if at_once:
        monkeypatch.setattr(slots.opening, "settle", lambda busy: None)
    cluster.give("sub", cluster[cluster.returning])
    monkeypatch.undo()
    slots.follow()
    cluster.until(lambda: cluster.mark() is None)
    assert not cluster[cluster.returning].node.slot_sessions.strange_rows(cluster.slot)
    _, connack = cluster[cluster.returning].connect("sub", clean=False, expiry_s=600)
    assert not connack.session_present


def test_rows_of_a_copy_that_was_given_up_are_deleted_when_the_slot_comes_empty(
    cluster: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full while the rows were compared, and the table does not change until the session has ended."""
    cluster.leave()
    cluster.come_back()
    slots = cluster[cluster.returning].host.clustering.slots  # type: ignore[union-attr]
    disk = cluster[cluster.returning].disks[0]
    cluster.sent = lambda item: setattr(disk, "full", True)
    cluster.watch()
    lacking = {cluster.slot: f"n{cluster.returning}"}
    monkeypatch.setattr(cluster.replicator(cluster.primary), "lacking", lambda: lacking)
    cluster.make_copies(2)
    cluster.until(lambda: disk.full and not len(slots.copies), 60)
    cluster.make_copies(1)
    disk.full = False
    cluster.until(lambda: cluster[cluster.returning].node.env.store.accepting)
    cluster[cluster.primary].client("sub", clean=True).leave()
    cluster.give("sub", cluster[cluster.returning])
    _, connack = cluster[cluster.returning].connect("sub", clean=False, expiry_s=600)
    assert not connack.session_present


def test_rows_that_were_kept_are_deleted_when_the_slot_moves_here_as_a_whole(cluster: Returning) -> None:
    """The primary has one copy of each slot by its settings, and makes none here."""
    cluster.leave()
    cluster.publish(b"one more")
    cluster.come_back()
    offered = Attempt(cluster.slot, cluster.row().epoch, cluster.row().version, 1)
    clustering = cluster[cluster.returning].host.clustering
    assert clustering is not None
    clustering.slots.moves.arrivals.offered(f"n{cluster.primary}", offered)
    cluster.until(lambda: not cluster.rows(cluster.returning))


def test_messages_follow_the_rows_that_were_kept(cluster: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next primary has not written its routes yet, and a former one ignores those that it has written itself."""
    former, present = cluster.primary, cluster.returning
    monkeypatch.setattr(slot_opening, "wanted_followers", lambda *_: [f"n{former}"])
    advertiser = cluster[present].host.clustering.advertiser  # type: ignore[union-attr]
    monkeypatch.setattr(advertiser, "announce", lambda *filter_and_slot: None)
    cluster[former].kill()
    assert cluster.taken_over(former) == present
    cluster.primary, cluster.returning = present, former
    cluster.replicator(present).preferred[cluster.slot] = f"n{former}"
    cluster.come_back()
    cluster.until(lambda: f"n{former}" in [holder.node for holder in cluster.row().in_sync])
    cluster[former].client("local").publish("t", b"by the rows", 1)
    assert resumed(cluster, cluster.other) == [*cluster.expected, b"by the rows"]
