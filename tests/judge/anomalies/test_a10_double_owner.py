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
