"""All subscriptions of a log, found by topic and time.

The time of a search depends on the levels of the topic, on the filters that match it and on the subscriptions that it
returns; not on the number of sessions, nor on how often they have subscribed and unsubscribed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .intervals import IntervalTree
from .sessions import Held, SessionKey

CACHED = 1 << 16
"""The filters of so many topics are remembered."""


class Holders:
    """All who ever held one filter of a mountpoint, as members of one group or of none."""

    __slots__ = ("_tree", "filter", "group", "held")

    def __init__(self, group: str | None, filter: str) -> None:
        self.group = group
        self.filter = filter
        self.held: dict[SessionKey, list[Held]] = {}
        self._tree: IntervalTree[Held] | None = None

    def at(self, stamp: int) -> Iterator[Held]:
        """Returns the subscriptions in force at a stamp. Only after the last change of the table."""
        if self._tree is None:
            flat = [each for several in self.held.values() for each in several]
            self._tree = IntervalTree([each for each in flat if each.since < each.until])
        return self._tree.at(stamp)

    def of(self, session: SessionKey, since: int, until: int) -> Iterator[Held]:
        """Returns those of a session that were in force at any time between two stamps."""
        return (each for each in self.held.get(session, ()) if each.since < until and each.until > since)

    def perhaps_of(self, session: SessionKey, since: int, until: int) -> Iterator[Held]:
        """The same, also of those whose end a kill may have undone."""
        return (each for each in self.held.get(session, ()) if each.since < until and each.gone > since)

    @property
    def text(self) -> str:
        """The filter as a client subscribes to it."""
        return self.filter if self.group is None else f"$share/{self.group}/{self.filter}"


class SubscriptionTable:
    """Subscriptions by filter: a tree of levels. Its nodes are numbers, because pickle does not take deep trees."""

    def __init__(self) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._holders: list[dict[str | None, Holders]] = [{}]
        self._roots: dict[str, int] = {"": 0}
        self._found: dict[tuple[str, str], tuple[Holders, ...]] = {}

    def add(self, held: Held) -> None:
        """Add a subscription; it may still change."""
        node = self._root(held.session.owner[1])
        for level in held.filter.split("/"):
            node = self._step(node, level)
        here = self._holders[node]
        if held.group not in here:
            here[held.group] = Holders(held.group, held.filter)
        here[held.group].held.setdefault(held.session.key, []).append(held)

    def matching(self, mountpoint: str, topic: str) -> tuple[Holders, ...]:
        """Returns the holders of all filters of the mountpoint that match a topic."""
        found = self._found.get((mountpoint, topic))
        if found is None:
            if len(self._found) >= CACHED:
                self._found.clear()
            found = self._found[mountpoint, topic] = tuple(self._search(mountpoint, topic))
        return found

    def _search(self, mountpoint: str, topic: str) -> Iterator[Holders]:
        at = [self._roots[mountpoint]] if mountpoint in self._roots else []
        wild = not topic.startswith("$")  # [MQTT-4.7.2-1] [MQTT5-4.7.2-1]
        for level in topic.split("/"):
            after = []
            for node in at:
                below = self._next[node]
                if wild and "#" in below:
                    yield from self._holders[below["#"]].values()
                if level in below:
                    after.append(below[level])
                if wild and "+" in below:
                    after.append(below["+"])
            at = after
            wild = True
        for node in at:
            yield from self._holders[node].values()
            if "#" in self._next[node]:  # the parent level too: `a/#` matches `a` (4.7.1.2)
                yield from self._holders[self._next[node]["#"]].values()

    def _root(self, mountpoint: str) -> int:
        if mountpoint not in self._roots:
            self._roots[mountpoint] = self._new()
        return self._roots[mountpoint]

    def _step(self, node: int, level: str) -> int:
        below = self._next[node]
        if level not in below:
            below[level] = self._new()
        return below[level]

    def _new(self) -> int:
        self._next.append({})
        self._holders.append({})
        return len(self._next) - 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": {}}
