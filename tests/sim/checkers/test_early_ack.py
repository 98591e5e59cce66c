"""No acknowledgement before its commit."""

from __future__ import annotations

import pytest

from strogoff.sim.checkers.early_ack import check

from ..scene import Story


@pytest.mark.parametrize(("commit", "early"), [(None, True), (8, True), (7, False), (1, False)])
def test_the_commit_that_holds_the_entry_was_done(commit: int | None, early: bool) -> None:
    story = Story()
    story.connect("s")
    story.subscribe("s", "t/#")
    story.publish("w-1", mark=7)
    if commit is not None:
        story.history.durable["s", "w-1"] = commit
    assert bool(list(check(story.case()))) is early


def test_who_has_it_already_needs_no_entry() -> None:
    story = Story()
    story.connect("s")
    story.subscribe("s", "t/#")
    attempt = story.publish("w-1", acked=False)
    story.deliver("w-1")
    story.ack(attempt)
    assert list(check(story.case())) == []


def test_clean_sessions_and_dropped_messages_have_no_entry() -> None:
    story = Story()
    story.connect("s", expiry_s=0)
    story.connect("r")
    for name in ("s", "r"):
        story.subscribe(name, "t/#")
    story.publish("w-1")
    story.drop("w-1", "r")
    assert list(check(story.case())) == []
