"""A slot has a second copy: nothing that was acknowledged is lost when its primary dies (H-46)."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.broker.clustering.copy_codec import Begin, CopyAttempt, Declined
from strogoff.broker.clustering.slot_copies import SlotCopies
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.slots.handover import first_wanted
from strogoff.cluster.slots.table import Holder
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import publish


@pytest.fixture
def cluster() -> CopiedCluster:
    return CopiedCluster()


def test_a_copy_has_the_rows_of_the_primary(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[cluster.third()].client("writer")
    for each in (b"1", b"2", b"3"):
        writer.publish("t", each, 1)
    assert cluster.rows(follower) == cluster.rows(primary)
    assert len([key for key in cluster.rows(follower) if key[:1] == b"q"]) == 3


TAKEN = ("q.enq", "q.durable")


def test_the_event_log_says_that_another_node_has_a_message() -> None:
    cluster = CopiedCluster(level=2)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[cluster.third()].client("writer")
    writer.publish("t", b"1", 1)
    cluster[follower].kill()
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    writer.publish("t", b"2", 1)
    rows = [row for row in cluster[primary].host.events if row["type"] == "q.durable"]
    assert [row["copied"] for row in rows] == [True, False]


def test_a_message_that_only_a_former_primary_has_is_not_safe() -> None:
    """Its row waited for the follower, which has the slot now. The event log of the former primary does not say that it
    became safe there."""
    cluster = CopiedCluster(level=2)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    cluster.network.cut(f"n{primary}", f"n{follower}")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.1)
    cluster[primary].pause_process()
    assert cluster.taken_over(primary) == follower
    cluster.network.heal()
    cluster[primary].resume_process()
    cluster.until(lambda: bool(writer.take()))
    cluster.whole()
    events = {number: cluster[number].host.events for number in (1, 2, 3)}
    kept = {number: [row["type"] for row in rows if row["type"] in TAKEN] for number, rows in events.items()}
    assert kept == {primary: ["q.enq"], follower: ["q.enq", "q.durable"], other: []}
    assert resumed(cluster, other) == [b"1"]


def test_the_follower_continues_the_sessions_of_a_killed_primary(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    for each in (b"A", b"B", b"C"):
        writer.publish("t", each, 1)
    cluster[primary].kill()
    assert cluster.taken_over(primary) == follower
    writer.publish("t", b"D", 1)
    assert resumed(cluster, other) == [b"A", b"B", b"C", b"D"]


def test_subscriptions_of_copies_do_not_count(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    counts = {number: cluster[number].node.router.subscriptions for number in (1, 2, 3)}
    assert counts == {primary: 1, follower: 0, cluster.third(): 0}
    cluster[primary].kill()
    assert cluster.taken_over(primary) == follower
    assert cluster[follower].node.router.subscriptions == 1


def test_a_publish_is_acknowledged_only_when_the_follower_has_it_on_disk(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[primary].client("writer")
    disk = cluster[follower].disks[0]
    disk.stall_until = cluster.loop.now_s + 0.5
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.4)
    assert not writer.take(), "the disk of the follower has not answered"
    cluster.until(lambda: bool(writer.take()), 1.0)


def test_two_nodes_with_copies_of_each_others_slots_do_not_wait_for_each_other() -> None:
    """Each acknowledges what its own disk has; a commit of its own may wait for the other node."""
    cluster = CopiedCluster(2)
    near = cluster[1].client("near", clean=False, expiry_s=600)
    near.subscribe(("t", 1))
    near.leave()
    subscriber(cluster).leave()
    cluster.move("sub", 2)
    assert (cluster.copied("near"), cluster.copied("sub")) == ((1, 2), (2, 1))
    writers = [cluster[number].client(f"writer{number}") for number in (1, 2)]
    for number in range(1, 20):
        for writer in writers:
            writer.send(publish("t", b"%d" % number, 1, number))
    answers = [0, 0]

    def answered() -> bool:
        for number, writer in enumerate(writers):
            answers[number] += len(writer.take())
        return answers == [19, 19]

    cluster.until(answered, 2.0)


def test_each_slot_gets_a_second_copy_and_a_new_one_after_a_failure(cluster: CopiedCluster) -> None:
    cluster.spread()
    cluster.all_copied()
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster.all_copied()
    cluster[primary].start()
    cluster.whole()
    cluster.all_copied()


def test_a_primary_that_was_paused_finds_its_sessions_elsewhere_and_gives_them_up(cluster: CopiedCluster) -> None:
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    other = cluster.third()
    cluster[primary].pause_process()
    assert cluster.taken_over(primary) == follower
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    cluster[primary].resume_process()
    cluster.whole()
    assert client.closed
    writer.publish("t", b"2", 1)
    assert resumed(cluster, primary) == [b"1", b"2"]
    assert cluster[primary].node.sessions.durable == 0
    again = cluster.copied()
    assert again[0] == follower
    cluster.until(lambda: cluster.rows(again[1]) == cluster.rows(again[0]))


def test_a_cluster_whose_nodes_were_all_killed_has_everything(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    other = cluster.third()
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    for number in (1, 2, 3):
        cluster[number].kill()
        cluster[number].start()
    cluster.whole()
    assert resumed(cluster, other) == [b"1"]


def test_a_lost_disk_loses_nothing(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    cluster[primary].replace_disk()
    cluster[primary].host.start()
    assert cluster[primary].join(f"n{other}:1") == ""
    cluster.whole()
    writer.publish("t", b"2", 1)
    assert resumed(cluster, primary) == [b"1", b"2"]
    cluster.copied()


def test_a_killed_follower_costs_nothing_and_another_copy_is_made(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[primary].client("writer")
    cluster[follower].kill()
    writer.publish("t", b"1", 1)
    cluster.until(lambda: f"n{other}" in [holder.node for holder in cluster.row().in_sync])
    cluster[follower].start()
    cluster.whole()
    cluster[primary].kill()
    assert cluster.taken_over(primary) == other
    assert resumed(cluster, other) == [b"1"]


def test_the_slot_moves_to_its_follower_by_the_table_alone(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    outcome: list[str] = []
    cluster[primary].host.clustering.slots.moves.begin(cluster.slot, f"n{follower}", outcome.append)  # type: ignore[union-attr]
    cluster.until(lambda: bool(outcome))
    assert outcome == [""]
    writer.publish("t", b"2", 1)
    assert resumed(cluster, other) == [b"1", b"2"]
    assert cluster.copied()[0] == follower


def test_the_slot_moves_to_another_node_that_gets_a_copy_first(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    outcome: list[str] = []
    cluster[primary].host.clustering.slots.moves.begin(cluster.slot, f"n{other}", outcome.append)  # type: ignore[union-attr]
    cluster.until(lambda: bool(outcome), 60)
    assert outcome == [""]
    writer.publish("t", b"2", 1)
    assert resumed(cluster, other) == [b"1", b"2"]
    assert cluster.copied()[0] == other


def test_empty_slots_go_to_their_nodes_with_two_copies_and_again_after_a_return() -> None:
    """A node that was away gets its slots back, except for those with sessions."""
    cluster = CopiedCluster()
    for node in cluster.nodes:
        node.host.spreads = True

    def spread(number: int) -> set[int]:
        table, zones = cluster[1].member.slots, {f"n{n}": "" for n in (1, 2, 3)}
        return {slot for slot, row in enumerate(table.rows) if row.home == f"n{number}"} ^ {
            slot for slot in range(SLOTS) if first_wanted(slot, zones) == f"n{number}"
        }

    cluster.until(lambda: not any(spread(number) for number in (1, 2, 3)), 60)
    cluster.all_copied()
    name = next(f"c{n}" for n in range(1000) if slot_of("", f"c{n}") in cluster[1].member.slots.slots_by_primary["n2"])
    cluster[2].client(name, clean=False, expiry_s=600).leave()
    cluster[2].kill()
    cluster.until(lambda: "n2" not in cluster[1].member.slots.slots_by_primary)
    cluster[2].start()
    cluster.whole()
    cluster.until(lambda: spread(2) == {slot_of("", name)}, 60)
    cluster.all_copied()
    assert cluster[3].connect(name, clean=False, expiry_s=600)[1].session_present


def test_a_primary_that_starts_again_acknowledges_nothing_that_its_follower_lacks(cluster: CopiedCluster) -> None:
    """Its disk has the message, and its lane continues behind it. But the follower becomes the primary."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    cluster.network.cut(f"n{primary}", f"n{follower}")
    writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.1)
    assert len(cluster.rows(primary)) > len(cluster.rows(follower))
    cluster.restart(primary)
    assert cluster.taken_over(primary) == follower
    cluster.network.heal()
    cluster.until(lambda: bool(writer.take()))
    cluster.whole()
    assert resumed(cluster, other) == [b"1"]


