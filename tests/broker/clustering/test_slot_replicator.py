"""The primary's side of copies: what it sends, what it waits for, and when it begins anew."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering import slot_filling, slot_replicator
from strogoff.broker.clustering.copy_codec import Complete, Declined, Ready, Rows, decode_answer, decode_item
from strogoff.broker.clustering.slot_filling import ASKED, BEGUN, IN_SYNC, Copy
from strogoff.cluster.links.ports import Lane, Refuse
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import publish


@pytest.fixture
def cluster() -> CopiedCluster:
    return CopiedCluster()


def test_a_slot_with_many_messages_is_copied_in_items_of_limited_size(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_filling, "LARGE", (2000, 4000))
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    writer = cluster[primary].client("writer")
    for number in range(100):
        writer.publish("t", b"%d" % number + bytes(300), 1)
    follower = cluster.lose_follower()
    replicator = cluster.replicator(primary)
    sent: list[Rows] = []
    send = replicator._send

    def noted(node: str, data: bytes) -> int:
        item = decode_item(data)
        if isinstance(item, Rows) and item.attempt.slot == cluster.slot:
            sent.append(item)
            assert replicator._filling._feeds[node].bytes < 4000
        return send(node, data)

    replicator._send = noted  # type: ignore[assignment]
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    sizes = [sum(map(len, item.rows)) for item in sent]
    short = [size for size in sizes if size < 2000]
    assert len(sizes) > 10 and max(sizes) < 3000 and len(short) <= 2, "the end of the queue, and that of the slot"
    other = cluster.copied()[1]
    assert other != follower and cluster.rows(other) == cluster.rows(primary)


def test_while_commits_wait_for_a_node_one_small_item_of_rows_is_under_way_to_it(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit waits behind the rows that are under way."""
    monkeypatch.setattr(slot_replicator, "QUIET_MS", 1e9)
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    writer = cluster[primary].client("writer")
    for number in range(100):
        writer.publish("t", b"%d" % number + bytes(1000), 1)
    cluster.lose_follower()
    replicator = cluster.replicator(primary)
    sent: list[int] = []
    send = replicator._send

    def noted(node: str, data: bytes) -> int:
        if isinstance(decode_item(data), Rows):
            sent.append(len(data))
            assert replicator._filling._feeds[node].bytes < 8 << 10
        return send(node, data)

    monkeypatch.setattr(replicator, "_send", noted)
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    assert len(sent) > 10
    assert max(sent) < 10 << 10


def test_changes_during_a_fill_reach_the_copy(cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_filling, "LARGE", (100, 100))
    monkeypatch.setattr(slot_filling, "SMALL", (100, 100))
    client = subscriber(cluster)
    primary, _ = cluster.copied()
    writer = cluster[primary].client("writer")
    client.leave()
    for number in range(30):
        writer.publish("t", b"%d" % number, 1)
    follower = cluster.lose_follower()
    cluster.until(lambda: any(copy.attempt.slot == cluster.slot for copy in cluster.replicator(primary)._fills))
    client, _ = cluster[primary].connect("sub", clean=False, expiry_s=600)
    client.drain()
    client.subscribe(("u", 1), packet_id=9)
    client.unsubscribe("t", packet_id=10)
    writer.publish("u", b"last", 1)
    other = cluster.copied()[1]
    cluster.pass_s(1.0)
    assert cluster.rows(other) == cluster.rows(primary)
    cluster[follower].start()
    cluster.whole()
    cluster[primary].kill()
    assert cluster.taken_over(primary) == other
    writer = cluster[other].client("another")
    writer.publish("t", b"no", 1)
    writer.publish("u", b"yes", 1)
    assert resumed(cluster, other)[-1] == b"yes"


