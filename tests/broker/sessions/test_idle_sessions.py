"""Sessions of absent clients leave memory, and nothing else changes for anybody."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.routing.dormant import DormantSession
from strogoff.mqtt.packets import Pubrec, Pubrel
from strogoff.storage import keys

from ...harness.broker import BrokerHarness, PacketClient


def asleep(broker: BrokerHarness, client_id: str) -> bool:
    """Whether only the disk has the session."""
    sessions = broker.node.sessions
    return sessions.known("", client_id) is None and sessions.get("", client_id) is not None


def subscriber(broker: BrokerHarness, *wanted: Any, client_id: str = "s") -> PacketClient:
    """Returns a client with a persistent session that subscribes to (filter, QoS) pairs."""
    client = broker.persistent(client_id)
    client.subscribe(*wanted)
    return client


def publish(broker: BrokerHarness, *payloads: bytes, topic: str = "t", qos: int = 1) -> None:
    """Publish with a client of its own; each message is acknowledged."""
    publisher = broker.client("publisher")
    for number, payload in enumerate(payloads, 1):
        publisher.publish(topic, payload, qos, number)
        if qos == 2:
            publisher.ask(Pubrel(number))
    publisher.leave()


def test_a_session_leaves_memory_after_its_time() -> None:
    broker = BrokerHarness(idle_session_s=60)
    subscriber(broker, ("t", 1)).leave()
    subscriber(broker, ("t", 1), client_id="present")
    broker.pass_s(59)
    assert broker.node.sessions.known("", "s") is not None
    broker.pass_s(2)
    assert broker.node.sessions.known("", "s") is None
    assert broker.node.sessions.known("", "present") is not None
    assert len(broker.node.sessions) == 2


def test_a_message_keeps_the_session_in_memory_for_the_time_again() -> None:
    broker = BrokerHarness(idle_session_s=60)
    subscriber(broker, ("t", 1)).leave()
    broker.pass_s(50)
    publish(broker, b"1")
    broker.pass_s(50)
    assert broker.node.sessions.known("", "s") is not None
    broker.pass_s(75)
    assert broker.node.sessions.known("", "s") is None


@pytest.mark.parametrize("lifo", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_sleeping_session_gets_its_messages_in_order(qos: int, lifo: bool) -> None:
    """Messages of before, during and after its sleep, and over a restart; the queue's limit counts all of them."""
    broker = BrokerHarness(idle_session_s=0, max_offline_messages=5, queue_type="lifo" if lifo else "fifo")
    subscriber(broker, ("t", qos)).leave()
    publish(broker, b"1", b"2", qos=qos)
    broker.pass_s(2)
    assert asleep(broker, "s")
    broker.pass_s(2)
    publish(broker, b"3", qos=qos)
    broker.pass_s(2)
    broker.restart()
    publish(broker, b"4", b"5", b"6", qos=qos)
    broker.pass_s(2)
    assert [reason for _, _, reason in broker.drops()] == ["queue_full"]
    got = [message.payload for message in broker.persistent("s").drain()]
    assert got == ([b"6", b"5", b"4", b"3", b"2"] if lifo else [b"1", b"2", b"3", b"4", b"5"])


def test_the_record_of_a_released_session_counts_its_messages() -> None:
    """So the limit needs no count of the rows; a later write of the record takes the number back."""
    broker = BrokerHarness(idle_session_s=0)
    subscriber(broker, ("t", 1)).leave()
    publish(broker, b"1", b"2", b"3")
    broker.pass_s(2)
    assert asleep(broker, "s")
    session: Any = broker.node.sessions.get("", "s")
    assert session.queue.on_disk == 3 == session.queue.size
    publish(broker, b"4")
    broker.restart()
    session = broker.node.sessions.get("", "s")
    assert session.queue.size == 4


def test_a_release_does_not_count_a_long_queue() -> None:
    """After a kill the length of a queue is unknown; counting a million messages would stop the loop."""
    broker = BrokerHarness(idle_session_s=0, max_offline_messages=-1)
    subscriber(broker, ("t", 1)).leave()
    publish(broker, b"1", b"2")
    broker.restart()
    publish(broker, b"3")
    broker.pass_s(2)
    assert asleep(broker, "s")
    session: Any = broker.node.sessions.get("", "s")
    assert session.queue.counted == -1 and session.queue.size == 3


def test_packet_ids_continue_after_the_sleep() -> None:
    """The record has the exact next number, so no packet id is skipped, and none repeats one in flight."""
    broker = BrokerHarness(idle_session_s=0)
    client = subscriber(broker, ("t", 1))
    publish(broker, b"1")
    (first,) = client.drain()
    client.leave()
    broker.pass_s(2)
    assert asleep(broker, "s")
    publish(broker, b"2")
    (second,) = broker.persistent("s").drain()
    assert second.packet_id == first.packet_id + 1


def test_a_plan_is_made_again_after_a_session_left_memory() -> None:
    """A cached plan would refer to an object that nobody else uses."""
    broker = BrokerHarness(idle_session_s=1)
    subscriber(broker, ("t/+", 1)).leave()
    publish(broker, b"1", topic="t/a")
    broker.pass_s(5)
    assert broker.node.sessions.known("", "s") is None
    publish(broker, b"2", topic="t/a")
    broker.pass_s(5)
    client = broker.persistent("s")
    assert [message.payload for message in client.drain()] == [b"1", b"2"]
    publish(broker, b"3", topic="t/a")
    assert client.payloads() == [b"3"]


