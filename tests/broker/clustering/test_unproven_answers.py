"""Answers count when this node has a lease and follows the slot table that the answering node followed."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.unproven_answers import Answer, UnprovenAnswers
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


def test_an_answer_waits_for_the_lease_and_the_table() -> None:
    made = UnprovenAnswers()
    made.table = 5
    assert made.counts("n2", 3, [], 5, True)
    assert not made.counts("n2", 4, [], 6, True)
    assert not made.counts("n2", 0, [9], 6, True)
    assert not made.counts("n3", 7, [], 5, False)
    assert made.proven() == [("n3", Answer(7, [], 5))]
    made.table = 6
    assert made.proven() == [("n2", Answer(4, [9], 6))] and made.proven() == []
    assert made.counts("n2", 10, [], 6, True)


def test_an_answer_of_a_new_process_waits_until_it_is_in_a_view() -> None:
    made = UnprovenAnswers()
    made.boots = {"n2": 3}
    assert made.counts("n2", 4, [], 0, True, 3)
    assert not made.counts("n2", 5, [], 0, True, 4) and not made.counts("n3", 1, [], 0, True, 1)
    assert made.proven() == []
    made.boots = {"n2": 4}
    assert made.proven() == [("n2", Answer(5, [], 0, 4))]


def test_a_later_answer_does_not_overtake_one_that_waits() -> None:
    made = UnprovenAnswers()
    assert not made.counts("n2", 4, [], 0, False)
    assert not made.counts("n2", 5, [], 0, True), "the lease is back, but nobody has called `proven`"
    assert made.proven() == [("n2", Answer(5, [], 0))]


@pytest.mark.parametrize("qos", [1, 2])
def test_an_answer_without_a_lease_counts_although_its_node_leaves_the_view(
    monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """The node has the message on disk, its slot stays there, and nobody asks it again (H-46)."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 2))
    reader.leave()
    clustering, writer = cluster[1].host.clustering, cluster[1].client("writer")
    assert clustering is not None
    sender, acked = clustering.sender, clustering.sender.acked

    def without_a_lease(name: str, upto: int, leased: bool = True, index: int = 0, boot: int = 0) -> None:
        acked(name, upto, False, index, boot)

    with monkeypatch.context() as patch:
        patch.setattr(sender, "acked", without_a_lease)
        writer.send(publish("t", b"1", qos, 7))
        cluster.pass_s(0.5)
        assert not writer.take()
        cluster[2].kill()
    cluster.until(lambda: bool(writer.take()), 60)
    assert not sender.copies
    cluster[2].start()
    cluster.whole()
    assert [each.payload for each in cluster[2].client("reader", clean=False, expiry_s=600).drain()] == [b"1"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_group_gets_what_a_node_dropped_with_a_slot_that_another_one_has_got(
    monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """A node that learns first that it is out of the view acknowledges the items of its lane, although it has dropped
    what their members have not got on disk (H-46)."""
    cluster = CopiedCluster()
    subscriber(cluster, qos=qos, text="$share/g/t").leave()
    primary, follower = cluster.copied()
    publisher, host = cluster[cluster.third()], cluster[primary].host
    assert publisher.host.clustering is not None and host.clustering is not None
    sender, receiver = publisher.host.clustering.sender, host.clustering.receiver
    acked = sender.acked

    def by_the_next_table(name: str, upto: int, leased: bool = True, index: int = 0, boot: int = 0) -> None:
        acked(name, upto, leased, publisher.member.slots.index + 1, boot)

    with monkeypatch.context() as patch:
        patch.setattr(receiver, "deliver", lambda origin, seq, head, payload: receiver.skip(origin, seq))
        patch.setattr(sender, "acked", by_the_next_table)
        writer = publisher.client("writer")
        writer.send(publish("t", b"1", qos, 7))
        cluster.pass_s(0.5)
        assert not writer.take()
        cluster[primary].kill()
    cluster.until(lambda: bool(writer.take()), 60)
    cluster.taken_over(primary)
    assert resumed(cluster, follower) == [b"1"]
