"""What a member of a shared subscription leaves behind reaches another member, whichever node dies (H-56)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.thinning import thinned

FILTER = "$share/g/t"


def placed(first: int, second: int, nodes: int = 3, lasts_s: int = 600, **options: Any) -> CopiedCluster:
    """A cluster with two absent durable members of the group, whose slots are at these nodes. Five messages wait for
    the first one, whose session ends 20 s later."""
    cluster = CopiedCluster(nodes, **options)
    for name, home in (("first", first), ("second", second)):
        client = cluster[1].client(name, clean=False, expiry_s=600 if name == "second" else 20)
        client.subscribe((FILTER, 2))
        client.leave()
        cluster.move(name, home)
        if name == "first":
            writer = cluster[1].client("writer")
            for each in range(5):
                (answer,) = writer.publish("t", b"%d" % each, 2 if each == 3 else 1, message_expiry_interval=lasts_s)
                assert not answer.reason
            writer.leave()
    for name in ("first", "second"):
        cluster.copied(name)
    return cluster


def ends(cluster: CopiedCluster, number: int, name: str) -> None:
    """Run the loop until the session of a member has ended at its node, and not one turn more."""
    sessions = cluster[number].node.sessions
    while sessions.known("", name) is not None:
        assert cluster.loop.turn()


def got(cluster: CopiedCluster, number: int, name: str) -> list[bytes]:
    """Everything that waits for a member, who connects at a node."""
    client, connack = cluster[number].connect(name, clean=False, expiry_s=600)
    if not connack.session_present:
        return []
    return [each.payload for each in client.drain() if isinstance(each, packets.Publish)]


def left(cluster: CopiedCluster, number: int, name: str = "first") -> int:
    """How many messages the members of a client's slot have left behind that no other member has yet."""
    return sum(key[:1] == b"z" for key in cluster.rows(number, name))


def waiting(cluster: CopiedCluster, number: int, name: str) -> list[bytes]:
    """The keys of what waits for a client, on the disk of a node."""
    return [key for key in cluster.rows(number, name) if key[:1] == b"q"]


ALL = [b"%d" % each for each in range(5)]
TURNS = thinned((2, 0, 1, 4, 6, 8, 10, 12, 16, 20, 25, 40), 6)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("heir", thinned([1, 2, 3], 2))
def test_a_primary_is_killed_while_an_ended_session_leaves_messages_behind(turns: int, heir: int) -> None:
    """It is killed after some turns of the loop. The other member is at the same node, or at another one."""
    cluster = placed(first=1, second=heir)
    ends(cluster, 1, "first")
    for _ in range(turns):
        assert cluster.loop.turn()
    cluster[1].kill()
    cluster.taken_over(1, "first")
    cluster.pass_s(20)
    assert sorted(set(got(cluster, 2, "second"))) == ALL


@pytest.mark.parametrize("turns", TURNS)
def test_a_primary_is_killed_while_a_disconnected_member_leaves_messages_behind(turns: int) -> None:
    """The members that are online get what the one that has gone had not acknowledged."""
    cluster = placed(first=1, second=1)
    first, connack = cluster[1].connect("first", clean=False, expiry_s=600)
    assert connack.session_present
    second, _ = cluster[1].connect("second", clean=False, expiry_s=600)
    first.break_off()
    for _ in range(turns):
        assert cluster.loop.turn()
    cluster[1].kill()
    for name in ("first", "second"):
        cluster.taken_over(1, name)
    cluster.pass_s(20)
    found = [each.payload for each in second.drain() if isinstance(each, packets.Publish)]
    assert sorted({*found, *got(cluster, 2, "second"), *got(cluster, 3, "first")}) == ALL


@pytest.mark.parametrize("heir", [1, 3])
def test_each_message_that_is_left_behind_reaches_one_member_once(heir: int) -> None:
    cluster = placed(first=1, second=heir)
    ends(cluster, 1, "first")
    assert left(cluster, 1) == 5
    cluster.pass_s(1)
    assert left(cluster, 1) == 0
    assert sorted(got(cluster, 2, "second")) == ALL


def test_what_is_left_behind_waits_for_the_node_of_the_last_member() -> None:
    """The primary dies while that node is away, and its successor goes on."""
    cluster = placed(first=1, second=3)
    cluster.copied("first")
    cluster[3].kill()
    cluster.until(lambda: cluster.row("second").primary is not None and len(cluster.row("second").in_sync) == 1)
    heir = cluster.row("second").primary
    assert heir is not None
    cluster.until(lambda: len(cluster.row("first").in_sync) == 2)
    ends(cluster, 1, "first")
    cluster.pass_s(20)
    assert sorted(got(cluster, 2, "second")) == ALL


