"""The lane with the changes of slots: its rank, its log lines, and what a follower that restarts gets."""

from __future__ import annotations

from strogoff.cluster.links.links import Lane, LinkSettings

from .link_harness import LinkHarness, join


def test_the_log_says_that_changes_of_slots_wait_for_a_slow_follower() -> None:
    world = LinkHarness(settings=LinkSettings(buffer_bytes=20_000))
    a, b = world.node("a"), world.node("b", commit_s=0.1)
    for _ in range(14):
        a.links.send("b", Lane.REPLICA, bytes(1000))
    assert a.links.slow[Lane.REPLICA] == {"b": None}
    (said,) = a.logs
    assert "KiB wait on lane REPLICA for b" in said and said.endswith("changes of slots with a copy at b wait")
    join(a, b)
    world.loop.run_for(1)
    assert a.links.slow[Lane.REPLICA] == {} and a.all("relieved") == [("b",)]
    assert "lane REPLICA to b is relieved: changes of slots go on" in a.logs


def test_a_follower_that_restarts_gets_the_changes_that_it_has_not_acknowledged() -> None:
    """Nothing of its lane outlives a follower. That is no reason for a warning, and no reason to give up what waits:
    a voided item counts as acknowledged, and a commit would leave without its copy.
    """
    world = LinkHarness()
    a, b = world.node("a"), world.node("b")
    join(a, b)
    a.links.send("b", Lane.REPLICA, b"1")
    world.loop.run_for(1)
    b.crash()
    a.links.send("b", Lane.REPLICA, b"2")
    world.loop.run_for(1)
    again = world.node("b", boot=2)
    join(a, again)
    world.loop.run_for(5)
    assert b.items(Lane.REPLICA) == [b"1"] and again.items(Lane.REPLICA) == [b"2"]
    assert a.all("acked") == [("b", Lane.REPLICA, 1), ("b", Lane.REPLICA, 2)]
    assert not [text for text in a.logs if "forgotten" in text]


def test_changes_of_slots_leave_before_messages_and_wait_for_no_other_lane() -> None:
    """A commit waits for its followers, and messages wait for commits. So the lane of the map must not stop it."""
    world = LinkHarness(settings=LinkSettings(gather_bytes=1000))
    a, b = world.node("a"), world.node("b")
    for lane in (Lane.METADATA, Lane.PUBLISH, Lane.APPEND, Lane.REPLICA):
        for number in range(5):
            a.links.send("b", lane, b"%d" % number * 600)
    join(a, b)
    world.loop.run_for(1)
    lanes = [event[2] for event in b.events if event[0] == "item"]
    assert len(lanes) == 20
    assert lanes.index(Lane.METADATA) < lanes.index(Lane.REPLICA) < min(map(lanes.index, (Lane.APPEND, Lane.PUBLISH)))
    ends = {lane: len(lanes) - lanes[::-1].index(lane) for lane in Lane}
    assert lanes.index(Lane.REPLICA) < ends[Lane.METADATA] < lanes.index(Lane.APPEND)
