"""Retained messages against a dict that is searched with `matches`."""

from __future__ import annotations

from heapq import heappop
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing import retained as retained_module
from strogoff.broker.routing.retained import LOOKS, Refusal, RetainedMessages, size_of
from strogoff.broker.routing.topic_search import TopicSearch
from strogoff.mqtt.topics import matches

from .test_level_tree import FILTERS, TOPICS

ORIGIN = Origin("n1", 1)


def make(topic: str, payload: bytes = b"x", expires_at: int = 0, qos: int = 1, **properties: object) -> Message:
    return Message("", topic, payload, qos, True, properties or None, expires_at, "publisher", ORIGIN, 1)


def deadlines(retained: RetainedMessages) -> int:
    """How many deadlines are noted, with those out of date."""
    return len(retained._deadlines) + len(retained._former)


class RetainedMachine(RuleBasedStateMachine):
    """Sets, deletes, restores, sweeps and reads at random while time advances."""

    @initialize(max_messages=st.sampled_from([0, 3]), max_bytes=st.sampled_from([0, 1600]))
    def start(self, max_messages: int, max_bytes: int) -> None:
        self.max_messages, self.max_bytes = max_messages, max_bytes
        self.model: dict[str, Message] = {}
        self.retained = RetainedMessages(max_messages, max_bytes)
        self.now = 1

    @rule(topic=TOPICS, payload=st.sampled_from([b"", b"x", b"x" * 300]), life=st.sampled_from([None, 1, 2, 3, 3]))
    def set(self, topic: str, payload: bytes, life: int | None) -> None:
        message = make(topic, payload, self.now + life if life else 0)
        answer = self.retained.set(message)
        old = self.model.get(topic)
        after = {**self.model, topic: message}
        if not payload:
            assert answer is old
            self.model.pop(topic, None)
        elif answer is Refusal.TOO_MANY:
            assert self.max_messages and len(after) > self.max_messages
        elif answer is Refusal.TOO_BIG:
            assert self.max_bytes and sum(map(size_of, after.values())) > self.max_bytes
        else:
            assert answer is old
            assert not self.max_messages or len(after) <= self.max_messages or old
            self.model = after

    @rule(topic=TOPICS)
    def delete(self, topic: str) -> None:
        assert self.retained.delete(topic) is self.model.pop(topic, None)

    @rule(topic=TOPICS, there=st.booleans())
    def restore(self, topic: str, there: bool) -> None:
        self.model.pop(topic, None)
        message = make(topic) if there else None
        self.retained.restore(topic, message)
        if message is not None:
            self.model[topic] = message

    @rule(text=FILTERS)
    def match(self, text: str) -> None:
        alive = {t: m for t, m in self.model.items() if not m.expires_at or m.expires_at > self.now}
        wanted = [alive[topic] for topic in sorted(alive) if matches(text, topic)]
        assert self.retained.match(text, self.now) == wanted

    @rule(topic=TOPICS)
    def get(self, topic: str) -> None:
        found = self.retained.match(topic, self.now)
        assert self.retained.get(topic, self.now) is (found[0] if found else None)

    @rule(step=st.integers(1, 2))
    def time_goes_on(self, step: int) -> None:
        self.now += step

    @rule(limit=st.integers(1, 5))
    def sweep(self, limit: int) -> None:
        removed = self.retained.sweep(self.now, limit)
        assert len(removed) <= limit
        for message in removed:
            assert 0 < message.expires_at <= self.now
            assert self.model.pop(message.topic) is message

    @invariant()
    def sizes(self) -> None:
        assert len(self.retained) == len(self.model)
        assert self.retained.bytes == sum(map(size_of, self.model.values()))
        assert deadlines(self.retained) <= 2 * self.retained._expiring + 64

    def teardown(self) -> None:
        while 0 < self.retained.next_expiry <= self.now:
            self.sweep(2)
        assert all(not m.expires_at or m.expires_at > self.now for m in self.model.values())


