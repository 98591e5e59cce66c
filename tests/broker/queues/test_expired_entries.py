"""Entries that have expired give way to new messages, and no turn reads many of them."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.queues import expired_entries
from strogoff.mqtt.packets import Puback

from ...harness.broker import BrokerHarness, PacketClient
from .numbered import fill, numbers, offline


class Absent:
    """A broker with a full queue of an absent client. `steps`: the ranges of the steps in which it was searched."""

    def __init__(self, expiries_s: list[int], others: int = 0, **options: Any) -> None:
        self.broker = BrokerHarness(max_offline_messages=len(expiries_s), **options)
        for client_id in ("s", *[f"other{number}" for number in range(others)]):
            offline(self.broker, client_id, 5)
        self.writer = self.broker.client("p", 5)
        self.count = 0
        self.steps: list[tuple[int, int]] = []
        for expiry_s in expiries_s:
            self.publish(expiry_s)

    def publish(self, expiry_s: int = 0) -> None:
        """Publish the next number; 0: it never expires."""
        self.count += 1
        more: dict[str, Any] = {"message_expiry_interval": expiry_s} if expiry_s else {}
        self.writer.publish("t", b"%d" % self.count, 1, self.count, **more)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session = self.broker.node.sessions.get("", "s")
        assert session is not None
        drop = type(session.queue).drop_expired  # type: ignore[attr-defined]

        def noted(queue: object, start: int, stop: int, limit: int) -> object:
            self.steps.append((start, stop))
            return drop(queue, start, stop, limit)

        monkeypatch.setattr(type(session.queue), "drop_expired", noted)

    def come(self) -> list[int]:
        """The client comes: the numbers that it gets."""
        return numbers(self.client().drain())

    def client(self) -> PacketClient:
        return self.broker.persistent("s", 5)

    @property
    def dropped(self) -> tuple[int, int]:
        """Messages that were dropped for lack of room, and because they had expired."""
        counters = self.broker.node.env.counters
        return counters.queue_message_drop, counters.queue_message_expired


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of four entries."""
    monkeypatch.setattr(expired_entries, "STEP", 4)


@pytest.mark.parametrize("ends", ["stays", "is released", "restarts"])
def test_a_full_queue_drops_what_has_expired_before_it_refuses(ends: str) -> None:
    absent = Absent([0, 10, 10, 1000], idle_session_s=1 if ends == "is released" else 10_000)
    absent.broker.pass_s(20)
    if ends == "restarts":
        absent.broker.restart()
        absent.writer = absent.broker.client("p", 5)
    for _ in range(3):
        absent.publish()
    assert absent.dropped[0] == 1, "two have made room for two"
    assert len(absent.broker.keys(b"q")) == 4
    assert absent.come() == [1, 4, 5, 6]
    assert absent.broker.keys(b"q") == []


def test_a_body_that_queues_share_goes_with_the_last_expired_entry() -> None:
    broker = BrokerHarness(max_offline_messages=1)
    for name in ("s", "s226"):  # sessions of the same slot
        offline(broker, name, 5)
    publisher = broker.client("p", 5)
    publisher.publish("t", bytes(1000), 1, 1, message_expiry_interval=1)
    assert len(broker.keys(b"p")) == 1
    broker.pass_s(5)
    fill(publisher, 2, 2)
    broker.pass_s(1)
    assert len(broker.keys(b"q")) == 2 and broker.keys(b"p") == broker.keys(b"u") == []
    for name in ("s", "s226"):
        assert numbers(broker.persistent(name, 5).drain()) == [2]


def test_what_was_sent_before_is_completed() -> None:
    absent = Absent([10, 10], receive_max_client=1)
    client = absent.client()
    (sent,) = client.messages()
    assert sent.payload == b"1"
    client.vanish()
    absent.broker.pass_s(20)
    absent.publish()
    absent.publish()
    assert absent.dropped == (1, 1)
    assert absent.come() == [1, 3]


