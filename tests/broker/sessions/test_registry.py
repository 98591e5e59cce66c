"""The registry of sessions: one connection per client id, takeover, Clean Start, and restored sessions."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Connack, Disconnect, Pingreq, Pingresp, Puback, Pubrec
from strogoff.storage import keys
from strogoff.storage.engine import StorageError

from ...harness.broker import BrokerHarness, connect, publish
from ...harness.transcript import CLOSED, RawClient, accepted, will

VERSIONS = (3, 4, 5)


def expiry(version: int) -> int | None:
    """Returns the session expiry interval that makes a session persistent."""
    return 1000 if version == 5 else None


def resumed(version: int) -> Connack:
    """Returns the CONNACK of a resumed session; MQTT 3.1 has no flag for it."""
    return accepted(version > 3)


# -- takeover


@pytest.mark.parametrize("old", VERSIONS)
@pytest.mark.parametrize("new", VERSIONS)
@pytest.mark.parametrize("clean", [True, False])
def test_a_new_connection_takes_the_client_id_over(old: int, new: int, clean: bool) -> None:
    """The older connection is closed before the new one is answered; v5 gets 0x8E.

    [MQTT-3.1.4-2] [MQTT5-3.1.4-3] [MQTT-3.1.3-2] [MQTT5-3.1.3-2] [MQTT5-4.13.2-1] [MQTT5-3.14.2-1]
    """
    broker = BrokerHarness()
    first = RawClient(broker, old)
    assert first.says(connect("c", old, clean, None if clean else expiry(old))) == [accepted()]
    second = RawClient(broker, new)
    assert second.says(connect("c", new, clean, None if clean else expiry(new))) == [
        accepted() if clean else resumed(new)
    ]
    assert first.hears() == ([Disconnect(0x8E), CLOSED] if old == 5 else [CLOSED])
    assert second.says(Pingreq()) == [Pingresp()]
    kinds = [event["type"] for event in broker.events("sess.takeover.start", "conn.close", "sess.takeover.end")]
    assert kinds == ["sess.takeover.start", "conn.close", "sess.takeover.end"]
    assert broker.events("conn.close")[0]["reason"] == "session_taken_over"


def test_packets_of_the_old_connection_are_ignored() -> None:
    """Packets that it sent before the takeover are not processed (P3)."""
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    first = RawClient(broker)
    first.says(connect("c"))
    second = RawClient(broker)
    second.send(connect("c"))
    first.send(publish("t", b"late"))
    broker.settle()
    assert watcher.messages() == []
    assert second.hears() == [accepted()] and first.hears() == [CLOSED]


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_in_flight_go_to_the_new_connection(version: int) -> None:
    """The same packet ids, marked as duplicates [MQTT-4.4.0-1] [MQTT5-4.4.0-1]."""
    broker = BrokerHarness()
    first = broker.persistent("s", version)
    first.subscribe(("t", 2))
    publisher = broker.client("p", version)
    publisher.publish("t", b"1", 1, 1)
    publisher.publish("t", b"2", 2, 2)
    before = first.messages()
    assert [(m.payload, m.dup) for m in before] == [(b"1", False), (b"2", False)]
    second = broker.persistent("s", version)
    after = second.messages()
    assert [(m.payload, m.dup, m.packet_id) for m in after] == [(m.payload, True, m.packet_id) for m in before]


@pytest.mark.parametrize("version", VERSIONS)
def test_many_takeovers_in_one_turn(version: int) -> None:
    """The last one gets the client id; each of the others is answered and closed."""
    broker = BrokerHarness()
    callers = [RawClient(broker, version) for _ in range(5)]
    for caller in callers:
        caller.send(connect("c", version, False, expiry(version)))
    heard = [caller.hears() for caller in callers]
    assert heard[-1] == [resumed(version)]
    assert all(each[-1] == CLOSED for each in heard[:-1])
    assert len(broker.node.connections) == 1 and len(broker.node.sessions) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_takeover_before_the_old_connack(version: int) -> None:
    """The first CONNECT still waits for the disk: it is closed unanswered, the second gets the one CONNACK."""
    broker = BrokerHarness()
    broker.hold_disk()
    first, second = RawClient(broker, version), RawClient(broker, version)
    assert first.says(connect("c", version, False, expiry(version))) == []
    assert second.says(connect("c", version, False, expiry(version))) == []
    assert first.hears() == [CLOSED]
    broker.free_disk()
    assert second.hears() == [resumed(version)]


def test_the_same_client_id_under_another_mountpoint() -> None:
    """It is another client."""
    broker = BrokerHarness()
    first, second = RawClient(broker), RawClient(broker, mountpoint="other")
    assert first.says(connect("c")) == second.says(connect("c")) == [accepted()]
    assert first.says(Pingreq()) == [Pingresp()]
    assert broker.node.sessions.get("", "c") is not broker.node.sessions.get("other", "c")


# -- wills at takeover


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_the_will_of_a_connection_that_was_taken_over(version: int, suppress: bool, clean: bool) -> None:
    """It is sent [MQTT-3.1.2-8] [MQTT5-3.1.2-8], unless `suppress_lwt_on_session_takeover` says otherwise."""
    broker = BrokerHarness(suppress_lwt_on_session_takeover=suppress)
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    first = broker.client("c", version, clean, None if clean else expiry(version), will=will())
    broker.client("c", version, clean, None if clean else expiry(version))
    assert first.closed
    assert watcher.payloads() == ([] if suppress else [b"gone"])
    broker.pass_s(2000)
    assert watcher.messages() == []


def test_a_delayed_will_does_not_survive_a_takeover() -> None:
    """A client that resumes the session within the delay stops the will [MQTT5-3.1.3-9]; Clean Start ends the session
    and sends it.
    """
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    delayed = will(will_delay_interval=10)
    broker.client("c", 5, False, 1000, will=delayed)
    broker.client("c", 5, False, 1000, will=delayed)
    broker.pass_s(20)
    assert watcher.messages() == []
    broker.client("c", 5, True, 1000)
    assert watcher.payloads() == [b"gone"]


def test_the_will_belongs_to_its_connection() -> None:
    """The will of a connection is the one in its CONNECT, or none."""
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    broker.persistent("c", will=will("old"))
    broker.persistent("c", will=will("new")).vanish()
    assert [m.topic for m in watcher.messages()] == ["old", "new"]
    broker.persistent("c").vanish()
    assert watcher.messages() == []


# -- Clean Start


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("connected", [False, True])
def test_clean_start_ends_the_old_session(version: int, connected: bool) -> None:
    """Subscriptions, messages and packet ids are gone, in memory and on disk.

    [MQTT-3.1.2-6] [MQTT5-3.1.2-4] [MQTT-3.1.4-3] [MQTT5-3.1.4-4] [MQTT-3.2.2-1] [MQTT5-3.2.2-2]
    """
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    client.publish("x", b"", 2, 7)
    if not connected:
        client.vanish()
    broker.client("p").publish("t", b"old", 1, 1)
    client, connack = broker.connect("c", version, True)
    assert not connack.session_present
    broker.client("p").publish("t", b"new", 1, 1)
    assert client.messages() == []
    assert client.publish("x", b"", 2, 7)[0].packet_id == 7
    client.leave()
    broker.pass_s(1)
    left = [broker.keys(bytes((first,))) for first in b"sbiq"]
    assert left == [[], [], [], []]
    assert not broker.connect("c", version, False, expiry(version))[1].session_present


@pytest.mark.parametrize("version", VERSIONS)
def test_without_clean_start(version: int) -> None:
    """A new session if none exists, otherwise the existing one.

    [MQTT-3.1.2-4] [MQTT5-3.1.2-5] [MQTT5-3.1.2-6] [MQTT-3.2.2-2] [MQTT-3.2.2-3] [MQTT5-3.2.2-3] [MQTT5-3.1.4-4]
    """
    broker = BrokerHarness()
    for present in (False, True, True):
        client, connack = broker.connect("c", version, False, expiry(version))
        assert connack.session_present is (present and version > 3)
        client.vanish()
    assert [event["type"] for event in broker.events("sess.create", "sess.resume")] == [
        "sess.create",
        "sess.resume",
        "sess.resume",
    ]


@pytest.mark.parametrize("steps", [(4, 5, 4), (3, 4, 5), (5, 3, 5), (5, 4, 3)])
def test_a_session_is_resumed_across_versions(steps: tuple[int, ...]) -> None:
    """Subscriptions and messages are the same in every version of the protocol."""
    broker = BrokerHarness()
    broker.persistent("c", steps[0]).subscribe(("t", 1))
    for number, version in enumerate(steps):
        client, connack = broker.connect("c", version, False, expiry(version))
        assert connack.session_present is (version > 3)
        broker.client("p").publish("t", b"%d" % number, 1, 1)
        assert [m.payload for m in client.drain()] == [b"%d" % number]
        client.leave()


# -- restored sessions


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_come_back(version: int) -> None:
    """All of them, each with its subscriptions and options; clean ones do not."""
    broker = BrokerHarness()
    for number in range(20):
        broker.persistent(f"c{number}", version).subscribe((f"t/{number}", 1), ("$share/g/s", 1), ("all/#", 2))
    broker.client("clean", version).subscribe(("all/#", 2))
    broker.restart()
    assert len(broker.node.sessions) == 20
    assert broker.events("node.loaded")[-1]["sessions"] == 20
    publisher = broker.client("p")
    assert publisher.publish("t/7", b"own", 1, 1) == [Puback(1)]
    assert publisher.publish("all/x", b"all", 2, 2) == [Pubrec(2)]
    publisher.publish("s", b"shared", 1, 3)
    shared = 0
    for number in range(20):
        found = [m.payload for m in broker.persistent(f"c{number}", version).drain()]
        shared += found.count(b"shared")
        assert sorted(each for each in found if each != b"shared") == [b"all"] + [b"own"] * (number == 7)
    assert shared == 1


class Limits:
    """A plugin that gives every client limits of its own."""

    def auth_on_register(self, *_: Any) -> dict[str, Any]:
        return {"max_offline_messages": 3, "queue_type": "lifo"}

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


@pytest.mark.parametrize("restart", [False, True])
def test_limits_of_a_registration_are_the_session_s(restart: bool) -> None:
    """They hold while the client is offline, and after a restart (VerneMQ forgets them)."""
    broker = BrokerHarness(Limits(), allow_anonymous=False)
    client = broker.persistent("c")
    client.subscribe(("t", 1))
    client.vanish()
    if restart:
        broker.restart()
    publisher = broker.client("p")
    for number in range(5):
        publisher.publish("t", b"%d" % number, 1, 1)
    found = [m.payload for m in broker.persistent("c").drain()]
    assert sorted(found) == [b"2", b"3", b"4"]


@pytest.mark.parametrize("power", [False, True])
def test_a_replaced_session_is_never_restored(power: bool) -> None:
    """A client whose session was replaced never finds the old one, however soon the node is killed [MQTT5-3.1.2-4]."""
    for seed in range(8):
        broker = BrokerHarness(seed=seed)
        client = broker.persistent("c", 5)
        client.subscribe(("t", 1))
        broker.hold_disk()
        client.ask(Disconnect(0, {"session_expiry_interval": 0}))
        told = RawClient(broker, 5).says(connect("c", 5)) != []
        broker.restart(power)
        assert not (told and broker.node.sessions.get("", "c")), seed


def test_a_new_session_waits_until_the_old_one_is_deleted_on_disk() -> None:
    """Its CONNACK waits for the commit of the deletion, although the new session writes nothing."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    broker.hold_disk()
    client.ask(Disconnect(0, {"session_expiry_interval": 0}))
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == []
    assert RawClient(broker, 5).says(connect("other", 5)) == [accepted()]
    broker.free_disk()
    assert caller.hears() == [accepted()]
    caller.vanish()
    broker.hold_disk()
    assert RawClient(broker, 5).says(connect("c", 5)) == [accepted()]


