"""Wills: when they are published, when they are dropped, and how they survive connections and processes."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.connection.refusal import give_up
from strogoff.broker.plugins.hooks import Refuse
from strogoff.broker.queues.records import WillRecord, encode
from strogoff.broker.sessions.session import Session
from strogoff.broker.sessions.wills import PendingWill
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Disconnect
from strogoff.netsplit.policy import ViewState
from strogoff.storage import keys

from ...harness.broker import BrokerHarness, PacketClient, connect
from ...harness.transcript import CLOSED, RawClient, refused, will

VERSIONS = (3, 4, 5)


def watched(version: int = 5, qos: int = 2, **options: Any) -> tuple[BrokerHarness, PacketClient]:
    """A broker, and a subscriber to every will on it."""
    broker = BrokerHarness(**options)
    watcher = broker.client("w", version)
    watcher.subscribe(("will/#", qos))
    return broker, watcher


# -- when it is published, and when not


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_lost_connection(version: int, persistent: bool) -> None:
    """The will is published once, and then forgotten.

    [MQTT-3.1.2-8] [MQTT5-3.1.2-7] [MQTT5-3.1.2-8] [MQTT-3.1.2-10] [MQTT5-3.1.2-10]
    """
    broker, watcher = watched()
    opened = broker.persistent if persistent else broker.client
    opened("c", version, will=will("will/c", b"gone", 1)).vanish()
    (message,) = watcher.messages()
    assert (message.topic, message.payload, message.qos, message.retain) == ("will/c", b"gone", 1, False)
    opened("c", version).vanish()
    broker.pass_s(2000)
    assert watcher.messages() == []


@pytest.mark.parametrize("persistent", [False, True])
def test_the_log_has_the_will_of_a_connection_without_connack(persistent: bool) -> None:
    """The node has the will when CONNACK waits for the disk, and the log says so before."""
    broker, watcher = watched()
    broker.hold_disk()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, not persistent, 60 if persistent else None, will=will("will/c"))) == []
    assert [row["topic"] for row in broker.events("will.arm")] == ["will/c"]
    caller.vanish()
    broker.disk.stall_until = 0.0
    broker.pass_s(100)
    rows = [row["type"] for row in broker.events("will.arm", "will.fire", "will.cancel", "conn.open")]
    assert rows[rows.index("will.arm") :] == ["will.arm", "will.fire"]
    assert [message.topic for message in watcher.messages()] == ["will/c"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_has_its_own_qos(version: int, qos: int) -> None:
    """As in CONNECT; a subscription may lower it [MQTT-3.1.2-8] [MQTT5-3.1.2-8]."""
    broker, watcher = watched()
    low = broker.client("low")
    low.subscribe(("will/#", 0))
    broker.client("c", version, will=will("will/c", b"", qos)).vanish()
    assert [m.qos for m in watcher.messages()] == [qos]
    assert [m.qos for m in low.messages()] == [0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", [False, True])
def test_disconnect_discards_the_will(version: int, persistent: bool) -> None:
    """[MQTT-3.14.4-3] [MQTT5-3.14.4-3] [MQTT-3.1.2-10] [MQTT5-3.1.2-10]"""
    broker, watcher = watched()
    opened = broker.persistent if persistent else broker.client
    opened("c", version, will=will("will/c")).leave()
    broker.pass_s(2000)
    assert watcher.messages() == []
    assert [event["reason"] for event in broker.events("will.cancel")] == ["disconnected"]


@pytest.mark.parametrize("reason", [0x04, 0x80, 0x81, 0x82, 0x83, 0x93, 0x97, 0x98])
def test_disconnect_with_another_reason_sends_the_will(reason: int) -> None:
    """0x04 requests the will, and every error code is no normal end (MQTT 5.0 section 3.14.4) [MQTT5-3.1.2-8]."""
    broker, watcher = watched(5)
    caller = RawClient(broker, 5)
    caller.says(connect("c", 5, will=will("will/c")))
    assert caller.says(Disconnect(reason)) == [CLOSED]
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_protocol_violation_sends_the_will(version: int) -> None:
    """The broker closes, not the client [MQTT-3.1.2-8] [MQTT5-3.1.2-8] [MQTT-4.8.0-1]."""
    broker, watcher = watched()
    broker.client("c", version, will=will("will/c")).ask(b"\x00\x00")
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_expired_keep_alive_sends_the_will(version: int) -> None:
    """Keep alive has expired, as if the network had failed [MQTT-3.1.2-24] [MQTT5-3.1.2-22]."""
    broker, watcher = watched()
    broker.client("c", version, keepalive_s=10, will=will("will/c"))
    broker.pass_s(14.9)
    assert watcher.messages() == []
    broker.pass_s(0.2)
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_will_nothing_is_published(version: int) -> None:
    """[MQTT-3.1.2-12]"""
    broker, watcher = watched()
    all_topics = broker.client("all")
    all_topics.subscribe(("#", 0))
    broker.client("c", version).vanish()
    broker.persistent("d", version).vanish()
    broker.pass_s(2000)
    assert all_topics.messages() == watcher.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("retain", [False, True])
def test_the_retain_flag_of_a_will(version: int, retain: bool) -> None:
    """0: an ordinary message; 1: a retained one [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT5-3.1.2-14] [MQTT5-3.1.2-15]"""
    broker, watcher = watched()
    broker.client("c", version, will=will("will/c", b"gone", 1, retain)).vanish()
    assert [(m.payload, m.retain) for m in watcher.messages()] == [(b"gone", False)]
    late = broker.client("late", version)
    late.received = late.subscribe(("will/#", 0))
    assert [(m.payload, m.retain) for m in late.messages()] == ([(b"gone", True)] if retain else [])


def test_a_retained_will_without_payload_deletes() -> None:
    """As every retained message without payload does."""
    broker, watcher = watched()
    broker.client("p").publish("will/c", b"old", 1, retain=True)
    broker.client("c", will=will("will/c", b"", 0, True)).vanish()
    assert watcher.payloads() == [b"old", b""]
    assert broker.node.retained.count == 0


def test_the_properties_of_a_will() -> None:
    """The message has them, with user properties in order; the delay is not among them [MQTT5-3.1.3-10]."""
    broker, watcher = watched(5)
    pairs = [("b", "1"), ("a", "2"), ("b", "0"), ("", "")]
    last = will(
        "will/c",
        user_property=pairs,
        content_type="text/plain",
        response_topic="r",
        correlation_data=b"\x00",
        payload_format_indicator=1,
        message_expiry_interval=60,
        will_delay_interval=2,
    )
    broker.client("c", 5, False, 1000, will=last).vanish()
    broker.pass_s(3)
    (message,) = watcher.messages()
    assert message.properties == {
        "user_property": pairs,
        "content_type": "text/plain",
        "response_topic": "r",
        "correlation_data": b"\x00",
        "payload_format_indicator": 1,
        "message_expiry_interval": 60,
    }


# -- delay


@pytest.mark.parametrize(
    ("delay", "expiry", "cap", "due"), [(5, 100, -1, 5), (50, 10, -1, 10), (50, 100, 20, 20), (5, 0, -1, 0)]
)
def test_the_delay_of_a_will(delay: int, expiry: int, cap: int, due: int) -> None:
    """It is at most the expiry of the session [MQTT5-3.1.2-8] and `max_last_will_delay`."""
    broker, watcher = watched(5, max_last_will_delay_s=cap)
    broker.client("c", 5, False, expiry, will=will("will/c", will_delay_interval=delay)).vanish()
    if due:
        broker.pass_s(due - 0.1)
        assert watcher.messages() == []
        broker.pass_s(0.2)
    assert watcher.payloads() == [b"gone"]
    broker.pass_s(200)
    assert watcher.messages() == []


def test_a_resumed_session_stops_the_delayed_will() -> None:
    """[MQTT5-3.1.3-9]; the next connection's will counts from the end of that one."""
    broker, watcher = watched(5)
    last = will("will/c", will_delay_interval=5)
    broker.client("c", 5, False, 100, will=last).vanish()
    broker.pass_s(4)
    again = broker.client("c", 5, False, 100, will=last)
    broker.pass_s(10)
    assert watcher.messages() == []
    assert [event["reason"] for event in broker.events("will.cancel")] == ["resumed"]
    again.vanish()
    broker.pass_s(4.9)
    assert watcher.messages() == []
    broker.pass_s(0.2)
    assert watcher.payloads() == [b"gone"]
    first, second = (each for kind, each in names(broker) if kind == "will.arm")
    assert dict(names(broker)[2:]) == {
        "will.cancel": first,
        **dict.fromkeys(("will.arm", "conn.open", "will.fire"), second),
    }