def test_what_is_left_behind_waits_for_a_member_whose_copies_are_all_away() -> None:
    """Its slot has no primary when the session of the first member ends."""
    cluster = placed(first=1, second=4, nodes=5)
    follower = cluster.copied("second")[1]
    if follower == 1 or cluster.copied("first")[1] in (4, follower):
        pytest.skip("the placement has a copy of the first member there")
    for number in (follower, 4):
        cluster[number].kill()
    cluster.until(lambda: cluster.row("second").primary is None)
    ends(cluster, 1, "first")
    cluster.pass_s(2)
    assert left(cluster, 1) == 5
    cluster[4].start()
    cluster.until(lambda: cluster.row("second").primary is not None)
    cluster.until(lambda: left(cluster, 1) == 0)
    assert sorted(got(cluster, 1, "second")) == ALL


def test_a_restart_gives_what_was_left_behind_to_nobody_twice() -> None:
    """The primary has the only copy. The other member's entries are safe when it is killed, and the rows of what was
    left behind are still there."""
    cluster = placed(first=1, second=1, nodes=2, level=2)
    for name in ("first", "second"):
        cluster.move(name, 1)
    cluster[2].kill()
    cluster.until(lambda: all(len(cluster.row(name).in_sync) == 1 for name in ("first", "second")))
    ends(cluster, 1, "first")
    events = cluster[1].host.events
    while sum(row["type"] == "q.durable" and row["client"] == "second" for row in events) < 5:
        assert cluster.loop.turn()
    cluster[1].kill()
    cluster[1].start()
    assert left(cluster, 1) == 5
    cluster.until(lambda: left(cluster, 1) == 0)
    assert sorted(got(cluster, 1, "second")) == ALL


def test_what_is_left_behind_expires_in_time() -> None:
    cluster = placed(first=1, second=3, lasts_s=50)
    ends(cluster, 1, "first")
    cluster.pass_s(1)
    second, _ = cluster[2].connect("second", clean=False, expiry_s=600)
    found = [each for each in second.drain() if isinstance(each, packets.Publish)]
    assert len(found) == 5
    assert all(20 < (each.properties or {})["message_expiry_interval"] <= 31 for each in found)


def test_a_member_whose_queue_is_full_gets_nothing_that_another_can_keep() -> None:
    """P1: the first member has disconnected only, so its queue keeps what does not fit elsewhere."""
    cluster = placed(1, 1, max_inflight_messages=1, max_online_messages=2, override_max_online_messages=True)
    first, _ = cluster[1].connect("first", clean=False, expiry_s=600)
    second, _ = cluster[1].connect("second", clean=False, expiry_s=600)
    first.break_off()
    cluster.pass_s(5)
    assert left(cluster, 1) == 0
    kept = got(cluster, 2, "first")
    found = [each.payload for each in second.drain() if isinstance(each, packets.Publish)]
    assert sorted(found + kept) == ALL and kept


def test_the_slot_waits_until_another_member_has_what_was_left_behind() -> None:
    cluster = placed(first=1, second=3)
    ends(cluster, 1, "first")
    cluster[3].pause_process()
    cluster.pass_s(0.1)
    says = cluster[1].node.slot_sessions.busy(slot_of("", "first"))
    assert says == (
        "not every receiver has acknowledged a message of client writer, which a member of $share/g/t left behind"
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_member_that_connects_again_gets_with_dup_what_it_had_got(seed: int) -> None:
    """H-51: its new connection ends the old one, so its messages are left behind, and it may be the one that gets them.
    What was not sent has no DUP."""
    cluster = placed(1, 1, seed=seed)
    first, _ = cluster[1].connect("first", clean=False, expiry_s=600, receive_maximum=2)
    second, _ = cluster[1].connect("second", clean=False, expiry_s=600)
    sent = {each.payload for each in first.take() if isinstance(each, packets.Publish)}
    assert sent == {b"0", b"1"}
    first, _ = cluster[1].connect("first", clean=False, expiry_s=600)
    found = first.drain()
    assert {each.payload for each in found} & sent
    found += second.drain()
    assert sorted((each.payload, each.dup) for each in found) == [(each, each in sent) for each in ALL]
