"""A12: forgotten sessions."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings, proof


def test_a_session_that_outlives_its_connection_is_forgotten() -> None:
    """CONNACK said that it lasts, or the log has the end of its connection alone. Its begin and end prove it."""
    log = Log()
    log.connect("lasting", expiry_s=60)
    log.connect("clean")
    log.connect("closed")
    log.say("conn.close", client="closed", reason="peer_closed")
    for client in ("lasting", "clean", "closed"):
        log.connect(client)
    found = findings(log)
    assert [each.subject.client for each in found] == ["lasting", "closed"]
    assert proof(found[0], log) == ["sess.create", "sess.create"]
    assert len({each.id for each in found}) == 2


def test_a_session_that_ended_is_not_forgotten() -> None:
    log = Log()
    log.connect("rx", expiry_s=60)
    log.say("conn.close", client="rx", reason="peer_closed")
    log.say("sess.expire", client="rx")
    log.connect("rx")
    assert findings(log) == []


@pytest.mark.parametrize(("will", "expiry_s", "forgotten"), [(True, 0, False), (True, 60, True), (False, 0, True)])
def test_a_will_outlives_the_connection_of_a_clean_session(will: bool, expiry_s: int, forgotten: bool) -> None:
    """It goes on in the slot, which moves, and the node does not end the session. Its client comes back there."""
    log = Log()
    log.connect("rx", will=will, expiry_s=expiry_s)
    log.say("conn.close", client="rx", reason="moved")
    log.connect("rx")
    assert [each.anomaly for each in findings(log) if each.anomaly != "A14"] == ["A12"] * forgotten


@pytest.mark.parametrize("clean", [True, False])
def test_a_client_that_discards_its_session_is_not_forgotten(clean: bool) -> None:
    """The node of the former session ends it later."""
    log = Log()
    log.connect("rx", expiry_s=60)
    log.say("conn.open", client="rx", present=False, clean=clean)
    log.say("sess.create", client="rx")
    assert [each.anomaly for each in findings(log)] == ([] if clean else ["A12"])


@pytest.mark.parametrize(
    ("how", "forgotten"),
    [
        ("", False),
        ("with a lease", True),
        ("not ended", True),
        ("resumed again", True),
        ("of an earlier session", True),
    ],
)
def test_a_session_that_another_node_had_ended_is_not_forgotten(how: str, forgotten: bool) -> None:
    """5 nodes, seed 23700058: the CONNACK of a node without a lease, which serves by its policy, had waited for a copy.
    The next primary has ended the session meanwhile, and the client gets a new one there."""
    a, b = two_nodes()
    slot = slot_of("", "rx")
    a.say("lease.get", view=1)
    b.say("lease.get", view=1)
    a.connect("rx", expiry_s=60)
    if how != "with a lease":
        a.say("lease.lose", view=1)
    b.say("slot.arrive", slot=slot)
    other = {"epoch": 77} if how == "of an earlier session" else {}
    if how != "not ended":
        b.say("sess.end", client="rx", reason="expired", **other)
    a.connect("rx", present=True, expiry_s=60)
    a.say("slot.taken", slot=slot, target="b")
    if how == "resumed again":
        b.connect("rx", present=True, expiry_s=60)
    b.connect("rx", expiry_s=60)
    log = Log()
    log.rows = [*a.rows, *b.rows]
    assert [each.anomaly for each in findings(log) if each.anomaly == "A12"] == ["A12"] * forgotten


@pytest.mark.parametrize(("slot", "when", "sure"), [(0, 0, False), (1, 0, True), (0, -1, True), (0, 1, True)])
def test_a_slot_that_may_have_lost_changes_may_have_lost_the_session(slot: int, when: int, sure: bool) -> None:
    """If the cluster said so before the session, behind it, or of another slot, that excuses nothing."""
    log = Log()

    def lose() -> None:
        slots = [str(slot_of("", "rx") + slot)]
        log.say("slot.loss_possible", target="b", count=1, slots=slots, nodes=["b"], reason="power_loss", view=3)

    for step in (-1, 0, 1):
        if step == when:
            lose()
        if step < 1:
            log.connect("rx", expiry_s=60)
    assert [(each.kind, each.sure) for each in findings(log)] == [("forgotten", sure)]


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize(
    ("target", "restarts", "forgotten"), [("b", False, False), ("b", True, True), ("a", False, True)]
)
def test_a_disk_that_was_given_up_keeps_no_session(target: str, restarts: bool, forgotten: bool, arrives: bool) -> None:
    """Its node is cut off, and serves a client until it is back with an empty disk; the next primary may start
    meanwhile. A disk that was given up before the node started, or that of another node, excuses nothing."""
    a, b = two_nodes()
    slot = slot_of("", "rx")
    a.connect("rx", expiry_s=60)
    b.say("slot.arrive", slot=slot)
    a.say("slot.lost", target=target, count=1, slots=[str(slot)], view=2)
    if restarts:
        b.boot()
    b.connect("rx", present=True, expiry_s=60)
    if arrives:
        a.say("slot.arrive", slot=slot)
    a.connect("rx", expiry_s=60)
    log = Log("c")
    log.rows = [*a.rows, *b.rows]
    assert [each.anomaly for each in findings(log)] == ["A12"] * forgotten


@pytest.mark.parametrize("lost", [0, 1])
def test_a_disk_that_is_given_up_later_excuses_nothing(lost: int) -> None:
    """The slot of the session is not lost: there is another copy."""
    log = Log()
    for step in (0, 1):
        if step == lost:
            log.say("slot.lost", target=log.node, count=1, slots=[str(slot_of("", "rx") ^ 1)], view=2)
        log.connect("rx", expiry_s=60)
    assert [each.anomaly for each in findings(log)] == ["A12"] * lost
