"""Routes of other nodes: their keys, their values, and the effect of a view on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.clustering.routes import (
    LASTING,
    LIVE,
    NAMESPACES,
    STEP,
    MalformedRoute,
    Routes,
    encode_value,
    parse_route_key,
    route_prefix,
)
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE, RemoteMatch

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class Stand:
    """Routes at n1, the changes that they report, and the functions that they schedule."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.told: list[tuple[str, str]] = []
        self.routes = Routes("n1", self.later.append)
        self.routes.entered("n2", 1)
        self.routes.entered("n3", 1)
        self.routes.changed.append(lambda mountpoint, text: self.told.append((mountpoint, text)))

    def say(self, node: str, text: str, *value: int | bool, mountpoint: str = "") -> list[tuple[str, str]]:
        """Write a route of `node` into the space of the value; returns the reported changes."""
        lasting = value[2] if len(value) == 3 else sum(value[2:]) > 0
        return self._write(LASTING if lasting else LIVE, node, text, value, mountpoint)

    def take_back(self, node: str, text: str, spaces: tuple[bytes, ...] = NAMESPACES) -> list[tuple[str, str]]:
        """Delete routes of `node`; returns the reported changes."""
        return [each for space in spaces for each in self._write(space, node, text, (), "")]

    def _write(
        self, space: bytes, node: str, text: str, value: tuple[int, ...], mountpoint: str
    ) -> list[tuple[str, str]]:
        key = route_prefix(mountpoint, node, space) + text.encode()
        self.routes.change(key, encode_value(value) if value else None)
        return self.heard()

    def heard(self) -> list[tuple[str, str]]:
        told, self.told[:] = list(self.told), []
        return told

    def plain(self, topic: str, mountpoint: str = "") -> tuple[RemoteTarget, ...]:
        return self.routes.match(mountpoint, topic).plain

    def run(self) -> int:
        """Run all scheduled turns; returns their number."""
        turns = 0
        while self.later:
            self.later.pop(0)()
            turns += 1
        return turns


@given(TEXTS, TEXTS, TEXTS.filter(bool), st.sampled_from(NAMESPACES))
def test_a_key_has_mountpoint_node_and_filter(mountpoint: str, node: str, text: str, space: bytes) -> None:
    assert parse_route_key(route_prefix(mountpoint, node, space) + text.encode()) == (mountpoint, node, text)


@pytest.mark.parametrize(
    "key",
    [b"", b"f", b"f\0", b"f\0\0", b"f\0\0\0\2n2", b"f\0\0\0\2n", b"t\0\0\0\2n2a", b"f\xff\xffa", b"f\0\0\0\2n2\xff"],
)
def test_malformed_keys(key: bytes) -> None:
    with pytest.raises(MalformedRoute, match="route key"):
        Stand().routes.change(key, encode_value((1, True, False)))


@given(st.binary(max_size=30))
def test_random_bytes_raise_one_kind_of_error(noise: bytes) -> None:
    stand = Stand()
    for key in (noise, route_prefix("", "n2") + b"a" + noise, route_prefix("", "n2", LASTING) + b"a" + noise):
        try:
            stand.routes.change(key, noise)
        except MalformedRoute:
            assert stand.told == []


@pytest.mark.parametrize("value", [(), (1, True), (1, 1, 0), (-1, True, False), (1, True, False, 0)])
def test_malformed_values(value: tuple[int, ...]) -> None:
    stand = Stand()
    for text in (b"a", b"$share/g/a"):
        with pytest.raises(MalformedRoute, match="of route b"):
            stand.routes.change(route_prefix("", "n2") + text, encode_value(value))
    with pytest.raises(MalformedRoute, match="without a group"):
        stand.routes.change(route_prefix("", "n2") + b"$share//a", encode_value((1, 1, 0, 0)))
    assert len(stand.routes) == 0 and stand.told == []


@pytest.mark.parametrize(
    ("space", "text", "value"),
    [
        (LIVE, "a", (1, False, True)),
        (LIVE, "a", (1, True, True)),
        (LIVE, "a", (1, False, False)),
        (LASTING, "a", (1, True, False)),
        (LIVE, "$share/g/a", (1, 1, 1, 0)),
        (LIVE, "$share/g/a", (1, 1, 0, 1)),
        (LIVE, "$share/g/a", (1, 0, 0, 0)),
        (LASTING, "$share/g/a", (1, 1, 0, 0)),
    ],
)
def test_a_value_in_the_wrong_space_is_malformed(space: bytes, text: str, value: tuple[int, ...]) -> None:
    """A durable route must be in the durable space, also if the value is known from another route."""
    stand = Stand()
    stand.say("n2", "b", 1, True, False)
    stand.say("n2", "b", 1, False, True)
    with pytest.raises(MalformedRoute, match="not of the space"):
        stand.routes.change(route_prefix("", "n2", space) + text.encode(), encode_value(value))
    assert len(stand.routes) == 1


