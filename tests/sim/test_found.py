"""Bugs that the simulator has found in the broker, each as the shortest transcript that shows it."""

from __future__ import annotations

import pytest

from strogoff.mqtt.packets import Puback, Publish, Pubrec, Pubrel
from strogoff.sim.runner import run_seed

from ..harness.broker import BrokerHarness, publish


def test_a_qos_2_message_read_back_from_the_store_leaves_after_its_commit() -> None:
    """An entry behind a full memory window was read back from the open batch and sent before its commit (H-11).

    Killed then, the node knew nothing of it, and the publisher's repetition came to the application a second time.
    """
    broker = BrokerHarness(memory_window=1, max_inflight_messages=5)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.persistent("p")
    broker.hold_disk()
    publisher.send(*[publish("t", b"%d" % number, 1, number) for number in (1, 2, 3)])
    broker.settle()
    broker.free_disk()
    subscriber.drain()
    broker.hold_disk()
    for number in (4, 5, 6):
        publisher.send(publish("t", b"%d" % number, 2, number))
    broker.settle()
    sent: list[bytes] = []
    for _ in range(8):
        # one commit at a time, and nothing may have left that the disk does not hold
        broker.disk.stall_until = 0.0
        broker.loop.turn()
        broker.hold_disk()
        broker.settle()
        sent += subscriber.payloads()
        held = b"".join(value for key, value in broker.disk.content().items() if key[:1] in (b"q", b"m"))
        assert all(payload in held for payload in sent)


@pytest.mark.parametrize("override", [True, False])
def test_a_queue_knows_its_size_after_a_restart_without_a_limit(override: bool) -> None:
    """The count began at "unknown" and was counted up and down from there, below zero."""
    broker = BrokerHarness(
        max_online_messages=-1, max_offline_messages=-1, override_max_online_messages=override, memory_window=2
    )
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    subscriber.vanish()
    publisher = broker.client("p")
    for number in range(1, 6):
        publisher.publish("t", b"x", 1, number)
    broker.restart()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    broker.client("p").publish("t", b"x", 1, 1)
    subscriber = broker.persistent("s")
    assert len(subscriber.drain()) == 6 and session.queue.size == 0
    subscriber.vanish()
    assert session.queue.size == 0


def test_lifo_keeps_messages_that_wait_for_pubrel() -> None:
    """[MQTT-4.3.3-1] [MQTT5-4.3.3-6] A `lifo` queue above its limit dropped QoS 2 messages in the middle of their
    handshake. The subscriber waited for PUBREL for ever, and dropped the next message under that id."""
    broker = BrokerHarness(queue_type="lifo", max_offline_messages=1, max_online_messages=100)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    for number in (1, 2, 3):
        publisher.publish("t", b"%d" % number, 2, number)
    ids = [message.packet_id for message in subscriber.messages()]
    assert subscriber.ask(Pubrec(ids[0])) == [Pubrel(ids[0])]
    subscriber.vanish()
    subscriber = broker.persistent("s")
    came = subscriber.take()
    assert Pubrel(ids[0]) in came and broker.drops() == []
    assert {packet.packet_id for packet in came if isinstance(packet, Publish)} == set(ids[1:])


def test_the_window_counts_messages_of_this_connection_only() -> None:
    """[MQTT5-3.3.4-7] PUBREL of a message that was repeated on a new connection freed the place of another message."""
    broker = BrokerHarness(receive_max_broker=2)
    publisher = broker.persistent("p", 5)
    publisher.publish("t", b"1", 2, 1)
    publisher.vanish()
    publisher = broker.persistent("p", 5)
    connection = next(iter(broker.node.connections.values()))
    assert publisher.publish("t", b"1", 2, 1, dup=True) == [Pubrec(1)] and connection.acks.unacked == 1
    broker.persistent("s").subscribe(("u", 1))
    broker.hold_disk()
    publisher.send(publish("u", b"2", 1, 2), Pubrel(1))
    broker.free_disk()
    assert connection.acks.unacked == 0


def test_time_passes_while_the_disk_stalls() -> None:
    """[MQTT5-3.3.2-5] After a commit the node used the time from before it, and sent expired messages."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s", 5)
    subscriber.subscribe(("t", 2))
    publisher = broker.persistent("p", 5)
    broker.hold_disk()
    publisher.send(publish("t", b"x", 2, 1, message_expiry_interval=2))
    broker.pass_s(4)
    broker.free_disk()
    assert subscriber.messages() == []


def test_a_shared_message_that_has_expired_is_not_given_to_another_member() -> None:
    """[MQTT5-3.3.2-5] It had been sent to a member that left, but for the next member it would be new."""
    broker = BrokerHarness()
    first = broker.persistent("a", 5)
    first.subscribe(("$share/g/t", 1))
    publisher = broker.client("p", 5)
    publisher.publish("t", b"x", 1, 1, message_expiry_interval=2)
    second = broker.persistent("b", 5)
    second.subscribe(("$share/g/t", 1))
    broker.pass_s(5)
    first.vanish()
    assert second.messages() == []
    assert [message.dup for message in broker.persistent("a", 5).messages()] == [True]


def test_a_shared_message_that_has_not_expired_is_handed_over() -> None:
    """(MQTT 5.0 section 4.8.2) The other side of the test above."""
    broker = BrokerHarness()
    first = broker.persistent("a", 5)
    first.subscribe(("$share/g/t", 1))
    broker.client("p", 5).publish("t", b"x", 1, 1, message_expiry_interval=100)
    second = broker.persistent("b", 5)
    second.subscribe(("$share/g/t", 1))
    first.vanish()
    (message,) = second.messages()
    second.send(Puback(message.packet_id))
    assert broker.persistent("a", 5).messages() == []


@pytest.mark.parametrize("seed", [19, 71, 105, 1354, 1802, 1976, 2457])
def test_seeds_that_failed(seed: int) -> None:
    """Seeds that found the bugs above, or that reach code that no other seed reaches."""
    assert run_seed(seed).violations == ()
