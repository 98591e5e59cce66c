"""The subscriptions of this node's sessions, for one mountpoint.

All filters live in a flat dict, which is cut into 61 parts: a dict of two million filters would stop the loop for 70 ms
each time it grows. A subscription of a session in memory is a `Subscription`. That of a session that only the disk has
is bytes (`dormant.py`), because a node may have millions of them, and loads all of them when it starts.

A topic is looked up as it is, and once for each *shape* of wildcard filters in use: how many levels, which of them are
`+`, and whether `#` follows. From the topic `a/b/c` and the shape `+` at level 1 comes the key `a/+/c`. A deployment
has few shapes, whatever the number of its filters. Filters of a shape that appears when `shape_limit` shapes are in use
go to a tree instead. Existing filters are never moved between tree and shapes.

Measured with tracemalloc on CPython 3.11, the text of the filter included, the session not: bytes per subscription of
200,000 (and of 1,000,000) are 207 (200) for exact filters, 203 (196) for filters of a few shapes, 272 (259) for the
same in the tree, 292 (279) for 128 shapes in the tree, 263 (260) where two sessions share each filter, 140 (142) where
ten do. Without the session in memory, with a client key of 18 bytes: 148 (143) for exact filters, 210 (208) where two
sessions share each filter, 98 where a hundred do. A match takes 0.3 us for topics that come again and again, 1.2 us
more where a wildcard shape fits and 0.4 us for each further one; for random topics out of 200,000, with nothing in the
processor's cache, 0.8 and 1.3 us a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import adler32

import msgspec

from ...cluster.identity import SLOTS
from .dormant import (
    IDENTIFIED,
    DormantSession,
    pack_head,
    parse_subscriber_key,
    split,
    subscriber_key,
    unpack_head,
)
from .level_tree import LevelTree

PARTS = 61
"""Parts of a table. A prime: so the part of a filter depends on both halves of its Adler-32."""

SORTED = 10_000
"""Up to so many filters `SubscriptionTable.filters` yields in the order of their texts."""


class Subscription(msgspec.Struct, eq=False):
    """One subscription of one session.

    `session` is the subscriber: a `Session`, or a `DormantSession` with the same `key` if the table has made this
    object of bytes for a caller. `filter` is without `$share/GROUP/`; the share name is in `group`. `identifier` is the
    v5 subscription identifier, 0 for none. The options are those of MQTT 5.0 section 3.8.3.1; in a v3 subscription all
    are 0.
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


Held = Subscription | bytes
"""A subscription in a table. Bytes are one of a session that only the disk has (`dormant.py`)."""

Holders = Held | dict[bytes, Held]
"""The subscriptions to one filter: a single one, the most frequent case, or a dict by subscriber key in order of
arrival. The bytes in a dict are only the head."""


Picker = Callable[[list[str]], Any]
"""A function that `_picker` makes."""


