"""Three nodes that exchange routes, checked against a list of all subscriptions that is searched with `matches`."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from strogoff.broker.clustering.route_advertiser import COUNT_ABOVE
from strogoff.broker.clustering.routes import LASTING, LIVE
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.shared import SharedGroup, choose
from strogoff.broker.routing.subscriptions import Subscription
from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.table import SlotHome
from strogoff.mqtt.topics import matches

from ...harness.routes import Client, RouteMap, RouteNode, slots_of
from ..routing.test_level_tree import FILTERS, TOPICS

NAMES = ("n1", "n2", "n3")
WHO = st.sampled_from(NAMES)


class Cluster:
    """Nodes, the views they are in, and reliable maps between them: a write arrives later, in order."""

    def __init__(self) -> None:
        self.view = 1
        self.nodes = {name: RouteNode(name) for name in NAMES}
        self.since: dict[str, int] = {}
        """Incarnation in the view."""
        self.known = {name: dict.fromkeys(NAMES, 0) for name in NAMES}
        """Incarnation of the others that a node knew last."""
        self.copies: dict[tuple[str, str], dict[bytes, bytes]] = {}
        """(from, to) -> what has arrived."""
        self.arrived: dict[tuple[str, str], int] = {}
        self.left: dict[str, list[Subscription]] = {}
        """What a node that is out of the view was subscribed to when it left."""
        for name in NAMES:
            self.enter(name)

    def others(self, name: str) -> list[RouteNode]:
        return [self.nodes[each] for each in self.since if each != name]

    def subscriptions(self, name: str) -> list[Subscription]:
        return [each for client in self.nodes[name].clients.values() for each in client.subscriptions.values()]

    def deliver(self, origin: str, target: str, limit: int) -> None:
        """Deliver some more writes."""
        copy = self.copies[origin, target]
        start = self.arrived[origin, target]
        for key, value in self.nodes[origin].map.writes[start : start + limit]:
            self.arrived[origin, target] += 1
            if value is None:
                copy.pop(key, None)
            else:
                copy[key] = value
            self.nodes[target].routes.change(key, value)

    def settle(self) -> None:
        """Deliver all writes and run all turns."""
        for node in self.nodes.values():
            node.run()
        for origin in self.since:
            for target in self.since:
                if origin != target:
                    self.deliver(origin, target, 10**6)
        for node in self.nodes.values():
            node.run()

    def exchange(self, origin: str, target: str) -> None:
        """Anti-entropy: `target` gets the entries of `origin` that it lacks, and deletes the entries that `origin`
        deleted.
        """
        old, new = self.copies.get((origin, target), {}), dict(self.nodes[origin].map.values)
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                self.nodes[target].routes.change(key, new.get(key))
        self.copies[origin, target] = new
        self.arrived[origin, target] = len(self.nodes[origin].map.writes)

    def pass_on(self, writer: str, name: str) -> None:
        """Anti-entropy: pass on the entries that other nodes keep of an absent node."""
        for other in self.others(name):
            old, new = self.copies.get((writer, name), {}), self.copies[writer, other.name]
            for key in sorted({*old, *new}):
                if old.get(key) != new.get(key):
                    self.nodes[name].routes.change(key, new.get(key))
            self.copies[writer, name] = dict(new)

    def leave(self, name: str) -> None:
        """Remove a node from the view."""
        self.left[name] = [each for each in self.subscriptions(name) if each.session.durable]
        gone = self.since.pop(name)
        self.view += 1
        self.nodes[name].advertiser.stop()
        for node in self.others(name):
            node.routes.drop_live(name, gone)
            self.place(node)

    def place(self, node: RouteNode) -> None:
        """Let a node apply the table of slots of the present view."""
        homes = [SlotHome("", False, 0)] * SLOTS
        for name in NAMES:
            for slot in slots_of(name):
                homes[slot] = SlotHome(name, name in self.since, self.since.get(name, 0))
        node.routes.place(homes)

    def restart(self, name: str) -> None:
        """Restart a node with the content of its disk: durable sessions, and the routes of all nodes to durable
        sessions.
        """
        stored = {key: value for key, value in self.nodes[name].map.values.items() if key[:1] == LASTING}
        lasting = {key: each for key, each in self.nodes[name].clients.items() if each.durable}
        node = self.nodes[name] = RouteNode(name)
        self.place(node)
        for client in lasting.values():
            client.online = False
            for each in client.subscriptions.values():
                node.table(client.mountpoint).add(each)
        node.clients.update(lasting)
        node.map = node.advertiser._routes = RouteMap()
        node.map.values.update(stored)
        node.later.clear()
        self.known[name] = dict.fromkeys(NAMES, 0)
        for other in NAMES:
            copy = self.copies.get((other, name), {})
            self.copies[other, name] = copy = {key: value for key, value in copy.items() if key[:1] == LASTING}
            for key, value in copy.items():
                node.routes.change(key, value)

    def restart_all(self, away: str) -> None:
        """Restart all other nodes at once while a node is away: no node has the routes of the absent node in memory.

        The first to enter were in the view last: an exchange would give their knowledge to the others anyway.
        """
        others = sorted([name for name in NAMES if name != away], key=lambda name: -self.since.get(name, 0))
        for name in [name for name in others if name in self.since]:
            self.leave(name)
        for name in others:
            self.restart(name)
        for name in others:
            self.enter(name)

    def enter(self, name: str) -> None:
        """Let a node enter: it applies the views it missed, announces its routes, exchanges everything, then serves."""
        self.view += 1
        node, since = self.nodes[name], self.view
        for other in NAMES:
            if other != name:
                self.catch_up(node, other)
        for each in self.others(name):
            each.routes.entered(name, since)
        self.since[name] = since
        for each in [node, *self.others(name)]:
            self.place(each)
        node.enter(since)
        node.run()
        for each in self.others(name):
            self.exchange(each.name, name)
            self.exchange(name, each.name)
            each.routes.drop(name, since - 1)
            self.known[each.name][name] = since
        self.purge(name, since)
        self.left.pop(name, None)
        for writer in self.left:
            self.pass_on(writer, name)

    def purge(self, name: str, since: int) -> None:
        """When a node serves, every node, itself included, deletes the routes to its earlier incarnations."""
        held = {other: self.copies[name, other] for other in NAMES if (name, other) in self.copies}
        for other, routes in {**held, name: self.nodes[name].map.values}.items():
            for key, value in list(routes.items()):
                if key[:1] == LIVE and msgspec.msgpack.decode(value)[0] < since:
                    del routes[key]
                    self.nodes[other].routes.change(key, None)

    def catch_up(self, node: RouteNode, other: str) -> None:
        """Apply the changes of another node in the views that this one has missed."""
        before, now = self.known[node.name][other], self.since.get(other)
        if before and before != now:
            node.routes.drop_live(other, before)
        if now is not None:
            node.routes.entered(other, now)
            node.routes.drop(other, now - 1)
            self.known[node.name][other] = now

    # -- expected results

    def targets(self, viewer: str, topic: str) -> list[RemoteTarget]:
        found = []
        for name in NAMES:
            if name == viewer:
                continue
            here = name in self.since
            held = self.subscriptions(name) if here else self.left[name]
            places = {
                each.session.key[0] if each.session.durable else None
                for each in held
                if each.group is None and matches(each.filter, topic)
            }
            if places:
                slots = tuple(sorted(place for place in places if place is not None))
                found.append(RemoteTarget(name, None in places, slots, not here))
        return found

    def members(self, viewer: str, topic: str, here: bool) -> list[RemoteMembers]:
        counts: dict[tuple[str, str, str], list[int]] = {}
        slots: dict[tuple[str, str, str], set[int]] = {}
        for name in NAMES:
            if name == viewer or (name in self.since) is not here:
                continue
            for each in self.subscriptions(name) if here else self.left[name]:
                if each.group is None or not matches(each.filter, topic):
                    continue
                online = each.session.online if here else False
                holding = not online and each.session.durable and each.qos > 0
                count = counts.setdefault((each.group, each.filter, name), [0, 0, 0])
                count[0] += online
                count[1] += holding
                count[2] += each.session.durable and each.qos > 0
                if each.session.durable and each.qos > 0:
                    slots.setdefault((each.group, each.filter, name), set()).add(each.session.key[0])
        return sorted(
            RemoteMembers(*key, count[0], count[1], count[2], tuple(sorted(slots.get(key, ()))))
            for key, count in counts.items()
            if any(count)
        )

    def check(self, viewer: str, topic: str) -> None:
        plan = self.nodes[viewer].plan("", topic)
        assert list(plan.remote) == self.targets(viewer, topic)
        assert sorted(each for group in plan.groups for each in group.remote) == self.members(viewer, topic, True)
        away = [] if len(self.left) == 0 else self.members(viewer, topic, False)
        assert sorted(each for group in plan.groups for each in group.away) == away
        for group in plan.groups:
            assert all((each.group, each.filter) == (group.group, group.filter) for each in group.remote + group.away)


class RoutesMachine(RuleBasedStateMachine):
    """Clients connect, subscribe and leave, nodes leave the view and return, and every plan must be right."""

    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        self.asked: list[str] = []
        """Topics whose plans are remembered: asked for again, because nothing remembered may be stale."""

    def pick(self, name: str, data: st.DataObject) -> Client | None:
        clients = self.cluster.nodes[name].clients
        return clients[data.draw(st.sampled_from(sorted(clients)))] if clients else None

    @rule(name=WHO, number=st.integers(0, 4), durable=st.booleans(), text=FILTERS, qos=st.integers(0, 2))
    def subscribe(self, name: str, number: int, durable: bool, text: str, qos: int) -> None:
        node = self.cluster.nodes[name]
        client = node.client(f"{name}-{number}", durable)
        if not client.online:
            node.connect(client, True)
        counter = node.subscribe(client, text, qos)
        assert (counter is None) is (name not in self.cluster.since)

    @rule(name=WHO, number=st.integers(0, 4), durable=st.booleans(), group=st.sampled_from("gh"), text=FILTERS)
    def share(self, name: str, number: int, durable: bool, group: str, text: str) -> None:
        self.subscribe(name, number, durable, f"$share/{group}/{text}", number % 3)

    @rule(name=WHO, text=FILTERS, group=st.sampled_from(["", "$share/g/"]), durable=st.booleans())
    def crowd(self, name: str, text: str, group: str, durable: bool) -> None:
        for number in range(COUNT_ABOVE + 4):
            self.subscribe(name, 100 + number, durable, group + text, 1)

    @rule(name=WHO, data=st.data())
    def unsubscribe(self, name: str, data: st.DataObject) -> None:
        client = self.pick(name, data)
        if client is not None and client.subscriptions:
            text = data.draw(st.sampled_from(sorted(client.subscriptions)))
            self.cluster.nodes[name].unsubscribe(client, text)

    @rule(name=WHO, online=st.booleans(), data=st.data())
    def connect(self, name: str, online: bool, data: st.DataObject) -> None:
        client = self.pick(name, data)
        if client is not None:
            self.cluster.nodes[name].connect(client, online)

    @rule(name=WHO, data=st.data())
    def end(self, name: str, data: st.DataObject) -> None:
        client = self.pick(name, data)
        if client is not None:
            self.cluster.nodes[name].end(client)

    @rule(writer=WHO, reader=WHO, limit=st.integers(1, 5))
    def deliver(self, writer: str, reader: str, limit: int) -> None:
        if writer != reader and writer in self.cluster.since and reader in self.cluster.since:
            self.cluster.deliver(writer, reader, limit)

    @rule(topics=st.lists(TOPICS, min_size=1, max_size=5))
    def publish(self, topics: list[str]) -> None:
        self.cluster.settle()
        fitting = {each.filter for name in NAMES for each in self.cluster.subscriptions(name)}
        topics = [*topics, *[text.replace("+", "a").replace("#", "b") for text in sorted(fitting)[:4]]]
        self.asked = list(dict.fromkeys([*topics, *self.asked]))[:20]
        for topic in self.asked:
            for name in self.cluster.since:
                self.cluster.check(name, topic)

    @precondition(lambda self: len(self.cluster.since) > 1)
    @rule(data=st.data(), restarts=st.booleans())
    def leave(self, data: st.DataObject, restarts: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.since)))
        self.cluster.settle()
        self.cluster.leave(name)
        if restarts:
            self.cluster.restart(name)

    @precondition(lambda self: len(self.cluster.since) < len(NAMES))
    @rule(data=st.data())
    def restart_others(self, data: st.DataObject) -> None:
        self.cluster.settle()
        self.cluster.restart_all(data.draw(st.sampled_from(sorted(self.cluster.left))))

    @precondition(lambda self: len(self.cluster.since) < len(NAMES))
    @rule(data=st.data())
    def enter(self, data: st.DataObject) -> None:
        away = sorted(self.cluster.left)
        self.cluster.enter(data.draw(st.sampled_from(away)))

    def teardown(self) -> None:
        """End all sessions: no node has any entry left."""
        cluster = self.cluster
        for name in sorted(cluster.left):
            cluster.enter(name)
        for node in cluster.nodes.values():
            for client in list(node.clients.values()):
                node.end(client)
        cluster.settle()
        for node in cluster.nodes.values():
            assert node.map.values == {} and node.advertiser._counted == {} and node.advertiser._owed == {}
            assert len(node.routes) == 0


TestRoutes = RoutesMachine.TestCase
TestRoutes.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("seed", range(3))
def test_each_member_of_the_cluster_has_the_same_chance(seed: int) -> None:
    """Whichever node the publisher uses: its choice, and the choice of the target node, follow the policy."""
    rng, cluster = Random(seed), Cluster()
    for name in NAMES:
        for number in range(rng.randrange(1, 8)):
            node = cluster.nodes[name]
            client = node.client(f"{name}-{number}", True)
            node.subscribe(client, "$share/g/jobs/+")
            node.connect(client, rng.random() < 0.7)
    cluster.settle()
    online = [each.session for name in NAMES for each in cluster.subscriptions(name) if each.session.online]
    message = Message("", "jobs/1", b"", 1, False, None, 0, "p", Origin("n1", 1), 1)
    rounds = 300 * len(online)
    for viewer in NAMES:
        (group,) = cluster.nodes[viewer].plan("", "jobs/1").groups
        counts: Counter[str] = Counter()
        for _ in range(rounds):
            member = choose(group, message, "random", rng)
            if isinstance(member, RemoteMembers):
                (there,) = cluster.nodes[member.node].plan("", "jobs/1").groups
                member = choose(SharedGroup(there.group, there.filter, there.members), message, "random", rng)
            assert isinstance(member, Subscription)
            counts[member.session.client_id] += 1
        assert sorted(counts) == sorted(session.client_id for session in online)
        assert all(abs(count - 300) < 75 for count in counts.values()), counts
