"""Routes between nodes: node N has a subscriber for this filter (docs/cluster.md#the-replicated-map).

A route is a key of the replicated map, written by its own node alone, so it needs no merging:

    f mountpoint node filter     for the clean sessions; mountpoint and node each with two bytes of length in front
    l mountpoint node filter     for the durable sessions, in another namespace: also on disk

A filter with both kinds of subscribers has both keys. If a node restarts while another node is away, it knows from its
disk which durable sessions of that node must get messages. Clean sessions need no disk, and do not slow down a restart.

The filter stands as the subscribers wrote it, with `$share/GROUP/` in front of a shared one. The value is a msgpack
array: `(since, live, durable)` of an ordinary filter, `(since, online, holding, lasting)` of a shared one; see
`remote_table`. `since` is the id of the view in which the writer entered. When its incarnation leaves the view its
clean sessions have ended (H-18), so its routes for them are void at once, without a message from any node.

A change takes 5 us, for a filter with wildcards 9 us (CPython 3.11, tables of 1,000,000 routes, the key included). To
forget a node with so many routes takes 25 us at once. The cleanup takes one or two seconds in later turns, at most 4 ms
in each turn but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Annotated

import msgspec

from ...mqtt.topics import parse_shared
from ..routing.remote_table import NOWHERE, Peer, RemoteMatch, RemoteTable, Route, SharedRoute

LIVE = b"f"
LASTING = b"l"
NAMESPACES = (LIVE, LASTING)
"""The letters of routes in the replicated map."""

STEP = 1000
"""Filters that one call looks at when a node is forgotten."""

_Count = Annotated[int, msgspec.Meta(ge=0)]

encode_value = msgspec.msgpack.Encoder().encode
_plain_value = msgspec.msgpack.Decoder(tuple[_Count, bool, bool])
_shared_value = msgspec.msgpack.Decoder(tuple[_Count, _Count, _Count, _Count])


class MalformedRoute(ValueError):
    """A key or value of the replicated map is not a valid route. The text names the key and the error."""


def route_prefix(mountpoint: str, node: str, space: bytes = LIVE) -> bytes:
    """Return the prefix of the keys of all routes of a node in a mountpoint; the filter follows it."""
    return space + _sized(mountpoint) + _sized(node)


def _sized(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def parse_route_key(key: bytes) -> tuple[str, str, str]:
    """`(mountpoint, node, filter)` of a key. Raises `MalformedRoute`."""
    middle = 3 + int.from_bytes(key[1:3], "big")
    end = middle + 2 + int.from_bytes(key[middle : middle + 2], "big")
    if key[:1] not in NAMESPACES or len(key) <= end:
        raise MalformedRoute(f"route key {key!r}: not {LIVE!r} or {LASTING!r}, mountpoint, node and a filter")
    try:
        return key[3:middle].decode(), key[middle + 2 : end].decode(), key[end:].decode()
    except UnicodeDecodeError as error:
        raise MalformedRoute(f"route key {key!r}: {error}") from None


class Routes:
    """The routes of other nodes; `node` is this node, whose own routes are ignored here.

    `changed` is a port: each of its functions is called with mountpoint and filter when the result of `match` may have
    changed for the topics of that filter. So plans are dropped before the change is acknowledged (H-04). The filter is
    `#` if any topic may be affected. `soon` runs a function in another turn.

    A view changes the routes by three calls: `entered`; `drop_live` when an incarnation left; `drop` when an
    incarnation serves or its node is no member any more. Their time does not depend on the number of routes.
    """

    def __init__(self, node: str, soon: Callable[[Callable[[], None]], object]) -> None:
        self.changed: list[Callable[[str, str], None]] = []
        self._node = node
        self._soon = soon
        self._tables: dict[str, RemoteTable] = {}
        self._peers: dict[str, Peer] = {}
        self._plain: dict[tuple[str, bytes], Route] = {}  # by node and value: the one object for all such routes
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

    def change(self, key: bytes, value: bytes | None) -> None:
        """Set a route to this value, or remove it (None). Call this before the write is acknowledged.

        Raises `MalformedRoute`; then nothing has changed.
        """
        mountpoint, node, text = parse_route_key(key)
        if node == self._node:
            return
        group, text = _split(key, text)
        table = self._tables.get(mountpoint)
        if value is None:
            if table is None or not self._withdraw(table, text, node, group, key[:1] == LASTING):
                return
        else:
            route = self._decode(key, value, node, group)
            if route.since <= route.peer.gone:
                return  # written by an incarnation whose routes are forgotten
            if table is None:
                table = self._tables[mountpoint] = RemoteTable()
            if isinstance(route, Route):
                table.set(text, route)
            else:
                table.set_shared(text, route)
        for changed in self.changed:
            changed(mountpoint, text)

    def restore(self, rows: Iterable[tuple[bytes, bytes]]) -> list[str]:
        """Load keys and values from the disk. Leaves out malformed routes, and returns a line for each of them."""
        problems = []
        for key, value in rows:
            try:
                self.change(key, value)
            except MalformedRoute as error:
                problems.append(str(error))
        return problems

    def _withdraw(self, table: RemoteTable, text: str, node: str, group: str | None, durable: bool) -> bool:
        route = table.get(text, node, group, durable)
        if route is None or (route.since <= route.peer.dead and not route.dead):
            # The map forgets the writes of an incarnation that left the view; its durable sessions are still there
            # and will be announced again, or `drop` is called.
            return False
        return table.discard(text, node, group, durable)

    def _decode(self, key: bytes, value: bytes, node: str, group: str | None) -> Route | SharedRoute:
        known = self._plain.get((node, value)) if group is None else None
        if known is not None and known.durable is (key[:1] == LASTING):
            return known
        durable = key[:1] == LASTING
        try:
            if group is not None:
                since, online, holding, lasting = _shared_value.decode(value)
                fits = holding + lasting > 0 if durable else online > 0 and not holding + lasting
            else:
                since, *flags = _plain_value.decode(value)
                fits = flags == [not durable, durable]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRoute(f"value {value!r} of route {key!r}: {error}") from None
        if not fits:
            raise MalformedRoute(f"value {value!r} of route {key!r}: not of the space {key[:1]!r}")
        if group is not None:
            return SharedRoute(self._peer(node), since, group, online, holding, lasting)
        route = self._plain[node, value] = Route(self._peer(node), since, durable)
        return route

    def _peer(self, node: str) -> Peer:
        return self._peers.get(node) or self._peers.setdefault(node, Peer(node))

    def lasting(self, key: bytes, node: str) -> bool:
        """True if the key of the map is a route of `node` for durable sessions, and the route is known here."""
        mountpoint, writer, text = parse_route_key(key)
        group, text = _split(key, text)
        table = self._tables.get(mountpoint)
        return writer == node and table is not None and table.get(text, node, group, True) is not None

    # -- views

    def entered(self, node: str, since: int) -> None:
        """The incarnation that entered in view `since` is in the applied view.

        Routes of an earlier incarnation for durable sessions count until `drop`. A repeated call changes nothing.
        """
        peer = self._peer(node)
        if since > peer.dead and (peer.absent or since - 1 > peer.dead):
            peer.absent = False
            peer.dead = since - 1
            self._anything_changed()

    def drop_live(self, node: str, since: int) -> None:
        """The incarnation that entered in view `since` has left: its clean sessions have ended.

        Its durable sessions exist again when the node comes back: their routes stay, and their targets are `absent`.
        """
        peer = self._peer(node)
        if since > peer.dead:
            peer.absent = True
            peer.dead = since
            self._anything_changed()

    def drop(self, node: str, through: int) -> None:
        """Forget the routes of a node's incarnations that entered in a view up to `through`.

        For an incarnation that serves, `through` is `since - 1`, because it has announced all its routes. For a node
        that is no member any more, it is the id of the view in which the node is no member.
        """
        peer = self._peer(node)
        if through > peer.gone:
            peer.gone = through
            self._anything_changed()

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
            self._plain = {each: route for each, route in self._plain.items() if not route.dead}
            if not self._sweep_again:
                self._sweeping = None
                return
            self._sweep_again = False
            self._sweeping = self._everything()
        self._soon(self._sweep)


def _split(key: bytes, text: str) -> tuple[str | None, str]:
    try:
        return parse_shared(text)
    except ValueError as error:
        raise MalformedRoute(f"route key {key!r}: {error}") from None