def test_a_lost_answer_is_asked_for_again(cluster: CopiedCluster) -> None:
    """Begin and End are repeated until the follower has answered."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    heard: list[bytes] = []
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    taken = clustering.slots.replicator.received

    def every_second(node: str, data: bytes) -> None:
        heard.append(data)
        if len(heard) % 2 == 0:
            taken(node, data)

    clustering.slots.replicator.received = every_second  # type: ignore[method-assign]
    cluster.lose_follower()
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)
    assert len(heard) >= 4


def test_a_follower_says_again_that_it_has_dropped_its_copy(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is full while the copy is made, and its answer is lost."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    replicator = cluster.replicator(primary)
    taken, lost = replicator.received, list[bytes]()

    def all_but_the_first_refusal(node: str, data: bytes) -> None:
        answer = decode_answer(data)
        if answer.attempt.slot == cluster.slot and isinstance(answer, Ready) and not lost:
            cluster[int(node[1:])].disks[0].full = True
        if answer.attempt.slot == cluster.slot and isinstance(answer, Declined) and not lost:
            lost.append(data)
            cluster[int(node[1:])].disks[0].full = False
        else:
            taken(node, data)

    monkeypatch.setattr(replicator, "received", all_but_the_first_refusal)
    cluster.lose_follower()
    cluster.until(lambda: bool(lost), 60)
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)


def test_a_follower_says_again_that_its_copy_is_complete_although_its_disk_is_full(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost, and then its disk is full. Every commit of the primary waits for it, and it leaves the
    in-sync set only after the primary has asked for it."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    replicator = cluster.replicator(primary)
    taken, lost = replicator.received, list[str]()

    def all_but_the_first_end(node: str, data: bytes) -> None:
        answer = decode_answer(data)
        if answer.attempt.slot == cluster.slot and isinstance(answer, Complete) and not lost:
            lost.append(node)
            cluster[int(node[1:])].disks[0].full = True
        else:
            taken(node, data)

    monkeypatch.setattr(replicator, "received", all_but_the_first_end)
    cluster.lose_follower()
    cluster.until(lambda: bool(lost), 60)
    writer = cluster[primary].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: bool(writer.take()))
    assert len(cluster.row().in_sync) == 1


def test_a_request_that_is_lost_is_repeated(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    member = cluster[primary].member
    asked: list[int] = []
    request = member.request_slots

    def first_is_lost(changes, leaving=False):  # type: ignore[no-untyped-def]
        asked.append(len(changes))
        if len(asked) > 1:
            request(changes, leaving)

    member.request_slots = first_is_lost  # type: ignore[method-assign]
    cluster.lose_follower()
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)
    assert len(asked) > 1


def test_the_follower_counts_before_the_table_names_it(cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader is away while the primary asks: from then on every commit waits for the follower (H-46)."""
    monkeypatch.setattr(slot_replicator, "FILLS", 256)
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    member = cluster[primary].member
    asked: list[int] = []
    member.request_slots = lambda changes, leaving=False: asked.append(len(changes))  # type: ignore[method-assign]
    cluster.lose_follower()
    replicator = cluster.replicator(primary)

    def waiting() -> list[Copy]:
        return [copy for copy in replicator.copies.get(cluster.slot, ()) if copy.phase == ASKED]

    cluster.until(waiting)
    (copy,) = waiting()
    other = int(copy.holder.node[1:])
    assert len(cluster.row().in_sync) == 1
    cluster[other].disks[0].stall_until = cluster.loop.now_s + 0.5
    writer = cluster[primary].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.4)
    assert not writer.take(), "the table may name the follower at any moment, and it has not the message"
    cluster.until(lambda: bool(writer.take()))


