"""The ACL file: the meaning of its lines, and that a subscription never gets more topics than a line grants."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strogoff.configs
from strogoff.broker.plugins.acl import AclPlugin, Rules, parse_acl
from strogoff.broker.plugins.hooks import NEXT, Allow, Hooks, Refuse, Subscriber
from strogoff.broker.plugins.reloader import LineError, Stamp

ME = Subscriber("", "my-client")

FILE = """
# comment
topic read  a/b/c
topic write a/b/c
topic write   v/w x/y  \r

user   test
\t topic x/y/z/#
# some patterns
pattern %m/%u/%c
user other
topic read only/other
"""


def plugin(text: str) -> AclPlugin:
    acl = AclPlugin()
    assert acl.reloader.take("vmq.acl", Stamp(1, 1, 1), text), acl.reloader.problem
    return acl


def may_read(text: str, topic_filter: str, user: str | None = "test", subscriber: Subscriber = ME) -> bool:
    return parse_acl(text).may_subscribe(user, subscriber, topic_filter)


def may_write(text: str, topic: str, user: str | None = "test", subscriber: Subscriber = ME) -> bool:
    return parse_acl(text).may_publish(user, subscriber, topic)


def test_lines_for_everyone_for_a_user_and_patterns() -> None:
    assert may_read(FILE, "a/b/c", None)
    assert may_write(FILE, "a/b/c", None)
    assert may_write(FILE, "v/w x/y", None)
    assert not may_read(FILE, "v/w x/y", None)
    assert may_read(FILE, "x/y/z/#")
    assert may_read(FILE, "x/y/z")
    assert may_write(FILE, "x/y/z/blabla")
    assert not may_read(FILE, "x/y/z/#", "other")
    assert not may_read(FILE, "x/y/z/#", None)
    assert may_read(FILE, "only/other", "other")
    assert not may_write(FILE, "only/other", "other")


def test_patterns_stand_for_whole_levels_of_this_client() -> None:
    assert may_read(FILE, "/test/my-client")
    assert may_write(FILE, "mp/test/c2", subscriber=Subscriber("mp", "c2"))
    assert not may_read(FILE, "/other/my-client")
    assert not may_read(FILE, "/test/+")
    assert not may_read(FILE, "/%u/%c")
    assert not may_read("pattern x%u/a", "xtest/a")
    assert may_read("pattern x%u/a", "x%u/a")
    assert may_read("topic %u/a", "%u/a")
    assert not may_read("topic %u/a", "test/a")


@pytest.mark.parametrize("user", ["+", "#", "a/b", "%c", "", "$share"])
def test_no_user_name_widens_a_pattern(user: str) -> None:
    text = "pattern home/%u\npattern %u/x\npattern all/%u/#"
    for topic_filter in ("home/+", "home/#", "home/ann", "+/x", "#", "all/#", "all/+/#", "$share/g/x", "home/a/b"):
        assert not may_read(text, topic_filter, user)


def test_a_client_without_a_user_name_has_no_percent_u() -> None:
    assert not may_write("pattern %u/x", "None/x", None)
    assert not may_write("pattern %u/x", "/x", None)
    assert may_write("pattern %c/x", "my-client/x", None)


@pytest.mark.parametrize(
    ("rule", "topic_filter", "granted"),
    [
        ("a/+", "a/#", False),
        ("+", "#", False),
        ("a/+", "a/+", True),
        ("a/+/c", "a/+/+", False),
        ("a/#", "a", True),
        ("a/#", "a/+/#", True),
        ("a/+/#", "a/#", False),
        ("#", "a/#", True),
        ("+/#", "#", True),
        ("#", "$SYS/#", True),
        ("+/x", "$SYS/x", True),
        ("$SYS/#", "$SYS/+/uptime", True),
        ("$SYS/#", "#", False),
        ("/+", "/", True),
    ],
)
def test_a_filter_must_be_covered_whole(rule: str, topic_filter: str, granted: bool) -> None:
    assert may_read(f"topic read {rule}", topic_filter) is granted


@pytest.mark.parametrize(
    ("rules", "granted"),
    [
        ("topic #", True),
        ("topic $share/+/x", True),
        ("topic $share/#", True),
        ("topic +/+/x", False),
        ("topic x", False),
        ("topic +/+/x\ntopic x", True),
        ("topic $share/other/x", False),
    ],
)
def test_shared_subscriptions(rules: str, granted: bool) -> None:
    assert may_read(rules, "$share/g/x") is granted


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("topic readwrite a/b", "the word 'readwrite' is not known here; leave it out"),
        ("topic deny a/b", "the word 'deny' is not known here"),
        ("pattern deny a/b", "the word 'deny' is not known here"),
        ("topics a/b", "unknown word 'topics'"),
        ("topic", "'' is no topic filter"),
        ("topic read a/#/b", "'a/#/b' is no topic filter"),
        ("topic a+", "is no topic filter"),
        ("user", "no name after `user`"),
    ],
)
def test_a_malformed_line_is_named(line: str, text: str) -> None:
    with pytest.raises(LineError, match=text) as caught:
        parse_acl(f"# one\n\n{line}\ntopic #\n")
    assert caught.value.line == 3


def test_words_that_only_look_like_keywords_are_topics() -> None:
    assert may_write("topic read", "read")
    assert may_write("topic deny", "deny")
    assert may_read("topic read read", "read")


def test_the_shipped_file_grants_everything() -> None:
    text = (Path(strogoff.configs.__file__).parent / "vmq.acl").read_text()
    for topic in ("a", "a/b", "/", "$SYS/x"):
        assert may_write(text, topic, None)
    for topic_filter in ("#", "+", "a/+/#", "$SYS/#", "$share/g/#"):
        assert may_read(text, topic_filter, None)


# -- the plugin


def test_the_plugin_grants_or_answers_next_in_both_forms() -> None:
    h = Hooks()
    h.add("vmq_acl", plugin("topic read in/#\ntopic write out/+\n"))
    assert h.ask("auth_on_publish", "ann", ME, 1, "out/1", b"", False) == Allow(cacheable=True)
    assert h.ask("auth_on_publish_m5", "ann", ME, 1, "out/1", b"", False, {}) == Allow(cacheable=True)
    assert h.ask("auth_on_publish", "ann", ME, 1, "in/1", b"", False) == Refuse("plugin_chain_exhausted")
    wanted = [("in/+", {"qos": 1}), ("in", {"qos": 0})]
    assert h.ask("auth_on_subscribe_m5", "ann", ME, wanted, {}) == Allow(cacheable=True)
    assert h.ask("auth_on_subscribe", "ann", ME, [("in/+", 0), ("out/1", 0)]) == Refuse("plugin_chain_exhausted")


def test_an_answer_of_next_keeps_the_next_plugin_cacheable() -> None:
    class Next:
        def auth_on_publish(self, *args: object) -> Allow:
            return Allow(cacheable=True)

    h = Hooks()
    h.add("vmq_acl", plugin(""))
    h.add("next", Next())
    assert h.ask("auth_on_publish", "ann", ME, 1, "x", b"", False) == Allow(cacheable=True)


def test_without_a_file_nothing_is_granted_and_a_broken_one_changes_nothing() -> None:
    acl = AclPlugin()
    assert acl.auth_on_publish("ann", ME, 0, "a", b"", False) is NEXT
    acl = plugin("topic a")
    assert not acl.reloader.take("/etc/vmq.acl", Stamp(2, 2, 2), "topic b\ntopic deny a\n")
    assert acl.reloader.problem.startswith("/etc/vmq.acl:2: the word 'deny'")
    assert acl.auth_on_publish("ann", ME, 0, "a", b"", False) == Allow(cacheable=True)
    assert acl.auth_on_publish("ann", ME, 0, "b", b"", False) is NEXT


# -- against a simple reference: every topic of a small set

WORDS = ("a", "b", "$x", "fresh")
WORLD = [list(levels) for depth in range(1, 5) for levels in product(WORDS, repeat=depth)]
LEVEL = st.sampled_from(["a", "b", "$x", "+"])
FILTERS = st.tuples(st.lists(LEVEL, max_size=3), st.booleans()).map(
    lambda made: [*made[0], *(["#"] if made[1] or not made[0] else [])]
)


def matches(words: list[str], topic: list[str]) -> bool:
    """Matching as the standard defines it, without the rule for `$`."""
    if words == ["#"]:
        return True
    if not words or not topic:
        return words == topic
    return words[0] in ("+", topic[0]) and matches(words[1:], topic[1:])


def subscribed(words: list[str]) -> list[list[str]]:
    """Returns the topics that a subscription gets: wildcards do not match a first level that begins with `$`."""
    wild = words[0] in "+#"
    return [t for t in WORLD if not (wild and t[0].startswith("$")) and matches(words, t)]


@settings(max_examples=150, deadline=None)
@given(st.lists(FILTERS, min_size=1, max_size=4), FILTERS)
def test_a_granted_filter_matches_only_topics_that_may_be_read(rules: list[list[str]], wanted: list[str]) -> None:
    acl = parse_acl("".join(f"topic read {'/'.join(rule)}\n" for rule in rules))
    if acl.may_subscribe(None, ME, "/".join(wanted)):
        assert all(any(matches(rule, topic) for rule in rules) for topic in subscribed(wanted))


@settings(max_examples=150, deadline=None)
@given(FILTERS, FILTERS)
def test_one_rule_grants_all_that_it_covers(rule: list[str], wanted: list[str]) -> None:
    acl = parse_acl(f"topic read {'/'.join(rule)}")
    covered = all(matches(rule, topic) for topic in subscribed(wanted))
    assert acl.may_subscribe(None, ME, "/".join(wanted)) == covered


@settings(max_examples=100, deadline=None)
@given(st.lists(FILTERS, min_size=1, max_size=4), st.sampled_from(WORLD))
def test_a_topic_may_be_written_if_a_rule_matches_it(rules: list[list[str]], topic: list[str]) -> None:
    acl: Rules = parse_acl("".join(f"topic write {'/'.join(rule)}\n" for rule in rules))
    assert acl.may_publish(None, ME, "/".join(topic)) == any(matches(rule, topic) for rule in rules)
