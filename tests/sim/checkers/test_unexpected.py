"""Messages that no client sent, and messages for other clients."""

from __future__ import annotations

from strogoff.sim.checkers.unexpected import check

from ..histories import HistoryBuilder, will


def test_messages_and_wills_of_a_subscription_are_expected() -> None:
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.connect("c", will=will())
    builder.subscribe("s", "#")
    builder.publish("w-1")
    builder.deliver("w-1")
    builder.deliver("c!1")
    assert list(check(builder.case())) == []


def test_a_message_without_a_writer_is_unexpected() -> None:
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.subscribe("s", "#")
    builder.deliver("w-1", topic="t/0")
    builder.publish("w-2")
    builder.deliver("w-2", topic="t/1")
    assert [text.rpartition(" on ")[0] for text in check(builder.case())] == [
        "unexpected: s got w-1",
        "unexpected: s got w-2",
    ]


def test_without_a_subscription() -> None:
    """No matching subscription, a subscription that is over, one of an earlier session."""
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.subscribe("s", "u/#")
    over = builder.subscribe("s", "t/0")
    over.given_up = builder.tick()
    over.gone = builder.tick()
    builder.subscribe("s", "t/1")
    builder.connect("s", epoch=2, present=False)
    for number, (topic, epoch) in enumerate((("t/2", 1), ("t/0", 1), ("t/1", 2)), 1):
        builder.publish(f"w-{number}", topic=topic)
        builder.deliver(f"w-{number}", epoch=epoch)
    assert len(list(check(builder.case()))) == 3


def test_a_session_that_the_client_had_thrown_away_may_be_an_old_one() -> None:
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.subscribe("s", "t/1")
    builder.connect("s", epoch=2, present=True)
    builder.publish("w-1", topic="t/1")
    builder.deliver("w-1", epoch=2)
    assert list(check(builder.case())) == []
