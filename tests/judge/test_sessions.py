"""A session: where it was, and when it was resumed."""

from __future__ import annotations

from strogoff.judge.rows import NEVER
from strogoff.judge.sessions import Home, Session


def test_where_it_was() -> None:
    session = Session(("a", "", "c"), 1, 0, 5, [Home(5, "a", 1), Home(9, "b", 1)])
    assert [session.home_at(stamp).node for stamp in (1, 5, 8, 9, 100)] == ["a", "a", "a", "b", "b"]
    assert session.home.node == "b" and session.client == "c" and session.key == (("a", "", "c"), 1)


def test_its_first_resumption_after_a_stamp() -> None:
    session = Session(("a", "", "c"), 1, 0, 5, [Home(5, "a", 1)], resumed=[10, 20])
    assert [session.resumed_after(stamp) for stamp in (1, 10, 19, 20)] == [10, 20, 20, NEVER]


def test_when_its_client_had_it_for_the_last_time() -> None:
    session = Session(("a", "", "c"), 1, 0, 5, [Home(5, "a", 1)])
    assert session.seen_last == 5
    session.resumed += [10, 20]
    assert session.seen_last == 20
