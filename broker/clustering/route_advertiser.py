"""Writes this node's routes into the replicated map, so that other nodes know its subscriptions.

The map itself holds the written routes, so a million subscriptions need no extra memory here. A filter has one route
for its clean sessions and one for its durable sessions. They are computed from its subscribers, and written if the map
holds other values. Some routes for durable sessions were written by an earlier process and are not written again: the
node purges them when it serves (`adapter`). If a filter has many subscribers, their numbers are kept, so that the last
subscriber costs as much time as the first.

A change takes 3.6 us (CPython 3.11, a dict as the map, the write included), and 1 us for a filter with 100,000
subscribers, which takes 17 ms to count once. To announce all again takes 3.3 us per subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from ...mqtt.topics import SHARE, parse_shared
from ..routing.subscriptions import Subscription, SubscriptionTable
from .routes import LASTING, LIVE, encode_value, route_prefix

COUNT_ABOVE = 16
"""The subscribers of a filter are counted when it has more than this many, until it has fewer than half as many."""

STEP = 1000
"""Subscriptions that one call announces when the node enters a view."""

ENDED_STEP = 100
"""The most subscriptions of ended sessions whose routes are removed in one turn of the loop."""

_NOTHING, _ONLINE, _LASTING, _HOLDING = range(4)
"""The state of a group member: nothing; online; online and durable; offline and holding messages."""


class RouteMap(Protocol):
    """The port to the replicated map. Each write returns its number among this node's writes."""

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value; a write of this node shows at once."""
        ...

    def put(self, key: bytes, value: bytes, /) -> int:
        """Write a value."""
        ...

    def delete(self, key: bytes, /) -> int:
        """Delete a value."""
        ...


class Subscriber(Protocol):
    """The part of a session that this module uses, in addition to `durable` and `online`."""

    mountpoint: str
    subscriptions: dict[str, Subscription]


class RouteAdvertiser:
    """The routes of this node, for as long as it is in a view with others.

    `table` gives the subscriptions of a mountpoint, `mountpoints` the names of all mountpoints of this node, `soon`
    runs a function in another turn. The caller reports each change of a table afterwards with `added` or `removed`, and
    calls `presence` when a session gets or loses its connection. While the advertiser is stopped, only removals must be
    reported.
    """

    def __init__(
        self,
        node: str,
        table: Callable[[str], SubscriptionTable],
        mountpoints: Callable[[], Iterable[str]],
        routes: RouteMap,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._node = node
        self._table = table
        self._mountpoints = mountpoints
        self._routes = routes
        self._soon = soon
        self._since = -1
        self._walk: Iterator[tuple[str, str, str | None]] | None = None
        self._done: Callable[[int | None], None] | None = None
        self._counter: int | None = None
        self._prefixes: dict[str, tuple[bytes, bytes]] = {}
        self._values = b"", b""
        self._counted: dict[tuple[str, str], _SubscriberCounts] = {}
        self._owed: dict[tuple[str, str, str | None], None] = {}
        self._settling = False

    @property
    def counter(self) -> int | None:
        """The number of the last write: the barrier that a SUBACK waits for, None if there is nothing to wait for.

        It is also the answer for a filter that was announced long ago: its write is not later.
        """
        return self._counter if self._since >= 0 else None

    # -- in and out of views

    def start(self, since: int, done: Callable[[int | None], None]) -> None:
        """This node entered the view `since`: announce all subscriptions, some in each turn.

        `done` is called with the number of the last write, None if there was none. Changes are announced at once from
        now on.
        """
        self.stop()
        self._since = since
        self._values = encode_value((since, True, False)), encode_value((since, False, True))
        self._done = done
        self._walk = walk = self._everything()
        self._soon(lambda: self._step(walk))

    def stop(self) -> None:
        """This node is alone, or out of the view: nothing is written until `start`, and no `done` is called."""
        self._since = -1
        self._walk = self._done = None
        self._counted.clear()

    def _everything(self) -> Iterator[tuple[str, str, str | None]]:
        for mountpoint in self._mountpoints():
            table = self._table(mountpoint)
            for text in table.filters():
                for group in dict.fromkeys([each.group for each in table.holders(text)]):
                    yield mountpoint, text, group
        # filters that had been announced, and lost subscribers while nothing was written
        while self._owed:
            yield self._owed.popitem()[0]

    def _step(self, walk: Iterator[tuple[str, str, str | None]]) -> None:
        if walk is not self._walk:
            return  # stopped, or started again
        seen = 0
        for mountpoint, text, group in islice(walk, STEP):
            self._announce(mountpoint, text, group)
            seen += 1
        if seen == STEP:
            self._soon(lambda: self._step(walk))
            return
        self._walk = None
        done, self._done = self._done, None
        if done is not None:
            done(self._counter)

    # -- changes

    def added(self, subscription: Subscription, replaced: Subscription | None) -> int | None:
        """Announce a subscription that was added; `replaced` is the result of `SubscriptionTable.add`. Returns
        `counter`."""
        if self._since < 0:
            return None
        mountpoint = subscription.session.mountpoint
        counted = self._counted.get((mountpoint, subscription.filter))
        if counted is not None:
            counted.add(subscription, replaced is None)
        return self._announce(mountpoint, subscription.filter, subscription.group)

    def removed(self, subscription: Subscription) -> int | None:
        """Update the routes after the table has removed a subscription. Returns `counter`."""
        mountpoint, text, group = subscription.session.mountpoint, subscription.filter, subscription.group
        if self._since < 0:
            if any(self._routes.get(key) is not None for key in self._keys(mountpoint, text, group)):
                self._owed[mountpoint, text, group] = None
            return None
        self._uncount(subscription)
        return self._announce(mountpoint, text, group)

    def ended(self, subscription: Subscription) -> None:
        """As `removed`, for a session that has ended. No client waits for the routes, and there may be thousands: they
        are removed in some of the next turns. Until then other nodes send copies that have no receiver here."""
        if self._since < 0:
            self.removed(subscription)
            return
        self._uncount(subscription)
        self._owed[subscription.session.mountpoint, subscription.filter, subscription.group] = None
        if not self._settling:
            self._settling = True
            self._soon(self.settle)

    @property
    def owing(self) -> bool:
        """True while routes of ended sessions still have to be removed."""
        return self._since >= 0 and bool(self._owed)

    def settle(self) -> None:
        """Remove some of the routes; a stop leaves the rest to the next `start`."""
        self._settling = False
        if self._since < 0:
            return
        for _ in range(min(len(self._owed), ENDED_STEP)):
            self._announce(*self._owed.popitem()[0])
        if self._owed:
            self._settling = True
            self._soon(self.settle)

    def _uncount(self, subscription: Subscription) -> None:
        where = subscription.session.mountpoint, subscription.filter
        counted = self._counted.get(where)
        if counted is not None:
            counted.remove(subscription)
            if counted.size < COUNT_ABOVE // 2:
                del self._counted[where]

    def changed(self, mountpoint: str, text: str) -> int | None:
        """The subscribers of a filter, `$share/GROUP/` included, have changed without a call of `added` or `removed`.

        Looks at all its subscribers, so `added` and `removed` are better. Returns `counter`.
        """
        if self._since < 0:
            return None
        group, text = parse_shared(text)
        self._counted.pop((mountpoint, text), None)
        return self._announce(mountpoint, text, group)

    def presence(self, session: Subscriber) -> None:
        """The session has got or lost its connection: update the routes of its shared subscriptions."""
        if self._since < 0:
            return
        mountpoint = session.mountpoint
        for each in session.subscriptions.values():
            if each.group is not None:
                counted = self._counted.get((mountpoint, each.filter))
                if counted is not None:
                    counted.add(each, False)
                self._announce(mountpoint, each.filter, each.group)

    # -- one filter

    def _announce(self, mountpoint: str, text: str, group: str | None) -> int | None:
        """Write the current routes, if the map holds others."""
        counted = self._counted.get((mountpoint, text))
        if counted is None:
            held = self._table(mountpoint).holders(text)
            counted = _SubscriberCounts(held)
            if len(held) > COUNT_ABOVE:
                self._counted[mountpoint, text] = counted
        live: bytes | None = None
        durable: bytes | None = None
        if group is None:
            if counted.live:
                live = self._values[0]
            if counted.durable:
                durable = self._values[1]
        else:
            _, online, lasting, holding = counted.counts(group)
            if online:
                live = encode_value((self._since, online, 0, 0))
            if lasting or holding:
                durable = encode_value((self._since, lasting, holding, lasting))
        live_key, durable_key = self._keys(mountpoint, text, group)
        self._tell(live_key, live)
        self._tell(durable_key, durable)
        return self._counter

    def _tell(self, key: bytes, value: bytes | None) -> None:
        if value != self._routes.get(key):
            self._counter = self._routes.delete(key) if value is None else self._routes.put(key, value)

    def _keys(self, mountpoint: str, text: str, group: str | None) -> tuple[bytes, bytes]:
        prefixes = self._prefixes.get(mountpoint)
        if prefixes is None:
            prefixes = self._prefixes[mountpoint] = (
                route_prefix(mountpoint, self._node, LIVE),
                route_prefix(mountpoint, self._node, LASTING),
            )
        raw = (text if group is None else f"{SHARE}{group}/{text}").encode()
        return prefixes[0] + raw, prefixes[1] + raw


class _SubscriberCounts:
    """The subscribers of one filter, counted."""

    __slots__ = ("_groups", "durable", "live", "size")

    def __init__(self, held: list[Subscription]) -> None:
        self.live = 0
        self.durable = 0
        self.size = 0
        self._groups: dict[str, tuple[list[int], dict[Any, int]]] = {}  # members by state; the state of each member
        for each in held:
            self.add(each, True)

    def add(self, each: Subscription, new: bool) -> None:
        """Count a subscriber that is new, or whose state may have changed."""
        self.size += new
        if each.group is None:
            if each.session.durable:
                self.durable += new
            else:
                self.live += new
            return
        if each.group not in self._groups:
            self._groups[each.group] = [0, 0, 0, 0], {}
        counts, members = self._groups[each.group]
        before = members.get(each.session.key)
        if before is not None:
            counts[before] -= 1
        elif not new:
            return  # this session is just being added or removed
        now = members[each.session.key] = _standing(each)
        counts[now] += 1

    def remove(self, each: Subscription) -> None:
        """Stop counting a subscriber that was removed."""
        self.size -= 1
        if each.group is None:
            if each.session.durable:
                self.durable -= 1
            else:
                self.live -= 1
            assert self.live >= 0 and self.durable >= 0, each.filter
            return
        counts, members = self._groups[each.group]
        counts[members.pop(each.session.key)] -= 1
        if not members:
            del self._groups[each.group]

    def counts(self, group: str) -> list[int]:
        """Return the numbers of members by state: nothing; online; online and durable; offline and holding."""
        return self._groups[group][0] if group in self._groups else [0, 0, 0, 0]


def _standing(member: Subscription) -> int:
    """Return the state of a group member. A member can hold messages if its session is durable and its QoS is above 0
    (`can_hold`)."""
    keeps = member.session.durable and member.qos > 0
    if member.session.online:
        return _LASTING if keeps else _ONLINE
    return _HOLDING if keeps else _NOTHING