TestRetained = RetainedMachine.TestCase
TestRetained.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_last_one_is_kept() -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-7] [MQTT5-3.3.1-5]: it replaces the one before, also with QoS 0."""
    retained = RetainedMessages()
    first, second = make("a", qos=2), make("a", qos=0)
    assert retained.set(first) is None
    assert retained.set(second) is first
    assert retained.match("a", 0) == [second]


def test_an_empty_payload_deletes_and_is_not_kept() -> None:
    """[MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT5-3.3.1-6] [MQTT5-3.3.1-7]"""
    retained = RetainedMessages()
    kept = make("a")
    retained.set(kept)
    assert retained.set(make("a", b"")) is kept
    assert retained.set(make("a", b"")) is None
    assert len(retained) == 0 and retained.bytes == 0


def test_expired_messages_are_hidden_until_they_are_swept() -> None:
    """[MQTT5-3.3.2-5]: a message whose expiry has passed is not sent."""
    retained = RetainedMessages()
    retained.set(make("a/b", expires_at=10))
    kept = make("a/c")
    retained.set(kept)
    assert len(retained.match("a/+", 9)) == 2
    assert retained.match("a/+", 10) == [kept]
    assert retained.match("a/b", 10) == []
    assert len(retained) == 2 and retained.next_expiry == 10
    assert retained.sweep(9, 100) == []
    assert [message.topic for message in retained.sweep(10, 100)] == ["a/b"]
    assert len(retained) == 1 and retained.next_expiry == 0


def test_limits_refuse_new_messages_but_not_smaller_replacements() -> None:
    one = make("a", b"x" * 100)
    retained = RetainedMessages(max_messages=1, max_bytes=size_of(one))
    assert retained.set(one) is None
    assert retained.set(make("b")) is Refusal.TOO_MANY
    assert retained.set(make("a", b"x" * 101)) is Refusal.TOO_BIG
    assert retained.get("a", 0) is one
    assert retained.set(make("a", b"x" * 99)) is one
    retained.restore("b", make("b", b"x" * 1000))
    assert len(retained) == 2 and retained.bytes > retained.max_bytes
    small = retained.set(make("a", b"x" * 98))
    assert isinstance(small, Message), "a smaller message is never refused"


def test_properties_count() -> None:
    plain = size_of(make("a"))
    assert size_of(make("a", content_type="text")) == plain + 80 + 4
    assert size_of(make("a", user_property=[("name", "v")])) > plain + 80 + 5
    assert size_of(make("a", payload_format_indicator=1)) == plain + 80
    message = make("a")
    before = size_of(message)
    message.frame_key = 9
    assert size_of(message) == before


@given(st.permutations(["a/b", "a/b/c", "a", "a/", "$SYS/a", "b/b"]))
def test_the_order_is_by_topic(topics: list[str]) -> None:
    """[MQTT-4.7.2-1]: `#` leaves out topics that begin with `$`."""
    retained = RetainedMessages()
    for topic in topics:
        retained.set(make(topic))
    assert [message.topic for message in retained.match("#", 0)] == ["a", "a/", "a/b", "a/b/c", "b/b"]
    assert [message.topic for message in retained.match("a/#", 0)] == ["a", "a/", "a/b", "a/b/c"]
    assert [message.topic for message in retained.match("+/b", 0)] == ["a/b", "b/b"]


def test_deadlines_of_messages_that_were_replaced_do_not_pile_up() -> None:
    retained = RetainedMessages()
    for number in range(5000):
        retained.set(make("a", expires_at=number + 1))
    assert deadlines(retained) <= 66
    assert retained.sweep(4999, 1000) == []
    assert len(retained.sweep(5000, 1000)) == 1


def test_deadlines_out_of_date_are_removed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of them at once would stop the node. None is lost meanwhile, also if the early ones are the valid."""
    looks: list[object] = []

    def look(heap: list[Any]) -> Any:
        looks.append(heap[0])
        return heappop(heap)

    monkeypatch.setattr(retained_module, "heappop", look)
    retained, most = RetainedMessages(), 0
    valid = {f"early/{number}": 1 + number for number in range(500)}
    for topic, expires_at in valid.items():
        retained.set(make(topic, expires_at=expires_at))
    for number in range(20_000):
        topic, expires_at = f"late/{number * 7 % 500}", 30_000 - number
        valid[topic] = expires_at
        before = len(looks)
        retained.set(make(topic, expires_at=expires_at))
        assert len(looks) - before <= LOOKS
        most = max(most, deadlines(retained))
    assert most < 2.5 * 1000
    now = 0
    while valid:
        now += 1000
        removed = retained.sweep(now, 100_000)
        assert all(valid.pop(message.topic) == message.expires_at <= now for message in removed)
        assert all(expires_at > now for expires_at in valid.values())
    assert retained.sweep(30_000, 100_000) == [] and len(retained) == deadlines(retained) == 0


def test_a_filter_visits_its_own_branch_only() -> None:
    retained = RetainedMessages()
    for number in range(1000):
        retained.set(make(f"devices/{number}/state"))
        retained.set(make(f"devices/{number}/alarm"))

    def looks(text: str) -> int:
        search, count = TopicSearch(text), 0
        while not search.done:
            count += retained.step(search, 0, 100, 100)[1]
        return count

    assert looks("devices/7/state") == 1
    assert looks("devices/7/#") == 3
    assert looks("+/7/state") == 5
    assert looks("devices/+/nothing") == 2001
    assert looks("#") == 2001