def test_clean_start_sends_the_delayed_will_at_once() -> None:
    """The session has ended, and that ends the delay [MQTT5-3.1.2-8]."""
    broker, watcher = watched(5)
    broker.client("c", 5, False, 100, will=will("will/c", will_delay_interval=50)).vanish()
    broker.client("c", 5, True)
    assert watcher.payloads() == [b"gone"]


def test_disconnect_can_shorten_the_session_of_a_will() -> None:
    """The will is sent when the session ends; an expiry of 0 ends it at once [MQTT5-3.1.2-8]."""
    broker, watcher = watched(5)
    client = broker.client("c", 5, False, 100, will=will("will/c", will_delay_interval=50))
    client.ask(Disconnect(0x04, {"session_expiry_interval": 0}))
    assert watcher.payloads() == [b"gone"]


# -- permission


class Deciding:
    """A plugin whose `auth_on_publish` answers by topic."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []

    def auth_on_register(self, *_: Any) -> bool:
        return True

    def auth_on_publish(self, *args: Any) -> Any:
        self.asked.append(args)
        return self.answers.get(args[3], True)

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_that_is_not_allowed(version: int) -> None:
    """The plugin is asked at CONNECT and refuses it [MQTT5-3.1.4-2]."""
    plugin = Deciding(secret=Refuse("no"))
    broker = BrokerHarness(plugin)
    caller = RawClient(broker, version)
    caller.send(connect("c", version, username="u", will=will("secret", b"x", 1, True)))
    assert refused(caller, 0x87 if version == 5 else 5)
    user, subscriber, *rest = plugin.asked[0]
    assert (user, tuple(subscriber), rest) == ("u", ("", "c"), [1, "secret", b"x", True])
    assert broker.node.sessions.get("", "c") is None


def test_a_plugin_changes_a_will() -> None:
    """The modifiers of auth_on_publish apply to wills as well; no plugin is asked when the will is sent."""
    plugin = Deciding(a={"topic": "will/b", "payload": b"new", "qos": 1, "retain": True})
    broker = BrokerHarness(plugin)
    watcher = broker.client("w")
    watcher.subscribe(("#", 2))
    broker.client("c", will=will("a", b"old")).vanish()
    (message,) = watcher.messages()
    assert (message.topic, message.payload, message.qos) == ("will/b", b"new", 1)
    assert broker.node.retained.count == 1 and len(plugin.asked) == 1


# -- restarts


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_a_killed_node_sends_the_wills_of_its_connections(version: int, persistent: bool, power: bool) -> None:
    """Their connections ended with it (P5) [MQTT-3.1.2-8] [MQTT5-3.1.2-8]; the next restart sends nothing again."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    opened = broker.persistent if persistent else broker.client
    opened("c", version, will=will("will/c", b"gone", 1))
    broker.restart(power)
    assert [m.payload for m in broker.persistent("w").drain()] == [b"gone"]
    broker.restart(power)
    broker.pass_s(2000)
    assert broker.persistent("w").messages() == []


