"""No acknowledgement before its commit."""

from __future__ import annotations

import pytest

from strogoff.sim.checkers.early_ack import check

from ..histories import HistoryBuilder


@pytest.mark.parametrize(("commit", "early"), [(None, True), (8, True), (7, False), (1, False)])
def test_the_commit_that_holds_the_entry_was_done(commit: int | None, early: bool) -> None:
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    builder.publish("w-1", mark=7)
    if commit is not None:
        builder.history.durable["s", "w-1"] = commit
    assert bool(list(check(builder.case()))) is early


def test_a_session_that_has_the_message_needs_no_entry() -> None:
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    attempt = builder.publish("w-1", acked=False)
    builder.deliver("w-1")
    builder.ack(attempt)
    assert list(check(builder.case())) == []


def test_clean_sessions_and_dropped_messages_have_no_entry() -> None:
    builder = HistoryBuilder()
    builder.connect("s", expiry_s=0)
    builder.connect("r")
    for name in ("s", "r"):
        builder.subscribe(name, "t/#")
    builder.publish("w-1")
    builder.drop("w-1", "r")
    assert list(check(builder.case())) == []
