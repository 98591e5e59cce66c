"""`$SYS`: metrics as messages."""

from __future__ import annotations

import pytest

from strogoff.analytics.schema import MESSAGE, MESSAGE_TYPES, SESSION
from strogoff.broker.process import systree
from strogoff.broker.process.systree import Systree
from strogoff.cluster.identity import MARKED
from strogoff.judge.run import judge

from ...harness.broker import BrokerHarness


def systree_of(broker: BrokerHarness) -> Systree:
    """`$SYS` of this broker, with three values."""
    made = Systree(broker.node)
    made.values = lambda: {"mqtt_connect_received": 1, "bytes_sent": 12, "queue_processes": 0}
    return made


def test_values_come_every_interval() -> None:
    broker = BrokerHarness(systree_enabled=True, systree_interval_ms=1000)
    systree_of(broker).start()
    reader = broker.client("reader")
    reader.subscribe(("$SYS/#", 0))
    broker.pass_s(0.9)
    assert reader.messages() == []
    broker.pass_s(0.2)
    first = {message.topic: message.payload for message in reader.messages()}
    assert first == {
        "$SYS/n1/mqtt/connect/received": b"1", "$SYS/n1/bytes/sent": b"12", "$SYS/n1/queue/processes": b"0",
    }  # fmt: skip
    broker.pass_s(1.0)
    assert len(reader.messages()) == len(first)


def test_a_node_without_an_administration_server_publishes_its_counters() -> None:
    """For example one that is embedded in another program."""
    broker = BrokerHarness(systree_enabled=True)
    broker.client("reader").subscribe(("$SYS/#", 0))
    values = Systree(broker.node).values()
    assert (values["mqtt_connect_received"], values["total_active_connections"]) == (1, 1)
    assert values["router_subscriptions"] == 1 and len(values) > 40


def test_a_round_for_many_subscribers_takes_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn ends with its number of copies. The interval begins anew after the last one."""
    monkeypatch.setattr(systree, "COPIES_PER_TURN", 4)
    broker = BrokerHarness(systree_enabled=True, systree_interval_ms=1000)
    readers = [broker.client(f"r{number}") for number in range(4)]
    for reader in readers:
        reader.subscribe(("$SYS/#", 0))
    copies = broker.node.env.counters
    systree_of(broker).publish()
    assert copies.router_matches_local == 4
    broker.settle()
    assert copies.router_matches_local == 12
    systree_of(broker).start()
    broker.pass_s(2.5)
    assert copies.router_matches_local == 36


def test_a_filter_that_begins_with_a_wildcard_does_not_see_it() -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1]"""
    broker = BrokerHarness(systree_enabled=True)
    readers = [broker.client(f"r{version}", version) for version in (4, 5)]
    for reader in readers:
        reader.subscribe(("#", 0), ("+/n1/#", 0))
    systree_of(broker).publish()
    assert [reader.messages() for reader in readers] == [[], []]


def test_qos_retain_and_mountpoint_are_configured() -> None:
    broker = BrokerHarness(systree_enabled=True, systree_qos=1, systree_retain=True)
    systree_of(broker).publish()
    reader = broker.client("late")
    _, message = reader.subscribe(("$SYS/n1/queue/processes", 1))
    assert (message.qos, message.retain, message.payload) == (1, True, b"0")


@pytest.mark.parametrize("filters", [[], ["wanted"]])
def test_event_logs_have_no_rows_of_these_messages(filters: list[str]) -> None:
    """Nor do they count as left out. Messages of clients have their rows, and the log is right."""
    broker = BrokerHarness(level=MESSAGE, systree_enabled=True, systree_qos=1)
    broker.node.env.observer.choice.filter([], filters)
    reader = broker.persistent("reader")
    reader.subscribe(("$SYS/#", 1), ("wanted", 1))
    systree_of(broker).publish()
    broker.client("writer").publish("wanted", b"x", 1, 1)
    topics = [message.topic for message in reader.drain()]
    assert topics.count("wanted") == 1 and len(topics) == 4
    rows = [row for row in broker.host.events if row["type"] in MESSAGE_TYPES and "mid" in row]
    assert len({row["mid"] for row in rows}) == 1
    assert [row["topic"] for row in rows if row["type"] == "pub.recv"] == ["wanted"]
    assert broker.node.env.counters.eventlog_messages_left_out == 0
    assert judge(broker.host.events).findings == []


def test_numbers_stay_short_without_rows_of_messages() -> None:
    """An event log at level `session` has no rows of any message."""
    broker = BrokerHarness(level=SESSION, systree_enabled=True)
    systree_of(broker).publish()
    assert 0 < broker.node.env.numbers.counter < MARKED


def test_disabled_is_silent() -> None:
    broker = BrokerHarness(systree_enabled=False, systree_interval_ms=1000)
    systree_of(broker).start()
    reader = broker.client("reader")
    reader.subscribe(("$SYS/#", 0))
    broker.pass_s(5)
    assert reader.messages() == []