def test_routes_come_change_and_go() -> None:
    stand = Stand()
    assert stand.say("n2", "a/+", 1, True, False) == [("", "a/+")]
    assert stand.say("n2", "a/+", 1, False, True) == [("", "a/+")]
    assert stand.plain("a/b") == (RemoteTarget("n2", True, True),)
    assert stand.take_back("n2", "a/+", (LIVE,)) == [("", "a/+")]
    assert stand.plain("a/b") == (RemoteTarget("n2", False, True),)
    assert stand.take_back("n2", "a/+") == [("", "a/+")]
    assert stand.take_back("n2", "a/+") == []
    assert stand.routes.match("", "a/b") is NOWHERE
    assert len(stand.routes) == 0


def test_own_routes_are_ignored() -> None:
    stand = Stand()
    assert stand.say("n1", "a", 1, True, False) == []
    assert stand.routes.match("", "a") is NOWHERE


def test_mountpoints_are_separate() -> None:
    stand = Stand()
    assert stand.say("n2", "a", 1, True, False, mountpoint="m") == [("m", "a")]
    assert stand.plain("a") == ()
    assert stand.plain("a", "m") == (RemoteTarget("n2", True, False),)


def test_shared_routes() -> None:
    """Their key is share name and filter; a change reports the filter only.

    The members of a node are one entry, whatever their sessions.
    """
    stand = Stand()
    assert stand.say("n2", "$share/g/a/+", 1, 1, 1, 1) == [("", "a/+")]
    assert stand.say("n2", "$share/g/a/+", 1, 1, 0, 0) == [("", "a/+")]
    stand.say("n3", "$share/g/a/+", 1, 0, 4, 0)
    members = (RemoteMembers("g", "a/+", "n2", 2, 1, 2), RemoteMembers("g", "a/+", "n3", 0, 4, 4))
    assert stand.routes.match("", "a/b") == RemoteMatch((), members)
    assert stand.take_back("n2", "$share/g/a/+", (LIVE,)) == [("", "a/+")]
    assert stand.routes.match("", "a/b").groups == (RemoteMembers("g", "a/+", "n2", 1, 1, 2), members[1])
    assert stand.take_back("n2", "$share/g/a/+") == [("", "a/+")]
    assert stand.routes.match("", "a/b").groups == members[1:]


def test_routes_to_clean_sessions_of_a_departed_incarnation_are_dropped() -> None:
    """Routes to durable sessions stay, absent (H-07, H-18), until the node is back and has announced its routes."""
    stand = Stand()
    stand.routes.entered("n2", 3)
    stand.say("n2", "live", 3, True, False)
    stand.say("n2", "both", 3, True, False)
    stand.say("n2", "both", 3, False, True)
    stand.say("n2", "$share/g/s", 3, 1, 1, 1)
    stand.say("n2", "$share/g/s", 3, 1, 0, 0)
    stand.routes.drop_live("n2", 3)
    assert stand.heard() == [("", "#")]
    for _ in range(2):
        assert stand.plain("live") == ()
        assert stand.plain("both") == (RemoteTarget("n2", False, True, True),)
        assert stand.routes.match("", "s") == RemoteMatch((), (), (RemoteMembers("g", "s", "n2", 0, 2, 2),))
        stand.run()
    assert len(stand.routes) == 2
    stand.routes.entered("n2", 3)
    assert stand.heard() == []  # the incarnation that left
    stand.routes.entered("n2", 5)
    assert stand.heard() == [("", "#")]
    stand.routes.entered("n2", 5)
    assert stand.heard() == []
    assert stand.plain("both") == (RemoteTarget("n2", False, True),)
    assert stand.routes.match("", "s").groups == (RemoteMembers("g", "s", "n2", 0, 2, 2),)
    stand.say("n2", "live", 5, True, False)
    assert stand.plain("live") == (RemoteTarget("n2", True, False),)
    stand.routes.drop("n2", 4)
    assert (stand.plain("live"), stand.plain("both")) == ((RemoteTarget("n2", True, False),), ())
    stand.run()
    assert len(stand.routes) == 1


