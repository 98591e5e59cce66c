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


def test_the_number_of_remembered_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table("#")
    monkeypatch.setattr(subscriptions, "CACHED", 100)
    for number in range(250):
        (holders,) = found.matching("", f"t/{number}")
        assert holders.filter == "#"
        assert len(found._found) + len(found._holders) <= 101
