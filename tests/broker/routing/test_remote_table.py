"""The table of remote routes against a list that is searched with `matches`."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import (
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
from strogoff.mqtt.topics import matches

from .test_level_tree import FILTERS, TOPICS

NODES = ("n2", "n3", "n4")
GROUPS = st.sampled_from(["g", "h"])
PLACES = st.integers(0, 6)
"""Three nodes, then four slots."""


class TableMachine(RuleBasedStateMachine):
    """Routes are added, changed and removed at random; the model is a dict, and every answer is
    computed from it again.
    """

    @initialize()
    def start(self) -> None:
        self.table = RemoteTable()
        self.places: list[Place] = [*[Peer(node) for node in NODES], *[Home(slot, "n2") for slot in range(4)]]
        self.plain: dict[tuple[str, int], Route] = {}
        self.shared: dict[tuple[str, str, int], SharedRoute] = {}

    @rule(place=PLACES, text=FILTERS, since=st.integers(0, 9), writer=st.sampled_from(NODES))
    def set_plain(self, place: int, text: str, since: int, writer: str) -> None:
        route = Route(self.places[place], since, writer)
        self.table.set(text, route)
        self.plain[text, place] = route

    @rule(place=PLACES, text=FILTERS, group=GROUPS, since=st.integers(0, 9), online=st.integers(0, 3))
    def set_shared(self, place: int, text: str, group: str, since: int, online: int) -> None:
        keep = isinstance(self.places[place], Home)
        holding, lasting = (since % 2, min(online, since % 3)) if keep else (0, 0)
        route = SharedRoute(self.places[place], since, group, online, holding, lasting, NODES[since % 3])
        self.table.set_shared(text, route)
        self.shared[text, group, place] = route

    @rule(place=PLACES, text=FILTERS, group=st.none() | GROUPS, data=st.data())
    def discard(self, place: int, text: str, group: str | None, data: st.DataObject) -> None:
        plain: list[tuple[str, int, str | None]] = [(*each, None) for each in self.plain]
        known = sorted(plain, key=str)
        known += sorted([(text, place, group) for text, group, place in self.shared], key=str)
        if data.draw(st.booleans()) and known:
            text, place, group = data.draw(st.sampled_from(known))
        if group is None:
            removed: object = self.plain.pop((text, place), None)
        else:
            removed = self.shared.pop((text, group, place), None)
        assert self.table.get(text, self.places[place], group) is removed
        assert self.table.discard(text, self.places[place], group) is (removed is not None)

    @rule(place=PLACES, dead=st.integers(-1, 9), absent=st.booleans(), node=st.sampled_from(["", "n1", "n2", "n3"]))
    def change(self, place: int, dead: int, absent: bool, node: str) -> None:
        """A view or a table of slots is applied."""
        each = self.places[place]
        each.absent, each.dead = absent, max(each.dead, dead)
        if isinstance(each, Home):
            each.node, each.here = node, node == "n1"

    @rule()
    def sweep(self) -> None:
        for text in self.table.texts():
            self.table.sweep(text)
        self.plain = {key: route for key, route in self.plain.items() if not is_dead(route)}
        self.shared = {key: route for key, route in self.shared.items() if not is_dead(route)}

    @rule(topic=TOPICS)
    def match(self, topic: str) -> None:
        assert self.table.match(topic) == RemoteMatch(
            self.targets(topic), self.members(topic, False), self.members(topic, True)
        )

    def targets(self, topic: str) -> tuple[RemoteTarget, ...]:
        found = []
        routes = [route for (text, _), route in self.plain.items() if matches(text, topic)]
        for node in NODES:
            nodes = [r for r in routes if isinstance(r.place, Peer) and r.place.node == node]
            live = any(not route.place.absent and route.since > route.place.dead for route in nodes)
            homes = [
                (route.place.slot, route.place.absent)
                for route in routes
                if isinstance(route.place, Home) and not route.place.here and (route.place.node or route.writer) == node
            ]
            if live or homes:
                slots = tuple(sorted({slot for slot, _ in homes}))
                found.append(RemoteTarget(node, live, slots, not live and all(absent for _, absent in homes)))
        return tuple(found)

    def members(self, topic: str, absent: bool) -> tuple[RemoteMembers, ...]:
        counts: dict[tuple[str, str, str], list[int]] = {}
        slots: dict[tuple[str, str, str], set[int]] = {}
        for (text, group, _), route in self.shared.items():
            place = route.place
            if not matches(text, topic) or place.absent is not absent or (isinstance(place, Home) and place.here):
                continue
            here = route.since > place.dead and not absent
            count = counts.setdefault((group, text, place.node or route.writer), [0, 0, 0])
            online = route.online if here else 0
            holding = route.holding if here else route.holding + route.lasting
            count[0] += online
            count[1] += holding
            count[2] += route.holding + route.lasting if online or holding else 0
            if isinstance(place, Home) and (online or holding):
                slots.setdefault((group, text, place.node or route.writer), set()).add(place.slot)
        return tuple(
            sorted(
                RemoteMembers(*key, count[0], count[1], count[2], tuple(sorted(slots.get(key, ()))))
                for key, count in counts.items()
                if any(count)
            )
        )

    @invariant()
    def sizes(self) -> None:
        texts = sorted({text for text, _ in self.plain}) + sorted({text for text, *_ in self.shared})
        assert sorted(self.table.texts()) == sorted(texts)
        assert len(self.table) == len(texts)
        assert len(self.table._wild) == len({text for text in texts if "+" in text or "#" in text})


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_routes_of_one_node_are_joined() -> None:
    """One copy goes to a node, whichever of its filters and slots match."""
    table, two, three = RemoteTable(), Peer("n2", False), Peer("n3", False)
    table.set("a/+", Route(three, 1))
    table.set("a/b", Route(two, 1))
    for slot in (9, 4):
        table.set("a/#", Route(Home(slot, "n2", False), 1, "n2"))
    table.set("a/+", Route(Home(200, "n1", False, here=True), 1, "n2"))
    assert table.match("a/b").plain == (RemoteTarget("n2", True, (4, 9)), RemoteTarget("n3", True))
    assert table.match("a/c").plain == (RemoteTarget("n2", False, (4, 9)), RemoteTarget("n3", True))
    assert table.match("b") is NOWHERE


def test_a_slot_that_moves_takes_its_routes_along() -> None:
    table, home = RemoteTable(), Home(7, "n2", False)
    table.set("a", Route(home, 1, "n2"))
    table.set_shared("a", SharedRoute(home, 1, "g", 1, 0, 1, "n2"))
    home.node = "n3"
    assert table.match("a") == RemoteMatch(
        (RemoteTarget("n3", False, (7,)),), (RemoteMembers("g", "a", "n3", 1, 0, 1, (7,)),)
    )
    home.node = ""  # not known yet: the writer is asked
    assert table.match("a").plain == (RemoteTarget("n2", False, (7,)),)


def test_first_level_wildcards_do_not_match_dollar_topics() -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1]"""
    table, peer = RemoteTable(), Peer("n2", False)
    table.set("#", Route(peer, 1))
    assert table.match("$SYS/x") is NOWHERE
    assert table.match("SYS/x").plain == (RemoteTarget("n2", True),)


def test_many_groups_on_one_filter() -> None:
    table, peer = RemoteTable(), Peer("n2", False)
    for number in range(500):
        table.set_shared("jobs", SharedRoute(peer, 1, f"g{number:03}", 1, 0, 0))
    assert [each.group for each in table.match("jobs").groups] == [f"g{number:03}" for number in range(500)]
    for number in range(500):
        assert table.discard("jobs", peer, f"g{number:03}")
    assert len(table) == 0
