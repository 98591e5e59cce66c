"""Plans against a list of subscriptions that is searched with `matches`."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strogoff.broker.remembered import TEXT_KEPT
from strogoff.broker.routing.dormant import DormantSession
from strogoff.broker.routing.plans import Plan, PlanCache, Target, make_plan, merge
from strogoff.broker.routing.remote import Elsewhere, RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE, RemoteMatch
from strogoff.broker.routing.subscriptions import Subscription, SubscriptionTable
from strogoff.mqtt.topics import matches
from strogoff.storage.keys import client_key

from .test_level_tree import FILTERS, TOPICS

OPTIONS = st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 3))


class Subscriber(msgspec.Struct, eq=False):
    """The part of a session that a plan uses."""

    client_id: str
    queue: object
    planned: bool = False
    durable: bool = True

    @property
    def key(self) -> bytes:
        """The client key."""
        return self.client_id.encode()


def make(
    session: Subscriber,
    text: str,
    group: str | None = None,
    qos: int = 0,
    no_local: bool = False,
    as_published: bool = False,
    identifier: int = 0,
) -> Subscription:
    return Subscription(session, text, group, qos, no_local, as_published, 0, identifier)


Copy = tuple[str, int, bool, list[int]]
"""Client id, QoS, RETAIN kept, identifiers (their order is not significant [MQTT5-3.3.4-4])."""


def copies(plan: Plan, publisher: str) -> list[Copy]:
    """Returns the copies that a router makes of a plan."""
    result = []
    for target in plan.targets:
        chosen = (target,) if target.local_alternatives is None else target.for_publisher(publisher)
        for each in chosen:
            assert each.queue is each.session.queue
            result.append((each.session.client_id, each.qos, each.retain_as_published, sorted(each.identifiers)))
    return sorted(result)


def wanted_copies(subscriptions: list[Subscription], topic: str, publisher: str) -> list[Copy]:
    """Returns the same copies, computed from the rules of the standard."""
    by_client: dict[str, list[Subscription]] = {}
    for each in subscriptions:
        client = each.session.client_id
        if each.group is None and matches(each.filter, topic) and not (each.no_local and client == publisher):
            by_client.setdefault(client, []).append(each)
    return sorted(
        (
            client,
            max(each.qos for each in held),
            any(each.retain_as_published for each in held),
            sorted(each.identifier for each in held if each.identifier),
        )
        for client, held in by_client.items()
    )


def groups_of(subscriptions: list[Subscription], topic: str) -> dict[tuple[str, str], list[Subscription]]:
    groups: dict[tuple[str, str], list[Subscription]] = {}
    for each in subscriptions:
        if each.group is not None and matches(each.filter, topic):
            groups.setdefault((each.group, each.filter), []).append(each)
    return groups


class PlanMachine(RuleBasedStateMachine):
    """Subscribes, unsubscribes and publishes at random: a plan found is the plan that would be made now.

    [MQTT-3.3.5-1] [MQTT5-3.3.4-2] [MQTT5-3.3.4-3] [MQTT5-3.3.4-4] [MQTT5-3.8.3-3]
    """

    @initialize(limit=st.sampled_from([1, 3, 100]), max_targets=st.sampled_from([2, 1000]))
    def start(self, limit: int, max_targets: int) -> None:
        self.limit, self.max_targets = limit, max_targets
        self.table = SubscriptionTable(shape_limit=2)
        self.cache = PlanCache(self.table, limit, max_targets)
        self.plans = self.cache.plans
        self.sessions = [Subscriber(f"c{number}", object()) for number in range(3)]
        self.model: dict[tuple[int, str, str | None], Subscription] = {}

    @rule(who=st.integers(0, 2), text=FILTERS, group=st.sampled_from([None, None, "g", "h"]), options=OPTIONS)
    def subscribe(self, who: int, text: str, group: str | None, options: tuple[int, bool, bool, int]) -> None:
        qos, no_local, as_published, identifier = options
        subscription = make(self.sessions[who], text, group, qos, no_local and group is None, as_published, identifier)
        self.table.add(subscription)
        self.model[who, text, group] = subscription

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        if self.model:
            who, text, group = data.draw(st.sampled_from(sorted(self.model, key=str)))
            del self.model[who, text, group]
            self.table.remove(self.sessions[who].key, text, group)

    @rule(topic=TOPICS, publisher=st.sampled_from(["c0", "c1", "c2", "other"]))
    def publish(self, topic: str, publisher: str) -> None:
        plan = self.plans.get(topic) or self.cache.build(topic)
        assert self.plans[topic] is plan
        self.check(topic, plan, publisher)

    def check(self, topic: str, plan: Plan, publisher: str) -> None:
        held = list(self.model.values())
        assert copies(plan, publisher) == wanted_copies(held, topic, publisher)
        groups = {(group.group, group.filter): list(group.members) for group in plan.groups}
        assert groups == groups_of(held, topic)

    @invariant()
    def nothing_is_stale_and_all_is_bounded(self) -> None:
        for topic, plan in self.plans.items():
            self.check(topic, plan, "c0")
        assert len(self.plans) <= self.limit
        assert self.cache.targets == sum(plan.weight for plan in self.plans.values())
        assert self.cache.targets <= self.max_targets or len(self.plans) == 1
        assert sorted(topic for topics in self.cache._topics.values() for topic in topics) == sorted(self.plans)
        assert all(self.cache._topics.values())


TestPlans = PlanMachine.TestCase
TestPlans.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_overlapping_subscriptions_make_one_copy() -> None:
    """[MQTT-3.3.5-1] [MQTT5-3.3.4-2] highest QoS; [MQTT5-3.3.4-3] [MQTT5-3.3.4-4] all identifiers, equal ones twice."""
    session = Subscriber("one", object())
    plan = make_plan(
        [
            make(session, "a/b", qos=1, identifier=7),
            make(session, "a/+", qos=2),
            make(session, "a/#", qos=0, as_published=True, identifier=7),
        ]
    )
    assert plan.targets == (Target(session.queue, session, 2, True, (7, 7)),)


def test_no_local() -> None:
    """[MQTT5-3.8.3-3]: a publisher gets its own messages only by subscriptions without No Local."""
    session = Subscriber("me", object())
    strict, lax = make(session, "a/#", qos=2, no_local=True, identifier=1), make(session, "a/b", qos=0, identifier=2)
    both = merge([strict, lax])
    assert (both.qos, both.identifiers) == (2, (1, 2))
    assert both.for_publisher("other") == (both,)
    (own,) = both.for_publisher("me")
    assert (own.qos, own.identifiers, own.local_alternatives) == (0, (2,), None)
    (alone,) = make_plan([strict]).targets
    assert alone.for_publisher("me") == ()
    assert alone.for_publisher("other") == (alone,)
    assert merge([lax]).local_alternatives is None


@given(st.lists(OPTIONS, min_size=1, max_size=1))
def test_the_fast_way_for_one_subscription_is_merge(options: list[tuple[int, bool, bool, int]]) -> None:
    qos, no_local, as_published, identifier = options[0]
    subscription = make(Subscriber("one", object()), "a", None, qos, no_local, as_published, identifier)
    assert make_plan([subscription]).targets == (merge([subscription]),)


def test_each_shared_subscription_is_a_group_of_its_own() -> None:
    """MQTT 5.0 section 4.8.2: share name and filter together; a member's ordinary subscription is served as well."""
    session = Subscriber("one", object())
    held = [make(session, "a/b", "g"), make(session, "a/+", "g"), make(session, "a/b", "h"), make(session, "a/b")]
    plan = make_plan(held)
    assert [group.text for group in plan.groups] == ["$share/g/a/b", "$share/g/a/+", "$share/h/a/b"]
    assert plan.group("g", "a/+") is plan.groups[1]
    assert plan.group("h", "a/+").size == 0
    assert len(plan.targets) == 1
    assert plan.weight == 4


