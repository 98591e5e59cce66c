"""The table of subscriptions: it agrees with the simple matcher."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.judge import subscriptions
from strogoff.judge.rows import NEVER
from strogoff.judge.sessions import Held, Home, Session
from strogoff.judge.subscriptions import SubscriptionTable
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


def table(*filters: str, group: str | None = None) -> SubscriptionTable:
    found = SubscriptionTable()
    for each in filters:
        found.add(Held(SESSION, each, group, 1, 1, 2))
    return found


@given(st.lists(FILTERS, unique=True, max_size=8), TOPICS)
def test_it_finds_each_matching_filter_once(filters: list[str], topic: str) -> None:
    found = sorted(each.filter for each in table(*filters).matching("", topic))
    assert found == sorted(each for each in filters if matches(each, topic))


def test_groups_are_apart() -> None:
    found = table("a/b")
    found.add(Held(SESSION, "a/b", "g", 1, 1, 2))
    assert sorted(each.text for each in found.matching("", "a/b")) == ["$share/g/a/b", "a/b"]


def test_who_held_a_filter_and_when() -> None:
    found = table()
    for since, until in ((1, 5), (5, 9), (9, NEVER)):
        found.add(Held(SESSION, "a", None, 1, since, since, until))
    (holders,) = found.matching("", "a")
    assert [each.since for each in holders.of(SESSION.key, 4, 6)] == [1, 5]
    assert [each.since for each in holders.at(6)] == [5]
    assert list(holders.of((SESSION.owner, 2), 4, 6)) == []


def test_the_number_of_remembered_topics_is_limited() -> None:
    found = table("#")
    for number in range(subscriptions.CACHED + 10):
        found.matching("", f"t/{number}")
    assert len(found._found) <= subscriptions.CACHED
