"""Topic names and topic filters (sections 4.7 and, in MQTT 5.0, 4.8.2): validity, depth, sharing, matching.

All functions are pure and simple, not fast: tests compare faster matchers with `matches`.
"""

from __future__ import annotations

from .wire import MAX_LENGTH

SHARE = "$share/"
"""The prefix of a shared subscription [MQTT5-4.8.2-1]."""


def valid_topic_name(topic: str) -> bool:
    """Whether a message can be published to the topic: text without wildcards (4.7.1), U+0000 and surrogates."""
    # [MQTT-4.7.1-1] [MQTT5-4.7.0-1]: no wildcard character in a topic name.
    return "+" not in topic and "#" not in topic and _valid_text(topic)


def valid_filter(filter: str) -> bool:
    """Whether the filter can be subscribed: wildcards in their places, `$share/GROUP/filter` complete."""
    if not _valid_text(filter):
        return False
    try:
        _, rest = parse_shared(filter)
    except ValueError:
        return False
    return _wildcards_in_place(rest)


def parse_shared(filter: str) -> tuple[str | None, str]:
    """`$share/GROUP/filter` -> `(GROUP, filter)`, any other filter -> `(None, filter)`.

    Raises `ValueError` for a filter that starts with `$share/` and breaks the rules of section 4.8.2. They hold for all
    protocol versions: shared subscriptions are served to 3.1 and 3.1.1 clients too.
    """
    if not filter.startswith(SHARE):
        return None, filter
    group, slash, rest = filter[len(SHARE) :].partition("/")
    if not group:
        raise ValueError(f"shared subscription without a group: {filter!r}")  # [MQTT5-4.8.2-1]
    if "+" in group or "#" in group:
        raise ValueError(f"wildcard in the group of a shared subscription: {filter!r}")  # [MQTT5-4.8.2-2]
    if not slash or not rest:
        raise ValueError(f"shared subscription without a topic filter: {filter!r}")  # [MQTT5-4.8.2-2]
    return group, rest


def levels(topic: str) -> int:
    """The number of levels of a name or filter, empty ones included: `/a/b` has three (section 4.7.1.1)."""
    return topic.count("/") + 1


def too_deep(topic: str, depth: int) -> bool:
    """Whether a valid name or filter has more than `depth` levels, the `$share/GROUP` of a filter not counted.

    A depth of 0 allows everything.
    """
    shared = 2 if topic.startswith(SHARE) else 0
    return depth > 0 and levels(topic) - shared > depth


def matches(filter: str, topic: str) -> bool:
    """Whether a valid filter (without `$share/GROUP/`) matches a valid topic name, level by level (section 4.7)."""
    wanted, given = filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False  # [MQTT-4.7.2-1] [MQTT5-4.7.2-1]
    for at, level in enumerate(wanted):
        if level == "#":
            return True  # the parent level too: `a/#` matches `a` (4.7.1.2)
        # Compared code point by code point, without normalisation [MQTT-4.7.3-4] [MQTT5-4.7.3-4].
        if at == len(given) or level not in ("+", given[at]):
            return False
    return len(wanted) == len(given)


def _valid_text(topic: str) -> bool:
    # [MQTT-4.7.3-1] at least one character, [MQTT-4.7.3-2] no U+0000; the same numbers in 5.0.
    if not topic or "\0" in topic:
        return False
    try:
        return len(topic.encode()) <= MAX_LENGTH  # [MQTT-4.7.3-3] [MQTT5-4.7.3-3]
    except UnicodeEncodeError:
        return False


def _wildcards_in_place(filter: str) -> bool:
    if "#" not in filter and "+" not in filter:
        return True
    parts = filter.split("/")
    # [MQTT-4.7.1-2] [MQTT5-4.7.1-1]: `#` is the whole last level; [MQTT-4.7.1-3] [MQTT5-4.7.1-2]: `+` is a whole level.
    return all("+" not in part or part == "+" for part in parts) and ("#" not in filter or _only_last_is_hash(parts))


def _only_last_is_hash(parts: list[str]) -> bool:
    return parts[-1] == "#" and not any("#" in part for part in parts[:-1])
