"""The table of subscriptions: it agrees with the simple matcher."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.judge import subscriptions
from strogoff.judge.rows import NEVER
from strogoff.judge.sessions import Held, Home, Session
from strogoff.judge.subscriptions import FilterKey, SubscriptionTable, filter_key
from strogoff.mqtt.topics import matches, valid_filter

SESSION = Session(("n", "", "c"), 1, 0, 0, [Home(0, "n", 1)])
LEVEL = st.sampled_from(["a", "b", "$x", ""])
TOPICS = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.lists(st.one_of(LEVEL, st.just("+")), min_size=1, max_size=4)
    .flatmap(lambda levels: st.sampled_from([levels, [*levels, "#"], ["#"]]))
    .map("/".join)
    .filter(valid_filter)
)


def table(*held: str | Held) -> SubscriptionTable:
    """Returns a table of these subscriptions; texts are filters of `SESSION`."""
    found: dict[FilterKey, list[Held]] = {}
    for some in held:
        each = Held(SESSION.key, some, None, 1, 1, 2) if isinstance(some, str) else some
        found.setdefault(filter_key(each), []).append(each)
    return SubscriptionTable(found)


@given(st.lists(FILTERS, unique=True, max_size=8), TOPICS)
def test_it_finds_each_matching_filter_once(filters: list[str], topic: str) -> None:
    plain = table(*filters)
    for each in (plain, plain.packed(), pickle.loads(pickle.dumps(plain.packed()))):
        found = sorted(holders.filter for holders in each.matching("", topic))
        assert found == sorted(each for each in filters if matches(each, topic))


def test_groups_are_apart() -> None:
    found = table("a/b", Held(SESSION.key, "a/b", "g", 1, 1, 2))
    assert sorted(each.text for each in found.matching("", "a/b")) == ["$share/g/a/b", "a/b"]


def test_who_held_a_filter_and_when() -> None:
    spans = ((1, 5), (5, 9), (9, NEVER))
    found = table(*(Held(SESSION.key, "a", None, 1, since, since, until) for since, until in spans))
    (holders,) = found.matching("", "a")
    assert [each.since for each in holders.of(SESSION.key, 4, 6)] == [1, 5]
    assert [each.since for each in holders.at(6)] == [5]
    assert list(holders.of((SESSION.owner, 2), 4, 6)) == []


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)), max_size=40),
    st.integers(0, 120),
    st.integers(0, 120),
)
def test_a_session_that_subscribes_often(steps: list[tuple[int, int, int]], since: int, until: int) -> None:
    """It finds what a look at each subscription finds. An end is not always before the next begin."""
    held, at = [], 0
    for pause, lasts, doubt in steps:
        at += pause
        ends = at + lasts if lasts else NEVER
        held.append(Held(SESSION.key, "a", None, 1, at, at, ends, min(ends + doubt, NEVER)))
    for holders in table(*held).matching("", "a"):
        wanted = [each for each in held if each.since < until and each.until > since]
        assert list(holders.of(SESSION.key, since, until)) == wanted
        wanted = [each for each in held if each.since < until and each.gone > since]
        assert list(holders.perhaps_of(SESSION.key, since, until)) == wanted


def test_it_does_not_look_at_former_subscriptions_of_a_session() -> None:
    compared = 0

    class Counted(Held):
        def __getattribute__(self, name: str) -> object:
            nonlocal compared
            compared += 1
            return super().__getattribute__(name)

    spans = range(0, 20_000, 2)
    held = [Counted(SESSION.key, "a", None, 1, each, each, each + 2, each + 2) for each in spans]
    (holders,) = table(*held).matching("", "a")
    for stamp in (3, 10_001, 19_001):
        list(holders.of(SESSION.key, stamp, stamp))  # a first search may look at all
        compared = 0
        assert len(list(holders.of(SESSION.key, stamp, stamp))) == 1
        assert len(list(holders.perhaps_of(SESSION.key, stamp, stamp + 1))) == 1
        assert compared < 100


def test_new_topics_do_not_make_it_forget_who_holds_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who held a filter is read once, however many subscriptions that are."""
    monkeypatch.setattr(subscriptions, "CACHED", 100)
    held = [Held(SESSION.key, "#", None, 1, each, each, each + 1) for each in range(300)]
    found = table(*held)
    first = found.matching("", "t")
    assert all(found.matching("", f"t/{number}")[0] is first[0] for number in range(250))


def test_the_number_of_remembered_subscriptions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "HELD", 100)
    found = table(*(f"t/{number}" for number in range(250)))
    for number in range(250):
        (holders,) = found.matching("", f"t/{number}")
        assert holders.filter == f"t/{number}"
        assert len(found._found) <= 101 and len(found._holders) <= 101


def test_the_number_of_remembered_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table("#")
    monkeypatch.setattr(subscriptions, "CACHED", 100)
    for number in range(250):
        (holders,) = found.matching("", f"t/{number}")
        assert holders.filter == "#"
        assert len(found._found) + len(found._holders) <= 101
