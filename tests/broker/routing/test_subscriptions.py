"""The subscription table against a list that is searched with `matches`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strogoff.broker.routing.dormant import DormantSession, pack_head, subscriber_key
from strogoff.broker.routing.subscriptions import PARTS, Shape, Subscription, SubscriptionTable, part_of, shape_of
from strogoff.mqtt.topics import matches
from strogoff.storage.keys import client_key

from .test_level_tree import FILTERS, TOPICS


class Subscriber(msgspec.Struct, eq=False):
    """The part of a session that the table uses."""

    client_id: str
    queue: Any = None
    durable: bool = True
    slot: int = 7

    @property
    def key(self) -> bytes:
        """The client key."""
        return client_key(self.slot, "", self.client_id)


def make(session: Any, text: str, group: str | None = None, qos: int = 0, identifier: int = 0) -> Subscription:
    return Subscription(session, text, group, qos, qos == 1, qos == 2, qos, identifier)


def value(each: Subscription) -> tuple[Any, ...]:
    """A subscription as a value that can be compared."""
    options = each.qos, each.no_local, each.retain_as_published, each.retain_handling, each.identifier
    return each.session.key, each.filter, each.group, *options


def packed(each: Subscription) -> bytes:
    """The subscription as bytes."""
    options = each.qos, each.no_local, each.retain_as_published, each.retain_handling
    return pack_head(options, each.identifier, each.group is not None) + subscriber_key(each.session.key, each.group)


def awake(table: SubscriptionTable, topic: str) -> list[Subscription]:
    """Returns the subscriptions that match, all of sessions in memory."""
    found = table.match(topic)
    assert table.dormant(topic) == []
    return [each for each in found if isinstance(each, Subscription)]


GROUPS = st.sampled_from([None, "g", "h"])
IDENTIFIERS = st.sampled_from([0, 1, 268_435_455])


class TableMachine(RuleBasedStateMachine):
    """Subscribes, unsubscribes, releases and matches at random; the model is a dict in the order of subscribing."""

    @initialize(limit=st.sampled_from([0, 1, 3, 32]))
    def start(self, limit: int) -> None:
        self.table = SubscriptionTable(limit)
        self.told: list[str] = []
        self.table.changed.append(self.told.append)
        self.sessions = [Subscriber(f"c{number}", slot=number) for number in range(4)]
        self.model: dict[tuple[int, str, str | None], Subscription] = {}
        self.dormant: set[tuple[int, str, str | None]] = set()

    def same(self, found: Subscription | None, key: tuple[int, str, str | None], wanted: Subscription | None) -> None:
        """Check an answer of the table. It makes an object for a dormant subscription."""
        if key in self.dormant:
            assert found is not None and wanted is not None and value(found) == value(wanted)
            assert type(found.session) is DormantSession
            self.dormant.discard(key)
        else:
            assert found is wanted

    @rule(who=st.integers(0, 3), text=FILTERS, group=GROUPS, qos=st.integers(0, 2), identifier=IDENTIFIERS)
    def subscribe(self, who: int, text: str, group: str | None, qos: int, identifier: int) -> None:
        subscription = make(self.sessions[who], text, group, qos, identifier)
        replaced = self.table.add(subscription)
        self.same(replaced, (who, text, group), self.model.get((who, text, group)))
        self.model[who, text, group] = subscription
        assert self.told.pop() == text

    @rule(who=st.integers(0, 3), text=FILTERS, group=GROUPS, qos=st.integers(0, 2), identifier=IDENTIFIERS)
    def load(self, who: int, text: str, group: str | None, qos: int, identifier: int) -> None:
        subscription = make(self.sessions[who], text, group, qos, identifier)
        self.table.load(who, part_of(text), [(text, packed(subscription))])
        if (who, text, group) not in self.model:
            self.model[who, text, group] = subscription
            self.dormant.add((who, text, group))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if in_memory := sorted(self.model.keys() - self.dormant, key=str):
            key = data.draw(st.sampled_from(in_memory))
            self.table.release(self.model[key])
            self.dormant.add(key)

    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        if self.dormant:
            key = who, text, group = data.draw(st.sampled_from(sorted(self.dormant, key=str)))
            known = self.model[key]
            self.model[key] = make(self.sessions[who], text, group, known.qos, known.identifier)
            self.table.restore(self.model[key])
            self.dormant.discard(key)

    @rule(who=st.integers(0, 3), text=FILTERS, group=GROUPS, data=st.data())
    def unsubscribe(self, who: int, text: str, group: str | None, data: st.DataObject) -> None:
        known = data.draw(st.booleans())
        if self.model and known:
            who, text, group = data.draw(st.sampled_from(sorted(self.model, key=str)))
        removed = self.table.remove(self.sessions[who].key, text, group)
        self.same(removed, (who, text, group), self.model.pop((who, text, group), None))
        assert self.told == ([text] if removed else [])
        self.told.clear()

    @rule(topic=TOPICS)
    def match(self, topic: str) -> None:
        found = self.table.match(topic)
        wanted = {key: each for key, each in self.model.items() if matches(each.filter, topic)}
        in_memory = [each for key, each in wanted.items() if key not in self.dormant]
        awake = [each for each in found if isinstance(each, Subscription)]
        assert sorted(map(id, awake)) == sorted(map(id, in_memory)) and len(found) == len(wanted)
        dormant = [each.session.key for key, each in wanted.items() if key in self.dormant]
        assert sorted([each.session.key for each in self.table.dormant(topic)]) == sorted(dormant)
        assert sorted(self.table.asleep(topic, ())) == sorted(dormant)
        elsewhere = {key[0] for key in dormant[:1]}
        assert sorted(self.table.asleep(topic, elsewhere)) == sorted(key for key in dormant if key[0] not in elsewhere)
        for text in {each.filter for each in wanted.values()}:
            in_order = [each for each in wanted.values() if each.filter == text]
            assert [each for each in awake if each.filter == text] == [each for each in in_order if each in in_memory]
            assert list(map(value, self.table.holders(text))) == list(map(value, in_order))
        assert found == self.table.match(topic)

    @invariant()
    def sizes(self) -> None:
        assert len(self.table) == len(self.model) == len(list(self.table))
        assert sorted({each.filter for each in self.table}) == sorted({text for _, text, _ in self.model})
        assert self.table.without((1, 3)) == len([who for who, _, _ in self.model if who in (0, 2)])

    def teardown(self) -> None:
        for who, text, group in list(self.model):
            assert text in self.table
            self.table.remove(self.sessions[who].key, text, group)
            self.model.pop((who, text, group))
        assert not any(self.table._parts) and not self.table._shapes and not self.table._tree_shapes
        assert len(self.table._tree) == 0


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a/b", None),
        ("a+/b", None),
        ("#", Shape(0, (), True)),
        ("+", Shape(1, (0,), False)),
        ("a/+/c/#", Shape(3, (1,), True)),
        ("/+//+", Shape(4, (1, 3), False)),
    ],
)
def test_shapes(text: str, shape: Shape | None) -> None:
    assert shape_of(text) == shape


def test_a_new_subscription_replaces_the_old_one_in_its_place() -> None:
    """[MQTT-3.8.4-3] [MQTT5-3.8.4-3]: an identical filter replaces the subscription."""
    table = SubscriptionTable()
    one, two = Subscriber("one"), Subscriber("two")
    old = make(one, "a/b", qos=0)
    table.add(old)
    table.add(make(two, "a/b"))
    new = make(one, "a/b", qos=2)
    assert table.add(new) is old
    assert [(each.session, each.qos) for each in awake(table, "a/b")] == [(one, 2), (two, 0)]
    assert len(table) == 2


def test_a_shared_and_an_ordinary_subscription_to_one_filter_are_two() -> None:
    """MQTT 5.0 section 4.8.2: the share name is part of what identifies a subscription."""
    table = SubscriptionTable()
    session = Subscriber("one")
    for group in (None, "g", "h"):
        assert table.add(make(session, "a/+", group)) is None
    assert [each.group for each in awake(table, "a/b")] == [None, "g", "h"]
    assert table.remove(session.key, "a/+", "x") is None
    removed = table.remove(session.key, "a/+", "g")
    assert removed is not None and removed.group == "g"


def test_first_level_wildcards_do_not_match_dollar_topics() -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1], in the shapes as in the tree."""
    for limit in (0, 32):
        table = SubscriptionTable(limit)
        for text in ("#", "+/monitor", "$SYS/#", "$SYS/+"):
            table.add(make(Subscriber(text), text))
        assert sorted(each.filter for each in awake(table, "$SYS/monitor")) == ["$SYS/#", "$SYS/+"]
        assert sorted(each.filter for each in awake(table, "SYS/monitor")) == ["#", "+/monitor"]


