"""Compaction: tombstones, early boots, the log, and keys of departed nodes."""

from __future__ import annotations

import pytest

from strogoff.cluster.replicated_map import compaction
from strogoff.cluster.replicated_map.compaction import STEP
from strogoff.cluster.replicated_map.messages import clock_of
from strogoff.sim.engine.disk import SimDisk

from .map_harness import MapHarness


def test_a_tombstone_goes_when_every_member_has_it_on_its_disk() -> None:
    world = MapHarness(3, "ABC")
    world.loop.run_for(1)
    world.put("A", b"tx", b"v")
    world.loop.run_for(1)
    world.isolate("C")
    world.loop.run_for(1)
    world.put("A", b"tx", None)
    world.loop.run_for(60)
    assert world.nodes["A"].map.statistics().tombstones == 1, "C has not seen it"
    world.heal()
    world.loop.run_for(30)
    for node in world.nodes.values():
        assert node.map.statistics()[:2] == (0, 0)
        assert node.disk.content().get(b"dtx") is None


def test_a_report_has_the_writes_on_disk() -> None:
    """The other nodes forget writes that all reports have: a node killed then must not lack them."""
    world = MapHarness(3, "AB")
    world.loop.run_for(1)
    node = world.nodes["B"]
    node.disk.stall_until = world.loop.now_s + 20
    world.put("A", b"tx", b"v")
    world.loop.run_for(10)
    own, clock = node.map._compactor, node.map._halves[0].clock
    assert node.map.get(b"tx") == b"v"
    assert not clock_of(own.report()[0], node.map._actors).dominates(clock)
    world.loop.run_for(20)
    assert clock_of(own.report()[0], node.map._actors).dominates(clock)


def test_restarts_leave_nothing_behind() -> None:
    world = MapHarness(4, "AB")
    world.loop.run_for(1)
    for turn in range(20):
        world.put("A", b"tx", b"%d" % turn)
        world.loop.run_for(1)
        world.restart("A", power=False)
        world.loop.run_for(9)
    world.loop.run_for(60)
    for node in world.nodes.values():
        assert node.map.statistics().actors == 4
        assert node.map.get(b"tx") == b"19"
        assert len([key for key in node.disk.content() if key < b"d\2"]) <= 4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_emptied_node_gets_the_writes_of_all_folded_boots(seed: int) -> None:
    """A wrote a key in its boot 1, and nothing in its boot 2. All nodes have folded both. C loses its disk before the
    others have forgotten how many writes boot 2 made: that number must not stand for both boots."""
    world = MapHarness(seed, "ABC")
    world.loop.run_for(1)
    world.put("A", b"tx", b"v")
    world.loop.run_for(1)
    world.restart("A", power=False)
    world.loop.run_for(60)
    world.restart("A", power=False)
    clocks = [node.map._halves[0].clock for node in world.nodes.values()]
    for _ in range(400):
        world.loop.run_for(0.1)
        if all(clock.folded["A"] == 2 for clock in clocks):
            break
    assert any(clock.final for clock in clocks[:2])
    world.restart("C", power=True, lost=True)
    world.loop.run_for(60)
    assert world.nodes["C"].map.get(b"tx") == b"v"


def test_a_newcomer_does_not_fold_writes_that_it_lacks() -> None:
    """C has an empty disk and waits for a node that has not applied its view. Other nodes write and report to it."""
    world = MapHarness(10, "ABC")
    world.loop.run_for(1)
    world.put("B", b"tx", b"v")
    world.loop.run_for(1)
    world.restart("B", power=False)
    world.loop.run_for(60)
    assert world.nodes["A"].map.statistics().actors == 6, "the first boot of B is folded"
    world.isolate("C")
    world.loop.run_for(1)
    world.nodes["C"].alive = False
    newcomer = world.start("C", 1001, SimDisk(world.rng, world.loop.call_later, lambda: world.loop.now_s)).map
    newcomer.exchange("A", 1 << 30, lambda well: None)
    world.heal()
    world.loop.run_for(1)
    world.put("A", b"ty", b"v")
    world.loop.run_for(30)
    assert [newcomer.get(key) for key in (b"tx", b"ty")] == [None, b"v"]
    world.loop.run_for(60)
    assert [newcomer.get(key) for key in (b"tx", b"ty")] == [b"v", b"v"]