def test_restored_routes_are_absent_until_their_node_is_in_a_view() -> None:
    """An unreadable route does not stop the start: an error names it (P9)."""
    stand = Stand()
    stand.routes = Routes("n1", stand.later.append)
    good, own = (route_prefix("", node, LASTING) + b"a" for node in ("n2", "n1"))
    bad = route_prefix("", "n2", LASTING) + b"b"
    value = encode_value((3, False, True))
    problems = stand.routes.restore([(bad, b"\xc1"), (good, value), (own, value)])
    assert [repr(bad) in problem for problem in problems] == [True]
    assert stand.plain("a") == (RemoteTarget("n2", False, True, True),)
    assert stand.routes.lasting(good, "n2") and not stand.routes.lasting(good, "n3")
    stand.routes.entered("n2", 5)
    assert stand.plain("a") == (RemoteTarget("n2", False, True),)
    stand.routes.drop("n2", 4)
    assert stand.plain("a") == ()


def test_durable_routes_of_a_departed_incarnation_survive_deletions() -> None:
    """Its durable sessions have not ended. Deletions by a living incarnation count."""
    stand = Stand()
    stand.say("n2", "kept", 3, True, False)
    stand.say("n2", "kept", 3, False, True)
    stand.say("n2", "lost", 3, True, False)
    stand.routes.drop_live("n2", 3)
    stand.take_back("n2", "lost")
    stand.take_back("n2", "kept")
    assert stand.plain("kept") == (RemoteTarget("n2", False, True, True),)
    stand.routes.entered("n2", 5)
    stand.say("n2", "kept", 5, False, True)
    stand.take_back("n2", "kept")
    stand.run()
    assert len(stand.routes) == 0


def test_late_routes_of_a_former_incarnation() -> None:
    """They arrive through a third node: none counts for a clean session, and none at all once the incarnation is
    dropped.
    """
    stand = Stand()
    stand.routes.drop_live("n2", 3)
    stand.say("n2", "a", 3, True, False)
    stand.say("n2", "b", 3, True, False)
    stand.say("n2", "b", 3, False, True)
    assert stand.plain("a") == ()
    assert stand.plain("b") == (RemoteTarget("n2", False, True, True),)
    stand.routes.drop("n2", 7)
    stand.heard()
    assert stand.say("n2", "b", 3, True, False) == stand.say("n2", "b", 3, False, True) == []
    assert stand.plain("b") == ()
    stand.run()
    assert len(stand.routes) == 0


def test_a_node_is_absent_until_it_is_in_a_view() -> None:
    """A node that has just started learns the routes of absent nodes from a third node."""
    stand = Stand()
    stand.say("n4", "a", 3, True, False)
    stand.say("n4", "b", 3, True, False)
    stand.say("n4", "b", 3, False, True)
    stand.say("n4", "$share/g/c", 3, 1, 0, 1)
    stand.say("n4", "$share/g/c", 3, 1, 0, 0)
    stand.say("n4", "$share/h/c", 3, 2, 0, 0)
    assert stand.routes.match("", "a") == NOWHERE
    assert stand.plain("b") == (RemoteTarget("n4", False, True, True),)
    assert stand.routes.match("", "c") == RemoteMatch((), (), (RemoteMembers("g", "c", "n4", 0, 1, 1),))
    stand.routes.entered("n4", 3)
    assert stand.plain("a") == (RemoteTarget("n4", True, False),)
    assert stand.plain("b") == (RemoteTarget("n4", True, True),)
    assert [each.online for each in stand.routes.match("", "c").groups] == [2, 2]


def test_routes_of_a_new_incarnation_survive_the_departure_of_the_old_one() -> None:
    stand = Stand()
    stand.say("n2", "old", 3, True, False)
    stand.say("n2", "new", 5, True, False)
    stand.routes.drop_live("n2", 3)
    stand.routes.entered("n2", 5)
    assert stand.plain("old") == ()
    assert stand.plain("new") == (RemoteTarget("n2", True, False),)


def test_a_node_with_many_routes_is_forgotten_at_once_and_swept_in_steps() -> None:
    stand = Stand()
    for number in range(3 * STEP):
        stand.say("n2", f"a/{number}", 1, True, False)
        stand.say("n3", f"a/{number}", 1, number % 3 == 0, number % 3 > 0)
    assert stand.plain("a/7") == (RemoteTarget("n2", True, False), RemoteTarget("n3", False, True))
    stand.routes.drop_live("n2", 1)
    assert stand.plain("a/7") == (RemoteTarget("n3", False, True),)
    stand.later.pop(0)()
    stand.routes.drop("n2", 1)
    stand.routes.drop_live("n3", 1)  # during the first sweep: one more follows
    assert len(stand.later) == 1
    assert stand.run() >= 5
    assert len(stand.routes) == 2 * STEP
    stand.routes.drop("n3", 1)
    stand.run()
    assert len(stand.routes) == 0
    assert stand.routes._plain == {}
