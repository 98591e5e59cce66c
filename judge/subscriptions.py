"""All subscriptions of a log, found by topic and time.

The time of a search depends on the levels of the topic, on the filters that match it and on the subscriptions that it
returns, and little on the number of filters; not on the number of sessions, nor on how often they have subscribed and
unsubscribed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from ..mqtt.topics import parse_shared
from .intervals import LEAF, IntervalTree
from .packed import END, Packed, name_of
from .sessions import Held, SessionKey

CACHED = 1 << 14
"""So many topics are remembered."""
HELD = 1 << 15
"""So many subscriptions are remembered, or those of one filter."""

FilterKey = tuple[str, str, str]
"""Mountpoint, filter and group; "" stands for no group."""


def filter_key(held: Held) -> FilterKey:
    """Returns the key of a subscription in a table."""
    (_, mountpoint, _), _ = held.session
    return mountpoint, held.filter, held.group or ""


class Holders:
    """All who ever held one filter of a mountpoint, as members of one group or of none."""

    __slots__ = ("_ends", "_tree", "filter", "group", "held")

    def __init__(self, group: str | None, filter: str, held: Iterable[Held]) -> None:
        self.group = group
        self.filter = filter
        self.held: dict[SessionKey, list[Held]] = {}
        for each in held:
            self.held.setdefault(each.session, []).append(each)
        self._ends: dict[SessionKey, list[int]] = {}
        self._tree: IntervalTree[Held] | None = None

    def at(self, stamp: int) -> Iterator[Held]:
        """Returns the subscriptions in force at a stamp."""
        if self._tree is None:
            flat = [each for several in self.held.values() for each in several]
            self._tree = IntervalTree([each for each in flat if each.since < each.until])
        return self._tree.at(stamp)

    def of(self, session: SessionKey, since: int, until: int) -> Iterator[Held]:
        """Returns those of a session that were in force at any time between two stamps."""
        return (each for each in self._near(session, since, until) if each.since < until and each.until > since)

    def perhaps_of(self, session: SessionKey, since: int, until: int) -> Iterator[Held]:
        """The same, also of those whose end a kill may have undone."""
        return (each for each in self._near(session, since, until) if each.since < until and each.gone > since)

    def _near(self, session: SessionKey, since: int, until: int) -> Sequence[Held]:
        """Returns those of a session that begin before a stamp, without the first ones if all have ended before another
        stamp. A client may subscribe again whenever it connects."""
        held = self.held.get(session, [])
        if len(held) <= LEAF:
            return held
        ends = self._ends.get(session)
        if ends is None:
            ends = self._ends[session] = list(accumulate((max(each.until, each.gone) for each in held), max))
        return held[bisect_right(ends, since) : bisect_left(held, until, key=lambda each: each.since)]

    @property
    def text(self) -> str:
        """The filter as a client subscribes to it."""
        return self.filter if self.group is None else f"$share/{self.group}/{self.filter}"


class SubscriptionTable:
    """Subscriptions by `filter_key`. The names of the keys in order are a tree of levels: those below a level stand
    together. The table must not change after the first search."""

    def __init__(self, held: Mapping[FilterKey, list[Held]]) -> None:
        self._held = held
        self._names: list[str] | None = None
        self._found: dict[tuple[str, str], tuple[Holders, ...]] = {}
        self._holders: dict[str, Holders] = {}
        self._remembered = 0

    def __reduce__(self) -> tuple[type[SubscriptionTable], tuple[Mapping[FilterKey, list[Held]]]]:
        return SubscriptionTable, (self._held,)

    def packed(self) -> SubscriptionTable:
        """Returns the same table in few bytes."""
        return SubscriptionTable(Packed(self._held, FilterKey, list[Held]))

    def matching(self, mountpoint: str, topic: str) -> tuple[Holders, ...]:
        """Returns the holders of all filters of the mountpoint that match a topic."""
        found = self._found.get((mountpoint, topic))
        if found is None:
            if len(self._found) >= CACHED:
                self._found.clear()
            found = tuple(map(self._holders_of, self._search(mountpoint, topic)))
            self._found[mountpoint, topic] = found
        return found

    def of_group(self, mountpoint: str, text: str) -> Iterator[Held]:
        """Returns the subscriptions of all who ever were members of a group, by its $share filter."""
        group, filter = parse_shared(text)
        yield from self._held.get((mountpoint, filter, group or ""), ())

    def _holders_of(self, name: str) -> Holders:
        found = self._holders.get(name)
        if found is None:
            mountpoint, filter, group = name.split(END)
            if self._remembered >= HELD:
                self._found.clear()
                self._holders.clear()
                self._remembered = 0
            held = self._held[mountpoint, filter, group]
            self._remembered += len(held)
            found = self._holders[name] = Holders(group or None, filter, held)
        return found

    def _search(self, mountpoint: str, topic: str) -> Iterator[str]:
        """Returns the names of the filters that match."""
        at = [f"{mountpoint}{END}"]
        wild = not topic.startswith("$")  # [MQTT-4.7.2-1] [MQTT5-4.7.2-1]
        *above, last = topic.split("/")
        for level in above:
            after = []
            for begin in at:
                if wild:
                    yield from self._beginning(f"{begin}#{END}")
                for each in (level, "+") if wild else (level,):
                    below = f"{begin}{each}/"
                    if next(self._beginning(below), None) is not None:
                        after.append(below)
            at = after
            wild = True
        for begin in at:
            if wild:
                yield from self._beginning(f"{begin}#{END}")
            for each in (last, "+") if wild else (last,):
                yield from self._beginning(f"{begin}{each}{END}")
                yield from self._beginning(f"{begin}{each}/#{END}")  # the parent level too: `a/#` matches `a` (4.7.1.2)

    def _beginning(self, begin: str) -> Iterator[str]:
        """Returns the names with this begin."""
        names = self._names
        if names is None:
            names = self._names = (
                self._held.names if isinstance(self._held, Packed) else sorted(map(name_of, self._held))
            )
        for at in range(bisect_left(names, begin), len(names)):
            if not names[at].startswith(begin):
                return
            yield names[at]
