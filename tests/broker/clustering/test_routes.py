"""Routes of other nodes: their keys, their values, and the effect of a view on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.clustering.routes import (
    LASTING,
    LIVE,
    STEP,
    MalformedRoute,
    RouteKey,
    Routes,
    encode_value,
    parse_route_key,
    prefix_to_node,
    prefix_to_slot,
)
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE, RemoteMatch
from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.table import SlotHome

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
Place = str | int


def prefix(place: Place, mountpoint: str = "") -> bytes:
    """Returns the prefix of the keys of all routes to a node or slot."""
    return prefix_to_slot(mountpoint, place) if isinstance(place, int) else prefix_to_node(mountpoint, place)


class Stand:
    """Routes at n1, the changes that they report, and the functions that they schedule.

    Slots 20 to 29 are at n2, slots 30 to 39 at n3, all others at n1.
    """

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.told: list[tuple[str, str]] = []
        self.routes = Routes("n1", self.later.append)
        self.homes = [SlotHome({2: "n2", 3: "n3"}.get(slot // 10, "n1"), True, 1) for slot in range(SLOTS)]
        self.routes.place(self.homes)
        self.routes.entered("n2", 1)
        self.routes.entered("n3", 1)
        self.routes.changed.append(lambda mountpoint, text: self.told.append((mountpoint, text)))

    def say(self, place: Place, text: str, *value: int | str, mountpoint: str = "") -> list[tuple[str, str]]:
        """Write a route to a node or slot; returns the reported changes."""
        return self._write(place, text, value, mountpoint)

    def take_back(self, place: Place, text: str) -> list[tuple[str, str]]:
        """Delete a route; returns the reported changes."""
        return self._write(place, text, (), "")

    def _write(self, place: Place, text: str, value: tuple[int | str, ...], mountpoint: str) -> list[tuple[str, str]]:
        self.routes.change(prefix(place, mountpoint) + text.encode(), encode_value(value) if value else None)
        return self.heard()

    def heard(self) -> list[tuple[str, str]]:
        told, self.told[:] = list(self.told), []
        return told

    def move(self, slot: int, node: str, present: bool = True, since: int = 1) -> list[tuple[str, str]]:
        """Apply a table with this home of a slot; returns the reported changes."""
        self.homes[slot] = SlotHome(node, present, since)
        self.routes.place(self.homes)
        return self.heard()

    def plain(self, topic: str, mountpoint: str = "") -> tuple[RemoteTarget, ...]:
        return self.routes.match(mountpoint, topic).plain

    def run(self) -> int:
        """Run all scheduled turns; returns their number."""
        turns = 0
        while self.later:
            self.later.pop(0)()
            turns += 1
        return turns


@given(TEXTS, TEXTS | st.integers(0, SLOTS - 1), TEXTS.filter(bool), st.none() | TEXTS.filter(lambda name: bool(name)))
def test_a_key_has_mountpoint_place_and_filter(mountpoint: str, place: Place, text: str, group: str | None) -> None:
    group = group and group.translate(str.maketrans("+#/", "..."))
    if text.startswith("$share/"):
        return
    raw = text if group is None else f"$share/{group}/{text}"
    assert parse_route_key(prefix(place, mountpoint) + raw.encode()) == RouteKey(mountpoint, place, group, text)


@pytest.mark.parametrize(
    "key",
    [
        *(b"", b"f", b"f\0", b"f\0\0", b"f\0\0\0\2n2", b"f\0\0\0\2n", b"t\0\0\0\2n2a", b"f\xff\xffa"),
        *(b"f\0\0\0\2n2\xff", b"h", b"h\7", b"h\7\0", b"h\7\0\0", b"h\7\0\1\xffa", b"h\7\0\0\xff", b"l\0\0\0\2n2a"),
    ],
)
def test_malformed_keys(key: bytes) -> None:
    with pytest.raises(MalformedRoute, match="route key"):
        Stand().routes.change(key, encode_value((1,)))


@given(st.binary(max_size=30))
def test_random_bytes_raise_one_kind_of_error(noise: bytes) -> None:
    stand = Stand()
    for key in (noise, prefix("n2") + b"a" + noise, prefix(20) + b"a" + noise):
        try:
            stand.routes.change(key, noise)
        except MalformedRoute:
            assert stand.told == []


@pytest.mark.parametrize(
    "value", [(), (1, True), (1, 1, 0), (-1,), (1, "n2", 0), (1, "n2", -1, 0, 0), (1, ""), ("n2", 1)]
)
def test_malformed_values(value: tuple[int | str, ...]) -> None:
    stand = Stand()
    for place in ("n2", 20):
        for text in (b"a", b"$share/g/a"):
            with pytest.raises(MalformedRoute, match="of route b"):
                stand.routes.change(prefix(place) + text, encode_value(value))
        with pytest.raises(MalformedRoute, match="without a group"):
            stand.routes.change(prefix(place) + b"$share//a", encode_value((1, 1)))
    assert len(stand.routes) == 0 and stand.told == []


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [
        ("n2", "a", (1, "n2")),
        (20, "a", (1,)),
        ("n2", "$share/g/a", (1, 0)),
        ("n2", "$share/g/a", (1, "n2", 1, 0, 1)),
        (20, "$share/g/a", (1, 1)),
        (20, "$share/g/a", (1, "n2", 1, 0, 0)),
    ],
)
def test_a_value_of_the_other_kind_of_place_is_malformed(place: Place, text: str, value: tuple[int | str, ...]) -> None:
    """Members that keep nothing are counted in the route to the node, all others in those to slots."""
    stand = Stand()
    stand.say("n2", "b", 1)
    stand.say(20, "b", 1, "n2")
    with pytest.raises(MalformedRoute, match="of route b"):
        stand.routes.change(prefix(place) + text.encode(), encode_value(value))
    assert len(stand.routes) == 1


def test_routes_come_change_and_go() -> None:
    stand = Stand()
    assert stand.say("n2", "a/+", 1) == [("", "a/+")]
    assert stand.say(20, "a/+", 1, "n2") == [("", "a/+")]
    assert stand.say(21, "a/+", 1, "n2") == [("", "a/+")]
    assert stand.plain("a/b") == (RemoteTarget("n2", True, (20, 21)),)
    assert stand.take_back("n2", "a/+") == stand.take_back(20, "a/+") == [("", "a/+")]
    assert stand.plain("a/b") == (RemoteTarget("n2", False, (21,)),)
    assert stand.take_back(21, "a/+") == [("", "a/+")]
    assert stand.take_back(21, "a/+") == []
    assert stand.routes.match("", "a/b") is NOWHERE
    assert len(stand.routes) == 0


def test_own_routes_to_clean_sessions_are_ignored() -> None:
    stand = Stand()
    assert stand.say("n1", "a", 1) == []
    assert stand.routes.match("", "a") is NOWHERE


def test_an_own_route_from_another_node_counts_if_the_slot_is_elsewhere() -> None:
    """This node wrote the route with an earlier disk, and its present disk lacks the subscription. As long as no node
    is known to have the slot, no message goes by the route.
    """
    stand = Stand()
    for slot in (5, 20):
        assert stand.say(slot, "a", 1, "n1") == [("", "a")]
        stand.say(slot, "$share/g/a", 1, "n1", 0, 1, 0)
    members = RemoteMembers("g", "a", "n2", 0, 1, 1, (20,))
    assert stand.routes.match("", "a") == RemoteMatch((RemoteTarget("n2", False, (20,)),), (members,))
    stand.move(20, "")
    assert stand.routes.match("", "a") == NOWHERE


def test_a_route_to_an_own_slot_by_another_node_is_reported() -> None:
    """An earlier primary wrote it: the caller looks whether this node has the subscriber. Meanwhile nobody gets
    anything by it, but if the slot moves on, it counts.
    """
    stand = Stand()
    key = prefix(5) + b"a"
    assert stand.routes.change(key, encode_value((1, "n2")))
    assert stand.plain("a") == ()
    assert not stand.routes.change(prefix(20) + b"a", encode_value((1, "n3")))
    assert not stand.routes.change(key, encode_value((1, "n1")))
    assert stand.routes.change(key, encode_value((0, "n1"))), "an earlier process of this node wrote it"
    assert not stand.routes.change(key, None)
    stand.routes.change(key, encode_value((1, "n2")))
    stand.move(5, "n3")
    assert stand.plain("a") == (RemoteTarget("n2", False, (20,)), RemoteTarget("n3", False, (5,)))


def test_an_own_write_replaces_the_route_of_an_earlier_primary() -> None:
    stand = Stand()
    stand.say(5, "a", 1, "n2")
    assert stand.take_back(5, "a") == [("", "a")]
    assert len(stand.routes) == 0


def test_mountpoints_are_separate() -> None:
    stand = Stand()
    assert stand.say("n2", "a", 1, mountpoint="m") == [("m", "a")]
    assert stand.say(20, "a", 1, "n2", mountpoint="m") == [("m", "a")]
    assert stand.plain("a") == ()
    assert stand.plain("a", "m") == (RemoteTarget("n2", True, (20,)),)


def test_shared_routes() -> None:
    """Their key is share name and filter; a change reports the filter only.

    The members of a node are one entry, whatever their sessions and slots.
    """
    stand = Stand()
    assert stand.say(20, "$share/g/a/+", 1, "n2", 1, 1, 1) == [("", "a/+")]
    assert stand.say(21, "$share/g/a/+", 1, "n2", 0, 2, 0) == [("", "a/+")]
    assert stand.say("n2", "$share/g/a/+", 1, 1) == [("", "a/+")]
    stand.say(30, "$share/g/a/+", 1, "n3", 0, 4, 0)
    members = (RemoteMembers("g", "a/+", "n2", 2, 3, 4, (20, 21)), RemoteMembers("g", "a/+", "n3", 0, 4, 4, (30,)))
    assert stand.routes.match("", "a/b") == RemoteMatch((), members)
    assert stand.take_back("n2", "$share/g/a/+") == [("", "a/+")]
    assert stand.routes.match("", "a/b").groups == (RemoteMembers("g", "a/+", "n2", 1, 3, 4, (20, 21)), members[1])
    assert stand.take_back(20, "$share/g/a/+") == stand.take_back(21, "$share/g/a/+") == [("", "a/+")]
    assert stand.routes.match("", "a/b").groups == members[1:]


def test_a_slot_takes_its_routes_along() -> None:
    """The table alone says where messages go; every plan is made again."""
    stand = Stand()
    stand.say(20, "a", 1, "n2")
    stand.say(20, "$share/g/a", 1, "n2", 1, 0, 1)
    assert stand.move(20, "n3") == [("", "#")]
    assert stand.routes.match("", "a") == RemoteMatch(
        (RemoteTarget("n3", False, (20,)),), (RemoteMembers("g", "a", "n3", 1, 0, 1, (20,)),)
    )
    assert stand.move(20, "n3") == []
    stand.move(20, "n1")
    assert stand.routes.match("", "a") == NOWHERE


def test_a_slot_without_primary() -> None:
    """Its messages are kept for the node that had it. None of its members is online, until the next primary says so."""
    stand = Stand()
    stand.say("n2", "a", 1)
    stand.say(20, "a", 1, "n2")
    stand.say(20, "$share/g/a", 1, "n2", 1, 1, 1)
    stand.routes.drop_live("n2", 1)
    stand.move(20, "n2", present=False)
    assert stand.plain("a") == (RemoteTarget("n2", False, (20,), True),)
    assert stand.routes.match("", "a").away == (RemoteMembers("g", "a", "n2", 0, 2, 2, (20,)),)
    stand.routes.entered("n2", 5)
    stand.move(20, "n2", since=5)
    assert stand.plain("a") == (RemoteTarget("n2", False, (20,)),)
    assert stand.routes.match("", "a").groups == (RemoteMembers("g", "a", "n2", 0, 2, 2, (20,)),)
    stand.say(20, "$share/g/a", 5, "n2", 1, 1, 1)
    assert stand.routes.match("", "a").groups == (RemoteMembers("g", "a", "n2", 1, 1, 2, (20,)),)


def test_routes_to_clean_sessions_of_a_departed_incarnation_are_dropped() -> None:
    """H-18. Routes to slots stay."""
    stand = Stand()
    stand.routes.entered("n2", 3)
    stand.say("n2", "live", 3)
    stand.say("n2", "both", 3)
    stand.say(20, "both", 3, "n2")
    stand.say("n2", "$share/g/s", 3, 1)
    stand.routes.drop_live("n2", 3)
    assert stand.heard() == [("", "#")]
    for _ in range(2):
        assert stand.plain("live") == ()
        assert stand.plain("both") == (RemoteTarget("n2", False, (20,)),)
        assert stand.routes.match("", "s") == NOWHERE
        stand.run()
    assert len(stand.routes) == 1
    stand.routes.entered("n2", 3)
    assert stand.heard() == []  # the incarnation that left
    stand.routes.entered("n2", 5)
    assert stand.heard() == [("", "#")]
    stand.routes.entered("n2", 5)
    assert stand.heard() == []
    stand.say("n2", "live", 5)
    assert stand.plain("live") == (RemoteTarget("n2", True),)
    stand.routes.drop("n2", 4)
    assert (stand.plain("live"), stand.plain("both")) == (
        (RemoteTarget("n2", True),),
        (RemoteTarget("n2", False, (20,)),),
    )
    stand.run()
    assert len(stand.routes) == 2


def test_restored_routes_wait_for_the_table() -> None:
    """The node that wrote them keeps the messages meanwhile. An unreadable route does not stop the start: an error
    names it (P9).
    """
    stand = Stand()
    stand.routes = Routes("n1", stand.later.append)
    good, own = prefix(20) + b"a", prefix(21) + b"a"
    bad = prefix(20) + b"b"
    problems = stand.routes.restore([(bad, b"\xc1"), (good, encode_value((3, "n2"))), (own, encode_value((3, "n1")))])
    assert [repr(bad) in problem for problem in problems] == [True]
    assert stand.plain("a") == (RemoteTarget("n2", False, (20,), True),)
    stand.routes.place([SlotHome("n3", True, 5)] * SLOTS)
    assert stand.plain("a") == (RemoteTarget("n3", False, (20,)),)


def test_late_routes_of_a_former_incarnation() -> None:
    """They arrive through a third node: none counts for a clean session."""
    stand = Stand()
    stand.routes.drop_live("n2", 3)
    assert stand.say("n2", "a", 3) == []
    assert stand.plain("a") == ()
    assert len(stand.routes) == 0


def test_a_node_is_absent_until_it_is_in_a_view() -> None:
    """A node that has just started learns the routes to absent nodes from a third node."""
    stand = Stand()
    stand.say("n4", "a", 3)
    stand.say("n4", "$share/g/c", 3, 1)
    stand.say("n4", "$share/h/c", 3, 2)
    assert stand.routes.match("", "a") == stand.routes.match("", "c") == NOWHERE
    stand.routes.entered("n4", 3)
    assert stand.plain("a") == (RemoteTarget("n4", True),)
    assert [each.online for each in stand.routes.match("", "c").groups] == [1, 2]


def test_routes_of_a_new_incarnation_survive_the_departure_of_the_old_one() -> None:
    stand = Stand()
    stand.say("n2", "old", 3)
    stand.say("n2", "new", 5)
    stand.routes.drop_live("n2", 3)
    stand.routes.entered("n2", 5)
    assert stand.plain("old") == ()
    assert stand.plain("new") == (RemoteTarget("n2", True),)


def test_a_node_with_many_routes_is_forgotten_at_once_and_swept_in_steps() -> None:
    stand = Stand()
    for number in range(3 * STEP):
        stand.say("n2", f"a/{number}", 1)
        stand.say("n3", f"a/{number}", 1) if number % 3 == 0 else stand.say(30, f"a/{number}", 1, "n3")
    assert stand.plain("a/7") == (RemoteTarget("n2", True), RemoteTarget("n3", False, (30,)))
    stand.routes.drop_live("n2", 1)
    assert stand.plain("a/7") == (RemoteTarget("n3", False, (30,)),)
    stand.later.pop(0)()
    stand.routes.drop_live("n3", 1)  # during the first sweep: one more follows
    assert len(stand.later) == 1
    assert stand.run() >= 5
    assert len(stand.routes) == 2 * STEP
    for number in range(3 * STEP):
        stand.take_back(30, f"a/{number}")
    stand.move(30, "n3", since=2)
    stand.run()
    assert len(stand.routes) == 0
    assert stand.routes._plain == {}


def test_the_letters_differ() -> None:
    assert prefix("n2")[:1] == LIVE != LASTING == prefix(20)[:1]


def test_a_slot_that_has_been_elsewhere_in_between_has_moved() -> None:
    """A snapshot of the log may skip the tables in between. A restart of the node is no move."""
    routes = Routes("n1", lambda function: None)
    homes = [SlotHome("n2", True, 3, 5) for _ in range(SLOTS)]
    assert routes.place(homes).moved == {}
    restarted = [home._replace(since=9) for home in homes]
    assert routes.place(restarted).moved == {}
    restarted[7] = SlotHome("n2", True, 9, 12)
    restarted[8] = SlotHome("n1", True, 1, 11)
    assert routes.place(restarted).moved == {7: ("n2", "n2"), 8: ("n2", "n1")}
    assert (routes.here_since(7), routes.here_since(8)) == (None, 11)
