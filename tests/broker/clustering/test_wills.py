"""Wills on three nodes: accepted for routing once, whatever happens to the node of the connection (P5; H-19)."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness


def _mortal(spot: NodeHarness, qos: int = 1) -> PacketClient:
    return spot.client("mortal", will=packets.Will("will", b"gone", qos))


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_the_will_of_a_connection_that_dies_with_its_node(power: bool, qos: int) -> None:
    theatre = ClusterHarness(3, **MAJORITY)
    reader = theatre[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 2))
    _mortal(theatre[1], qos)
    theatre[1].kill(power)
    theatre.pass_s(0.2)
    theatre[1].start()
    theatre.whole()
    theatre.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_the_will_at_a_node_without_a_lease_that_is_killed_before_it_has_one() -> None:
    theatre = ClusterHarness(3, **MAJORITY)
    reader = theatre[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    mortal = _mortal(theatre[1])
    theatre.isolate(1)
    theatre.state_of(1, ViewState.MINORITY)
    mortal.vanish()
    theatre.pass_s(1.0)
    theatre[1].kill()
    theatre[1].start()
    theatre.network.heal()
    theatre.pass_s(1.0)
    theatre.whole()
    theatre.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_the_will_of_a_connection_that_ends_while_the_node_stands_still() -> None:
    """P4: it hears of it before it knows that its lease is over, and that others have subscribed since."""
    theatre = ClusterHarness(3, **MAJORITY)
    mortal = _mortal(theatre[1])
    theatre[1].pause_process()
    theatre.state_of(2, ViewState.MAJORITY)
    reader = theatre[2].client("reader", clean=False, expiry_s=600)
    assert reader.subscribe(("will", 1))[0].reasons == [1]
    mortal.vanish()
    theatre.pass_s(0.5)
    theatre[1].resume_process()
    theatre.whole()
    theatre.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_the_will_whose_copy_was_on_its_way_when_its_node_died() -> None:
    theatre = ClusterHarness(3, **MAJORITY)
    reader = theatre[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    mortal = _mortal(theatre[1])
    theatre.network.one_way("n1", "n2")
    mortal.vanish()
    theatre.pass_s(0.5)
    theatre[1].kill()
    theatre[1].start()
    theatre.network.heal()
    theatre.pass_s(1.0)
    theatre.whole()
    theatre.pass_s(2.0)
    assert [each.payload for each in reader.drain() if not each.dup] == [b"gone"]


def test_two_wills_at_once_on_both_sides_of_a_cut() -> None:
    theatre = ClusterHarness(3, **MAJORITY)
    readers = [theatre[number].client(f"reader{number}", clean=False, expiry_s=600) for number in (1, 2)]
    for reader in readers:
        reader.subscribe(("will", 1))
    mortals = [
        theatre[number].client(f"mortal{number}", will=packets.Will("will", b"%d" % number, 1)) for number in (1, 2)
    ]
    theatre.isolate(1)
    for mortal in mortals:
        mortal.vanish()
    theatre.state_of(1, ViewState.MINORITY)
    theatre.state_of(2, ViewState.MAJORITY)
    theatre.pass_s(1.0)
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(2.0)
    assert [sorted(each.payload for each in reader.drain()) for reader in readers] == [[b"1", b"2"]] * 2