def test_a_full_disk_and_the_end_of_a_session() -> None:
    """A CONNECT that would wait for this deletion is refused; others are accepted (P9)."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    broker.disk.full = True
    client.ask(Disconnect(0, {"session_expiry_interval": 0}))
    broker.pass_s(0.1)
    assert not broker.node.env.store.accepting
    assert broker.node.sessions.on_disk("", "c") and not broker.node.sessions.on_disk("", "d")
    assert broker.connect("c", 5)[1].reason == 0x97
    assert broker.connect("d", 5)[1].reason == 0
    broker.disk.full = False
    broker.pass_s(10)
    assert broker.connect("c", 5)[1].reason == 0


# -- slots


def test_slots_without_sessions_are_empty() -> None:
    broker = BrokerHarness()
    broker.client("clean")
    durable = broker.client("durable", 5, clean=False, expiry_s=600)
    slot, clean = slot_of("", "durable"), slot_of("", "clean")
    sessions = broker.node.sessions
    assert sessions.empty([slot, clean, 9]) == [clean, 9]
    durable.leave()
    broker.restart()
    assert not broker.node.sessions.in_memory() and broker.node.sessions.empty([slot, clean]) == [clean]


def test_the_sessions_of_a_slot_are_those_in_memory_that_belong_to_it() -> None:
    broker = BrokerHarness()
    slot, sessions = slot_of("", "c"), broker.node.sessions
    clean = broker.client("c", 5)
    assert sessions.of_slot(slot) == [] and len(sessions.local()) == 1
    clean.leave()
    client = broker.client("c", 5, clean=False, expiry_s=600)
    assert [each.client_id for each in sessions.of_slot(slot)] == ["c"] and sessions.local() == []
    client.leave()
    (session,) = sessions.of_slot(slot)
    sessions.release(session)
    assert sessions.of_slot(slot) == [] and sessions.empty([slot]) == []
    again = broker.client("c", 5, clean=False, expiry_s=600)
    assert sessions.of_slot(slot) == sessions.in_memory() != [session]
    again.leave()
    broker.client("c", 5)
    assert sessions.of_slot(slot) == [] and sessions.in_memory() == sessions.local()


def test_a_slot_with_a_will_that_waits_is_not_empty() -> None:
    broker = BrokerHarness()
    broker.node.env.store.put(keys.will_key(7, 1), b"")
    assert broker.node.sessions.empty([7, 8]) == [8]


def test_a_slot_that_the_disk_fails_to_read_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness()

    def fail(*_: object) -> None:
        raise StorageError("damaged")

    monkeypatch.setattr(type(broker.node.env.store), "keys", fail)
    assert broker.node.sessions.empty([7]) == []


def test_a_clean_client_waits_until_its_former_will_is_deleted_on_disk() -> None:
    """Otherwise a kill could bring a will back that its client has discarded."""
    broker = BrokerHarness()
    client = broker.client("c", will=will("will/c"))
    broker.hold_disk()
    client.leave()
    caller = RawClient(broker)
    assert caller.says(connect("c")) == []
    assert broker.node.sessions.on_disk("", "d") is False
    broker.free_disk()
    assert caller.hears() == [accepted()]
