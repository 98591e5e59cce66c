"""H-17: a leader that does not know cluster time, because it has just joined or its machine was booted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker import operations
from strogoff.mqtt import packets
from strogoff.sim.engine.host import EPOCH_MS
from tests.harness.cluster import ClusterHarness, NodeHarness
from tests.harness.thinning import thinned

YEAR_MS = 365 * 86_400_000.0
HOUR_MS = 3_600_000.0
LEAPS = pytest.mark.parametrize("leap_ms", [YEAR_MS, -YEAR_MS])


def ahead_ms(node: NodeHarness) -> float:
    """Returns how far the cluster time of a node is ahead of true time."""
    return node.node.env.clock.now_ms() - EPOCH_MS - node.loop.now_s * 1000


def boot(node: NodeHarness, wall_ahead_ms: float, off_s: float = 5.0) -> None:
    """Switch the machine off for a while. Its wall clock is wrong afterwards."""
    node.kill(power=True)
    node.cluster.pass_s(off_s)
    node.host.wall_ahead_ms = wall_ahead_ms
    node.start()


def let_it_lead(node: NodeHarness) -> None:
    """Let a node lead before it has a lease: its disk writes nothing until it is the leader."""
    cluster = node.cluster
    node.disks[0].stall_until = cluster.loop.now_s + 60

    def leads() -> bool:
        former = next((each.member.consensus for each in cluster.nodes if each.leads and each is not node), None)
        peer = node.member.peer
        if former is not None and not former.raft.handing_over and former.raft.caught_up(peer):
            assert not node.node.env.clock.known
            if peer in former.raft.configuration.voters:
                former.raft.transfer(peer)
                former.pump()
        return node.leads

    cluster.until(leads)
    node.disks[0].stall_until = 0.0


def acknowledged(cluster: ClusterHarness) -> None:
    """A durable session at n2 waits for a message that expires after 300 s."""
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    reader.vanish()
    assert cluster[1].client("writer").publish("t", b"m", 1, message_expiry_interval=300)[0].reason == 0
    cluster.pass_s(40.0)


def comes_in_time(cluster: ClusterHarness) -> None:
    """The session and its message are there, and the message has the time that is left."""
    before_s = cluster.loop.now_s
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    (came,) = reader.drain()
    assert isinstance(came, packets.Publish) and came.payload == b"m" and came.properties is not None
    assert abs(came.properties["message_expiry_interval"] - (300 - before_s)) < 10


@LEAPS
@pytest.mark.parametrize("who", thinned([2, 3], 2))
def test_a_machine_that_was_booted_leads_by_the_time_of_the_others(leap_ms: float, who: int) -> None:
    cluster = ClusterHarness(3)
    acknowledged(cluster)
    boot(cluster[who], leap_ms)
    let_it_lead(cluster[who])
    assert cluster.whole() < 1
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)
    assert cluster[who].host.lines[-1] == ("warning", "cluster time is set by +14.7 s to follow another node")
    comes_in_time(cluster)


def beside_a_newcomer(leap_ms: float, **options: Any) -> ClusterHarness:
    """Returns a cluster of two nodes, and a third node alone, with an empty disk and a wrong wall clock."""
    cluster = ClusterHarness(3, joined=False, **options)
    cluster[3].replace_disk()  # an empty disk has no saved time
    cluster[3].host.wall_ahead_ms = leap_ms
    cluster[3].host.start()
    assert cluster[2].join() == ""
    cluster.until(lambda: len(cluster[2].member.view.serving) == 2)
    cluster[3].commit_late_writes()
    return cluster


@LEAPS
def test_a_node_that_has_just_joined_leads_by_the_time_of_the_others(leap_ms: float) -> None:
    cluster = beside_a_newcomer(leap_ms)
    acknowledged(cluster)
    assert cluster[3].join() == ""
    let_it_lead(cluster[3])
    assert cluster.whole() < 1
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)
    comes_in_time(cluster)


@LEAPS
@pytest.mark.parametrize("leased", [False, True])
def test_a_node_that_is_killed_when_it_has_just_joined_does_not_believe_its_wall_clock(
    leap_ms: float, leased: bool
) -> None:
    cluster = beside_a_newcomer(leap_ms)
    newcomer = cluster[3]
    assert newcomer.join() == ""
    if leased:
        cluster.until(newcomer.member.leased)
    newcomer.commit_late_writes()
    newcomer.kill()
    newcomer.start()
    assert newcomer.node.env.clock.known == leased
    cluster.whole()
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)


def test_a_newcomer_deletes_no_retained_message_by_its_wall_clock() -> None:
    """The clock is a year ahead, and the node gets no lease yet."""
    cluster = beside_a_newcomer(YEAR_MS, expire_retain_cache_s=1)
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"m", 1, retain=True, message_expiry_interval=300)[0].reason == 0
    assert cluster[3].join() == ""
    cluster[3].disks[0].stall_until = cluster.loop.now_s + 60
    cluster.pass_s(5.0)
    assert not cluster[3].member.leased() and cluster[3].node.retained.count == 1
    assert not list(operations.delete_expired_retained(cluster[3].node)), "nor does an operator there"
    cluster[3].disks[0].stall_until = 0.0
    cluster.whole()
    assert [node.node.retained.count for node in cluster.nodes] == [1, 1, 1]


@pytest.mark.parametrize("nodes", [1, 3])
def test_if_all_machines_were_booted_the_wall_clock_counts(nodes: int) -> None:
    """They are as fast as processes that were started again on machines that run."""
    cluster = ClusterHarness(nodes, joined=nodes > 1)
    if nodes == 1:
        cluster[1].member.found()
    for power in (False, True):
        cluster.pass_s(5.0)
        for node in cluster.nodes:
            node.kill(power)
        cluster.pass_s(5.0)
        for node in cluster.nodes:
            node.host.wall_ahead_ms = HOUR_MS
            node.start()
        assert cluster.until(lambda: all(node.member.leased() for node in cluster.nodes)) < 1
        assert all(abs(ahead_ms(node) - power * HOUR_MS) < 100 for node in cluster.nodes)


def test_a_leader_does_not_wait_for_members_that_are_silent() -> None:
    """Two of three machines are booted, and the third stays off: nobody who runs knows the time."""
    cluster = ClusterHarness(3)
    for node in cluster.nodes:
        node.kill(power=True)
    for number in (1, 2):
        cluster[number].host.wall_ahead_ms = HOUR_MS
        cluster[number].start()
    nodes = cluster.nodes[:2]
    settings = cluster[1].host.settings.views
    cluster.until(lambda: any(node.leads for node in nodes))
    took = cluster.until(lambda: any(node.node.env.clock.known for node in nodes)) * 1000
    assert settings.expiry_ms - 20 <= took <= settings.expiry_ms + 100
    cluster.until(lambda: all(node.member.leased() for node in nodes))
    assert all(abs(ahead_ms(node) - HOUR_MS) < 100 for node in nodes)


def test_a_node_that_does_not_know_the_time_says_so_to_its_successor() -> None:
    """A machine was booted, and its process is killed before it knows the time."""
    cluster = ClusterHarness(3)
    boot(cluster[2], -HOUR_MS, 30.0)
    assert not cluster[2].node.env.clock.known
    cluster[2].commit_late_writes()
    cluster[2].kill()
    cluster[2].start()
    assert not cluster[2].node.env.clock.known
    cluster.whole()
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_lease_waits_until_the_time_is_known(nodes: int) -> None:
    """Also what the only member acknowledges."""
    cluster = ClusterHarness(nodes, joined=nodes > 1)
    if nodes == 1:
        cluster[1].member.found()
    cluster.pass_s(5.0)
    for node in cluster.nodes:
        node.kill(power=True)
    for node in cluster.nodes:
        node.start()

    def all_leased() -> bool:
        assert all(node.node.env.clock.known for node in cluster.nodes if node.member.leased())
        return all(node.member.leased() for node in cluster.nodes)

    cluster.until(all_leased)