def test_a_search_in_a_long_queue_takes_many_turns(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first message does not wait for it. Later ones find room."""
    absent = Absent([0] * 20 + [10] * 6)
    absent.watch(monkeypatch)
    absent.broker.pass_s(20)
    turns: list[int] = []
    background = absent.broker.node.env.background
    run = background._run

    def noted(self: object) -> None:
        turns.append(len(absent.steps))
        run()

    monkeypatch.setattr(type(background), "_run", noted)
    absent.publish()
    assert absent.steps == [(4 * number, 26) for number in range(6)] and turns == [1, 2, 3, 4, 5]
    assert absent.dropped == (1, 4)
    for _ in range(6):
        absent.publish()
    assert absent.dropped == (1, 6), "it went on behind the entries that it had read"
    absent.publish()
    assert absent.dropped == (2, 6)
    assert absent.come() == [*range(1, 21), *range(28, 34)]


def test_a_search_in_vain_is_repeated_when_the_next_entry_expires(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is refused costs nothing before that."""
    absent = Absent([0, 0, 0, 0, 0, 100, 200])
    absent.watch(monkeypatch)
    for _ in range(5):
        absent.publish()
    assert absent.steps == [(0, 7), (4, 7)] and absent.dropped == (5, 0)
    absent.broker.pass_s(101)
    absent.publish()
    assert absent.dropped == (6, 1), "a later step made room"
    absent.publish()
    absent.steps.clear()
    for _ in range(5):
        absent.publish()
    assert len(absent.steps) == 3 and absent.dropped == (11, 1), "once around"
    absent.broker.pass_s(100)
    absent.publish()
    absent.publish()
    assert absent.dropped[1] == 2
    assert absent.come()[:5] == [1, 2, 3, 4, 5]


def test_a_search_in_vain_is_not_repeated_with_lifo(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """There each message is written, also the one that began the search."""
    absent = Absent([0] * 40, queue_type="lifo")
    absent.watch(monkeypatch)
    for _ in range(20):
        absent.publish()
    assert len(absent.steps) <= 11 and absent.dropped == (20, 0)


def test_the_message_that_begins_a_search_in_vain_expires_too(small: None) -> None:
    absent = Absent([0] * 40, queue_type="lifo")
    absent.publish(5)
    absent.broker.pass_s(10)
    absent.publish()
    absent.publish()
    assert absent.dropped[1] == 1


def test_an_entry_that_was_written_after_a_search_in_vain_expires_too(small: None) -> None:
    """The client has come and gone meanwhile."""
    absent = Absent([0, 0, 0])
    absent.publish()
    assert absent.dropped == (1, 0)
    assert absent.come() == [1, 2, 3]
    absent.client().leave()
    for expiry_s in (0, 5, 0):
        absent.publish(expiry_s)
    absent.broker.pass_s(10)
    absent.publish()
    assert absent.dropped == (1, 1)
    assert absent.come() == [5, 7, 8]


def test_searches_in_many_queues_do_not_fill_the_turns(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work in steps would wait for all of them. The next messages take the searches further."""
    monkeypatch.setattr(expired_entries, "BUSY", 2)
    absent = Absent([0] * 10 + [10] * 2, others=5)
    absent.broker.pass_s(20)
    background = absent.broker.node.env.background
    call, most = type(background).__call__, [0]

    def noted(self: Any, step: Any) -> None:
        call(self, step)
        most[0] = max(most[0], self.waiting)

    monkeypatch.setattr(type(background), "__call__", noted)
    for _ in range(5):
        absent.publish()
    assert most == [2]
    assert absent.dropped == (18, 12), "each queue refused three of five"


def test_a_search_ends_when_the_client_comes(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry in flight does not lose its record, although it has expired."""
    absent = Absent([0] * 5 + [10] * 5, receive_max_client=20)
    absent.watch(monkeypatch)
    session = absent.broker.node.sessions.get("", "s")
    assert session is not None
    held: list[object] = []
    monkeypatch.setattr(type(absent.broker.node.env.background), "__call__", lambda self, step: held.append(step))
    absent.broker.pass_s(20)
    absent.publish()
    assert len(absent.steps) == 1 and len(held) == 1
    client = absent.client()
    got = client.messages()
    assert numbers(got) == [1, 2, 3, 4, 5]
    held.pop()()  # type: ignore[operator]
    assert len(absent.steps) == 1 and not held
    client.send(*[Puback(each.packet_id) for each in got])
    assert absent.broker.keys(b"q") == []
