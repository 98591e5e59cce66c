"""The level tree against a list that is searched with `matches`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.routing.level_tree import LevelTree
from strogoff.mqtt.topics import matches, valid_filter

# "ab" and "" make sure that levels are compared whole and may be empty; few names make collisions
NAMES = st.sampled_from(["a", "b", "ab", "", "$x"])
TOPICS = st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(NAMES | st.just("+"), max_size=5), st.booleans())
    .map(lambda parts: "/".join(parts[0] + ["#"] * parts[1]))
    .filter(bool)
)


def grown(texts: list[str]) -> LevelTree:
    tree = LevelTree()
    for text in texts:
        tree.add(text)
    return tree


def nodes_in(tree: LevelTree) -> int:
    """Dicts in the tree, the root not counted."""
    count, nodes = -1, [tree._root]
    while nodes:
        count += 1
        nodes += [child for child in nodes.pop().values() if not isinstance(child, str)]
    return count


@given(st.lists(FILTERS, max_size=30), TOPICS)
def test_filters_are_found_by_a_topic(filters: list[str], topic: str) -> None:
    """Including topics that begin with `$` [MQTT-4.7.2-1] [MQTT5-4.7.2-1]."""
    assert all(valid_filter(text) for text in filters)
    found = grown(filters).filters_for(topic)
    assert sorted(found) == sorted({text for text in filters if matches(text, topic)})
    assert found == grown(filters).filters_for(topic)


@given(st.lists(st.tuples(st.booleans(), FILTERS), max_size=60))
def test_removed_filters_leave_no_nodes(steps: list[tuple[bool, str]]) -> None:
    tree, model = LevelTree(), set[str]()
    for add, text in steps:
        if add:
            assert tree.add(text) is (text not in model)
            model.add(text)
        else:
            assert tree.remove(text) is (text in model)
            model.discard(text)
        assert len(tree) == len(model)
    assert nodes_in(tree) == nodes_in(grown(sorted(model)))
    for text in sorted(model):
        tree.remove(text)
    assert tree._root == {}


def test_a_branch_with_one_text_is_not_unfolded() -> None:
    tree = grown([f"{number}/b/c/d/e/f/g/+" for number in range(100)])
    assert nodes_in(tree) == 0
    tree.add("7/b/c/x")
    assert nodes_in(tree) == 3
    tree.remove("7/b/c/x")
    assert nodes_in(tree) == 0


def test_very_deep_filters_work() -> None:
    deep = "/" * 20_000
    filters = grown([deep + "+", deep + "a", "#"])
    assert sorted(filters.filters_for(deep + "a")) == sorted([deep + "+", deep + "a", "#"])
    assert filters.remove(deep + "a")
    assert nodes_in(filters) == 0
