"""Topic names and filters: sections 4.7 of both standards, 4.8.2 of MQTT 5.0."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.mqtt.topics import levels, matches, parse_shared, too_deep, valid_filter, valid_topic_name


@pytest.mark.parametrize(
    "topic", ["a", "/", "a/b", "/a", "a/", "a//b", " ", "Accounts payable", "$SYS/x", "é/😀", "$share/x"]
)
def test_valid_names(topic: str) -> None:
    """Section 4.7.3: any text of one character and more, spaces, empty levels and `$` included."""
    assert valid_topic_name(topic)
    assert levels(topic) == len(topic.split("/"))


@pytest.mark.parametrize(
    ("topic", "rule"),
    [
        ("", "[MQTT-4.7.3-1] [MQTT5-4.7.3-1]"),
        ("a\0b", "[MQTT-4.7.3-2] [MQTT5-4.7.3-2]"),
        ("x" * 65_536, "[MQTT-4.7.3-3] [MQTT5-4.7.3-3]"),
        ("é" * 32_768, "[MQTT-4.7.3-3] [MQTT5-4.7.3-3]"),
        ("a/+", "[MQTT-4.7.1-1] [MQTT5-4.7.0-1]"),
        ("a+b", "[MQTT-4.7.1-1] [MQTT5-4.7.0-1]"),
        ("#", "[MQTT-4.7.1-1] [MQTT5-4.7.0-1]"),
        ("\ud800", "[MQTT-1.5.3-1] [MQTT5-1.5.4-1]"),
    ],
)
def test_invalid_names(topic: str, rule: str) -> None:
    """No wildcards, no U+0000, one character at least, 65,535 bytes at most."""
    assert not valid_topic_name(topic), rule


def test_longest_topic() -> None:
    """[MQTT-4.7.3-3] [MQTT5-4.7.3-3] 65,535 bytes are legal."""
    assert valid_topic_name("x" * 65_535)
    assert valid_filter("x" * 65_533 + "/#")
    assert not valid_filter("x" * 65_534 + "/#")


@pytest.mark.parametrize(
    "filter", ["#", "a/#", "/#", "a/b/#", "+", "+/a/#", "a/+/b", "/+", "+/+", "+/", "a", "/", "$SYS/#", "$share/g/#"]
)
def test_valid_filters(filter: str) -> None:
    """[MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT5-4.7.1-1] [MQTT5-4.7.1-2] The standard's examples and their neighbours."""
    assert valid_filter(filter)


