"""A10: connections of one client at two nodes."""

from __future__ import annotations

import pytest

from ...testing.log_audit.test_audit_cluster import A, B, Two


def overlap(two: Two, ms: int) -> list[str]:
    """Kinds of A10 after the former connection has gone on for so long."""
    two.b.connect("rx")
    for _ in range(ms):
        next(two.a._now)
    two.a.say("conn.close", client="rx", reason="peer_closed")
    two.b.say("mem.up", target=A)
    two.b.say("conn.close", client="rx", reason="peer_closed")
    return [each.kind for each in two.audit().findings if each.anomaly == "A10"]


@pytest.mark.parametrize(("ms", "wrong"), [(1900, False), (2100, True)])
def test_a_takeover_has_two_seconds(ms: int, wrong: bool) -> None:
    two = Two()
    two.a.connect("rx")
    two.b.connect("rx")
    for _ in range(ms):
        next(two.a._now)
    two.a.say("conn.close", client="rx", reason="peer_closed")
    for _ in range(3000):
        next(two.a._now)
    two.b.say("conn.close", client="rx", reason="peer_closed")
    found = [each for each in two.audit().findings if each.anomaly == "A10"]
    assert [each.kind for each in found] == ["overlap"] * wrong
    assert all(2000 < each.value < 2200 for each in found)


@pytest.mark.parametrize("why", ["split", "view"])
def test_in_a_split_it_is_expected(why: str) -> None:
    two = Two()
    two.a.connect("rx")
    if why == "split":
        two.a.say("split.detect", nodes=[B], state="minority")
    else:
        two.b.say("mem.down", target=A)
    assert overlap(two, 3000) == []


@pytest.mark.parametrize("joins", [True, False])
def test_a_node_that_has_just_joined_has_no_lease(joins: bool) -> None:
    """It serves clients as those of a split. Its process has started in a run of its own."""
    two = Two()
    two.b.say("lease.get", view=1)
    two.a.connect("rx")
    if joins:
        two.b.say("node.join", old="cluster-of-b")
    assert overlap(two, 3000) == ["overlap"] * (not joins)


@pytest.mark.parametrize("lost", ["begin", "end", "between", ""])
def test_it_counts_whether_a_node_has_a_lease_at_begin_and_end(lost: str) -> None:
    two = Two()
    two.a.say("lease.get", view=1)
    two.a.connect("rx")
    if lost == "begin":
        two.a.say("lease.lose", view=1)
    two.b.connect("rx")
    for which in ("between", "end"):
        for _ in range(1500):
            next(two.a._now)
        if lost == which:
            two.a.say("lease.lose", view=1)
        if lost == "between" == which:
            two.a.say("lease.get", view=1)
    two.a.say("conn.close", client="rx", reason="peer_closed")
    two.b.say("conn.close", client="rx", reason="peer_closed")
    found = [each.kind for each in two.audit().findings if each.anomaly == "A10"]
    assert found == ["overlap"] * (lost in ("", "between"))
