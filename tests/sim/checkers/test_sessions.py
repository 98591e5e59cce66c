"""Sessions live as long as promised, and no longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.sessions import check, detached
from strogoff.sim.history import NEVER

from ..histories import HistoryBuilder


def away(expiry_s: int | None, seconds: int, **fields: Any) -> list[str]:
    """Returns the violations of a client that returns after this number of seconds."""
    builder = HistoryBuilder()
    first = builder.connect("s", expiry_s=expiry_s, present=False)
    builder.close(first)
    builder.now += seconds
    if expiry_s is not None and 0 < expiry_s < seconds:
        builder.history.events.append((first.closed_at + expiry_s, {"type": "sess.end", "client": "s"}))
    builder.connect("s", expiry_s=expiry_s, **fields)
    return list(check(builder.case()))


@pytest.mark.parametrize(
    ("expiry_s", "seconds", "present", "wrong"),
    [
        (None, 100, True, ""), (None, 100, False, "amnesia"), (0, 1, True, "zombie"), (0, 1, False, ""),
        (50, 10, False, "amnesia"), (50, 10, True, ""), (50, 100, True, "zombie"), (50, 100, False, ""),
    ],
)  # fmt: skip
def test_present_or_not(expiry_s: int | None, seconds: int, present: bool, wrong: str) -> None:
    """[MQTT-3.2.2-2] [MQTT5-3.2.2-3] according to the earlier connections."""
    assert [text.split(":")[0] for text in away(expiry_s, seconds, present=present)] == ([wrong] if wrong else [])


def test_clean_start_never_finds_one() -> None:
    """[MQTT5-3.2.2-2]"""
    assert away(None, 1, clean=True, present=True) and not away(None, 1, clean=True, present=False)


def test_after_an_unanswered_connect_both_answers_are_right() -> None:
    """The node may have read it: with Clean Start both answers are right afterwards."""
    for present in (False, True):
        builder = HistoryBuilder()
        builder.close(builder.connect("s", present=False))
        builder.connect("s", clean=True, opened=NEVER - 1).opened = NEVER
        builder.connect("s", present=present)
        assert list(check(builder.case())) == []


def test_a_session_without_a_client_ends_in_time() -> None:
    builder = HistoryBuilder()
    builder.close(builder.connect("s", expiry_s=5, present=False))
    builder.now += 100
    assert [text.split(":")[0] for text in check(builder.case())] == ["overdue"]
    builder.history.events.append((8.0, {"type": "sess.end", "client": "s"}))
    assert list(check(builder.case())) == []


@pytest.mark.parametrize(("copied", "wrong"), [(True, []), (False, ["overdue"])])
def test_the_end_of_a_session_with_copies_may_take_some_commits(copied: bool, wrong: list[str]) -> None:
    """3 nodes, copies and small, seed 5400369."""
    builder = HistoryBuilder()
    builder.close(builder.connect("s", expiry_s=5, present=False))
    due_s, case = builder.now + 5, builder.case()
    builder.history.copied = copied
    late_s = due_s + 4 * case.commit_s
    builder.now = late_s + case.slack_s - 0.01
    assert [text.split(":")[0] for text in check(builder.case())] == wrong
    builder.now += 100
    assert [text.split(":")[0] for text in check(builder.case())] == ["overdue"]


def test_the_end_of_a_session_waits_until_its_node_has_had_a_lease_for_a_while() -> None:
    """3 nodes, seed 14500062: all nodes have started again, and elections repeat until 5 s before the end."""
    builder = HistoryBuilder()
    connection = builder.connect("s", expiry_s=5, present=False)
    builder.close(connection)
    builder.history.views.note(connection.node, builder.now, ViewState.MINORITY)
    builder.now += 100
    assert list(check(builder.case())) == []
    builder.history.views.note(connection.node, builder.now - 6, ViewState.WHOLE)
    assert [text.split(":")[0] for text in check(builder.case())] == ["overdue"]
    builder.now -= 2
    assert list(check(builder.case())) == []


def test_a_session_that_went_with_its_disk_is_not_overdue() -> None:
    """3 nodes, seed 102928: the disk was lost a second before the deadline, and the client never returned."""
    builder = HistoryBuilder()
    first = builder.connect("s", expiry_s=5, present=False)
    builder.close(first)
    builder.now += 100
    emptied = builder.history.life(first.node).emptied
    for at_s, wrong in ((first.asked_at - 0.5, ["overdue"]), (first.closed_at + 4, []), (builder.now - 1, ["overdue"])):
        emptied[:] = [at_s]
        assert [text.split(":")[0] for text in check(builder.case())] == wrong


def test_a_kill_right_after_the_end_makes_it_count_from_the_return() -> None:
    builder = HistoryBuilder()
    connection = builder.connect("s", expiry_s=50, present=False)
    builder.close(connection)
    assert detached(builder.case(), connection) == (connection.closed_at, connection.closed_at)
    builder.now -= 0.99
    builder.fault("kill")
    builder.start()
    assert detached(builder.case(), connection) == (connection.closed_at, builder.now)


def test_an_expiry_changed_with_disconnect_counts_if_it_arrived() -> None:
    """Section 3.14.2.2.2: DISCONNECT may have come or not, so both deadlines are possible."""
    for present in (False, True):
        builder = HistoryBuilder()
        connection = builder.connect("s", expiry_s=1000, present=False, polite=True, final_expiry_s=5)
        builder.close(connection)
        builder.now += 100
        builder.connect("s", present=present)
        assert [text for text in check(builder.case()) if "overdue" not in text] == []


@pytest.mark.parametrize(("killed", "present", "wrong"), [(False, True, 1), (False, False, 0), (True, True, 0)])
def test_an_expiry_changed_with_disconnect_is_the_old_one_if_a_kill_undid_it(
    killed: bool, present: bool, wrong: int
) -> None:
    builder = HistoryBuilder()
    connection = builder.connect("s", expiry_s=1000, present=False, polite=True, final_expiry_s=5)
    builder.close(connection)
    connection.pipe = SimpleNamespace(over_at=builder.now, to_node=SimpleNamespace(under_way=0))  # type: ignore[assignment]
    if killed:
        builder.now -= 0.99
        builder.fault("kill")
        builder.start()
    builder.history.events.append((builder.now + 5, {"type": "sess.end", "client": "s"}))
    builder.now += 100
    builder.connect("s", present=present)
    assert len(list(check(builder.case()))) == wrong
