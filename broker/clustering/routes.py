"""Routes: which other nodes have subscribers for a filter (docs/cluster.md#the-replicated-map).

    f mountpoint node filter     its clean sessions are at this node; mountpoint and node after two bytes of length
    h slot mountpoint filter     its durable sessions are in this slot, in another namespace: also on disk

A route to a node is written by this node, a route to a slot by the primary of the slot. The table of slots says at
which node a slot is. So when a slot moves, every route to it is right at once, without any message (H-41).

A filter with both kinds of subscribers has both kinds of keys. If a node restarts while another node is away, it knows
from its disk which durable sessions must get messages. Clean sessions need no disk, and do not slow down a restart.

The filter stands as the subscribers wrote it, with `$share/GROUP/` in front of a shared one. The value is a msgpack
array: of a route to a node `(since,)`, or `(since, online)` with the members of a shared filter; of a route to a slot
`(since, writer)`, or `(since, writer, online, holding, lasting)`; see `remote_table`. `since` is the id of the view in
which the writer entered. When its incarnation leaves the view its clean sessions have ended (H-18), so the routes to
them are void at once, without a message from any node.

A change takes 5 us, for a filter with wildcards 9 us (CPython 3.11, tables of 1,000,000 routes, the key included). To
forget a node with so many routes takes 25 us at once. The cleanup takes one or two seconds in later turns, at most 4 ms
in each turn but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec

from ...cluster.identity import SLOTS
from ...cluster.slots.table import SlotHome
from ...mqtt.topics import parse_shared
from ..routing.remote_table import (
    NOWHERE,
    Home,
    Peer,
    Place,
    RemoteMatch,
    RemoteTable,
    Route,
    SharedRoute,
    is_dead,
)

LIVE = b"f"
LASTING = b"h"
NAMESPACES = (LIVE, LASTING)
"""The letters of routes in the replicated map."""
FORMER = b"l"
"""The letter of routes from durable sessions to nodes, which former versions wrote."""

STEP = 1000
"""Filters that one call looks at when a node is forgotten."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Some = Annotated[int, msgspec.Meta(ge=1)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]

encode_value = msgspec.msgpack.Encoder().encode
_decoders: dict[tuple[bytes, bool], msgspec.msgpack.Decoder[Any]] = {
    (LIVE, False): msgspec.msgpack.Decoder(tuple[_Count]),
    (LIVE, True): msgspec.msgpack.Decoder(tuple[_Count, _Some]),
    (LASTING, False): msgspec.msgpack.Decoder(tuple[_Count, _Name]),
    (LASTING, True): msgspec.msgpack.Decoder(tuple[_Count, _Name, _Count, _Count, _Count]),
}
"""By namespace, and whether the filter is shared."""


class MalformedRoute(ValueError):
    """A key or value of the replicated map is not a valid route. The text names the key and the error."""


class Placed(NamedTuple):
    """The changes of a slot table. `arrived`: the slots of which this node has become primary. `moved`: slot -> its
    former and its present node, which are the same if it has been elsewhere in between."""

    arrived: set[int]
    moved: dict[int, tuple[str, str]]


class RouteKey(NamedTuple):
    """The parts of a key. `place` is the name of a node, or the number of a slot; `group` is None without `$share`."""

    mountpoint: str
    place: str | int
    group: str | None
    filter: str


def prefix_to_node(mountpoint: str, node: str) -> bytes:
    """Return the prefix of the keys of all routes to a node in a mountpoint; the filter follows it."""
    return LIVE + _sized(mountpoint) + _sized(node)


def prefix_to_slot(mountpoint: str, slot: int) -> bytes:
    """Return the prefix of the keys of all routes to a slot in a mountpoint; the filter follows it."""
    return LASTING + bytes((slot,)) + _sized(mountpoint)


