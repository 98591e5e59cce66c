"""A2: acknowledgements that left too early. Planted cases are in tests/judge/planted."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.message import POLICY

from ...testing.log_audit.log_builder import NODE, Log, two_nodes
from .found import findings, kinds, proof


def early(right: str | None) -> Log:
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=["rx"])
    log.say("q.enq", mid=mid, client="rx")
    log.say("pub.ack", mid=mid, client="tx", right=right or "own")
    if right is None:
        del log.rows[-1]["right"]
    log.say("q.durable", mid=mid, client="rx")
    return log


@pytest.mark.parametrize(("right", "wrong"), [("own", True), ("lease", True), ("policy", False), (None, False)])
def test_which_answers_must_wait_for_the_disk(right: str | None, wrong: bool) -> None:
    """Older logs have no right, and no exact order."""
    log = early(right)
    assert [each for each in kinds(log) if each[0] == "A2"] == [("A2", "disk")] * wrong
    if wrong:
        assert proof(findings(log)[0], log) == ["pub.ack", "q.durable"]


def test_an_entry_that_the_publish_did_not_make_is_no_reason_to_wait() -> None:
    """A message for a later subscription, a retained one, and one that was dropped before."""
    for kind in ("sub.ack", "ret.deliver", "q.drop"):
        log = Log()
        log.connect("rx", expiry_s=60)
        if kind != "sub.ack":
            log.subscribe()
        mid = log.accept()
        log.say("pub.route", mid=mid, targets=["rx"])
        if kind == "sub.ack":
            log.subscribe()
        elif kind == "q.drop":
            log.say("q.drop", mid=mid, client="rx", topic="t/1", reason="queue_full")
        else:
            log.say("ret.deliver", mid=mid, client="rx", topic="t/1")
        log.ack(mid)
        log.say("q.enq", mid=mid, client="rx")
        assert ("A2", "queue") not in kinds(log)


@pytest.mark.parametrize("moves", [True, False])
def test_a_node_that_stood_still_may_say_later_that_the_message_is_safe(moves: bool) -> None:
    """Another node has the session by then, and the acknowledgement is its own."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=["rx"])
    log.say("q.enq", mid=mid, client="rx")
    if moves:
        log.say("slot.arrive", node="n2", slot=slot_of("", "rx"))
    log.ack(mid)
    log.say("q.durable", mid=mid, client="rx")
    assert (("A2", "disk") in kinds(log)) is not moves


@pytest.mark.parametrize("given_up", [True, False])
def test_nobody_waits_for_a_disk_that_the_cluster_has_given_up(given_up: bool) -> None:
    """Its node still runs, and says later that the message is safe there. The slot of the session is not lost: there is
    another copy."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    if given_up:
        log.say("slot.lost", target=log.node, count=1, slots=[str(slot_of("", "rx") ^ 1)], view=2)
    log.ack(mid)
    log.say("q.durable", mid=mid, client="rx")
    assert (("A2", "disk") in kinds(log)) is not given_up


@pytest.mark.parametrize("ends", ["before", "after"])
def test_nobody_waits_for_the_disk_of_a_session_that_has_ended(ends: str) -> None:
    """Its node was cut off, and says late what had been safe before."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    for when in ("before", "after"):
        if when == ends:
            log.say("sess.expire", client="rx")
        if when == "before":
            log.ack(mid)
    log.say("q.durable", mid=mid, client="rx")
    assert (("A2", "disk") in kinds(log)) is (ends == "after")


@pytest.mark.parametrize("own", ["early", "late", ""])
@pytest.mark.parametrize("other", ["before", "of another client", ""])
def test_an_answer_to_a_handshake_that_came_with_its_slot_is_of_another_message(other: str, own: str) -> None:
    """The next primary wrote its own name into the id. It gives this id to a message of its own, later or earlier."""
    log = Log()
    log.subscriber(expiry_s=60)
    mid = NODE, 1, 1
    if other == "before":
        log.ack(mid)
        log.say("pub.rel", mid=mid, client="tx")
    assert log.accept(qos=2) == mid
    if other == "of another client":
        log.ack(mid, client="moved")
    if own == "early":
        log.ack(mid)
    log.route(mid, "rx")
    if own == "late":
        log.ack(mid)
    assert [each for each in kinds(log) if each[0] == "A2"] == [("A2", "queue")] * (own == "early")


def test_an_answer_of_another_node_from_before_its_rows_of_the_message() -> None:
    """The message of a durable session has an id of its slot: of two nodes that accept it, one after the other, a log
    may lack what the first one wrote of the PUBLISH."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    mid = "#7", 3, 1
    a.ack(mid)
    b.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2)
    b.route(mid, "rx")
    a.rows += b.rows
    assert ("A2", "queue") in kinds(a)


@pytest.mark.parametrize(
    ("order", "also", "wrong"),
    [
        (("one", "two", "safe two", "ack", "safe one"), False, []),
        (("one", "two", "ack", "safe one", "safe two"), False, ["one", "two"]),
        (("two", "safe two", "one", "ack", "safe one"), False, ["one"]),
        (("one", "two", "safe two", "ack", "safe one"), True, ["one"]),
    ],
)
def test_a_group_that_chooses_again_waits_for_the_later_member_alone(
    order: tuple[str, ...], also: bool, wrong: list[str]
) -> None:
    """Member `one` is at a node that has left the view. Its own subscription still must have the message."""
    log = Log()
    for client in ("one", "two"):
        log.subscriber(client, "$share/g/t/#", expiry_s=60)
    if also:
        log.subscribe("one", "t/#")
    mid = log.accept()
    for step in order:
        if step == "ack":
            log.say("pub.ack", mid=mid, client="tx", right="lease")
        elif step.startswith("safe "):
            log.say("q.durable", mid=mid, client=step.removeprefix("safe "))
        else:
            if also and step == "one":
                log.say("pub.route", mid=mid, targets=[step])
                log.say("q.enq", mid=mid, client=step)
            log.say("pub.route", mid=mid, targets=[step], group="$share/g/t/#")
            log.say("q.enq", mid=mid, client=step, group="$share/g/t/#")
    assert sorted(each.subject.client for each in findings(log) if (each.anomaly, each.kind) == ("A2", "disk")) == wrong


@pytest.mark.parametrize("policy", ["on", "majority"])
@pytest.mark.parametrize("group", ["$share/g/t/#", ""])
def test_a_message_of_a_group_may_be_safe_late_behind_the_policy_on(policy: str, group: str) -> None:
    """A node without a lease passes it on, and waits for nobody."""
    a, b = two_nodes()
    for log in (a, b):
        log.say("config.change", key=POLICY, new=policy)
    b.subscriber(filter=group or "t/#", expiry_s=60)
    mid = a.accept()
    b.say("split.detect", nodes=[], incident=1, state="minority")
    b.say("fwd.recv", mid=mid, source="a", topic="t/1")
    b.say("q.enq", mid=mid, client="rx", group=group or None)
    b.say("split.change", nodes=[], incident=1, state="whole")
    a.ack(mid)
    b.say("q.durable", mid=mid, client="rx")
    a.rows += b.rows
    assert (("A2", "disk") in kinds(a)) is not (policy == "on" and bool(group))