def test_members_of_a_shared_subscription_sleep() -> None:
    """An absent member takes a message if no other is there; a leaving member hands its messages over to it."""
    broker = BrokerHarness(idle_session_s=0)
    for name in ("a", "b"):
        subscriber(broker, ("$share/g/t", 1), client_id=name).leave()
    broker.pass_s(2)
    assert asleep(broker, "a")
    publish(broker, b"1", b"2", b"3", b"4")
    broker.pass_s(2)
    broker.client("a").leave()  # Clean Start: what it had goes to the other member
    got = [message.payload for message in broker.persistent("b").drain()]
    assert sorted(got) == [b"1", b"2", b"3", b"4"]


def test_an_open_handshake_keeps_the_session_in_memory() -> None:
    """Other nodes keep the mid of its message, so this node must know of it."""
    broker = BrokerHarness(idle_session_s=0)
    client = broker.persistent("p")
    client.publish("t", b"x", 2, 7)
    client.vanish()
    for _ in range(2):
        broker.pass_s(5)
        assert broker.node.sessions.known("", "p") is not None
        broker.restart()
    client = broker.persistent("p")
    assert client.publish("t", b"x", 2, 7, dup=True) == [Pubrec(7)]
    client.ask(Pubrel(7))
    client.leave()
    broker.pass_s(5)
    assert broker.node.sessions.known("", "p") is None


def test_a_session_stays_until_its_messages_are_on_disk() -> None:
    broker = BrokerHarness(idle_session_s=0)
    subscriber(broker, ("t", 1)).leave()
    broker.pass_s(2)
    publisher = broker.client("publisher")
    broker.hold_disk()
    publisher.publish("t", b"1", 1, 1)
    broker.pass_s(5)
    assert broker.node.sessions.known("", "s") is not None
    broker.free_disk()
    broker.pass_s(5)
    assert broker.node.sessions.known("", "s") is None


def test_too_many_idle_sessions_leave_memory_early() -> None:
    broker = BrokerHarness(idle_session_s=3600, idle_sessions=3)
    for number in range(10):
        subscriber(broker, ("t", 1), client_id=f"c{number}").leave()
    broker.pass_s(2)
    left = [session.client_id for session in broker.node.sessions.in_memory()]
    assert left == ["c7", "c8", "c9"] and len(broker.node.sessions) == 10


def test_everything_yields_each_session_once_and_keeps_none() -> None:
    broker = BrokerHarness(idle_session_s=0)
    for number in range(7):
        subscriber(broker, ("t", 1), client_id=f"c{number}").leave()
    broker.pass_s(2)
    broker.persistent("on")
    broker.client("clean")
    names = [session.client_id for session in broker.node.sessions.everything()]
    assert sorted(names) == [*[f"c{number}" for number in range(7)], "clean", "on"]
    assert len(broker.node.sessions.in_memory()) == 2 and len(broker.node.sessions) == 9


def test_the_table_refers_to_the_session_or_to_its_key() -> None:
    broker = BrokerHarness(idle_session_s=0)
    subscriber(broker, ("t", 1)).leave()
    broker.pass_s(2)
    (held,) = broker.node.router.table("").holders("t")
    assert [type(held.session), held.session.mountpoint] == [DormantSession, ""]
    assert keys.parse_client_key(held.session.key) == ("", "s")
    session = broker.node.sessions.get("", "s")
    (again,) = broker.node.router.table("").holders("t")
    assert again.session is session and session.subscriptions == {"t": again}


def test_a_sleeping_session_ends_with_a_clean_start() -> None:
    broker = BrokerHarness(idle_session_s=0)
    subscriber(broker, ("t", 1)).leave()
    publish(broker, b"1")
    broker.pass_s(2)
    assert asleep(broker, "s")
    broker.pass_s(2)
    _, connack = broker.connect("s")
    assert not connack.session_present
    broker.pass_s(2)
    for kind in (b"b", b"q", b"e", b"s", b"j"):
        assert broker.keys(kind) == [], kind
    assert "t" not in broker.node.router.table("")


def test_a_listing_that_takes_long_leaves_alone_what_was_made_again() -> None:
    """Meanwhile the session left memory, and its client came back: the listing has the object of before."""
    broker = BrokerHarness(idle_session_s=1)
    subscriber(broker, ("t", 1)).leave()
    broker.pass_s(3)
    listing = broker.node.sessions.everything()
    before = next(listing)
    broker.pass_s(3)
    assert broker.node.sessions.known("", "s") is None
    back = broker.persistent("s")
    assert list(listing) == []
    present = broker.node.sessions.known("", "s")
    assert present is not None and present is not before and present.online
    publish(broker, b"1")
    assert [message.payload for message in back.drain()] == [b"1"]


def test_a_listing_that_takes_long_lists_no_session_that_has_left_memory() -> None:
    """The object knows no subscription any more: to end it would leave them on disk."""
    broker = BrokerHarness(idle_session_s=1)
    for name in ("a", "b"):
        subscriber(broker, ("t", 1), client_id=name).leave()
    listing = broker.node.sessions.everything()
    assert next(listing).client_id == "a"
    broker.pass_s(3)
    assert broker.node.sessions.known("", "b") is None
    assert [(each.client_id, list(each.subscriptions)) for each in listing] == [("b", ["t"])]