def test_routes_do_not_wait_for_absent_nodes() -> None:
    world = MapHarness(5, "ABC")
    world.loop.run_for(1)
    world.isolate("C")
    world.loop.run_for(1)
    for number in range(50):
        world.put("A", b"fA%d" % number, b"v")
        world.put("A", b"fA%d" % number, None)
    world.loop.run_for(30)
    assert world.nodes["A"].map.statistics().log == 0
    world.heal()
    world.loop.run_for(30)
    assert world.nodes["C"].map.statistics().keys == 0


def test_the_log_is_bounded_while_a_member_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LOG_LIMIT", 1500)
    world = MapHarness(6, "AB")
    world.loop.run_for(1)
    world.put("A", b"tgone", b"v")
    world.loop.run_for(1)
    world.isolate("B")
    world.put("A", b"tgone", None)
    for number in range(3000):
        world.put("A", b"t%d" % (number % 10), b"%d" % number)
    world.loop.run_for(20)
    assert world.nodes["A"].map.statistics().log <= 1500
    world.heal()
    world.loop.run_for(30)
    assert world.nodes["B"].map.get(b"tgone") is None
    assert world.nodes["B"].map.get(b"t9") == b"2999"


def test_unsent_writes_stay_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LOG_LIMIT", 100)
    world = MapHarness(6, "ABC")
    world.loop.run_for(1)
    world.isolate("C")
    world.loop.run_for(0.1)
    world.put("A", b"tfirst", b"v")
    for number in range(300):
        world.put("B", b"t%d" % number, b"v")
    world.loop.run_for(0.1)
    world.put("A", b"tx", b"v")
    world.nodes["A"].map.tick(world.loop.now_s * 1000 + 60_000)
    world.loop.run_for(1)
    assert world.nodes["A"].map.statistics().log <= 100
    assert world.nodes["B"].map.get(b"tx") == b"v"


def test_purge_goes_in_steps() -> None:
    world = MapHarness(7, "AB")
    world.loop.run_for(1)
    for number in range(2 * STEP + 10):
        world.put("A", b"fA%d" % number, b"v")
    world.loop.run_for(1)
    node = world.nodes["B"]
    node.heard.clear()
    count = node.map.purge(lambda name, boot: name == "A", b"f")
    assert count == 2 * STEP + 10
    assert 0 < node.map.statistics().keys < count, "a step at a time"
    world.loop.run_for(0.1)
    assert node.map.statistics().keys == 0
    assert len(node.heard) == count
    assert node.map.purge(lambda name, boot: name == "A", b"f") == 0


def test_several_spaces_can_be_purged_at_once() -> None:
    """This holds also for spaces of the same half: the keys of other spaces are not walked."""
    world = MapHarness(9, "AB")
    world.loop.run_for(1)
    for number in range(STEP + 10):
        world.put("A", b"l%d" % number, b"v")
        world.put("A", b"f%d" % number, b"v")
    world.put("A", b"tkept", b"v")
    world.loop.run_for(1)
    node = world.nodes["B"]
    assert [node.map.purge(lambda name, boot: name == "A", space) for space in (b"f", b"l")] == [STEP + 10] * 2
    assert [node.map.purge(lambda name, boot: name == "A", space) for space in (b"f", b"l")] == [0, 0]
    world.loop.run_for(0.1)
    assert node.map.statistics().keys == 1
    assert [key for key in node.disk.content() if key[:2] in (b"dl", b"dt")] == [b"dtkept"]


def test_a_node_alone_keeps_no_log_without_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strogoff.cluster.replicated_map.map.LOG_ALONE", 100)
    world = MapHarness(8, "A")
    map_ = world.nodes["A"].map
    map_.sync_interval_ms = 1 << 40
    for number in range(1000):
        world.put("A", b"t%d" % (number % 5), None)
        world.loop.settle()
    assert map_.statistics().log <= 101
    assert map_.statistics().tombstones <= 5
