"""The subscriptions of this node's sessions, for one mountpoint.

All filters live in a flat dict, which is cut into 64 parts: a dict of two million filters would stop the loop for 70 ms
each time it grows. A topic is looked up as it is, and once for each *shape* of wildcard filters in use:
how many levels, which of them are `+`, and whether `#` follows. From the topic `a/b/c` and the shape `+` at level 1
comes the key `a/+/c`. A deployment has few shapes, whatever the number of its filters. Filters of a shape that appears
when `shape_limit` shapes are in use go to a tree instead. Existing filters are never moved between tree and shapes.

Measured with tracemalloc on CPython 3.11, the text of the filter included, the session not: bytes per subscription of
200,000 (and of 1,000,000) are 207 (200) for exact filters, 203 (196) for filters of a few shapes, 272 (259) for the
same in the tree, 292 (279) for 128 shapes in the tree, 263 (260) where two sessions share each filter, 140 (142) where
ten do. A match takes 0.3 us for topics that come again and again, 1.2 us more where a wildcard shape fits and 0.4 us
for each further one; for random topics out of 200,000, with nothing in the processor's cache, 0.8 and 1.3 us a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from ...mqtt.topics import parse_shared
from ...storage.keys import mountpoint_of
from .level_tree import LevelTree

_PARTS = 64

SORTED = 10_000
"""Up to so many filters `SubscriptionTable.filters` yields in the order of their texts."""

OPTIONS = tuple([(packed & 3, bool(packed & 4), bool(packed & 8), packed >> 4) for packed in range(64)])
"""The number that `pack` returns -> QoS, No Local, Retain As Published, Retain Handling."""


class DormantSession(bytes):
    """A durable session that only the disk has, as the subscriber of its subscriptions. The bytes are its client key.

    A dormant session takes no memory beside its subscriptions. `SessionRegistry.wake` makes a `Session` of it.
    """

    __slots__ = ()

    durable = True
    online = False
    ending = False

    @property
    def key(self) -> bytes:
        """The client key, as `Session.key`."""
        return self

    @property
    def mountpoint(self) -> str:
        """The mountpoint of the client."""
        return mountpoint_of(self)


class Subscription(msgspec.Struct, eq=False):
    """One subscription of one session.

    `session` is the subscriber: a `Session`, or a `DormantSession` with the same `key`. `filter` is without
    `$share/GROUP/`; the share name is in `group`. `identifier` is the v5 subscription identifier, 0 for none. The
    options are those of MQTT 5.0 section 3.8.3.1; in a v3 subscription all are 0.
    """

    session: Any
    filter: str
    group: str | None
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int


class Shape(NamedTuple):
    """The wildcards of a filter: its levels before `#`, the places of `+` among them, and whether `#` follows."""

    levels: int
    singles: tuple[int, ...]
    multi: bool


def pack(qos: int, no_local: bool, retain_as_published: bool, retain_handling: int) -> int:
    """The options of a subscription as one number, an index of `OPTIONS`."""
    return qos | no_local << 2 | retain_as_published << 3 | retain_handling << 4


class SubscriptionRow(msgspec.Struct, array_like=True, gc=False):
    """The subscriptions of many clients of a mountpoint, in the form that is fast to restore.

    `clients` are client keys. `counts` has the number of subscriptions of each client; these follow each other in
    `filters` (`$share` included), `options` (by `pack`) and `identifiers`.
    """

    mountpoint: str
    clients: list[bytes]
    counts: list[int]
    filters: list[str]
    options: list[int]
    identifiers: list[int]


Holders = Subscription | dict[Any, Subscription]
"""The subscriptions to one filter: a single one, the most frequent case, or a dict by `_key` in order of arrival."""


Picker = Callable[[list[str]], Any]
"""A function that `_picker` makes."""


def shape_of(text: str) -> Shape | None:
    """The shape of a filter, None if it has no wildcard."""
    if "+" not in text and "#" not in text:
        return None
    levels = text.split("/")
    multi = levels[-1] == "#"
    singles = tuple([place for place, level in enumerate(levels) if level == "+"])
    return Shape(len(levels) - multi, singles, multi) if singles or multi else None


class SubscriptionTable:
    """The subscriptions of one mountpoint. Callers pass only valid filters and topics (`mqtt.topics`).

    After every change of a filter's subscribers, the table calls each function in `changed` with the filter.
    """

    def __init__(self, shape_limit: int = 32) -> None:
        self.changed: list[Callable[[str], None]] = []
        self._parts: tuple[dict[str, Holders], ...] = tuple([{} for _ in range(_PARTS)])
        self._size = 0
        self._shape_limit = shape_limit
        self._shapes: dict[Shape, int] = {}
        self._tree_shapes: dict[Shape, int] = {}
        self._tree = LevelTree()
        self._deepest = 0
        self._fitting: dict[int, list[Picker]] = {}

    def __len__(self) -> int:
        return self._size

    def __contains__(self, text: str) -> bool:
        """True if the filter has subscribers, shared or not."""
        return text in self._part(text)

    def __iter__(self) -> Iterator[Subscription]:
        """All subscriptions by filter. The caller may change the table meanwhile."""
        for text in self.filters():
            yield from self.holders(text)

    def filters(self) -> Iterator[str]:
        """All filters that have subscribers. The caller may change the table meanwhile.

        The order is repeatable for up to `SORTED` filters, which the simulator relies on.
        """
        if self._size <= SORTED:
            yield from sorted([text for part in self._parts for text in part])
            return
        for part in self._parts:
            yield from list(part)

    def holders(self, text: str) -> list[Subscription]:
        """The subscriptions to exactly this filter, in order of arrival."""
        held = self._part(text).get(text)
        return [] if held is None else _listed(held)

    def find(self, client: bytes, text: str, group: str | None) -> Subscription | None:
        """The subscription of the session with this client key; None if there is none."""
        held = self._part(text).get(text)
        if isinstance(held, dict):
            return held.get(client if group is None else (client, group))
        if held is not None and held.session.key == client and held.group == group:
            return held
        return None

    def _part(self, text: str) -> dict[str, Holders]:
        return self._parts[hash(text) % _PARTS]

    # -- changes

    def add(self, subscription: Subscription) -> Subscription | None:
        """Add a subscription; returns the one of the same session, filter and group that it replaced, or None.

        The new one has the place of the old one in the order [MQTT-3.8.4-3].
        """
        replaced = self._put(subscription)
        self.tell(subscription.filter)
        return replaced

    def restore(self, subscription: Subscription) -> None:
        """Add a subscription that the disk has, unless the table has it already. Plans are not invalidated.

        Nothing is routed while subscriptions are restored.
        """
        if self.find(subscription.session.key, subscription.filter, subscription.group) is None:
            self._put(subscription)

    def restore_row(self, row: SubscriptionRow, without: set[bytes]) -> None:
        """As `restore` for all subscriptions of the row, but for those of the clients in `without`.

        Takes 1 us for a subscription, a third of `restore`: a start restores millions.
        """
        parts, filters, options, identifiers = self._parts, row.filters, row.options, row.identifiers
        end = 0
        for client, count in zip(row.clients, row.counts, strict=True):
            at, end = end, end + count
            if client in without:
                continue
            session = DormantSession(client)
            for place in range(at, end):
                text = filters[place]
                qos, no_local, as_published, handling = OPTIONS[options[place]]
                part = parts[hash(text) % _PARTS]
                held = part.get(text)
                if held is None and text[0] != "$":
                    part[text] = Subscription(
                        session, text, None, qos, no_local, as_published, handling, identifiers[place]
                    )
                    self._size += 1
                    if "+" in text or "#" in text:
                        self._enlist(text)
                elif type(held) is dict and session not in held:
                    for first in held.values():
                        text = first.filter  # one text for all subscribers of a filter
                        break
                    held[session] = Subscription(
                        session, text, None, qos, no_local, as_published, handling, identifiers[place]
                    )
                    self._size += 1
                else:
                    group, text = parse_shared(text)
                    self.restore(
                        Subscription(session, text, group, qos, no_local, as_published, handling, identifiers[place])
                    )

    def _put(self, subscription: Subscription) -> Subscription | None:
        text = subscription.filter
        part = self._part(text)
        held = part.get(text)
        replaced: Subscription | None = None
        if held is None:
            part[text] = subscription
            self._enlist(text)
        elif isinstance(held, dict):
            key = _key(subscription)
            replaced = held.get(key)
            held[key] = subscription
            subscription.filter = next(iter(held.values())).filter  # one text for all subscribers of a filter
        else:
            subscription.filter = held.filter
            if held.session.key == subscription.session.key and held.group == subscription.group:
                replaced = held
                part[text] = subscription
            else:
                part[text] = {_key(each): each for each in (held, subscription)}
        if replaced is None:
            self._size += 1
        return replaced

    def remove(self, client: bytes, text: str, group: str | None) -> Subscription | None:
        """Remove the subscription of the session with this client key; returns it, or None if there was none."""
        part = self._part(text)
        held = part.get(text)
        removed: Subscription | None = None
        if isinstance(held, dict):
            removed = held.pop(client if group is None else (client, group), None)
            if len(held) == 1:
                (part[text],) = held.values()
        elif held is not None and held.session.key == client and held.group == group:
            removed = held
            del part[text]
            self._delist(text)
        if removed is not None:
            self._size -= 1
            self.tell(text)
        return removed

    def tell(self, text: str) -> None:
        """Call the functions of `changed`: a subscriber of this filter has changed."""
        for changed in self.changed:
            changed(text)

    def _enlist(self, text: str) -> None:
        """A filter is new: make its shape one that `match` tries, or put it into the tree."""
        shape = shape_of(text)
        if shape is None:
            return
        if shape in self._shapes:
            self._shapes[shape] += 1
        elif shape in self._tree_shapes or len(self._shapes) >= self._shape_limit:
            # all filters of a shape stay in one place until the last of them is removed, so none is found twice
            self._tree_shapes[shape] = self._tree_shapes.get(shape, 0) + 1
            self._tree.add(text)
        else:
            self._shapes[shape] = 1
            self._shapes_changed()

    def _delist(self, text: str) -> None:
        """A filter has lost its last subscriber."""
        shape = shape_of(text)
        if shape is None:
            return
        if shape in self._shapes:
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]
                self._shapes_changed()
            return
        self._tree.remove(text)
        self._tree_shapes[shape] -= 1
        if not self._tree_shapes[shape]:
            del self._tree_shapes[shape]

    def _shapes_changed(self) -> None:
        self._fitting.clear()
        self._deepest = max((shape.levels for shape in self._shapes), default=0)

    # -- matching

    def match(self, topic: str) -> list[Subscription]:
        """The subscriptions that match a topic (MQTT 5.0 section 4.7); those of one filter in order of arrival."""
        parts = self._parts
        held = parts[hash(topic) % _PARTS].get(topic)
        found = [] if held is None else _listed(held)
        if self._shapes:
            levels = topic.split("/")
            pickers = self._pickers_for(len(levels), topic.startswith("$"))
            levels += ("+", "#")
            for pick in pickers:
                text = "/".join(pick(levels))
                held = parts[hash(text) % _PARTS].get(text)
                if held is not None:
                    found += _listed(held)
        if self._tree_shapes:
            for text in self._tree.filters_for(topic):
                found += self.holders(text)
        return found

    def _pickers_for(self, levels: int, hidden: bool) -> list[Picker]:
        """Return, cached, a picker for each shape that can match a topic with this number of levels.

        `hidden` is True if the topic begins with `$`.
        """
        levels = min(levels, self._deepest + 1)  # deeper topics fit the same shapes, so the cache stays small
        key = -levels if hidden else levels
        fitting = self._fitting.get(key)
        if fitting is None:
            fitting = self._fitting[key] = [
                _picker(shape)
                for shape in self._shapes
                if (shape.levels <= levels if shape.multi else shape.levels == levels)
                # a first-level wildcard does not match topics that begin with `$` [MQTT-4.7.2-1]
                and not (hidden and (shape.levels == 0 or shape.singles[:1] == (0,)))
            ]
        return fitting


def _key(subscription: Subscription) -> Any:
    client = subscription.session.key
    return client if subscription.group is None else (client, subscription.group)


def _listed(held: Holders) -> list[Subscription]:
    return list(held.values()) if isinstance(held, dict) else [held]


def _picker(shape: Shape) -> Picker:
    """Return a function that builds the levels of the only filter of this shape that can match a topic.

    Its argument is the list of the topic's levels, followed by `+` and `#`. Picking items from it takes half the time
    of copying the levels and changing some (0.3 us against 0.55 us).
    """
    singles = frozenset(shape.singles)
    places = [-2 if place in singles else place for place in range(shape.levels)]
    if shape.multi:
        places.append(-1)
    return itemgetter(*places)
