"""Sessions live as long as promised, and no longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.sim.checkers.sessions import check, detached
from strogoff.sim.history import NEVER

from ..scene import Story


def away(expiry_s: int | None, seconds: int, **fields: Any) -> list[str]:
    """What is wrong about a client that was away so long and comes back."""
    story = Story()
    first = story.connect("s", expiry_s=expiry_s, present=False)
    story.close(first)
    story.now += seconds
    if expiry_s is not None and 0 < expiry_s < seconds:
        story.history.events.append((first.closed_at + expiry_s, {"type": "sess.end", "client": "s"}))
    story.connect("s", expiry_s=expiry_s, **fields)
    return list(check(story.case()))


@pytest.mark.parametrize(
    ("expiry_s", "seconds", "present", "wrong"),
    [
        (None, 100, True, ""), (None, 100, False, "amnesia"), (0, 1, True, "zombie"), (0, 1, False, ""),
        (50, 10, False, "amnesia"), (50, 10, True, ""), (50, 100, True, "zombie"), (50, 100, False, ""),
    ],
)  # fmt: skip
def test_present_or_not(expiry_s: int | None, seconds: int, present: bool, wrong: str) -> None:
    """[MQTT-3.2.2-2] [MQTT5-3.2.2-3] by what the connections before imply."""
    assert [text.split(":")[0] for text in away(expiry_s, seconds, present=present)] == ([wrong] if wrong else [])


def test_clean_start_never_finds_one() -> None:
    """[MQTT5-3.2.2-2]"""
    assert away(None, 1, clean=True, present=True) and not away(None, 1, clean=True, present=False)


def test_an_unanswered_connect_leaves_it_open() -> None:
    """The node may have heard it: with Clean Start both answers are right afterwards."""
    for present in (False, True):
        story = Story()
        story.close(story.connect("s", present=False))
        story.connect("s", clean=True, opened=NEVER - 1).opened = NEVER
        story.connect("s", present=present)
        assert list(check(story.case())) == []


def test_a_session_that_nobody_came_back_to_ends_in_time() -> None:
    story = Story()
    story.close(story.connect("s", expiry_s=5, present=False))
    story.now += 100
    assert [text.split(":")[0] for text in check(story.case())] == ["overdue"]
    story.history.events.append((8.0, {"type": "sess.end", "client": "s"}))
    assert list(check(story.case())) == []


def test_a_session_that_went_with_its_disk_is_not_overdue() -> None:
    """3 nodes, seed 102928: the disk was lost a second before the deadline, and nobody came back."""
    story = Story()
    first = story.connect("s", expiry_s=5, present=False)
    story.close(first)
    story.now += 100
    emptied = story.history.life(first.node).emptied
    for at_s, wrong in ((first.asked_at - 0.5, ["overdue"]), (first.closed_at + 4, []), (story.now - 1, ["overdue"])):
        emptied[:] = [at_s]
        assert [text.split(":")[0] for text in check(story.case())] == wrong


def test_a_kill_right_after_the_end_makes_it_count_from_the_return() -> None:
    story = Story()
    connection = story.connect("s", expiry_s=50, present=False)
    story.close(connection)
    assert detached(story.case(), connection) == (connection.closed_at, connection.closed_at)
    story.now -= 0.99
    story.fault("kill")
    story.start()
    assert detached(story.case(), connection) == (connection.closed_at, story.now)


def test_an_expiry_changed_with_disconnect_counts_if_it_arrived() -> None:
    """Section 3.14.2.2.2; nobody knows here whether DISCONNECT came through, so both deadlines are possible."""
    for present in (False, True):
        story = Story()
        connection = story.connect("s", expiry_s=1000, present=False, polite=True, final_expiry_s=5)
        story.close(connection)
        story.now += 100
        story.connect("s", present=present)
        assert [text for text in check(story.case()) if "overdue" not in text] == []


@pytest.mark.parametrize(("killed", "present", "wrong"), [(False, True, 1), (False, False, 0), (True, True, 0)])
def test_an_expiry_changed_with_disconnect_is_the_old_one_if_a_kill_undid_it(
    killed: bool, present: bool, wrong: int
) -> None:
    story = Story()
    connection = story.connect("s", expiry_s=1000, present=False, polite=True, final_expiry_s=5)
    story.close(connection)
    connection.pipe = SimpleNamespace(over_at=story.now, to_node=SimpleNamespace(under_way=0))  # type: ignore[assignment]
    if killed:
        story.now -= 0.99
        story.fault("kill")
        story.start()
    story.history.events.append((story.now + 5, {"type": "sess.end", "client": "s"}))
    story.now += 100
    story.connect("s", present=present)
    assert len(list(check(story.case()))) == wrong
