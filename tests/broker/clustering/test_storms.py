"""Two faults in a row, and faults while a node enters the view (H-01, H-04, H-06, H-07, H-14)."""

from __future__ import annotations

from math import inf

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_fast_restart_under_load_keeps_acknowledged_messages(victim: int) -> None:
    """H-01: clients publish from all nodes to all, and one node loses power for 0.1 s. Acknowledged messages are kept,
    in order.
    """
    cluster = ClusterHarness(3, **MAJORITY)
    readers = [cluster[n].client(f"reader{n}", clean=False, expiry_s=600) for n in (1, 2, 3)]
    for reader in readers:
        reader.subscribe(("t/#", 1))
    writers = {n: cluster[n].client(f"writer{n}") for n in (1, 2, 3)}
    acked: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for number in range(1, 61):
        for n, writer in writers.items():
            if not writer.closed:
                writer.send(publish(f"t/{n}", str(number).encode(), 1, number))
        if number == 20:
            cluster[victim].kill(power=True)
        if number == 25:
            cluster[victim].start()
        cluster.pass_s(0.02)
        for n, writer in writers.items():
            acked[n] += [each.packet_id for each in writer.take() if isinstance(each, packets.Puback)]
    cluster.whole()
    cluster.pass_s(5.0)
    for n, writer in writers.items():
        acked[n] += [each.packet_id for each in writer.take() if isinstance(each, packets.Puback)]
        assert acked[n] == sorted(acked[n])
        assert n == victim or acked[n] == list(range(1, 61))
    for n, reader in zip((1, 2, 3), readers, strict=True):
        if n == victim:
            reader = cluster[n].client(f"reader{n}", clean=False, expiry_s=600)
        came = reader.drain()
        for origin in (1, 2, 3):
            got = list(dict.fromkeys(int(each.payload) for each in came if each.topic == f"t/{origin}"))
            assert set(acked[origin]) <= set(got)
            assert got == sorted(got)


def test_an_entering_node_continues_when_the_node_it_asks_dies() -> None:
    """H-04: the set of nodes to ask changes during an exchange."""
    cluster = ClusterHarness(4, **MAJORITY)
    cluster[2].client("reader").subscribe(("t", 1))
    cluster[4].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[4].start()
    member = cluster[4].host.member
    assert member is not None
    cluster.until(lambda: member.view.row("n4") is not None)
    cluster[3].kill()
    cluster.until(lambda: cluster[4].node.policy.view_state is ViewState.MAJORITY)
    reader = cluster[1].client("late")
    assert reader.subscribe(("u", 1))[0].reasons == [1]
    assert cluster[4].client("writer").publish("u", b"x", 1)[0].reason == 0
    assert reader.payloads() == [b"x"]
    assert cluster[4].client("writer").publish("t", b"y", 1)[0].reason == 0


@pytest.mark.slow
def test_a_subscription_during_an_entrance_gets_publishes_of_the_returned_node() -> None:
    """H-04 (a, b): a SUBACK at many moments of an entrance, and then a publish at the returned node at once."""
    for moment in range(0, 40, 2):
        cluster = ClusterHarness(3, **MAJORITY)
        cluster.isolate(3)
        cluster.state_of(1, ViewState.MAJORITY)
        cluster.network.delay("n1", "n3", 0.03)
        cluster.network.delay("n3", "n1", 0.05)
        cluster.network.delay("n2", "n3", 0.11)
        cluster.network.delay("n2", "n1", 0.07)
        cluster.network.heal()
        cluster.pass_s(moment * 0.025)
        reader = cluster[2].client("reader", clean=False, expiry_s=100)
        reader.send(packets.Subscribe(1, [packets.SubscribeOptions("t", 1)], None))
        cluster.until(lambda reader=reader: bool(reader.received))
        assert cluster[3].node.policy.view_state is not ViewState.MAJORITY
        cluster.state_of(3, ViewState.WHOLE)
        writer = cluster[3].client("writer")
        writer.send(publish("t", b"x", 1))
        cluster.until(lambda writer=writer: bool(writer.received))
        assert writer.take()[0].reason == 0
        assert reader.payloads() == [b"x"]


@pytest.mark.parametrize("pair", [(2, 3), (1, 2), (1, 3)])
def test_a_cut_between_two_of_three_nodes_leaves_a_majority(pair: tuple[int, int]) -> None:
    """H-06: one of them leaves the view."""
    cluster = ClusterHarness(3, **MAJORITY)
    readers = {n: cluster[n].client(f"reader{n}", clean=False, expiry_s=600) for n in (1, 2, 3)}
    for reader in readers.values():
        reader.subscribe(("t", 1))
    cluster.network.cut(*(f"n{n}" for n in pair))
    cluster.pass_s(8.0)
    states = cluster.states()
    assert states.count(ViewState.MAJORITY) == 2
    out = states.index(ViewState.MINORITY) + 1
    inside = next(n for n in (1, 2, 3) if n != out)
    writer = cluster[inside].client("writer")
    # the durable session at the absent node must get it: at once, if only the two other nodes are cut from each other
    answers = writer.publish("t", b"x", 1)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(3.0)
    assert [type(each) for each in [*answers, *writer.take()]] == [packets.Puback]
    assert [[each.payload for each in reader.drain()] for reader in readers.values()] == [[b"x"]] * 3


def test_no_publish_waits_for_a_member_that_returns_empty() -> None:
    """H-01, H-07: a new disk under an old name."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster[2].kill()
    assert writer.publish("t", b"x", 1) == []
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[2].replace_disk()
    cluster[2].host.start()
    assert cluster[2].join() == ""
    cluster.whole()
    cluster.pass_s(2.0)
    assert [type(each) for each in writer.take()] == [packets.Puback]
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    assert reader.payloads() == []
    reader.subscribe(("t", 1))
    writer.publish("t", b"y", 1, 2)
    assert reader.payloads() == [b"y"]


def test_acknowledgements_during_an_expired_lease_count_with_the_next() -> None:
    """The lease was over for less than a tick, so no other node had noticed."""
    cluster = ClusterHarness(3)
    cluster[2].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    writer = cluster[1].client("writer")
    member = cluster[1].host.member
    assert member is not None
    for number in (1, 2):
        cluster[number].disks[0].stall_until = inf
    writer.send(publish("t", b"1", 1, 1))
    while member.leased():
        cluster.pass_s(0.001)
    assert cluster[1].node.policy.view_state is ViewState.WHOLE
    cluster[2].disks[0].stall_until = 0.0
    cluster.settle()
    cluster[1].disks[0].stall_until = 0.0
    cluster.whole()
    cluster.until(lambda: [each.packet_id for each in writer.take() if isinstance(each, packets.Puback)] == [1])