def part_of(text: str) -> int:
    """The part of a table that has this filter. Snapshots on disk rely on it (`sessions/snapshots.py`, `LAYOUT`)."""
    return adler32(text.encode()) % PARTS


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
        self._parts: tuple[dict[str, Holders], ...] = tuple([{} for _ in range(PARTS)])
        self._size = 0
        self._of_slot = [0] * SLOTS
        self._shape_limit = shape_limit
        self._shapes: dict[Shape, int] = {}
        self._tree_shapes: dict[Shape, int] = {}
        self._tree = LevelTree()
        self._deepest = 0
        self._fitting: dict[int, list[Picker]] = {}

    def __len__(self) -> int:
        return self._size

    def without(self, slots: Iterable[int]) -> int:
        """Number of subscriptions, but for those of durable sessions in these slots."""
        return self._size - sum([self._of_slot[slot] for slot in slots])

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
        """The subscriptions to exactly this filter, in order of arrival.

        Those of a session that only the disk has are made for the caller, with a `DormantSession`: 1 us for each.
        """
        held = self._part(text).get(text)
        if held is None:
            return []
        if isinstance(held, dict):
            return [_made(text, each, key) if isinstance(each, bytes) else each for key, each in held.items()]
        return [_made(text, *split(held)) if isinstance(held, bytes) else held]

    def items(self, text: str) -> list[tuple[bytes, Held]]:
        """The subscriber key of each subscription to exactly this filter, with the subscription. Of a session that only
        the disk has, it is the head. This takes a tenth of the time of `holders`, for filters with many subscribers."""
        held = self._part(text).get(text)
        if isinstance(held, dict):
            return list(held.items())
        return [] if held is None else [_divided(held)[::-1]]

    def _part(self, text: str) -> dict[str, Holders]:
        return self._parts[part_of(text)]

    # -- changes

    def add(self, subscription: Subscription) -> Subscription | None:
        """Add a subscription; returns the one of the same session, filter and group that it replaced, or None.

        The new one has the place of the old one in the order [MQTT-3.8.4-3].
        """
        replaced = self._put(subscription)
        self.tell(subscription.filter)
        return replaced

    def restore(self, subscription: Subscription) -> None:
        """Add a subscription of a session that was made from its record. Plans are not invalidated.

        It takes the place of the bytes that `release` or `load` left.
        """
        self._put(subscription)

    def release(self, subscription: Subscription) -> None:
        """The session leaves memory: keep its subscription as bytes. Plans are not invalidated."""
        text = subscription.filter
        part = self._part(text)
        held = part[text]
        head, key = _packed(subscription)
        if isinstance(held, dict):
            held[key] = head
        else:
            part[text] = head + key

    def load(self, slot: int, number: int, packed: Iterable[tuple[str, bytes]]) -> int:
        """Add subscriptions of sessions of this slot that only the disk has, unless the table has them already.

        `packed` are filters of the part with this number (`part_of`), each with a subscription as bytes. Plans are not
        invalidated: nothing is routed while subscriptions are loaded. Takes 0.5 us for a subscription, if the calls
        follow each other by part: then the processor's cache has the part. Returns how many it has added.
        """
        part = self._parts[number]
        added = 0
        for text, held in packed:
            known = part.setdefault(text, held)
            if known is held:
                added += 1
                if "+" in text or "#" in text:
                    self._enlist(text)
                continue
            # as `split`, in half the time
            head, key = (held[:1], held[1:]) if held[0] < IDENTIFIED else split(held)
            if not isinstance(known, dict):
                value, first = _divided(known)
                if first == key:
                    continue
                known = part[text] = {first: value}
            if key not in known:
                known[key] = head
                added += 1
        self._size += added
        self._of_slot[slot] += added
        return added

    def _put(self, subscription: Subscription) -> Subscription | None:
        text = subscription.filter
        part = self._part(text)
        held = part.get(text)
        if held is None:
            part[text] = subscription
            self._enlist(text)
            self._count(subscription.session.key, subscription.session.durable, 1)
            return None
        key = key_of(subscription)
        if not isinstance(held, dict):
            value, first = _divided(held)
            if first == key:
                part[text] = subscription
                return _made(text, value, key) if isinstance(value, bytes) else value
            held = part[text] = {first: value}
        for first_value in held.values():
            if isinstance(first_value, Subscription):
                subscription.filter = first_value.filter  # one text for all subscribers of a filter
            break
        replaced = held.get(key)
        held[key] = subscription
        if replaced is None:
            self._count(key, subscription.session.durable, 1)
        return _made(text, replaced, key) if isinstance(replaced, bytes) else replaced

    def remove_dormant(self, client: bytes, text: str, group: str | None) -> Subscription | None:
        """Remove the subscription of a session with this client key that only the disk has. One of a session in memory
        stays. Returns it, or None if there was none."""
        held = self._part(text).get(text)
        if isinstance(held, dict):
            dormant = isinstance(held.get(subscriber_key(client, group)), bytes)
        else:
            dormant = isinstance(held, bytes)
        return self.remove(client, text, group) if dormant else None

    def remove(self, client: bytes, text: str, group: str | None, durable: bool = True) -> Subscription | None:
        """Remove the subscription of the session with this client key, the durable or the clean one. Returns it, or
        None if there was none."""
        part = self._part(text)
        held = part.get(text)
        if held is None:
            return None
        key = subscriber_key(client, group, durable)
        removed: Held | None = None
        if isinstance(held, dict):
            removed = held.pop(key, None)
            if len(held) == 1:
                ((last, value),) = held.items()
                part[text] = value + last if isinstance(value, bytes) else value
        else:
            value, only = _divided(held)
            if only == key:
                removed = value
                del part[text]
                self._delist(text)
        if removed is None:
            return None
        self._count(client, durable, -1)
        self.tell(text)
        return _made(text, removed, key) if isinstance(removed, bytes) else removed

    def _count(self, client: bytes, durable: bool, change: int) -> None:
        self._size += change
        if durable:
            self._of_slot[client[0]] += change

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

    def match(self, topic: str) -> list[Held]:
        """The subscriptions that match a topic (MQTT 5.0 section 4.7); those of one filter in order of arrival.

        Bytes stand for a subscription of a session that only the disk has. `dormant` gives these sessions.
        """
        parts = self._parts
        held = parts[adler32(topic.encode()) % PARTS].get(topic)
        found: list[Held] = []
        if held is not None:
            found = list(held.values()) if isinstance(held, dict) else [held]
        if self._shapes:
            levels = topic.split("/")
            pickers = self._pickers_for(len(levels), topic.startswith("$"))
            levels += ("+", "#")
            for pick in pickers:
                text = "/".join(pick(levels))
                held = parts[adler32(text.encode()) % PARTS].get(text)
                if held is not None:
                    if isinstance(held, dict):
                        found += held.values()
                    else:
                        found.append(held)
        if self._tree_shapes:
            for text in self._tree.filters_for(topic):
                held = self._part(text)[text]
                found += held.values() if isinstance(held, dict) else (held,)
        return found

    def dormant(self, topic: str) -> list[Subscription]:
        """The matching subscriptions of sessions that only the disk has, each with a `DormantSession`."""
        found = []
        for text in self._texts(topic):
            held = self._part(text).get(text)
            if isinstance(held, bytes):
                found.append(_made(text, *split(held)))
            elif isinstance(held, dict):
                found += [_made(text, head, key) for key, head in held.items() if isinstance(head, bytes)]
        return found

    def asleep(self, topic: str, elsewhere: Container[int]) -> Iterator[bytes]:
        """Yield the client key of each subscription in `dormant` whose slot is not in `elsewhere`. The caller may
        change the table meanwhile. The first key takes a tenth of the time of `dormant`."""
        for text in self._texts(topic):
            for key, held in self.items(text):
                if isinstance(held, bytes) and key[0] not in elsewhere:
                    yield parse_subscriber_key(held, key)[0]

    def _texts(self, topic: str) -> list[str]:
        """The filters that match a topic, and perhaps others that nobody has."""
        levels = topic.split("/")
        pickers = self._pickers_for(len(levels), topic.startswith("$"))
        levels += ("+", "#")
        return [topic, *["/".join(pick(levels)) for pick in pickers], *self._tree.filters_for(topic)]

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


def _packed(subscription: Subscription) -> tuple[bytes, bytes]:
    """The head and the subscriber key of a subscription."""
    each = subscription
    options = each.qos, each.no_local, each.retain_as_published, each.retain_handling
    head = pack_head(options, each.identifier, each.group is not None)
    return head, key_of(each)


def key_of(each: Subscription) -> bytes:
    """The subscriber key of a subscription."""
    return subscriber_key(each.session.key, each.group, each.session.durable)


def _divided(held: Held) -> tuple[Held, bytes]:
    """The value and the key that a single subscription gets in a dict."""
    if isinstance(held, bytes):
        return split(held)
    return held, key_of(held)


def unpacked(text: str, packed: bytes) -> Subscription:
    """The subscription of a session that only the disk has, made of its bytes."""
    return _made(text, *split(packed))


def _made(text: str, head: bytes, key: bytes) -> Subscription:
    """The subscription that these bytes are."""
    client, group = parse_subscriber_key(head, key)
    return Subscription(DormantSession(client), text, group, *unpack_head(head))


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
