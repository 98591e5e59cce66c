"""A follower with a slow disk is replaced, if another node can have its copies, and it gets none for a while."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from strogoff.broker.clustering import slot_replicator
from strogoff.broker.clustering.rows import status_row
from strogoff.broker.clustering.slot_filling import FILLING, IN_SYNC, Copy
from strogoff.broker.sessions.slot_sessions import ARRIVING
from strogoff.cluster.membership import commit_pace
from tests.broker.clustering.balanced_cluster import BalancedCluster
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient, publish

SLOW_S = (0.6, 0.7)
QUICK_S = (0.0002, 0.005)


@pytest.fixture
def cluster() -> CopiedCluster:
    return CopiedCluster()


def make_slow(cluster: CopiedCluster, *numbers: int) -> None:
    """Make the disks of these nodes slow, and let time pass until all nodes know it."""
    for number in numbers:
        cluster[number].disks[0].latency_s = SLOW_S
    names = {f"n{number}" for number in numbers}
    cluster.until(lambda: all(names == set(harness.member.slow) for harness in cluster.nodes), 30)


def answered_s(cluster: CopiedCluster, writer: PacketClient, packet_id: int) -> float:
    """Publish to the subscriber; return how long the PUBACK takes."""
    writer.send(publish("t", b"%d" % packet_id, 1, packet_id))
    return cluster.until(lambda: bool(writer.take()))


def lines(cluster: CopiedCluster, number: int) -> list[tuple[str, str]]:
    return [(level, line) for level, line in cluster[number].host.lines if "slow" in line]


def begun(cluster: CopiedCluster, numbers: Iterable[int], target: int) -> list[int]:
    """The slots of which these nodes begin a copy at the target, from now on."""
    found: list[int] = []
    for number in numbers:
        replicator = cluster.replicator(number)
        begin = replicator._begin

        def noted(row, holder, begin=begin):  # type: ignore[no-untyped-def]
            if holder.node == f"n{target}":
                found.append(row.slot)
            begin(row, holder)

        replicator._begin = noted  # type: ignore[method-assign]
    return found


def test_a_slow_follower_is_replaced_and_the_slot_always_has_two_copies(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    third = cluster.third()
    cluster.all_copied()
    writer = cluster[primary].client("writer")
    cluster[follower].disks[0].latency_s = SLOW_S
    assert answered_s(cluster, writer, 1) > 0.5, "two copies"
    fewest: list[int] = []

    def replaced() -> bool:
        fewest.append(len(cluster.row().in_sync))
        return f"n{follower}" not in [holder.node for holder in cluster.row().in_sync]

    cluster.until(replaced, 30)
    assert min(fewest) == 2
    assert cluster.copied() == (primary, third)
    cluster.until(lambda: not [each for each in cluster.replicator(primary).copies.values() if len(each) > 1], 60)
    copies = [copy.holder.node for each in cluster.replicator(primary).copies.values() for copy in each]
    assert set(copies) == {f"n{third}"}, "no commit waits for the slow node"
    assert max(answered_s(cluster, writer, number) for number in range(2, 6)) < 0.1
    assert cluster.rows(third) == cluster.rows(primary)
    assert cluster[follower].member.leased()
    cluster[primary].kill()
    assert cluster.taken_over(primary) == third
    assert resumed(cluster, third) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_slow_follower_stays_if_there_is_no_other_node() -> None:
    cluster = CopiedCluster(2)
    subscriber(cluster).leave()
    assert cluster.copied() == (1, 2)
    make_slow(cluster, 2)
    cluster.pass_s(5.0)
    assert cluster.copied() == (1, 2)
    assert answered_s(cluster, cluster[1].client("writer"), 1) > 0.5


def test_slow_followers_stay_if_all_others_are_slow_too(cluster: CopiedCluster) -> None:
    """They may share one disk."""
    subscriber(cluster).leave()
    cluster.copied()
    cluster.all_copied()
    table = {row.slot: row.in_sync for row in cluster[1].member.slots.rows}
    found = begun(cluster, (1,), 2), begun(cluster, (1,), 3)
    make_slow(cluster, 1, 2, 3)
    cluster.pass_s(10.0)
    assert found == ([], [])
    assert {row.slot: row.in_sync for row in cluster[1].member.slots.rows} == table


def test_the_only_other_node_gets_a_copy_although_it_is_slow() -> None:
    cluster = CopiedCluster(2)
    subscriber(cluster).leave()
    cluster.copied()
    make_slow(cluster, 2)
    cluster[2].kill()
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    cluster[2].start()
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)


def test_a_node_that_is_slow_again_and_again_gets_no_copies_in_between(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_pace, "HOLD_MS", 30_000)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster.all_copied()
    make_slow(cluster, follower)
    cluster.until(lambda: follower not in cluster.copied(), 30)
    found = begun(cluster, (primary,), follower)
    for _ in range(3):
        cluster[follower].disks[0].latency_s = QUICK_S
        cluster.pass_s(20.0)
        cluster[follower].disks[0].latency_s = SLOW_S
        cluster.pass_s(10.0)
    assert found == []
    cluster[follower].disks[0].latency_s = QUICK_S
    cluster.until(lambda: follower in cluster.copied(), 60)
    assert cluster.slot in found


def test_a_copy_that_is_being_made_ends_when_its_node_becomes_slow(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the place of another follower, and have to be replaced at once."""
    monkeypatch.setattr(slot_replicator, "FILLS", 256)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    third = cluster.third()
    cluster.all_copied()
    cluster[follower].kill()
    cluster.until(lambda: cluster.copied()[1] == third, 60)
    replicator = cluster.replicator(primary)
    replicator._filling.go_on = lambda copy: None  # type: ignore[method-assign]
    cluster[follower].start()

    def filling() -> list[Copy]:
        return [copy for copy in replicator.copies[cluster.slot] if copy.phase < IN_SYNC]

    cluster.until(lambda: bool(filling()), 60)
    (copy,) = filling()
    assert copy.holder.node == f"n{follower}" and copy.phase <= FILLING
    make_slow(cluster, follower)
    cluster.pass_s(1.0)
    assert copy.over and not filling()
    assert cluster.copied() == (primary, third)
    marks = cluster[follower].node.slot_sessions.marks
    cluster.until(lambda: marks.get(cluster.slot) != ARRIVING, 60)  # the follower knows that nothing more comes


