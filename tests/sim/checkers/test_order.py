"""First deliveries in the order of acceptance."""

from __future__ import annotations

from strogoff.sim.checkers.order import check

from ..histories import HistoryBuilder


def builder(**options: object) -> HistoryBuilder:
    made = HistoryBuilder(**options)
    made.connect("s")
    made.subscribe("s", "t/#")
    return made


def test_one_writer_one_topic() -> None:
    made = builder()
    first, second = made.publish("w-1", acked=False), made.publish("w-2", acked=False)
    made.deliver("w-2")
    made.deliver("w-1")
    assert list(check(made.case())) == ["reordered: s, session 1 got w-1 after w-2, same topic and QoS"]
    assert first.sent < second.sent


def test_a_message_of_a_group_may_come_late_from_another_member() -> None:
    """Its node has lost its disk (pairs of faults, shared)."""
    made = HistoryBuilder()
    made.connect("s")
    made.subscribe("s", "$share/g/t/#")
    made.publish("w-1", acked=False)
    made.publish("w-2", acked=False)
    made.deliver("w-2")
    made.deliver("w-1")
    assert list(check(made.case())) == []


def test_a_repeated_message_is_no_first_delivery() -> None:
    made = builder()
    for key in ("w-1", "w-2"):
        made.publish(key, acked=False)
        made.deliver(key)
    made.deliver("w-1", dup=True)
    assert list(check(made.case())) == []


def test_topics_and_levels_are_independent() -> None:
    made = builder()
    made.publish("w-1", acked=False)
    made.publish("w-2", topic="t/1", acked=False)
    made.publish("w-3", qos=2, acked=False)
    for key in ("w-3", "w-2", "w-1"):
        made.deliver(key)
    assert list(check(made.case())) == []


def test_two_writers_by_acknowledgement() -> None:
    """m1 was acknowledged before m2 was sent: m1 comes first."""
    made = builder()
    made.publish("a-1")
    made.publish("b-1", topic="t/1")
    made.deliver("b-1")
    made.deliver("a-1")
    assert list(check(made.case())) == [
        "reordered: s, session 1 got a-1 after b-1, sent when the first was acknowledged"
    ]


def test_messages_that_are_not_judged() -> None:
    """Messages from before the SUBACK, dropped messages, and `lifo` queues."""
    made = HistoryBuilder()
    made.connect("s")
    made.publish("w-1", acked=False)
    made.subscribe("s", "t/#")
    made.publish("w-2", acked=False)
    made.deliver("w-2")
    made.deliver("w-1")
    assert list(check(made.case())) == []
    for dropped, options in ((True, {}), (False, {"queue_type": "lifo"})):
        made = builder(**options)
        made.publish("w-1", acked=False)
        made.publish("w-2", acked=False)
        made.deliver("w-2")
        if dropped:
            made.drop("w-1")
        made.deliver("w-1")
        assert list(check(made.case())) == []


def test_a_refusal_that_may_not_have_reached_the_publisher() -> None:
    """The node refused the first for a full disk and took the second; then the first was sent again."""
    made = builder()
    first = made.publish("w-1", acked=False)
    made.event("policy.deny", "w")
    made.publish("w-2", acked=False)
    made.deliver("w-2")
    first.resent = 1
    made.deliver("w-1")
    assert list(check(made.case())) == []
    first.resent = 0
    assert len(list(check(made.case()))) == 1


def test_a_repeated_message_may_be_late_for_a_subscription_without_a_lease() -> None:
    """Other nodes did not know the subscription yet. A message missed it, and arrived like a new one when it was sent
    again.
    """
    for resent, said in ((1, []), (0, ["reordered: s, session 1 got w-1 after w-2, same topic and QoS"])):
        made = builder()
        made.history.subscriptions[-1].without_lease = True
        made.publish("w-1", acked=False).resent = resent
        made.publish("w-2", acked=False)
        made.deliver("w-2")
        made.deliver("w-1")
        assert list(check(made.case())) == said


def test_an_old_copy_of_a_disk_is_not_judged_without_a_lease() -> None:
    """Sessions on the copy are in an older state, and messages arrive again in any order (3 nodes, seed 126342)."""
    made = builder()
    for key in ("w-1", "w-2"):
        made.publish(key, acked=False)
    made.deliver("w-2")
    connection = made.connect_to_old_copy("s")
    made.deliver("w-1", connection=2)
    assert list(check(made.case())) == ["reordered: s, session 1 got w-1 after w-2, same topic and QoS"]
    connection.without_lease = True
    assert list(check(made.case())) == []