def cached(topics: list[str], limit: int = 100) -> tuple[SubscriptionTable, PlanCache]:
    table = SubscriptionTable()
    cache = PlanCache(table, limit)
    for topic in topics:
        cache.build(topic)
    return table, cache


def test_a_change_drops_only_affected_plans() -> None:
    topics = ["a", "a/b", "a/c", "b/a", "b/b", "$SYS/x"]
    someone = Subscriber("one", object())
    for text, left in {
        "a/b": ["a", "a/c", "b/a", "b/b", "$SYS/x"],
        "x/y": topics,
        "a/#": ["b/a", "b/b", "$SYS/x"],
        "b/+": ["a", "a/b", "a/c", "$SYS/x"],
        "#": [],
        "+/b": [],
    }.items():
        table, cache = cached(topics)
        table.add(make(someone, text))
        assert list(cache.plans) == left
        table, cache = cached([])
        table.add(make(someone, text))
        for topic in topics:
            cache.build(topic)
        table.remove(someone.key, text, None)
        assert list(cache.plans) == left


def test_the_oldest_plans_are_dropped_first_in_blocks() -> None:
    _, cache = cached([str(number) for number in range(160)], limit=160)
    plans = cache.plans
    cache.build("new")
    assert len(plans) == 150
    assert "10" not in plans and "11" in plans and "new" in plans
    assert cache.plans is plans


