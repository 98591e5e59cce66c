"""Writes this node's routes into the replicated map, so that other nodes know its subscriptions.

The map itself holds the written routes, so a million subscriptions need no extra memory here. A filter has one route to
this node, for its clean sessions, and one to each slot with durable ones. They are computed from its subscribers, and
written if the map holds other values. If a filter has many subscribers, their numbers are kept, so that the last
subscriber costs as much time as the first. They include those of slots of other nodes, which may come here.

A route to a slot is removed only when the store has the end of the subscription. Otherwise a crash could bring the
subscription back after the other nodes forgot it (H-41). The primary of a slot also replaces the routes to it that
another node writes, and removes those for subscriptions that it does not have.

A change takes 3.6 us (CPython 3.11, a dict as the map, the write included), and 1 us for a filter with 100,000
subscribers, which takes 17 ms to count once. To announce all again takes 3.3 us per subscription.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from msgspec import Struct

from ...cluster.identity import SLOTS
from ...mqtt.topics import SHARE
from ..routing.dormant import SHARED
from ..routing.subscriptions import Subscription, SubscriptionTable, key_of, unpacked
from .routes import LASTING, MalformedRoute, encode_value, parse_route_key, prefix_to_node, prefix_to_slot

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

    def scan(self, prefix: bytes, /) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values with this prefix. The map may change meanwhile."""
        ...


class Subscriber(Protocol):
    """The part of a session that this module uses, in addition to `durable` and `online`."""

    mountpoint: str
    subscriptions: dict[str, Subscription]


class Ports(Struct):
    """What a `RouteAdvertiser` needs. `table` gives the subscriptions of a mountpoint, `mountpoints` the names of all
    mountpoints of this node. `owns` says whether this node is the primary of a slot, by the table that it follows;
    `sure` whether no other node can be. `wrote` gets the key of each route to a slot that this node has written or
    removed: what an earlier primary wrote there is gone. `soon` runs a function in another turn, `when_safe` once the
    store has all that was written so far. `count_above`: the subscribers of a filter above which they are counted once
    and kept."""

    table: Callable[[str], SubscriptionTable]
    mountpoints: Callable[[], Iterable[str]]
    owns: Callable[[int], bool]
    sure: Callable[[int], bool]
    routes: RouteMap
    wrote: Callable[[bytes], object]
    soon: Callable[[Callable[[], None]], object]
    when_safe: Callable[[Callable[[], None]], object]
    count_above: int = COUNT_ABOVE


class _Arrived(Struct):
    """Slots that have come, whose routes of earlier primaries are to be removed: those for which a walk over all routes
    is under way, and those for which the next one begins."""

    looking: set[int]
    later: set[int]


Place = int | None
"""A slot; None for the clean sessions of this node."""
Filter = tuple[str, str, str | None, Place]
"""Mountpoint, filter, group or None, and the place of some subscribers."""