def test_a_discarded_will_is_not_sent_after_a_restart() -> None:
    """This holds after a restart: a will discarded before the kill is not sent after it [MQTT5-3.14.4-3]."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    broker.persistent("c", will=will("will/c", b"", 1)).leave()
    broker.client("d", will=will("will/d", b"", 1)).leave()
    broker.restart()
    assert broker.persistent("w").messages() == []


def test_the_deadline_of_a_will_is_kept_over_a_restart() -> None:
    """The deadline is a time, not a delay: downtime counts."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    broker.client("c", 5, False, 1000, will=will("will/c", b"gone", 1, will_delay_interval=60)).vanish()
    broker.pass_s(50)
    broker.restart()
    watcher = broker.persistent("w")
    broker.pass_s(9.9)
    assert watcher.messages() == []
    broker.pass_s(0.2)
    assert watcher.payloads() == [b"gone"]


def test_a_delay_that_begins_with_the_kill() -> None:
    """The connection lasted until the kill; a client that returns in time stops the will [MQTT5-3.1.3-9]."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    for name in ("back", "away"):
        broker.client(name, 5, False, 1000, will=will(f"will/{name}", b"gone", 1, will_delay_interval=30))
    broker.restart()
    watcher = broker.persistent("w")
    broker.pass_s(29)
    assert watcher.messages() == []
    assert broker.connect("back", 5, False, 1000)[1].session_present
    broker.pass_s(10)
    assert [m.topic for m in watcher.messages()] == ["will/away"]


def test_a_will_survives_a_kill_right_after_connack() -> None:
    """CONNACK means that the will is safe, for a clean session too (P5)."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    broker.hold_disk()
    caller = RawClient(broker)
    assert caller.says(connect("c", will=will("will/c", b"gone", 1))) == []
    broker.free_disk()
    assert caller.hears()[0].reason == 0
    broker.restart()
    assert [m.payload for m in broker.persistent("w").drain()] == [b"gone"]