def test_filters_beyond_the_shape_limit_go_to_the_tree_and_nothing_moves() -> None:
    table = SubscriptionTable(shape_limit=2)
    session = Subscriber("one")
    for text in ("a/+", "b/+", "a/#", "+/b", "+/c", "+/d/#"):
        table.add(make(session, text))
    assert len(table._shapes) == 2
    assert len(table._tree) == 3
    for text in ("a/+", "b/+"):
        table.remove(session.key, text, None)
    # `+/x` goes to the tree, to the others of its shape; the free place is for the next new shape
    table.add(make(session, "+/x"))
    assert len(table._shapes) == 1
    table.add(make(session, "a/b/+"))
    assert len(table._shapes) == 2
    assert len(table._tree) == 4
    assert [each.filter for each in awake(table, "q/x")] == ["+/x"]


def test_work_per_match_is_bounded_by_shapes_not_filters() -> None:
    table = SubscriptionTable()
    for number in range(2000):
        table.add(make(Subscriber(str(number)), f"devices/{number}/+"))
    assert len(table._shapes) == 1
    assert len(table._tree) == 0
    assert [each.filter for each in awake(table, "devices/77/state")] == ["devices/77/+"]
    for depth in range(1, 500):
        table.match("/".join(["x"] * depth))
    assert len(table._fitting) <= 4