class RouteAdvertiser:
    """Writes the routes of this node, as long as the node is in a view with others.

    The caller reports each change of a table afterwards with `added` or `removed`, and calls `presence` when a session
    gets or loses its connection. While the advertiser is stopped, only removals must be reported.
    """

    def __init__(self, node: str, ports: Ports) -> None:
        self._node = node
        self.ports = ports
        self._routes = ports.routes
        self._since = -1
        self._walk: Iterator[Filter] | None = None
        self._done: Callable[[int | None], None] | None = None
        self._counter: int | None = None
        self._prefixes: dict[tuple[str, Place], bytes] = {}
        self._values = b"", b""
        self._counted: dict[tuple[str, str], _SubscriberCounts] = {}
        self._owed: dict[Filter, int] = {}
        """Routes that may have to be removed or written again, and the number of the change after which they may."""
        self._unsure: dict[Filter, None] = {}
        """Routes that another node may have written since, as the primary of their slot."""
        self._changes = 0
        self._settling = False
        self._arrived = _Arrived(set(), set())

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
        self._values = encode_value((since,)), encode_value((since, self._node))
        self._done = done
        self._walk = walk = self._everything()
        self.ports.soon(lambda: self._step(walk))
        if self._owed:  # filters that had been announced, and lost subscribers while nothing was written
            self._plan_settling()

    def stop(self) -> None:
        """This node is alone, or out of the view: nothing is written until `start`, and no `done` is called."""
        self._since = -1
        self._walk = self._done = None
        self._counted.clear()

    def _everything(self) -> Iterator[Filter]:
        for mountpoint in self.ports.mountpoints():
            table = self.ports.table(mountpoint)
            for text in table.filters():
                for group, place in self._counts(mountpoint, text).parts():
                    yield mountpoint, text, group, place

    def _step(self, walk: Iterator[Filter]) -> None:
        if walk is not self._walk:
            return  # stopped, or started again
        seen = 0
        for what in islice(walk, STEP):
            self._announce(*what)
            seen += 1
        if seen == STEP:
            self.ports.soon(lambda: self._step(walk))
            return
        self._walk = None
        self.arrived(range(SLOTS))
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
        return self._announce(mountpoint, subscription.filter, subscription.group, _place(subscription))

    def removed(self, subscription: Subscription) -> None:
        """Update the routes after the table has removed a subscription: at once, or when the store has that."""
        mountpoint, text, group = subscription.session.mountpoint, subscription.filter, subscription.group
        place = _place(subscription)
        if self._since < 0:
            if any(self._routes.get(key) is not None for _, key in self._keys(mountpoint, text, group, place)):
                self._owed[mountpoint, text, group, place] = self._changes
            return
        self.uncount(subscription)
        if place is None:
            self._announce(mountpoint, text, group, None)
        else:
            self._owe((mountpoint, text, group, place))

    def ended(self, subscription: Subscription) -> None:
        """As `removed`, for a session that has ended. No client waits for the routes, and there may be thousands: they
        are removed in some of the next turns. Until then other nodes send copies that have no receiver here."""
        if self._since < 0:
            self.removed(subscription)
            return
        self.uncount(subscription)
        self._owe((subscription.session.mountpoint, subscription.filter, subscription.group, _place(subscription)))

    def recount(self) -> None:
        """Sessions have left this node without a call of `presence`: members of groups are not online any more."""
        self._counted.clear()

    def count_copied(self, subscription: Subscription) -> None:
        """The table has got a subscription of a slot of another node."""
        counted = self._counted.get((subscription.session.mountpoint, subscription.filter))
        if counted is not None:
            counted.add(subscription, True)

    def announce(self, mountpoint: str, text: str, group: str | None, slot: int) -> None:
        """Write the route to a slot that has come to this node. `start` announces it too."""
        if self._since >= 0:
            self._announce(mountpoint, text, group, slot)

    def arrived(self, slots: Iterable[int]) -> None:
        """This node is primary of these slots now: remove routes that earlier primaries left behind, in later turns."""
        if self._since >= 0:
            self._arrived.later.update(slots)
            if not self._arrived.looking:
                self._begin_look()

    def _begin_look(self) -> None:
        """Walk over all routes once for the slots that have come so far."""
        self._arrived = _Arrived(self._arrived.later, set())
        walk = self._routes.scan(LASTING)
        self.ports.soon(lambda: self._look(walk))

    def _look(self, walk: Iterator[tuple[bytes, bytes]]) -> None:
        seen = 0
        for key, _ in islice(walk, STEP):
            if key[1] in self._arrived.looking and (what := self._of_this_node(key)) is not None:
                mountpoint, text, group, _ = what
                if not self._counts(mountpoint, text).has(group, key[1]):
                    self._owe(what)
            seen += 1
        if seen == STEP:
            self.ports.soon(lambda: self._look(walk))
            return
        self._arrived.looking = set()
        if self._arrived.later:
            self._begin_look()

    def check(self, key: bytes) -> None:
        """Another node, or an earlier process of this one, has written this route to a slot of this node: write it
        again, or remove it if it has no subscriber here. A former primary that is cut off does not know what this node
        has written, and of the two writes that of the other node may be left."""
        if (what := self._of_this_node(key)) is not None:
            self._owe(what)

    def _of_this_node(self, key: bytes) -> Filter | None:
        """Return the filter and slot of a route; None if this node does not write it."""
        try:
            mountpoint, slot, group, text = parse_route_key(key)
        except MalformedRoute:
            return None
        assert isinstance(slot, int)
        return (mountpoint, text, group, slot) if self._since >= 0 and self.ports.owns(slot) else None

    def try_again(self) -> None:
        """The lease is back, or the table has changed: this node may be sure now that it is still the primary."""
        unsure, self._unsure = self._unsure, {}
        for what in unsure:
            self._owe(what)

    @property
    def owing(self) -> bool:
        """True while routes still have to be removed."""
        return self._since >= 0 and bool(self._owed)

    def _owe(self, what: Filter) -> None:
        self._changes += 1
        self._owed[what] = self._changes
        self._plan_settling()

    def _plan_settling(self) -> None:
        if not self._settling:
            self._settling = True
            self.ports.soon(self._settle_when_safe)

    def _settle_when_safe(self) -> None:
        """Only what ended in a slot has to be on the disk: clean sessions make the store write nothing earlier."""
        upto = self._changes
        if any(place is not None for *_, place in islice(self._owed, ENDED_STEP)):
            self.ports.when_safe(lambda: self._settle(upto))
        else:
            self._settle(upto)

    def _settle(self, upto: int) -> None:
        """Remove some of the routes, of those that the store has as removed; a stop leaves the rest to `start`."""
        self._settling = False
        if self._since < 0:
            return
        safe = (what for what, change in self._owed.items() if change <= upto)
        for what in list(islice(safe, ENDED_STEP)):
            del self._owed[what]
            place = what[-1]
            if place is not None and self.ports.owns(place) and not self.ports.sure(place):
                self._unsure[what] = None
            else:
                self._announce(*what)
        if self._owed:
            self._plan_settling()

    def uncount(self, subscription: Subscription) -> None:
        """The table has lost a subscription."""
        where = subscription.session.mountpoint, subscription.filter
        counted = self._counted.get(where)
        if counted is not None:
            counted.remove(subscription)
            if counted.size < self.ports.count_above // 2:
                del self._counted[where]

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
                self._announce(mountpoint, each.filter, each.group, _place(each))

    # -- one filter

    def _announce(self, mountpoint: str, text: str, group: str | None, place: Place) -> int | None:
        """Write the current route to a place, if the map holds another one; with a group also the one to this node,
        which counts members with durable sessions too if they keep nothing."""
        counted = self._counts(mountpoint, text)
        for at, key in self._keys(mountpoint, text, group, place):
            value = self._value(counted, group, at)
            if value != self._routes.get(key):
                self._counter = self._routes.delete(key) if value is None else self._routes.put(key, value)
                if at is not None:
                    self.ports.wrote(key)
        return self._counter

    def _counts(self, mountpoint: str, text: str) -> _SubscriberCounts:
        counted = self._counted.get((mountpoint, text))
        if counted is None:
            counted = _SubscriberCounts()
            counted.count(self.ports.table(mountpoint), text)
            if counted.size > self.ports.count_above:
                self._counted[mountpoint, text] = counted
        return counted

    def _value(self, counted: _SubscriberCounts, group: str | None, place: Place) -> bytes | None:
        if group is None:
            return self._values[place is not None] if counted.plain.get(place) else None
        if place is None:
            online = counted.members(group, None, _ONLINE)
            return encode_value((self._since, online)) if online else None
        lasting, holding = counted.members(group, place, _LASTING), counted.members(group, place, _HOLDING)
        return encode_value((self._since, self._node, lasting, holding, lasting)) if lasting or holding else None

    def _keys(self, mountpoint: str, text: str, group: str | None, place: Place) -> list[tuple[Place, bytes]]:
        """The places and keys of the routes for a subscriber at this place; none to a slot of another node."""
        if place is not None and not self.ports.owns(place):
            places: tuple[Place, ...] = () if group is None else (None,)
        else:
            places = (place,) if group is None or place is None else (None, place)
        raw = (text if group is None else f"{SHARE}{group}/{text}").encode()
        return [(each, self._prefix(mountpoint, each) + raw) for each in places]

    def _prefix(self, mountpoint: str, place: Place) -> bytes:
        found = self._prefixes.get((mountpoint, place))
        if found is None:
            found = prefix_to_node(mountpoint, self._node) if place is None else prefix_to_slot(mountpoint, place)
            self._prefixes[mountpoint, place] = found
        return found