# -- its name in the event log


def names(broker: BrokerHarness) -> list[tuple[str, str | None]]:
    """What the log says of wills, with their names."""
    rows = broker.events("will.arm", "conn.open", "will.fire", "will.cancel")
    return [(row["type"], row["will"]) for row in rows if row["client"] == "c"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("over", ["fire", "cancel"])
def test_each_will_has_a_name_in_the_log(over: str, restarts: bool) -> None:
    """It has the same name when it is over, also after a kill. No other will has it."""
    broker, _ = watched(5)
    last = will("will/c", will_delay_interval=5)
    for _ in range(2):
        broker.client("c", 5, False, 100, will=last).vanish()
        if restarts:
            broker.restart()
        if over == "fire":
            broker.pass_s(6)
        else:
            broker.client("c", 5, False, 100).leave()
    first, second = (each for kind, each in names(broker) if kind == "will.arm")
    said = [
        (kind, each)
        for name in (first, second)
        for kind, each in (("will.arm", name), ("conn.open", name), ("conn.open", None), (f"will.{over}", name))
    ]
    assert names(broker) == [each for each in said if over == "cancel" or each[1] is not None]
    assert first != second and first is not None


def test_a_will_that_is_dropped_has_its_name() -> None:
    broker, _ = watched(5)
    broker.client("c", 5, will=will("will/c")).leave()
    (name,) = (each for kind, each in names(broker) if kind == "will.arm")
    assert names(broker)[-1] == ("will.cancel", name) and name is not None


def test_a_will_of_a_former_version_has_no_name() -> None:
    broker, watcher = watched(5)
    slot, record = slot_of("", "c"), WillRecord("will/c", b"gone", 1, False, None, -1, 0)
    row = encode(PendingWill("", "c", record)).replace(encode(record), encode([*msgspec.structs.astuple(record)][:-1]))
    broker.node.env.store.put(keys.will_key(slot, 1), row)
    broker.settle()
    broker.restart()
    assert names(broker) == [("will.fire", None)] and watcher.closed


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("expiry_s", "idle_sessions", "question"), [(0, 9, 1), (100, 9, 1), (100, 0, 1), (100, 0, 2)])
def test_a_client_that_waited_for_the_lease_is_back_when_its_will_is_due(
    clean: bool, expiry_s: int, idle_sessions: int, question: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A will is due, and the node looks at its lease. It learns that it has a new one. After that turn it serves the
    CONNECT that waited for one, which cancels the will. With `idle_sessions` 0 it reads the session from its disk."""
    monkeypatch.setattr(Standalone, "failover_grace_s", lambda port: 5)
    monkeypatch.setattr(Standalone, "is_copied", lambda port, slot: True)
    broker, watcher = watched(idle_sessions=idle_sessions)
    broker.client("c", 5, False, expiry_s, will=will("will/c", b"former"))
    (connection,) = [each for each in broker.node.connections.values() if each.client_id == "c"]
    connection.moved()
    broker.settle()
    policy = broker.node.policy
    policy.view_state = ViewState.MINORITY
    back: list[PacketClient] = []
    questions = count(1)
    leased_at: list[int] = []

    def asked(port: Standalone) -> int:
        number, now = next(questions), broker.node.env.now
        if number != question:
            return max(0, leased_at[0] + 5000 - now) if leased_at else 0
        leased_at.append(now)
        policy.view_state = ViewState.WHOLE
        return 5000

    @policy.when_accepting
    def connects() -> None:
        back.append(PacketClient(broker, 5))
        back[0].send(connect("c", 5, clean, 100, will=will("will/c", b"new")))

    monkeypatch.setattr(Standalone, "expiry_pause_ms", asked)
    broker.pass_s(30)
    (connack, *_) = back[0].take()
    assert connack.session_present is (not clean and expiry_s > 0)
    assert not back[0].closed and not watcher.messages()


def test_a_client_whose_answer_must_not_leave_has_time_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node closes the connection: it may not acknowledge what the client has sent (H-39)."""
    monkeypatch.setattr(Standalone, "failover_grace_s", lambda port: 5)
    broker, watcher = watched(5)
    broker.client("c", 5, False, 100, will=will("will/c", b"gone"))
    (connection,) = [each for each in broker.node.connections.values() if each.client_id == "c"]
    give_up(connection, 0, "this node has no lease")
    broker.pass_s(4)
    assert watcher.messages() == []
    broker.pass_s(2)
    assert [each.payload for each in watcher.messages()] == [b"gone"]


# -- CONNACK has not left


def unanswered(broker: BrokerHarness, expiry_s: int, last: Any = None) -> RawClient:
    """A CONNECT of "c" whose CONNACK waits for the disk."""
    broker.hold_disk()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, False, expiry_s, will=last)) == []
    return caller


