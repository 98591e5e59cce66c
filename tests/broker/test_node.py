"""The node: its start and stop, its behaviour in a split, and its own publishes."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.schema import validate
from strogoff.broker import node as node_module
from strogoff.broker.queues.message import Message
from strogoff.broker.queues.queue import Queue
from strogoff.mqtt.packets import Disconnect, Puback
from strogoff.netsplit.policy import ViewState

from ..harness.broker import BrokerHarness, connect
from ..harness.transcript import CLOSED, RawClient, accepted, refused, will

VERSIONS = (3, 4, 5)


class Setting:
    """A plugin whose `auth_on_register` answers as the test sets."""

    def __init__(self, **modifiers: Any) -> None:
        self.modifiers = modifiers

    def auth_on_register(self, *_: Any) -> dict[str, Any]:
        return self.modifiers

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


# -- life


@pytest.mark.parametrize("version", VERSIONS)
def test_an_orderly_stop(version: int) -> None:
    """v5 clients get 0x8B, wills are sent, and the node accepts no client any more."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("will", 1))
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version, will=will(qos=1))) == [accepted()]
    node = broker.node
    ended: list[bool] = []
    broker.host.stop(lambda: ended.append(True))
    assert caller.hears() == ([Disconnect(0x8B), CLOSED] if version == 5 else [CLOSED])
    assert node.closing and not node.connections and ended == [True]
    with pytest.raises(ConnectionRefusedError):
        RawClient(broker)
    assert [event["type"] for event in broker.host.events][-1] == "node.stop"
    assert broker.events("will.fire")


def test_sessions_and_messages_survive_an_orderly_stop() -> None:
    """Sessions, their messages and retained messages are restored; a sent will is not sent twice."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("will", 1))
    broker.client("c", will=will(qos=1)).publish("r", b"kept", 1, retain=True)
    broker.host.stop(lambda: None)
    broker.settle()
    broker.disk = broker.disk.reopen()
    broker.host.start()
    broker.settle()
    client, connack = broker.connect("s", clean=False)
    assert connack.session_present
    assert client.payloads() == [b"gone"]
    _, retained = broker.client("late").subscribe(("r", 0))
    assert retained.payload == b"kept"
    assert broker.events("node.loaded")[-1]["sessions"] == 1
    assert broker.events("node.start")[-1]["retained"] == 1


def test_a_connection_is_counted() -> None:
    """It counts as opened when it is accepted, and as closed once, whatever ends it."""
    broker = BrokerHarness()
    counters = broker.node.env.counters
    RawClient(broker).vanish()
    broker.client("a").leave()
    broker.client("b").ask(b"\x00\x00")
    broker.client("c")
    assert (counters.socket_open, counters.socket_close) == (4, 3)
    assert len(broker.node.connections) == 1
    assert [event["client"] for event in broker.events("conn.open")] == ["a", "b", "c"]
    assert [event["client"] for event in broker.events("conn.close")] == ["a", "b"]


def test_a_connection_that_never_opened_does_not_close() -> None:
    """Events come in pairs: a connection that ends before its CONNACK was never opened."""
    broker = BrokerHarness()
    broker.hold_disk()
    client = RawClient(broker)
    assert client.says(connect("c", 4, False)) == []
    client.vanish()
    assert broker.events("conn.open", "conn.close") == []
    broker.free_disk()
    assert broker.events("conn.open", "conn.close") == []


# -- splits


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("flag", "own", "state", "serves"),
    [
        ("off", True, "minority", True),
        ("off", "on", "minority", True),
        ("on", False, "majority", False),
        ("on", "off", "majority", False),
        ("on", "majority", "minority", False),
        ("off", "majority", "majority", True),
    ],
)
def test_a_client_may_have_its_own_flag(version: int, flag: str, own: object, state: str, serves: bool) -> None:
    """`allow_register` of auth_on_register overrides the node's setting, as a bool or as a word."""
    broker = BrokerHarness(Setting(allow_register=own), allow_anonymous=False, allow_register_during_netsplit=flag)
    broker.node.policy.view_state = ViewState(state)
    caller = RawClient(broker, version)
    caller.send(connect("c", version))
    if serves:
        assert caller.hears() == [accepted()]
    else:
        assert refused(caller, 0x88 if version == 5 else 3)


def test_a_client_s_own_flag_for_publish() -> None:
    """The same for operations of a connected client."""
    broker = BrokerHarness(Setting(allow_publish="off"), allow_anonymous=False, allow_publish_during_netsplit="on")
    client = broker.client("c", 5)
    assert client.publish("t", b"", 1, 1) == [Puback(1, 0x10)]
    broker.node.policy.view_state = ViewState.MINORITY
    (answer,) = client.publish("t", b"", 1, 2)
    assert answer.reason >= 0x80
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.publish("t", b"", 1, 3) == [Puback(3, 0x10)]


def test_a_split_ends_no_connection_and_no_session() -> None:
    """Connected clients still get messages that are on their way; offline sessions stay."""
    broker = BrokerHarness(allow_publish_during_netsplit="majority")
    subscriber = broker.persistent("s", 5)
    subscriber.subscribe(("t", 1))
    client = broker.client("p", 5)
    broker.node.policy.view_state = ViewState.MAJORITY
    assert client.publish("t", b"1", 1, 1) == [Puback(1)]
    assert subscriber.payloads() == [b"1"]
    broker.node.policy.view_state = ViewState.MINORITY
    subscriber.vanish()
    broker.node.policy.view_state = ViewState.WHOLE
    assert [m.payload for m in broker.persistent("s", 5).drain()] == [b"1"]


