"""No acknowledgement before its commit."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
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


@pytest.mark.parametrize(("commit", "early"), [(None, True), (8, True), (7, False)])
def test_each_disk_of_the_in_sync_set_had_the_entry(commit: int | None, early: bool) -> None:
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    builder.publish("w-1", mark=7)
    history = builder.history
    history.copied = True
    history.commits = 3
    history.stored("s", "w-1", "d1")
    if commit is not None:
        history.commits = commit
        history.stored("s", "w-1", "d2")
    history.holders[slot_of("", "s")] = [(1, ("d1",)), (5, ("d1", "d2"))]
    found = ["early ack: w-1 was acknowledged before d2 had its entry for s"] if early else []
    assert list(check(builder.case())) == found
    history.copied = False
    assert list(check(builder.case())) == []


def test_the_in_sync_set_at_the_acknowledgement_counts() -> None:
    """Of two sets at the same commit either may be the one."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    builder.publish("w-1", mark=7)
    builder.history.copied = True
    builder.history.stored("s", "w-1", "d1")
    both: list[list[tuple[int, tuple[str, ...]]]] = [
        [(1, ("d1",)), (8, ("d1", "d2"))],
        [(1, ("d1", "d2")), (7, ("d1",))],
        [(7, ("d1",)), (7, ("d2",))],
    ]
    for holders in both:
        builder.history.holders[slot_of("", "s")] = holders
        assert list(check(builder.case())) == []