def over(broker: BrokerHarness) -> list[tuple[str, str]]:
    """What was published and dropped, by the names of the wills in the order of `will.arm`."""
    armed = [each for kind, each in names(broker) if kind == "will.arm"]
    return [(kind, ("former", "later")[armed.index(each)]) for kind, each in names(broker) if kind in OVER]


OVER = ("will.fire", "will.cancel")


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("expiry_s", [100, 5])
def test_a_refused_connect_changes_neither_will_nor_expiry(later: bool, expiry_s: int) -> None:
    """The former ones count from the end of the former connection. The will of the refused CONNECT is dropped."""
    broker, watcher = watched(5)
    broker.client("c", 5, False, 30, will=will("will/c", b"former", will_delay_interval=20)).vanish()
    broker.pass_s(10)
    caller = unanswered(broker, expiry_s, will("will/c", b"later") if later else None)
    session = broker.node.sessions.known("", "c")
    assert session is not None and session.connection is not None
    give_up(session.connection, 8, "no lease")  # type: ignore[arg-type]
    broker.free_disk()
    assert caller.hears()[0].reason == 0x88 and over(broker) == [("will.cancel", "later")] * later
    broker.pass_s(9.9)
    assert watcher.messages() == []
    broker.pass_s(0.2)
    assert watcher.payloads() == [b"former"]
    broker.pass_s(9.8)
    assert broker.node.sessions.get("", "c") is session
    broker.pass_s(0.2)
    assert broker.node.sessions.get("", "c") is None
    assert over(broker)[-1] == ("will.fire", "former")