def test_items_for_a_node_that_has_left_the_view_are_dropped(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    links = cluster[primary].member.links
    writer = cluster[primary].client("writer")
    cluster.isolate(follower)
    for number in range(10):
        writer.send(publish("t", bytes(1000), 1, number + 1))
    cluster.pass_s(0.2)
    assert links.waiting_bytes(f"n{follower}", Lane.REPLICA) > 5000 and not writer.take()
    cluster.until(lambda: cluster[primary].member.view.incarnation(f"n{follower}") is None)
    cluster.pass_s(0.1)
    assert links.waiting_bytes(f"n{follower}", Lane.REPLICA) == 0
    cluster.until(lambda: bool(writer.take()))


def test_a_full_follower_takes_itself_out_and_another_copy_is_made(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster[follower].disks[0].full = True
    writer = cluster[primary].client("writer")
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: bool(writer.take()))
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    assert cluster.copied()[1] not in (primary, follower)
    states = {copy.holder.node: copy.phase for copy in cluster.replicator(primary).copies[cluster.slot]}
    assert states == {f"n{cluster.copied()[1]}": IN_SYNC}


def test_an_item_that_cannot_be_read_ends_the_copies_and_new_ones_are_made(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    third = cluster.third()
    cluster[primary].member.links.send(f"n{follower}", Lane.REPLICA, b"garbage")
    writer = cluster[primary].client("writer")
    writer.publish("t", b"1", 1)
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)
    other = cluster.copied()[1]
    cluster.until(lambda: cluster.rows(other) == cluster.rows(primary))
    cluster[primary].kill()
    cluster.taken_over(primary)
    assert resumed(cluster, third) == [b"1"]


def test_a_primary_reads_one_item_of_one_copy_in_each_turn(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes two or three milliseconds, and a node that gets many slots at once begins all their copies."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    cluster.all_copied()
    monkeypatch.setattr(slot_filling, "LARGE", (16, 1 << 20))
    filling, turns = cluster.replicator(primary)._filling, list[list[int]]()
    read, send = filling._turn, filling._send

    def turn() -> None:
        turns.append([])
        read()
        turns.append([])  # what follows is not read in this way

    def sent(copy: Copy, feed: Any) -> None:
        turns[-1].append(copy.attempt.slot)
        send(copy, feed)

    monkeypatch.setattr(filling, "_turn", turn)
    monkeypatch.setattr(filling, "_send", sent)
    cluster.lose_follower()
    cluster.until(lambda: len(cluster.row().in_sync) == 2)
    read_slots = [slots for slots in turns[::2] if slots]
    assert max(map(len, read_slots)) == 1 and not any(turns[1::2])
    assert read_slots.count([cluster.slot]) > 2, "a slot with several items takes a turn for each"
    cluster.until(lambda: cluster.rows(cluster.copied()[1]) == cluster.rows(primary))


def test_a_copy_that_ends_while_another_one_is_looked_at_is_left_out(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of both cannot be read in the same turn."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    cluster.all_copied()
    replicator = cluster.replicator(primary)
    monkeypatch.setattr(replicator._filling, "_turn", lambda: None)
    cluster.lose_follower()
    cluster.until(lambda: len(replicator._fills) > 1)
    first, second = replicator._fills[:2]
    give_up = replicator._give_up

    def both(copy: Copy) -> None:
        give_up(copy)
        if copy is first:
            give_up(second)

    monkeypatch.setattr(replicator, "_give_up", both)
    monkeypatch.setattr(slot_replicator, "BEHIND_BYTES", -1)
    replicator.tick()
    assert first.over and second.over


def test_a_primary_with_a_full_disk_still_knows_its_own_zone(cluster: CopiedCluster) -> None:
    """Otherwise it would take a follower in its own zone for one in another, and make copies in vain."""
    cluster[1].disks[0].full = True
    cluster.until(lambda: cluster[1].member.full == ("n1",) == cluster[2].member.full)
    assert set(cluster.replicator(1)._zones()) == {"n1", "n2", "n3"}
    assert set(cluster.replicator(2)._zones()) == {"n2", "n3"}


def test_a_copy_that_its_primary_has_forgotten_is_begun_anew(cluster: CopiedCluster) -> None:
    """The items of a copy reach the next process of the follower (3 nodes, copies and relay, seed 770135)."""
    replicator, killed = cluster.replicator(2), list[int]()
    end = replicator._end

    def first(copy: Copy) -> None:
        end(copy)
        if not killed:
            killed.append(int(copy.holder.node[1:]))
            cluster[killed[0]].kill()

    replicator._end = first  # type: ignore[method-assign]
    cluster.give("sub", cluster[2])
    cluster.until(lambda: killed)
    (follower,) = killed
    cluster.until(lambda: cluster[2].member.view.incarnation(f"n{follower}") is None)
    cluster[follower].start()
    cluster.whole()
    replicator.preferred[cluster.slot] = f"n{follower}"
    cluster.until(lambda: follower in cluster.copied())


def test_a_node_whose_disks_are_all_full_keeps_no_copy_from_another_node(cluster: CopiedCluster) -> None:
    """Its own log of the membership is full too. So it cannot follow the slot table, and never answers a Begin."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster.all_copied()
    for disk in cluster[follower].disks:
        disk.full = True
    writer = cluster[primary].client("writer")
    for number in range(20):
        writer.send(publish(f"t/{number}", b"1", 1, number + 1))
    name = f"n{follower}"

    def copied_elsewhere() -> bool:
        rows = cluster[primary].member.slots.rows
        return all(len(row.in_sync) == 2 for row in rows if row.primary is not None and row.primary.node != name)

    cluster.until(lambda: name in cluster[primary].member.full)
    cluster.until(copied_elsewhere, 30)


def test_an_item_that_the_follower_has_not_taken_is_not_repeated(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link sends it again until the follower follows the table. Each repetition would only pile up behind it."""
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    third = cluster.third()
    clustering = cluster[third].host.clustering
    assert clustering is not None

    def refuse(node: str, seq: int, payload: bytes) -> None:
        raise Refuse("this node does not follow the table")

    with monkeypatch.context() as patch:
        patch.setattr(clustering.slots.copies, "take", refuse)
        cluster.lose_follower()
        replicator = cluster.replicator(primary)
        cluster.until(lambda: replicator.filling)
        begun = [copy.said for copies in replicator.copies.values() for copy in copies if copy.phase == BEGUN]
        cluster.pass_s(2.5)
        assert begun == [copy.said for copies in replicator.copies.values() for copy in copies if copy.phase == BEGUN]
        assert begun
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)