def writer_of(value: bytes) -> str:
    """Return the node that wrote the value of a route to a slot; "" if the value is malformed."""
    try:
        found: list[Any] = msgspec.msgpack.decode(value)
        return str(found[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, IndexError):
        return ""


def _sized(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def parse_route_key(key: bytes) -> RouteKey:
    """Return the parts of a key. Raises `MalformedRoute`."""
    lasting = key[:1] == LASTING
    at = 2 if lasting else 1
    middle = at + 2 + int.from_bytes(key[at : at + 2], "big")
    end = middle if lasting else middle + 2 + int.from_bytes(key[middle : middle + 2], "big")
    if key[:1] not in NAMESPACES or len(key) <= end:
        raise MalformedRoute(
            f"route key {key!r}: not {LIVE!r}, mountpoint, node, or {LASTING!r}, slot, mountpoint; filter"
        )
    try:
        mountpoint, text = key[at + 2 : middle].decode(), key[end:].decode()
        place: str | int = key[1] if lasting else key[middle + 2 : end].decode()
        return RouteKey(mountpoint, place, *parse_shared(text))
    except ValueError as error:  # a UnicodeDecodeError too
        raise MalformedRoute(f"route key {key!r}: {error}") from None


class Routes:
    """The routes to the subscribers at other nodes; `node` is this node. Its own routes arrive only from other nodes: a
    process with another disk wrote them, or the last one before it lost its last writes. This process may lack their
    subscriptions, so they count until the present primary of the slot has written them again (H-41).

    `changed` is a port: each of its functions is called with mountpoint and filter when the result of `match` may have
    changed for the topics of that filter. So plans are dropped before the change is acknowledged (H-04). The filter is
    `#` if any topic may be affected. `soon` runs a function in another turn.

    A view changes the routes by `entered`, `drop_live` when an incarnation left, and `drop` when an incarnation serves
    or its node is no member any more; a change of the slot table by `place`. Their time does not depend on the number
    of routes.
    """

    def __init__(self, node: str, soon: Callable[[Callable[[], None]], object]) -> None:
        self.changed: list[Callable[[str, str], None]] = []
        self._node = node
        self._soon = soon
        self._tables: dict[str, RemoteTable] = {}
        self._peers: dict[str, Peer] = {}
        self._homes = [Home(slot) for slot in range(SLOTS)]
        self._placed: tuple[SlotHome | None, ...] = (None,) * SLOTS
        """What `_homes` follow."""
        self._plain: dict[tuple[str | int, bytes], Route] = {}  # by place and value: one object for all such routes
        self._sweeping: Iterator[tuple[RemoteTable, str]] | None = None
        self._sweep_again = False

    def __len__(self) -> int:
        """Filters with subscribers elsewhere."""
        return sum([len(table) for table in self._tables.values()])

    def match(self, mountpoint: str, topic: str) -> RemoteMatch:
        """Return the subscribers that other nodes have for a valid topic name."""
        table = self._tables.get(mountpoint)
        return NOWHERE if table is None else table.match(topic)

    # -- what arrives

    def change(self, key: bytes, value: bytes | None) -> bool:
        """Set a route to this value, or remove it (None). Call this before the write is acknowledged.

        Returns True if this is a route to a slot of this node that another node wrote, or an earlier process of this
        node: this process may lack such a subscriber. Raises `MalformedRoute`; then nothing has changed.
        """
        mountpoint, place, group, text = parse_route_key(key)
        if place == self._node:
            return False
        route = None if value is None else self._decode(key, value, place, group)
        if route is not None and is_dead(route):
            return False
        if self._set(mountpoint, text, self._place(place), group, route):
            for changed in self.changed:
                changed(mountpoint, text)
        if route is None or isinstance(place, str) or not self._homes[place].here:
            return False
        return bool(route.writer) or route.since <= self._homes[place].dead

    def _set(
        self, mountpoint: str, text: str, place: Place, group: str | None, route: Route | SharedRoute | None
    ) -> bool:
        """Set the route to a place; None removes it. Returns False if nothing has changed."""
        table = self._tables.get(mountpoint)
        if route is None:
            return table is not None and table.discard(text, place, group)
        if table is None:
            table = self._tables[mountpoint] = RemoteTable()
        if isinstance(route, Route):
            table.set(text, route)
        else:
            table.set_shared(text, route)
        return True

    def restore(self, rows: Iterable[tuple[bytes, bytes]]) -> list[str]:
        """Load keys and values from the disk, but for the routes of this node: the same disk has their subscriptions.
        Leaves out malformed routes, and returns a line for each of them."""
        problems = []
        for key, value in rows:
            try:
                if writer_of(value) != self._node:
                    self.change(key, value)
            except MalformedRoute as error:
                problems.append(str(error))
        return problems

    def _decode(self, key: bytes, value: bytes, place: str | int, group: str | None) -> Route | SharedRoute:
        known = self._plain.get((place, value)) if group is None else None
        if known is not None:
            return known
        lasting = key[:1] == LASTING
        writer = ""
        try:
            since, *rest = _decoders[key[:1], group is not None].decode(value)
            if lasting:
                writer, *rest = rest
                writer = "" if writer == self._node else writer
            if group is not None:
                online, holding, keeping = (*rest, 0, 0)[:3]
                if lasting and not holding + keeping:
                    raise ValueError("no member keeps messages")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise MalformedRoute(f"value {value!r} of route {key!r}: {error}") from None
        if group is not None:
            return SharedRoute(self._place(place), since, group, online, holding, keeping, writer)
        route = self._plain[place, value] = Route(self._place(place), since, writer)
        return route

    def _place(self, place: str | int) -> Place:
        return self._homes[place] if isinstance(place, int) else self._peer(place)

    def _peer(self, node: str) -> Peer:
        return self._peers.get(node) or self._peers.setdefault(node, Peer(node))

    # -- views

    def entered(self, node: str, since: int) -> None:
        """The incarnation that entered in view `since` is in the applied view. A repeated call changes nothing."""
        peer = self._peer(node)
        if since > peer.dead and (peer.absent or since - 1 > peer.dead):
            peer.absent = False
            peer.dead = since - 1
            self._anything_changed()

    def drop_live(self, node: str, since: int) -> None:
        """The incarnation that entered in view `since` has left: its clean sessions have ended."""
        peer = self._peer(node)
        if since > peer.dead:
            peer.absent = True
            peer.dead = since
            self._anything_changed()

    def drop(self, node: str, through: int) -> None:
        """Forget the clean sessions of a node's incarnations that entered in a view up to `through`.

        For a node that is no member any more, it is the id of the view in which the node is no member.
        """
        peer = self._peer(node)
        if through > peer.dead:
            peer.dead = through
            self._anything_changed()

    def place(self, homes: Sequence[SlotHome]) -> Placed:
        """The table of slots has these homes now, one for each slot. A repeated call changes nothing."""
        changed = False
        placed = Placed(set(), {})
        news = [home for home, now, former in zip(self._homes, homes, self._placed, strict=True) if now is not former]
        self._placed = tuple(homes)
        for home in news:
            node, present, since, moved = homes[home.slot]
            if (home.node, home.absent, home.dead, home.moved) != (node, not present, since - 1, moved):
                owned = self.owns(home.slot)
                if home.node and node and (home.node, home.moved) != (node, moved):
                    placed.moved[home.slot] = (home.node, node)
                home.moved = moved
                home.node, home.absent, home.dead, home.here = node, not present, since - 1, node == self._node
                changed = True
                if self.owns(home.slot) and not owned:
                    placed.arrived.add(home.slot)
        if changed:
            self._anything_changed()
        return placed

    def here_since(self, slot: int) -> int | None:
        """Return the index of the slot table since which this node has the sessions of a slot; None if it has not.

        The slot may have no primary now.
        """
        home = self._homes[slot]
        return home.moved if home.here else None

    def owns(self, slot: int) -> bool:
        """True if this node is the primary of a slot."""
        home = self._homes[slot]
        return home.here and not home.absent

    def _anything_changed(self) -> None:
        for mountpoint in self._tables:
            for changed in self.changed:
                changed(mountpoint, "#")
        if self._sweeping is not None:
            self._sweep_again = True
            return
        self._sweeping = self._everything()
        self._soon(self._sweep)

    def _everything(self) -> Iterator[tuple[RemoteTable, str]]:
        for table in list(self._tables.values()):
            for text in table.texts():
                yield table, text

    def _sweep(self) -> None:
        """Remove routes that do not count any more, a step at a time: until then they only use memory."""
        assert self._sweeping is not None
        seen = 0
        for table, text in islice(self._sweeping, STEP):
            table.sweep(text)
            seen += 1
        if seen < STEP:
            self._plain = {each: route for each, route in self._plain.items() if route.since > route.place.dead}
            if not self._sweep_again:
                self._sweeping = None
                return
            self._sweep_again = False
            self._sweeping = self._everything()
        self._soon(self._sweep)