def test_plans_of_long_topics_are_not_kept() -> None:
    """A client could fill the memory with them: topics may have 64 KiB."""
    table, cache = cached(["a" * TEXT_KEPT, "b" * (TEXT_KEPT + 1), "c/" * 30_000])
    assert list(cache.plans) == ["a" * TEXT_KEPT]
    table.add(make(Subscriber("one", object()), "b/#"))
    for _ in range(2):
        plan = cache.of("b/" + "x" * TEXT_KEPT)
        assert len(plan.targets) == 1
    assert list(cache.plans) == ["a" * TEXT_KEPT] and cache.targets == 0


def test_one_plan_may_be_larger_than_all_that_is_allowed() -> None:
    table = SubscriptionTable()
    cache = PlanCache(table, limit=100, max_targets=5)
    for number in range(8):
        table.add(make(Subscriber(str(number), object()), "all"))
    table.add(make(Subscriber("x", object()), "few"))
    cache.build("few")
    cache.build("all")
    assert list(cache.plans) == ["all"]
    cache.build("few")
    assert list(cache.plans) == ["few"]


def test_remote_targets_come_from_the_cluster_port() -> None:
    two, three = RemoteTarget("n2", True), RemoteTarget("n3", False, (3,))
    nodes = {"a": RemoteMatch((two,), ())}
    table = SubscriptionTable()
    cache = PlanCache(table, remote=lambda topic: nodes.get(topic, NOWHERE))
    assert cache.build("a").remote == (two,)
    assert cache.build("b").remote == ()
    nodes["b"] = RemoteMatch((three,), ())
    cache.invalidate("b")
    assert cache.of("b").remote == (three,)
    assert cache.of("b") is cache.plans["b"]
    assert cache.targets == 2


def test_a_plan_names_the_slots_of_sessions_that_are_moving() -> None:
    """The table has their subscriptions, and another node the sessions."""
    table = SubscriptionTable()
    for text, group in (("a", None), ("b", "g")):
        session = DormantSession(client_key(7, "", f"client of {text}"))
        subscription = Subscription(session, text, group, 1, False, False, 0, 0)
        table.add(subscription)
        table.release(subscription)
    cache = PlanCache(table, elsewhere={7: Elsewhere("n2", False)})
    for topic in ("a", "b"):
        plan = cache.of(topic)
        assert plan.reaches({7}) and not plan.reaches({8}), topic


def test_a_group_has_members_on_several_nodes() -> None:
    """The group is one, also if all members are on other nodes; share name and filter identify it (4.8.2)."""
    session = Subscriber("one", object())
    held = [make(session, "a/b", "g"), make(session, "a/+", "g")]
    two, three = RemoteMembers("g", "a/b", "n2", 1, 0), RemoteMembers("g", "a/b", "n3", 2, 0)
    other, away = RemoteMembers("h", "a/b", "n2", 1, 0), RemoteMembers("g", "a/+", "n4", 0, 1)
    plan = make_plan(held, RemoteMatch((), (two, three, other), (away,)))
    assert [(group.text, len(group.members), group.remote, group.away) for group in plan.groups] == [
        ("$share/g/a/b", 1, (two, three), ()),
        ("$share/g/a/+", 1, (), (away,)),
        ("$share/h/a/b", 0, (other,), ()),
    ]
    assert plan.weight == 6


def test_a_plan_within_a_limit_makes_all_its_sessions_or_none() -> None:
    table, woken = SubscriptionTable(), list[bytes]()
    cache = PlanCache(table, wake=woken.append)
    sessions = [Subscriber(f"s{number}", None) for number in range(3)]
    for session in sessions:
        table.add(make(session, "a"))
        table.release(make(session, "a"))
    assert cache.build_within("a", 2) is None
    assert woken == []
    assert sorted(cache.asleep("a")) == sorted([session.key for session in sessions])
    assert cache.build_within("a", 3) is not None
    assert len(woken) == 3
