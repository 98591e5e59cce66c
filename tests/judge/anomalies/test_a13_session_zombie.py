"""A13: sessions that come back."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.building import CUT
from strogoff.judge.lives import UNDONE
from strogoff.judge.rows import LOGICAL_BITS

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings, kinds, proof


def came_back(epoch: int, kind: str = "sess.expire") -> Log:
    log = Log()
    log.connect("rx", expiry_s=60)
    log.say(kind, client="rx", epoch=7, **({"reason": "clean_start"} if kind == "sess.end" else {}))
    log.say("conn.open", client="rx", present=True)
    log.say("sess.resume", client="rx", epoch=epoch)
    return log


@pytest.mark.parametrize("kind", ["sess.expire", "sess.end"])
def test_the_epoch_tells_sessions_apart(kind: str) -> None:
    log = came_back(7, kind)
    assert kinds(log) == [("A13", "resumed")] and proof(findings(log)[0], log) == [kind, "sess.resume"]
    assert kinds(came_back(8, kind)) == []


def test_a_session_without_epoch_is_not_judged() -> None:
    log = came_back(7)
    for row in log.rows:
        if row["type"] in ("sess.expire", "sess.resume"):
            row["epoch"] = 0
    assert kinds(log) == []


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("cut off", False),
        ("long before", True),  # the copy has the end since then
        ("without a lease", True),  # such a node ends no session (H-43)
        ("with its lease", True),
        ("moved", True),  # the former primary has handed everything over
        ("not arrived", True),
        ("discarded", True),  # its client has an answer, which waits for the copy
    ],
)
def test_a_copy_may_lack_an_expiry_at_a_node_that_is_cut_off(how: str, found: bool) -> None:
    """a ends a session before it knows that it is cut off. b has a copy, and takes the slot over."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    a.connect("rx", expiry_s=60)
    a.say("conn.close", client="rx", reason="gateway_lost")
    if how == "without a lease":
        a.say("lease.lose", view=1)
    if how == "discarded":
        a.say("sess.end", client="rx", reason="clean_start")
    else:
        a.say("sess.expire", client="rx")
    if how == "moved":
        a.say("slot.moved", slot=slot_of("", "rx"), target="b", sessions=1, bytes=0)
    gap_ms = (CUT >> LOGICAL_BITS) - (how != "long before")
    for _ in range(gap_ms - (how == "moved")):
        next(a._now)
    if how not in ("with its lease", "without a lease"):
        a.say("lease.lose", view=1)
    if how != "not arrived":
        b.say("slot.arrive", slot=slot_of("", "rx"))
    b.connect("rx", present=True, expiry_s=60)
    log = Log()
    log.rows = [*a.rows, *b.rows]
    assert kinds(log) == [("A13", "resumed")] * found


@pytest.mark.parametrize(("how", "found"), [("", False), ("with a lease", True), ("at the same node", True)])
def test_a_node_without_a_lease_does_not_know_what_the_next_primary_has_ended(how: str, found: bool) -> None:
    """3 nodes, copies, seed 16200183: its CONNACK has waited for a copy since it had a lease."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    a.connect("rx", expiry_s=60)
    if how != "with a lease":
        a.say("lease.lose", view=1)
    ends = b
    if how == "at the same node":
        ends = a
    else:
        b.say("slot.arrive", slot=slot_of("", "rx"))
    ends.say("sess.end", client="rx", reason="expired")
    a.connect("rx", present=True, expiry_s=60)
    log = Log()
    log.rows = [*a.rows, *b.rows]
    assert kinds(log) == [("A13", "resumed")] * found


@pytest.mark.parametrize("full", [True, False])
def test_a_full_disk_may_lack_an_end_from_long_before_a_kill(full: bool) -> None:
    """3 nodes, groups, seed 26650001: the store took nothing from before the end until the kill."""
    log = Log()
    log.connect("rx", expiry_s=60)
    if full:
        log.say("store.state", state="full", detail="no space")
    log.say("sess.expire", client="rx", epoch=7)
    for _ in range(UNDONE >> LOGICAL_BITS):
        next(log._now)
    log.connect("other")
    log.boot()
    log.say("conn.open", client="rx", present=True)
    log.say("sess.resume", client="rx", epoch=7)
    assert kinds(log) == [("A13", "resumed")] * (not full)
