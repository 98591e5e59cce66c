"""Nothing comes from nowhere, or to the wrong one."""

from __future__ import annotations

from strogoff.sim.checkers.unexpected import check

from ..scene import Story, will


def test_messages_and_wills_of_a_subscription_are_expected() -> None:
    story = Story()
    story.connect("s", present=False)
    story.connect("c", will=will())
    story.subscribe("s", "#")
    story.publish("w-1")
    story.deliver("w-1")
    story.deliver("c!1")
    assert list(check(story.case())) == []


def test_nobody_sent_it() -> None:
    story = Story()
    story.connect("s", present=False)
    story.subscribe("s", "#")
    story.deliver("w-1", topic="t/0")
    story.publish("w-2")
    story.deliver("w-2", topic="t/1")
    assert [text.rpartition(" on ")[0] for text in check(story.case())] == [
        "unexpected: s got w-1",
        "unexpected: s got w-2",
    ]


def test_without_a_subscription() -> None:
    """None that matches, one that was over, one of an earlier session."""
    story = Story()
    story.connect("s", present=False)
    story.subscribe("s", "u/#")
    over = story.subscribe("s", "t/0")
    over.given_up = story.tick()
    over.gone = story.tick()
    story.subscribe("s", "t/1")
    story.connect("s", epoch=2, present=False)
    for number, (topic, epoch) in enumerate((("t/2", 1), ("t/0", 1), ("t/1", 2)), 1):
        story.publish(f"w-{number}", topic=topic)
        story.deliver(f"w-{number}", epoch=epoch)
    assert len(list(check(story.case()))) == 3


def test_a_session_that_the_client_had_thrown_away_may_be_an_old_one() -> None:
    story = Story()
    story.connect("s", present=False)
    story.subscribe("s", "t/1")
    story.connect("s", epoch=2, present=True)
    story.publish("w-1", topic="t/1")
    story.deliver("w-1", epoch=2)
    assert list(check(story.case())) == []