@pytest.mark.parametrize(
    ("filter", "rule"),
    [
        ("sport/tennis#", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("sport/tennis/#/ranking", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("#/a", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("##", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("a/#/", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("#/#", "[MQTT-4.7.1-2] [MQTT5-4.7.1-1]"),
        ("sport+", "[MQTT-4.7.1-3] [MQTT5-4.7.1-2]"),
        ("+a/b", "[MQTT-4.7.1-3] [MQTT5-4.7.1-2]"),
        ("a/b+/c", "[MQTT-4.7.1-3] [MQTT5-4.7.1-2]"),
        ("++", "[MQTT-4.7.1-3] [MQTT5-4.7.1-2]"),
        ("+#", "[MQTT-4.7.1-2] [MQTT-4.7.1-3]"),
        ("", "[MQTT-4.7.3-1] [MQTT5-4.7.3-1]"),
        ("a\0/#", "[MQTT-4.7.3-2] [MQTT5-4.7.3-2]"),
        ("$share//a", "[MQTT5-4.8.2-1]"),
        ("$share/", "[MQTT5-4.8.2-1]"),
        ("$share/g", "[MQTT5-4.8.2-2]"),
        ("$share/g/", "[MQTT5-4.8.2-2]"),
        ("$share/+/a", "[MQTT5-4.8.2-2]"),
        ("$share/g#/a", "[MQTT5-4.8.2-2]"),
        ("$share/g/a#", "[MQTT-4.7.1-2]"),
    ],
)
def test_invalid_filters(filter: str, rule: str) -> None:
    """Wildcards out of place and incomplete shared subscriptions."""
    assert not valid_filter(filter), rule


def test_parse_shared() -> None:
    """[MQTT5-4.8.2-1] [MQTT5-4.8.2-2] `$share/ShareName/filter`, where the filter may begin with a slash."""
    assert parse_shared("a/b") == (None, "a/b")
    assert parse_shared("$share") == (None, "$share")
    assert parse_shared("$sharegroup/g/a") == (None, "$sharegroup/g/a")
    assert parse_shared("$share/g/a/#") == ("g", "a/#")
    assert parse_shared("$share/g//a") == ("g", "/a")
    assert parse_shared("$share/$x/$SYS/#") == ("$x", "$SYS/#")
    for bad in ("$share/", "$share//a", "$share/g", "$share/g/", "$share/a+/b"):
        with pytest.raises(ValueError, match="shared subscription"):
            parse_shared(bad)


def test_depth() -> None:
    """Levels count separators, and sharing costs none."""
    assert not too_deep("a/b/c", 3)
    assert too_deep("a/b/c/", 3)
    assert not too_deep("a/b/c/d", 0)
    assert not too_deep("$share/g/a/b/c", 3)
    assert too_deep("$share/g/a/b/c/d", 3)
    assert too_deep("$SYS/a/b/c", 3)


MATCHING = """
sport/tennis/player1/#  sport/tennis/player1                    yes
sport/tennis/player1/#  sport/tennis/player1/ranking            yes
sport/tennis/player1/#  sport/tennis/player1/score/wimbledon    yes
sport/#                 sport                                   yes
#                       a/b                                     yes
sport/tennis/+          sport/tennis/player1                    yes
sport/tennis/+          sport/tennis/player1/ranking            no
sport/+                 sport                                   no
sport/+                 sport/                                  yes
+/+                     /finance                                yes
/+                      /finance                                yes
+                       /finance                                no
ACCOUNTS                Accounts                                no
/finance                finance                                 no
a/b                     a/b                                     yes
a                       a/b                                     no
a/b                     a                                       no
+/b/#                   a/b                                     yes
#                       $SYS/x                                  no
+/monitor/Clients       $SYS/monitor/Clients                    no
$SYS/#                  $SYS/monitor                            yes
$SYS/monitor/+          $SYS/monitor/Clients                    yes
a/+                     a/$x                                    yes
"""


@pytest.mark.parametrize(("filter", "topic", "expected"), [row.split() for row in MATCHING.strip().splitlines()])
def test_matching(filter: str, topic: str, expected: str) -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1] The standard's examples; a leading wildcard does not match `$` topics."""
    assert matches(filter, topic) == (expected == "yes")


def test_no_normalisation() -> None:
    """[MQTT-4.7.3-4] [MQTT5-4.7.3-4] Composed and decomposed letters are different topics."""
    assert not matches("caf\u00e9", "cafe\u0301")
    assert matches("caf\u00e9", "caf\u00e9")


LEVEL = st.sampled_from(["a", "b", "", "$x"])
NAME = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(valid_topic_name)
FILTER = (
    st.lists(st.one_of(LEVEL, st.sampled_from(["+", "#"])), min_size=1, max_size=4).map("/".join).filter(valid_filter)
)


@given(FILTER, NAME)
def test_matching_against_a_regular_expression(filter: str, topic: str) -> None:
    """A second definition of matching, by translation, agrees on random filters and names."""
    pattern = re.escape(filter).replace(r"\+", "[^/]*").replace("+", "[^/]*")
    pattern = re.sub(r"(^|/)\\?#$", lambda match: "(/.*)?" if match[1] else ".*", pattern)
    expected = re.fullmatch(pattern, topic) is not None and not (topic[0:1] == "$" and filter[0] in "+#")
    assert matches(filter, topic) == expected