def test_the_nodes_say_who_is_slow_and_what_becomes_of_its_copies(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_pace, "HOLD_MS", 10_000)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster.all_copied()
    name, said = f"n{follower}", cluster[primary].host
    make_slow(cluster, follower)
    took_ms = cluster[primary].member.slow[name]
    (own,) = [each for each in lines(cluster, follower) if "this node is slow" in each[1]]
    assert own[0] == "warning" and "queue_follower_patience is 300" in own[1]
    (warning,) = lines(cluster, primary)
    assert warning[0] == "warning" and f"the disk of {name} is slow: a commit takes {took_ms} ms there" in warning[1]
    assert "of this node go to other nodes. Find out" in warning[1] and "stay" not in warning[1]
    status = status_row(cluster[primary].member, "whole", 0)
    assert status.slow_disks == (f"{name} ({took_ms} ms)",)
    cluster[follower].disks[0].latency_s = QUICK_S
    cluster.until(lambda: not cluster[primary].member.slow, 60)
    cluster.pass_s(0.5)
    level, line = lines(cluster, primary)[-1]
    assert level == "notice" and f"the disk of {name} has not been slow" in line
    rows = [(row["target"], row["state"]) for row in said.events if row["type"] == "mem.slow"]
    assert rows == [(name, "slow"), (name, "quick")]
    assert status_row(cluster[primary].member, "whole", 0).slow_disks == ()


def test_a_primary_says_that_copies_stay_at_a_slow_node() -> None:
    cluster = CopiedCluster(2)
    subscriber(cluster).leave()
    cluster.copied()
    cluster.all_copied()
    make_slow(cluster, 2)
    ((_, line),) = lines(cluster, 1)
    assert "Its copies of the slots 0-255 of this node stay, for no other node can have them" in line


def test_the_nodes_say_whose_disk_is_full(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    name, said = f"n{follower}", cluster[primary].host.lines
    writer = cluster[primary].client("writer")
    cluster[follower].disks[0].full = True
    writer.send(publish("t", b"1", 1, 7))
    cluster.until(lambda: name in cluster[primary].member.full)
    cluster.until(
        lambda: ("warning", f"{name} takes no copies of slots: its disk is full, or it leaves the cluster") in said
    )
    cluster[follower].disks[0].full = False
    cluster.until(lambda: ("notice", f"{name} takes copies of slots again") in said, 60)
    assert not [line for _, line in cluster[follower].host.lines if f"{name} takes" in line], (
        "it says it in other words"
    )


def test_a_node_that_stands_still_again_and_again_is_slow(cluster: CopiedCluster) -> None:
    """Its machine is overloaded: commits are quick, and acknowledgements are not."""
    primary, follower = cluster.copied()
    for _ in range(15):
        cluster[follower].pause_process()
        cluster.pass_s(0.7)
        cluster[follower].resume_process()
        cluster.pass_s(0.05)
    assert f"n{follower}" in cluster[primary].member.slow
    cluster.until(lambda: follower not in cluster.copied(), 10)


def test_an_operator_can_switch_it_off(cluster: CopiedCluster) -> None:
    for harness in cluster.nodes:
        harness.node.options.queue_follower_patience_ms = 0
    primary, follower = cluster.copied()
    cluster[follower].disks[0].latency_s = SLOW_S
    cluster.pass_s(30.0)
    assert cluster.copied() == (primary, follower) and not cluster[primary].member.slow


def test_no_slot_moves_to_a_node_with_a_slow_disk_by_itself() -> None:
    cluster = BalancedCluster()
    cluster.back(3)
    make_slow(cluster, 3)
    before = cluster.primaries()
    cluster.nothing_moves()
    assert cluster.primaries() == before and "n3" not in before.values()
    givers = {int(name[1:]) for name in (before[each] for each in cluster.of(3))}
    assert {cluster.balance(number).state for number in givers} == {"balanced, but n3 gets no slots: its disk is slow"}
    assert cluster.balance(3).state == "balanced"
    copies = [row for row in cluster.row_table() if any(each.node == "n3" for each in row.in_sync)]
    assert [row.slot for row in copies if row.primary is None or row.primary.node != "n3"] == []
