"""The table of remote routes against a list that is searched with `matches`."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE, Peer, RemoteMatch, RemoteTable, Route, SharedRoute
from strogoff.mqtt.topics import matches

from .test_level_tree import FILTERS, TOPICS

NODES = ("n2", "n3", "n4")
GROUPS = st.sampled_from(["g", "h"])


class TableMachine(RuleBasedStateMachine):
    """Routes are added, changed and removed at random; the model is a dict, and every answer is
    computed from it again.
    """

    @initialize()
    def start(self) -> None:
        self.table = RemoteTable()
        self.peers = {node: Peer(node) for node in NODES}
        self.plain: dict[tuple[str, str, bool], Route] = {}
        self.shared: dict[tuple[str, str, str, bool], SharedRoute] = {}

    @rule(node=st.sampled_from(NODES), text=FILTERS, since=st.integers(0, 9), durable=st.booleans())
    def set_plain(self, node: str, text: str, since: int, durable: bool) -> None:
        route = Route(self.peers[node], since, durable)
        self.table.set(text, route)
        self.plain[text, node, durable] = route

    @rule(node=st.sampled_from(NODES), text=FILTERS, group=GROUPS, since=st.integers(0, 9), online=st.integers(0, 3))
    def set_shared(self, node: str, text: str, group: str, since: int, online: int) -> None:
        route = SharedRoute(self.peers[node], since, group, online, since % 2, min(online, since % 3))
        self.table.set_shared(text, route)
        self.shared[text, group, node, route.durable] = route

    @rule(node=st.sampled_from(NODES), text=FILTERS, group=st.none() | GROUPS, durable=st.booleans(), data=st.data())
    def discard(self, node: str, text: str, group: str | None, durable: bool, data: st.DataObject) -> None:
        plain: list[tuple[str, str, str | None, bool]] = [(*each[:2], None, each[2]) for each in self.plain]
        known = sorted(plain, key=str)
        known += sorted([(text, node, group, durable) for text, group, node, durable in self.shared], key=str)
        if data.draw(st.booleans()) and known:
            text, node, group, durable = data.draw(st.sampled_from(known))
        if group is None:
            removed: object = self.plain.pop((text, node, durable), None)
        else:
            removed = self.shared.pop((text, group, node, durable), None)
        assert self.table.get(text, node, group, durable) is removed
        assert self.table.discard(text, node, group, durable) is (removed is not None)

    @rule(node=st.sampled_from(NODES), dead=st.integers(-1, 9), gone=st.integers(-1, 9), absent=st.booleans())
    def view(self, node: str, dead: int, gone: int, absent: bool) -> None:
        peer = self.peers[node]
        peer.absent, peer.dead, peer.gone = absent, max(peer.dead, dead), max(peer.gone, gone)

    @rule()
    def sweep(self) -> None:
        for text in self.table.texts():
            self.table.sweep(text)
        self.plain = {key: route for key, route in self.plain.items() if not route.dead}
        self.shared = {key: route for key, route in self.shared.items() if not route.dead}

    @rule(topic=TOPICS)
    def match(self, topic: str) -> None:
        assert self.table.match(topic) == RemoteMatch(
            self.targets(topic), self.members(topic, False), self.members(topic, True)
        )

    def targets(self, topic: str) -> tuple[RemoteTarget, ...]:
        found = []
        for node in NODES:
            peer = self.peers[node]
            routes = [route for (text, name, _), route in self.plain.items() if name == node and matches(text, topic)]
            here = [] if peer.absent else [route for route in routes if route.since > max(peer.dead, peer.gone)]
            live = any(not route.durable for route in here)
            durable = any(route.durable and route.since > peer.gone for route in routes)
            if live or durable:
                found.append(RemoteTarget(node, live, durable, peer.absent))
        return tuple(found)

    def members(self, topic: str, absent: bool) -> tuple[RemoteMembers, ...]:
        counts: dict[tuple[str, str, str], list[int]] = {}
        for (text, group, node, _), route in self.shared.items():
            peer = self.peers[node]
            if not matches(text, topic) or route.since <= peer.gone or peer.absent is not absent:
                continue
            here = route.since > peer.dead and not absent
            count = counts.setdefault((group, text, node), [0, 0, 0])
            online = route.online if here else 0
            holding = route.holding if here else route.holding + route.lasting
            count[0] += online
            count[1] += holding
            count[2] += route.holding + route.lasting if online or holding else 0
        return tuple(sorted(RemoteMembers(*key, *count) for key, count in counts.items() if any(count)))

    @invariant()
    def sizes(self) -> None:
        texts = sorted({text for text, *_ in self.plain}) + sorted({text for text, *_ in self.shared})
        assert sorted(self.table.texts()) == sorted(texts)
        assert len(self.table) == len(texts)
        assert len(self.table._wild) == len({text for text in texts if "+" in text or "#" in text})


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_flags_of_one_node_are_joined() -> None:
    """One copy goes to a node, whichever of its filters match."""
    table, two, three = RemoteTable(), Peer("n2", False), Peer("n3", False)
    table.set("a/+", Route(three, 1, False))
    table.set("a/b", Route(two, 1, False))
    table.set("a/#", Route(two, 1, True))
    assert table.match("a/b").plain == (RemoteTarget("n2", True, True), RemoteTarget("n3", True, False))
    assert table.match("a/c").plain == (RemoteTarget("n2", False, True), RemoteTarget("n3", True, False))
    assert table.match("b") is NOWHERE


def test_first_level_wildcards_do_not_match_dollar_topics() -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1]"""
    table, peer = RemoteTable(), Peer("n2", False)
    table.set("#", Route(peer, 1, False))
    assert table.match("$SYS/x") is NOWHERE
    assert table.match("SYS/x").plain == (RemoteTarget("n2", True, False),)


def test_many_groups_on_one_filter() -> None:
    table, peer = RemoteTable(), Peer("n2", False)
    for number in range(500):
        table.set_shared("jobs", SharedRoute(peer, 1, f"g{number:03}", 1, 0, 0))
    assert [each.group for each in table.match("jobs").groups] == [f"g{number:03}" for number in range(500)]
    for number in range(500):
        assert table.discard("jobs", "n2", f"g{number:03}", False)
    assert len(table) == 0
