"""`$SYS`: the counters as messages."""

from __future__ import annotations

from strogoff.broker.process.systree import Systree

from ...harness.broker import BrokerHarness


def test_values_come_every_interval() -> None:
    broker = BrokerHarness(systree_enabled=True, systree_interval_ms=1000)
    Systree(broker.node).start()
    reader = broker.client("reader")
    reader.subscribe(("$SYS/#", 0))
    broker.pass_s(0.9)
    assert reader.messages() == []
    broker.pass_s(0.2)
    first = {message.topic: message.payload for message in reader.messages()}
    assert first["$SYS/n1/mqtt/connect/received"] == b"1"
    assert first["$SYS/n1/router/subscriptions"] == b"1"
    broker.pass_s(1.0)
    assert len(reader.messages()) == len(first)


def test_labels_are_added_up() -> None:
    broker = BrokerHarness()
    for version in (3, 4, 5):
        broker.client(f"c{version}", version)
    assert Systree(broker.node).values()["mqtt_connect_received"] == 3


def test_a_filter_that_begins_with_a_wildcard_does_not_see_it() -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1]"""
    broker = BrokerHarness(systree_enabled=True)
    readers = [broker.client(f"r{version}", version) for version in (4, 5)]
    for reader in readers:
        reader.subscribe(("#", 0), ("+/n1/#", 0))
    Systree(broker.node).publish()
    assert [reader.messages() for reader in readers] == [[], []]


def test_qos_retain_and_mountpoint_are_configured() -> None:
    broker = BrokerHarness(systree_enabled=True, systree_qos=1, systree_retain=True)
    Systree(broker.node).publish()
    reader = broker.client("late")
    _, message = reader.subscribe(("$SYS/n1/queue/processes", 1))
    assert (message.qos, message.retain, message.payload) == (1, True, b"0")


def test_disabled_is_silent() -> None:
    broker = BrokerHarness(systree_enabled=False, systree_interval_ms=1000)
    Systree(broker.node).start()
    reader = broker.client("reader")
    reader.subscribe(("$SYS/#", 0))
    broker.pass_s(5)
    assert reader.messages() == []