def test_a_clean_start_that_is_refused_has_published_the_former_will() -> None:
    """It has ended the session, and so the delay."""
    broker, watcher = watched(5)
    broker.client("c", 5, False, 100, will=will("will/c", b"former", will_delay_interval=20)).vanish()
    broker.hold_disk()
    caller = RawClient(broker, 5)
    caller.says(connect("c", 5, True, 100, will=will("will/c", b"later")))
    session = broker.node.sessions.known("", "c")
    assert session is not None and session.connection is not None
    give_up(session.connection, 8, "no lease")  # type: ignore[arg-type]
    broker.free_disk()
    broker.pass_s(200)
    assert caller.hears()[0].reason == 0x88 and watcher.payloads() == [b"former"]


@pytest.mark.parametrize("later", [False, True])
def test_a_connection_that_is_lost_before_connack_leaves_one_will(later: bool) -> None:
    """Its own, or else that of the former connection, which is published at its time."""
    broker, watcher = watched(5)
    broker.client("c", 5, False, 100, will=will("will/c", b"former", will_delay_interval=20)).vanish()
    caller = unanswered(broker, 100, will("will/c", b"later", will_delay_interval=5) if later else None)
    caller.vanish()
    broker.free_disk()
    broker.pass_s(4.9 if later else 19.9)
    assert watcher.messages() == []
    broker.pass_s(100)
    assert watcher.payloads() == [b"later" if later else b"former"]
    fired = ("will.fire", "later" if later else "former")
    assert over(broker) == [("will.cancel", "former"), fired][not later :]


@pytest.mark.parametrize("later", [False, True])
def test_a_node_that_is_killed_before_connack_leaves_has_one_will(later: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk has both, and it cannot know whether CONNACK has left. The later expiry counts."""
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    broker.client("c", 5, False, 30, will=will("will/c", b"former", 1, will_delay_interval=20)).vanish()
    broker.pass_s(10)
    last = will("will/c", b"later", 1, will_delay_interval=15) if later else None
    with monkeypatch.context() as unwelcomed:
        unwelcomed.setattr(Session, "welcomed", lambda session: None)
        broker.client("c", 5, False, 50, will=last)
        broker.restart()
    watcher = broker.persistent("w")
    broker.pass_s(14.8 if later else 9.8)
    assert watcher.messages() == []
    broker.pass_s(0.4)
    assert [message.payload for message in watcher.drain()] == [b"later" if later else b"former"]
    assert over(broker) == ([("will.cancel", "former"), ("will.fire", "later")] if later else [("will.fire", "former")])
    broker.pass_s(30)
    assert broker.node.sessions.get("", "c") is not None and watcher.messages() == []


@pytest.mark.parametrize("later", [False, True])
def test_a_former_will_stays_cancelled_after_a_restart(later: bool) -> None:
    broker = BrokerHarness()
    broker.persistent("w").subscribe(("will/#", 1))
    broker.client("c", 5, False, 100, will=will("will/c", b"former", 1, will_delay_interval=20)).vanish()
    broker.client("c", 5, False, 100, will=will("will/c", b"later", 1, will_delay_interval=9) if later else None)
    assert over(broker) == [("will.cancel", "former")]
    broker.restart()
    broker.pass_s(90)
    assert broker.persistent("w").payloads() == [b"later"] * later
    assert over(broker) == [("will.cancel", "former"), ("will.fire", "later")][: 1 + later]