class _SubscriberCounts:
    """The subscribers of one filter, counted. `plain`: how many ordinary ones are at each place."""

    __slots__ = ("_groups", "plain", "size")

    def __init__(self) -> None:
        self.plain: dict[Place, int] = {}
        self.size = 0
        self._groups: dict[str, tuple[dict[tuple[Place, int], int], dict[Any, int]]] = {}
        """For each group the numbers of members by place and state, and the state of each member."""

    def count(self, table: SubscriptionTable, text: str) -> None:
        """Count all subscribers of a filter."""
        dormant = []
        for key, held in table.items(text):
            if isinstance(held, bytes) and held[0] < SHARED:
                dormant.append(key[0])
            else:
                self.add(unpacked(text, held + key) if isinstance(held, bytes) else held, True)
        self.plain |= {slot: self.plain.get(slot, 0) + count for slot, count in Counter(dormant).items()}
        self.size += len(dormant)

    def parts(self) -> list[tuple[str | None, Place]]:
        """Return each group with its places, and those of ordinary subscribers with None."""
        found: list[tuple[str | None, Place]] = [(None, place) for place, count in self.plain.items() if count]
        for group, (counts, _) in self._groups.items():
            found += [(group, place) for place in dict.fromkeys([place for (place, _), n in counts.items() if n])]
        return found

    def has(self, group: str | None, slot: int) -> bool:
        """Return whether a route to this slot has a subscriber."""
        if group is None:
            return bool(self.plain.get(slot))
        return bool(self.members(group, slot, _LASTING) or self.members(group, slot, _HOLDING))

    def add(self, each: Subscription, new: bool) -> None:
        """Count a subscriber that is new, or whose state may have changed."""
        self.size += new
        if each.group is None:
            place = _place(each)
            self.plain[place] = self.plain.get(place, 0) + new
            return
        if each.group not in self._groups:
            self._groups[each.group] = {}, {}
        counts, members = self._groups[each.group]
        before = members.get(key_of(each))
        if before is not None:
            counts[_counted_at(each, before)] -= 1
        elif not new:
            return  # this session is just being added or removed
        now = members[key_of(each)] = _standing(each)
        where = _counted_at(each, now)
        counts[where] = counts.get(where, 0) + 1

    def remove(self, each: Subscription) -> None:
        """Stop counting a subscriber that was removed."""
        self.size -= 1
        if each.group is None:
            place = _place(each)
            self.plain[place] -= 1
            assert self.plain[place] >= 0, each.filter
            return
        counts, members = self._groups[each.group]
        counts[_counted_at(each, members.pop(key_of(each)))] -= 1
        if not members:
            del self._groups[each.group]

    def members(self, group: str, place: Place, state: int) -> int:
        """Return the number of members with a state; those that never keep messages are counted without a slot."""
        return self._groups[group][0].get((place, state), 0) if group in self._groups else 0


def _place(each: Subscription) -> Place:
    return each.session.key[0] if each.session.durable else None


def _counted_at(each: Subscription, state: int) -> tuple[Place, int]:
    return (None if state in (_NOTHING, _ONLINE) else each.session.key[0]), state


def _standing(member: Subscription) -> int:
    """Return the state of a group member. A member can hold messages if its session is durable and its QoS is above 0
    (`can_hold`)."""
    keeps = member.session.durable and member.qos > 0
    if member.session.online:
        return _LASTING if keeps else _ONLINE
    return _HOLDING if keeps else _NOTHING