# -- retained messages and what the node publishes


def test_retained_messages_come_back_with_their_mountpoint() -> None:
    """After a kill they are as before, with the rest of their intervals."""
    broker = BrokerHarness()
    here = RawClient(broker, 5)
    there = RawClient(broker, 5, mountpoint="there")
    assert here.says(connect("c", 5)) == there.says(connect("c", 5)) == [accepted()]
    here.publish("t", b"here", 1, 1, retain=True)
    there.publish("t", b"there", 1, 1, retain=True, message_expiry_interval=100)
    here.publish("gone", b"x", 1, 2, retain=True)
    here.publish("gone", b"", 1, 3, retain=True)
    here.publish("short", b"x", 1, 4, retain=True, message_expiry_interval=5)
    broker.restart()
    broker.pass_s(10)
    there = RawClient(broker, 5, mountpoint="there")
    there.says(connect("c", 5))
    _, retained = there.subscribe(("#", 0))
    assert retained.payload == b"there"
    assert retained.properties == {"message_expiry_interval": 90}
    _, retained = broker.client("c", 5).subscribe(("#", 0))
    assert retained.payload == b"here"


def test_expired_retained_messages_are_swept() -> None:
    """`expire_retain_cache`: they are deleted from memory and disk without a request."""
    broker = BrokerHarness(expire_retain_cache_s=30)
    broker.client("c", 5).publish("t", b"x", 1, 1, retain=True, message_expiry_interval=20)
    assert broker.node.retained.count == 1 and len(broker.keys(b"r")) == 1
    broker.pass_s(29)
    assert broker.node.retained.count == 1
    broker.pass_s(2)
    assert broker.node.retained.count == 0 and broker.keys(b"r") == []


def test_a_refused_retained_message_is_an_event() -> None:
    """`retained.max_messages`: the message is delivered, is not retained, and there is an event (P8)."""
    broker = BrokerHarness(retained_max_messages=1)
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 0))
    client = broker.client("c")
    client.publish("a", b"1", 1, 1, retain=True)
    client.publish("b", b"2", 1, 2, retain=True)
    assert subscriber.payloads() == [b"1", b"2"]
    assert broker.node.retained.count == 1
    assert [event["topic"] for event in broker.events("ret.refuse")] == ["b"]


def test_publishing_from_inside() -> None:
    """A message of a plugin or of `$SYS` is routed and retained like any other."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 0))
    node = broker.node
    node.publisher.publish(Message("", "t", b"x", 0, True, None, 0, "", node.env.origin, node.env.numbers.next()))
    assert subscriber.payloads() == [b"x"]
    _, retained = broker.client("late").subscribe(("t", 0))
    assert retained.retain and retained.payload == b"x"


def test_the_totals_are_an_event_at_the_end() -> None:
    """`node.stats` counts everything since the start."""
    broker = BrokerHarness()
    broker.client("s").subscribe(("t", 0))
    broker.client("p", 5).publish("t")
    broker.settle()
    broker.node.close()
    assert broker.events("node.stats") == []
    broker.node.stopped()
    (stats,) = broker.events("node.stats")
    assert broker.host.events[-1]["type"] == "node.stop"
    assert (stats["connects"], stats["publishes"], stats["deliveries"], stats["drops"]) == (2, 1, 1, {})


def test_a_stop_that_has_not_written_everything_is_no_stop_in_order() -> None:
    """What the disk has not taken is lost, as by a kill: the log must not say otherwise."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    broker.disk.full = True
    broker.client("p").publish("t", b"", 1, 1)
    broker.node.close()
    broker.node.stopped()
    last = broker.host.events[-1]
    assert (last["type"], last["state"]) == ("store.state", "unwritten") and validate(last) == []
    assert broker.events("node.stop") == []


def test_what_is_stored_is_sent_to_all_connected_clients_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness()
    for number in range(5):
        broker.persistent(f"c{number}")
    broker.persistent("away").leave()
    monkeypatch.setattr(node_module, "_PUMPED", 2)
    pumped: list[str] = []
    monkeypatch.setattr(Queue, "pump", lambda queue: pumped.append(queue.session.client_id))
    broker.node.deliver_stored()
    assert len(pumped) == 2
    broker.settle()
    assert sorted(pumped) == [f"c{number}" for number in range(5)]


def test_the_state_of_the_disk_is_reported() -> None:
    """The node emits an event for a full disk, and one for its recovery. The log gets its lines from these events."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    broker.disk.full = True
    broker.client("p").publish("t", b"", 1, 1)
    broker.pass_s(0.1)
    assert broker.node.policy.restricted
    broker.disk.full = False
    broker.pass_s(10)
    assert not broker.node.policy.restricted
    states = [event["state"] for event in broker.events("store.state")]
    assert states[-1] == "serving" and len(states) == 2
    assert not [line for _, line in broker.host.lines if line.startswith("message store")]
