"""Which filters have subscribers on which other nodes, for one mountpoint (docs/architecture.md, section 4).

A node with a million filters costs every other node a million routes. So a route is only an entry of a dict: all routes
of a node with the same flags share one value. Filters with wildcards are also in a tree.

Measured with tracemalloc for 1,000,000 routes of one node to filters of 25 characters (CPython 3.11, the text
included): 105 bytes per route where the filters have no wildcard, 190 where all have one; 80 and 123 where two nodes
have the same filters. A route to a group with a filter of its own takes 169 bytes. A match that finds one route takes
about 2 us, 5 us where all filters have wildcards, 0.5 us if there is no route and no wildcard.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .level_tree import LevelTree
from .remote import RemoteMembers, RemoteTarget


class RemoteMatch(NamedTuple):
    """The subscribers on other nodes for a topic: each node once in `plain`, each group once per node in `groups`.

    `away` are members on nodes whose incarnation is not in the view, so none of them is online. If no other member is
    left, a durable session among them can get the message, which then waits for its node (H-07).
    """

    plain: tuple[RemoteTarget, ...]
    groups: tuple[RemoteMembers, ...]
    away: tuple[RemoteMembers, ...] = ()


NOWHERE = RemoteMatch((), ())
"""No other node has a subscriber."""


class Peer(msgspec.Struct, eq=False):
    """Another node, as the place of its clean sessions, which all its routes for these share.

    While the node is `absent` from the view, none of these routes counts. Nor do routes of an incarnation that entered
    in view `dead` or earlier. So a change applies to all routes at once. `RemoteTable.sweep` later removes the routes
    that can never count again.
    """

    node: str
    absent: bool = True
    dead: int = -1


class Home(msgspec.Struct, eq=False):
    """The place of the durable sessions of a slot: the node that is its primary, or has been the last one.

    `node` is empty while that is not known. It is `absent` while the slot has no primary. Routes that an incarnation
    wrote which entered in view `dead` or earlier tell which sessions exist, but not which are online. `here`: the node
    is this one, so that its subscription table has the subscribers. `moved`: index of the slot table since which the
    slot is at that node.
    """

    slot: int
    node: str = ""
    absent: bool = True
    dead: int = -1
    here: bool = False
    moved: int = 0


Place = Peer | Home


class Route(msgspec.Struct, eq=False, frozen=True, gc=False):
    """The route to the subscribers of a filter at one place. Many filters may share one `Route` object.

    `since`: id of the view in which its writer entered. `writer`: the node that wrote a route to a slot, "" if it is
    this node.
    """

    place: Place
    since: int
    writer: str = ""


class SharedRoute(msgspec.Struct, eq=False, frozen=True, gc=False):
    """The route to the members of a group at one place, with their numbers.

    `holding` members are offline and keep messages; `lasting` is how many of the `online` ones would keep messages if
    they were offline. The route to a node counts the online members that never keep messages, the routes to slots all
    others. `since` and `writer` as in `Route`.
    """

    place: Place
    since: int
    group: str
    online: int
    holding: int
    lasting: int
    writer: str = ""


def is_dead(route: Route | SharedRoute) -> bool:
    """True if the route can never count again."""
    return isinstance(route.place, Peer) and route.since <= route.place.dead


def node_of(route: Route | SharedRoute) -> str:
    """The node to which messages go by this route; "" if it is not known."""
    return route.place.node or route.writer


_SharedKey = tuple[str, Place]


class RemoteTable:
    """The routes of the other nodes in one mountpoint. Filters are without `$share/GROUP/`."""

    def __init__(self) -> None:
        self._plain: dict[str, Route | tuple[Route, ...]] = {}  # in the order in which they came
        self._shared: dict[str, SharedRoute | dict[_SharedKey, SharedRoute]] = {}
        self._wild = LevelTree()

    def __len__(self) -> int:
        """Number of filters with subscribers on other nodes; one with ordinary and shared routes counts twice."""
        return len(self._plain) + len(self._shared)

    def texts(self) -> list[str]:
        """All filters; a filter with ordinary and shared routes is there twice."""
        return [*self._plain, *self._shared]

    # -- changes

    def set(self, text: str, route: Route) -> None:
        """Add the route to a filter. It replaces an earlier route to the same place."""
        held = self._plain.get(text)
        if held is None:
            self._enlist(text)
            self._plain[text] = route
        elif isinstance(held, tuple):
            self._plain[text] = (*[each for each in held if each.place is not route.place], route)
        else:
            self._plain[text] = route if held.place is route.place else (held, route)

    def set_shared(self, text: str, route: SharedRoute) -> None:
        """Add the route to a group. It replaces an earlier route to the same group and place."""
        held = self._shared.get(text)
        if held is None:
            self._enlist(text)
            self._shared[text] = route
        elif isinstance(held, dict):
            held[_key(route)] = route
        else:
            self._shared[text] = route if _key(held) == _key(route) else {_key(held): held, _key(route): route}

    def get(self, text: str, place: Place, group: str | None) -> Route | SharedRoute | None:
        """Return the route to a place for a filter, or for a group of that filter; None if there is none."""
        if group is None:
            return next((each for each in _routes(self._plain.get(text)) if each.place is place), None)
        held = self._shared.get(text)
        if isinstance(held, dict):
            return held.get((group, place))
        return held if held is not None and _key(held) == (group, place) else None

    def discard(self, text: str, place: Place, group: str | None) -> bool:
        """Remove a route; False if there was none."""
        route = self.get(text, place, group)
        if route is None:
            return False
        if group is None:
            self._keep(text, [each for each in _routes(self._plain[text]) if each is not route])
        else:
            self._keep_shared(text, [each for each in _shared_routes(self._shared[text]) if each is not route])
        return True

    def sweep(self, text: str) -> None:
        """Remove the dead routes to a filter."""
        routes = _routes(self._plain.get(text))
        if any(map(is_dead, routes)):
            self._keep(text, [each for each in routes if not is_dead(each)])
        shared = _shared_routes(self._shared.get(text))
        if any(map(is_dead, shared)):
            self._keep_shared(text, [each for each in shared if not is_dead(each)])

    def _keep(self, text: str, routes: list[Route]) -> None:
        if routes:
            self._plain[text] = routes[0] if len(routes) == 1 else tuple(routes)
        else:
            del self._plain[text]
            self._delist(text)

    def _keep_shared(self, text: str, routes: list[SharedRoute]) -> None:
        if routes:
            self._shared[text] = routes[0] if len(routes) == 1 else {_key(each): each for each in routes}
        else:
            del self._shared[text]
            self._delist(text)

    def _enlist(self, text: str) -> None:
        if ("+" in text or "#" in text) and text not in self._plain and text not in self._shared:
            self._wild.add(text)

    def _delist(self, text: str) -> None:
        if ("+" in text or "#" in text) and text not in self._plain and text not in self._shared:
            self._wild.remove(text)

    # -- matching

    def match(self, topic: str) -> RemoteMatch:
        """Return the nodes with subscribers for a topic, and the members of groups there, both sorted."""
        texts = [topic] if topic in self._plain or topic in self._shared else []
        if len(self._wild):
            texts += self._wild.filters_for(topic)
        if not texts:
            return NOWHERE
        targets: dict[str, _Target] = {}
        groups: dict[tuple[str, str, str], RemoteMembers] = {}
        away: dict[tuple[str, str, str], RemoteMembers] = {}
        for text in texts:
            for route in _routes(self._plain.get(text)):
                _join(targets, route)
            for shared in _shared_routes(self._shared.get(text)):
                _muster(away if shared.place.absent else groups, text, shared)
        plain = tuple([targets[node].joined(node) for node in sorted(targets)])
        if groups or away:
            return RemoteMatch(plain, tuple(sorted(groups.values())), tuple(sorted(away.values())))
        return RemoteMatch(plain, ())


def _key(route: SharedRoute) -> _SharedKey:
    return route.group, route.place


def _routes(held: Route | tuple[Route, ...] | None) -> tuple[Route, ...]:
    return held if isinstance(held, tuple) else () if held is None else (held,)


def _shared_routes(held: SharedRoute | dict[_SharedKey, SharedRoute] | None) -> list[SharedRoute]:
    return list(held.values()) if isinstance(held, dict) else [] if held is None else [held]


class _Target(msgspec.Struct):
    """The routes of one node that match."""

    live: bool = False
    absent: bool = True
    slots: list[int] = []

    def joined(self, node: str) -> RemoteTarget:
        return RemoteTarget(node, self.live, tuple(sorted(set(self.slots))), self.absent)


def _join(targets: dict[str, _Target], route: Route) -> None:
    """Add a route to the one target of its node."""
    place = route.place
    if isinstance(place, Home):
        if place.here:
            return
    elif place.absent or is_dead(route):
        return
    node = node_of(route)
    if not node:
        return
    target = targets.get(node)
    if target is None:
        target = targets[node] = _Target()
    target.absent = target.absent and place.absent
    if isinstance(place, Home):
        target.slots.append(place.slot)
    else:
        target.live = True


def _muster(found: dict[tuple[str, str, str], RemoteMembers], text: str, route: SharedRoute) -> None:
    """Add the members of a shared route, if any still count, to the one item of their group and node."""
    place, online, holding, lasting = route.place, route.online, route.holding, route.holding + route.lasting
    if place.absent or route.since <= place.dead:
        online, holding = 0, lasting
    node = node_of(route)
    if not (online or holding) or not node or (isinstance(place, Home) and place.here):
        return
    key = route.group, text, node
    slots = (place.slot,) if isinstance(place, Home) else ()
    members = RemoteMembers(*key, online, holding, lasting, slots)
    other = found.get(key)
    found[key] = members if other is None else other.joined(members)