def test_subscribers_of_one_filter_share_its_text() -> None:
    table = SubscriptionTable()
    held = [make(Subscriber(str(number)), "/".join(["devices", "all"])) for number in range(3)]
    for subscription in held:
        table.add(subscription)
    assert held[1].filter is held[0].filter and held[2].filter is held[0].filter


def test_a_loaded_subscription_replaces_nothing() -> None:
    """The client was served while the node started: its session knows more than the snapshot."""
    table = SubscriptionTable()
    one, two = Subscriber("one"), Subscriber("two")
    known = make(one, "a", qos=2)
    table.add(known)
    stale = [("a", packed(make(one, "a"))), ("a", packed(make(two, "a", "g", 1, 5)))]
    for _ in range(2):
        table.load(7, part_of("a"), stale)
        assert [value(each) for each in table.holders("a")] == [value(known), value(make(two, "a", "g", 1, 5))]
        assert (
            table.match("a")[0] is known
            and [each.session.key for each in table.dormant("a")] == [two.key]
            and len(table) == 2
        )


def test_a_clean_session_is_in_no_slot() -> None:
    """This node has a copy of slot 7, with the durable session of a client. Now that client connects here and begins a
    clean session."""
    table = SubscriptionTable()
    durable, clean = Subscriber("one"), Subscriber("one", durable=False)
    for each in (durable, clean):
        table.add(make(each, "a"))
    assert (len(table), table.without((7,))) == (2, 1)
    table.remove(clean.key, "a", None, durable=False)
    assert (len(table), table.without((7,))) == (1, 0)


def test_a_dormant_subscription_takes_no_object_of_its_own_among_others() -> None:
    table = SubscriptionTable()
    for number in range(3):
        table.load(7, part_of("all"), [("all", packed(make(Subscriber(str(number)), "all", qos=1)))])
    held = table._parts[part_of("all")]["all"]
    assert isinstance(held, dict)
    heads = list(held.values())
    assert heads[0] is heads[1] is heads[2]


def test_parts_stay_as_they_are_on_disk() -> None:
    """Rows of snapshots are divided as the table. If this changes, `LAYOUT` in `sessions/snapshots.py` must change."""
    assert PARTS == 61
    assert [part_of(text) for text in ("a", "a/b", "devices/77/+", "#", "\u00e9")] == [58, 16, 53, 35, 19]


@given(st.integers(1, 40))
def test_a_long_filter_of_wildcards(levels: int) -> None:
    table = SubscriptionTable()
    text = "/".join(["+"] * levels)
    table.add(make(Subscriber("one"), text))
    assert len(awake(table, "/".join(["x"] * levels))) == 1
    assert awake(table, "/".join(["x"] * (levels + 1))) == []