def copy_at(cluster: CopiedCluster, follower: int) -> tuple[SlotCopies, CopyAttempt, Holder]:
    """The copies of a follower, the attempt of its copy of the slot, and the node in the present view."""
    clustering, own = cluster[follower].host.clustering, cluster[follower].member.own_holder
    assert clustering is not None and own is not None
    copies = clustering.slots.copies
    return copies, copies._copies[cluster.slot].attempt, own


def test_a_new_attempt_does_not_go_on_with_the_rows_of_the_last_one(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy would count as complete at once, without the changes since its last attempt."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    copies, attempt, own = copy_at(cluster, follower)
    again = msgspec.structs.replace(attempt, number=attempt.number + 1)
    sent: list[object] = []
    monkeypatch.setattr(copies, "_send", lambda node, item: sent.append(item))
    copies._handle(f"n{primary}", Begin(again, 0), own)
    assert sent == [Declined(again, "the slot table may still name an earlier copy")]


def test_a_copy_ends_when_its_node_has_entered_another_view(cluster: CopiedCluster) -> None:
    """Also before the table names it: the primary has made no copy for this entrance."""
    subscriber(cluster).leave()
    _, follower = cluster.copied()
    copies, attempt, own = copy_at(cluster, follower)
    for entrance, kept in ((own, True), (msgspec.structs.replace(own, entered_in_view=own.entered_in_view + 1), False)):
        copies._copies[attempt.slot].listed = False
        copies.follow(entrance)
        assert (attempt.slot in copies) == kept


def test_what_has_expired_makes_room_on_both_disks() -> None:
    """The queue of an absent client is full of it. The next message that was acknowledged survives the primary."""
    cluster = CopiedCluster(max_offline_messages=3)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    writer = cluster[primary].client("writer")
    for number in range(3):
        writer.publish("t", b"short", 1, number + 1, message_expiry_interval=1)
    cluster.pass_s(60)
    (puback,) = writer.publish("t", b"wanted", 1, 9)
    assert puback.reason == 0
    cluster.pass_s(1)
    for number in (primary, follower):
        assert sum(key[:1] == b"q" for key in cluster.rows(number)) == 1
    cluster[primary].kill()
    assert resumed(cluster, cluster.taken_over(primary)) == [b"wanted"]
