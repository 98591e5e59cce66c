"""The event log tells that a client does not read what was sent to it."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.schema import MESSAGE
from strogoff.broker.connection.unread_output import TELL_AFTER_MS
from strogoff.judge.run import judge
from strogoff.mqtt.packets import Puback

from ...harness.broker import BrokerHarness, publish


def rows(broker: BrokerHarness) -> list[tuple[str, str, int]]:
    return [(row["type"], row["client"], row["conn"]) for row in broker.events("dlv.pause", "dlv.resume")]


def connection_of(broker: BrokerHarness, client: str) -> Any:
    (found,) = [each for each in broker.node.connections.values() if each.client_id == client]
    return found


def test_a_pause_has_two_rows() -> None:
    broker = BrokerHarness()
    broker.client("c", 5).subscribe(("t", 1))
    connection = connection_of(broker, "c")
    connection.writable(False)
    broker.pass_s(TELL_AFTER_MS / 1000 - 0.1)
    assert rows(broker) == []
    broker.pass_s(0.2)
    assert rows(broker) == [("dlv.pause", "c", connection.number)]
    broker.pass_s(60)
    connection.writable(True)
    assert [kind for kind, *_ in rows(broker)] == ["dlv.pause", "dlv.resume"]
    (opened,) = broker.events("conn.open")
    assert {number for *_, number in rows(broker)} == {opened["conn"]}


def test_a_short_pause_has_no_row_however_often() -> None:
    broker = BrokerHarness()
    broker.client("c", 5)
    connection = connection_of(broker, "c")
    for _ in range(9):
        connection.writable(False)
        broker.pass_s(TELL_AFTER_MS / 1000 - 0.1)
        connection.writable(True)
    broker.pass_s(60)
    assert rows(broker) == []


def test_the_end_of_a_connection_ends_its_pause() -> None:
    """Neither a pause that begins nor one that was told has a row after conn.close."""
    broker = BrokerHarness()
    clients = {name: broker.client(name, 5) for name in ("early", "told")}
    connections = {name: connection_of(broker, name) for name in clients}
    connections["told"].writable(False)
    broker.pass_s(2)
    connections["early"].writable(False)
    for client in clients.values():
        client.vanish()
    for each in connections.values():
        each.writable(True)
    broker.pass_s(60)
    assert [(kind, name) for kind, name, _ in rows(broker)] == [("dlv.pause", "told")]


@pytest.mark.parametrize("reason", ["a full window", "unread output", "a defect"])
def test_the_judge_knows_a_slow_client_from_a_broker_that_stands_still(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message waits for 20 s. The defect: the queue does not go on after PUBACK."""
    broker = BrokerHarness(level=MESSAGE)
    client = broker.client("c", 5, receive_maximum=1)
    client.subscribe(("t", 1))
    broker.client("p").ask(*[publish("t", b"%d" % number, 1, number) for number in (1, 2)])
    (first,) = client.messages()
    connection = connection_of(broker, "c")
    if reason == "a defect":
        monkeypatch.setattr(type(connection.session.queue), "pump", lambda queue: None)
    if reason == "unread output":
        connection.writable(False)
    if reason != "a full window":
        client.ask(Puback(first.packet_id))
    broker.pass_s(20)
    monkeypatch.undo()
    if reason == "a full window":
        client.ask(Puback(first.packet_id))
    else:
        connection.writable(True)
    broker.settle()
    client.drain()
    found = [each for each in judge(broker.host.events).findings if each.severity in ("fatal", "error")]
    assert [(each.anomaly, each.subject.client, round(each.value / 1000)) for each in found] == [("A8", "c", 20)] * (
        reason == "a defect"
    )
