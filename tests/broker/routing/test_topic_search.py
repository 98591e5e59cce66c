"""Topics found step by step, compared with a list that is searched with `matches`, while topics are
added and removed.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.routing.topic_search import TopicSearch
from strogoff.mqtt.topics import matches
from strogoff.storage.sorted_keys import SortedKeys

# names around `/` and `$` in the order of code points, so that branches are not adjacent
NAMES = st.sampled_from(["a", "b", "ab", "a-", "a-b", "a0", "", "$x", "$", "%"])
TOPICS = st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(NAMES | st.just("+"), max_size=5), st.booleans())
    .map(lambda parts: "/".join(parts[0] + ["#"] * parts[1]))
    .filter(bool)
)


@given(st.sets(TOPICS, max_size=40), FILTERS, st.integers(1, 5), st.integers(1, 7))
def test_every_topic_that_matches_is_found_once_in_order(topics: set[str], text: str, limit: int, looks: int) -> None:
    """Including topics that begin with `$` [MQTT-4.7.2-1] [MQTT5-4.7.2-1]."""
    search, found = TopicSearch(text), list[str]()
    while not search.done:
        some, looked = search.step(SortedKeys(topics), limit, looks)
        assert len(some) <= limit and 0 < looked <= looks
        found += some
    assert found == sorted(topic for topic in topics if matches(text, topic))


@given(st.sets(TOPICS, max_size=20), FILTERS, st.lists(st.tuples(TOPICS, st.booleans()), max_size=30))
def test_topics_come_and_go_between_the_steps(topics: set[str], text: str, changes: list[tuple[str, bool]]) -> None:
    """A topic that is present all the time is found; no topic is found twice, and no absent topic is found."""
    search, found, keys = TopicSearch(text), list[str](), SortedKeys(topics)
    there, stayed, ever = set(topics), set(topics), set(topics)
    while not search.done:
        found += search.step(keys, 1, 3)[0]
        if changes:
            topic, come = changes.pop()
            if come and topic not in there:
                there.add(topic)
                ever.add(topic)
                keys.add(topic)
            elif not come and topic in there:
                there.remove(topic)
                stayed.discard(topic)
                keys.remove(topic)
    assert len(found) == len(set(found))
    assert set(found) >= {topic for topic in stayed if matches(text, topic)}
    assert set(found) <= {topic for topic in ever if matches(text, topic)}


@given(st.sets(TOPICS, max_size=20), FILTERS, TOPICS)
def test_a_search_continues_where_an_earlier_one_stopped(topics: set[str], text: str, at: str) -> None:
    search, found = TopicSearch(text, at), list[str]()
    while not search.done:
        found += search.step(SortedKeys(topics), 10, 10)[0]
    assert found == sorted(topic for topic in topics if matches(text, topic) and topic >= at)
