"""A1: a node that starts in a netsplit has the queues of its former sessions, which are at another node by then."""

from __future__ import annotations

from itertools import count

import pytest

from strogoff.cluster.identity import slot_of

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings

Mid = tuple[str, int, int]


def _former_node(leased: bool, back: bool = False) -> tuple[Log, Log]:
    """A session is at node b, since a died. Node a starts again; with `back`, it gets the session again."""
    a, b = two_nodes()
    a.subscriber(expiry_s=60)
    a.say("lease.get", view=1)
    a.say("fault.kill", nodes=["a"])
    b.say("slot.arrive", slot=slot_of("", "rx"))
    b._numbers = count(10)
    b.connect("rx", present=True, expiry_s=60)
    a.boot()
    if leased or back:
        a.say("lease.get", view=2)
    if back:
        a.say("slot.arrive", slot=slot_of("", "rx"))
    return a, b


def _at(b: Log, count: int) -> None:
    """The client is back at a node, whose queue has so many messages for it."""
    b.connect("rx", present=True, expiry_s=60)
    b.say("q.depth", client="rx", count=count)


def _lost(a: Log, b: Log) -> list[tuple[str, Mid | None]]:
    a.rows += b.rows
    return [(each.kind, each.subject.message) for each in findings(a) if each.anomaly == "A1"]


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("it dies", []),
        ("it has had no lease", []),
        ("it has a lease", ["queue"]),
        ("it has the session again", ["gone"]),
        ("the other node gets it later", ["gone"]),
    ],
)
def test_a_queue_that_another_node_has_got_is_not_that_of_the_session(how: str, lost: list[str]) -> None:
    """A netsplit may excuse that the session did not get the message: no queue of it has the message."""
    again = how == "it has the session again"
    a, b = _former_node(how == "it has a lease", again)
    mid = a.accept()
    a.route(mid, "rx")
    a.say("pub.ack", mid=mid, client="tx", right="lease" if again or "a lease" in how else "policy")
    if "later" in how:
        b.route(mid, "rx")
    if how == "it dies":
        a.boot()
    _at(a if again else b, 0)
    assert _lost(a, b) == [(each, mid) for each in lost]


@pytest.mark.parametrize("arrives", [True, False])
def test_what_a_node_without_a_lease_keeps_for_another_one_is_not_in_its_queue(arrives: bool) -> None:
    """It may forward the message at the heal, which the log does not have yet."""
    a, b = _former_node(leased=True)
    a.say("split.detect", nodes=["b"], incident=1, state="minority", counts={}, begin_ms=1, detected_ms=1, window_ms=1)
    mid = a.accept()
    a.route(mid, "rx")
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    if arrives:
        b.route(mid, "rx")
    _at(b, 0)
    assert _lost(a, b) == [("gone", mid)] * arrives


@pytest.mark.parametrize("node", ["a", "b"])
def test_the_depth_of_a_queue_counts_although_an_outdated_one_grows(node: str) -> None:
    a, b = _former_node(leased=False)
    mid = b.accept()
    b.route(mid, "rx")
    b.ack(mid)
    _at(b, 0)
    log = a if node == "a" else b
    log.route(log.accept(), "rx")
    assert _lost(a, b) == [("gone", mid)] * (node == "a")


@pytest.mark.parametrize("ends", [True, False])
def test_an_outdated_queue_does_not_prolong_a_subscription(ends: bool) -> None:
    a, b = _former_node(leased=True)
    mid = a.accept()
    a.route(mid, "rx")
    if ends:
        b.say("sub.del", client="rx", filter="t/#")
        b.say("unsub.ack", client="rx", filters=["t/#"], codes=["0"])
    a.ack(mid)
    assert _lost(a, b) == [("queue", mid)] * (not ends)


@pytest.mark.parametrize("when", ["before", "after"])
def test_rows_that_are_lost_after_the_acknowledgement_do_not_explain_a_loss(when: str) -> None:
    """The message was to be in the queue of the session by then: an outdated one does not count."""
    a, b = _former_node(leased=True)
    mid = a.accept()
    a.route(mid, "rx")
    if when == "before":
        b.boot()
        b.rows[-1]["tail_lost"] = True
    a.ack(mid)
    if when == "after":
        b.say("conn.close", client="rx", reason="peer_closed")
        b.boot()
        b.rows[-1]["tail_lost"] = True
    a.rows += b.rows
    assert [each.sure for each in findings(a) if each.anomaly == "A1"] == [when == "after"]


def test_a_clean_session_keeps_its_queue_when_its_will_goes_with_the_slot() -> None:
    """Its client stays connected to the node."""
    a, b = two_nodes()
    a.connect("rx", will=True)
    a.subscribe()
    b.say("slot.arrive", slot=slot_of("", "rx"))
    mid, later = a.accept(), a.accept()
    for each in (mid, later):
        a.route(each, "rx", durable=False)
        a.ack(each)
    a.send(later)
    assert _lost(a, b) == [("overtaken", mid)]
