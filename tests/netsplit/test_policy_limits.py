"""Packets that no policy refuses: DUP, acknowledgements, deliveries, `$SYS`, wills; and the order of parked packets.

A policy applies to first acceptance only (H-13).
"""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.process.systree import Systree
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Pingreq, Pingresp, Puback, Pubcomp, Pubrec, Pubrel
from strogoff.netsplit.policy import ViewState

from ..harness.broker import BrokerHarness, PacketClient, publish

VERSIONS = (3, 4, 5)
SPLITS = [ViewState.MAJORITY, ViewState.MINORITY]
ACKS = {1: Puback, 2: Pubrec}
RESENT = [(ViewState.MAJORITY, "off"), (ViewState.MAJORITY, "majority"), (ViewState.MINORITY, "on")]
WAITS = [(ViewState.MINORITY, "off"), (ViewState.MINORITY, "majority")]


def with_watcher(
    version: int = 4, topic: str = "t", **options: Any
) -> tuple[BrokerHarness, PacketClient, PacketClient]:
    """A broker, a client that sees every message of the topic, and one that publishes."""
    broker = BrokerHarness(**options)
    watcher = broker.client("watcher", 5)
    watcher.subscribe((topic, 2))
    return broker, watcher, broker.client("p", version)


# -- publishes that may have been accepted before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("state", "flag"), RESENT)
def test_dup_is_accepted_with_a_lease(state: ViewState, flag: str, qos: int, version: int) -> None:
    """Its first copy may have been accepted, by this node or by a dead one; this holds for later ones on a topic as
    well.
    """
    broker, watcher, _ = with_watcher(allow_register_during_netsplit="on", allow_publish_during_netsplit=flag)
    broker.node.policy.view_state = state
    client = broker.client("c", version)
    assert client.publish("t", b"1", qos, 1, dup=True) == [ACKS[qos](1)]
    assert client.publish("t", b"2", qos, 2, dup=True) == [ACKS[qos](2)]
    assert watcher.payloads() == [b"1", b"2"]
    assert broker.events("policy.deny") == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("state", "flag"), WAITS)
def test_dup_waits_without_a_lease(state: ViewState, flag: str, qos: int, version: int) -> None:
    """It is neither acknowledged without a lease nor refused: v5 gets no answer until the heal either."""
    broker, watcher, _ = with_watcher(allow_register_during_netsplit="on", allow_publish_during_netsplit=flag)
    broker.node.policy.view_state = state
    client = broker.client("c", version)
    assert client.publish("t", b"1", qos, 1, dup=True) == []
    assert client.publish("t", b"2", qos, 2, dup=True) == []
    assert watcher.payloads() == []
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert client.take() == [ACKS[qos](1), ACKS[qos](2)]
    assert watcher.payloads() == [b"1", b"2"]


def test_dup_does_not_overtake_parked_packets() -> None:
    """3.1 may repeat on the same connection: a repeated packet stays behind earlier ones (P2)."""
    broker, watcher, client = with_watcher(3)
    broker.node.policy.view_state = ViewState.MAJORITY
    client.publish("t", b"1", 1, 1)
    client.publish("t", b"2", 1, 2)
    assert client.publish("t", b"2", 1, 2, dup=True) == []
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert client.take() == [Puback(1), Puback(2), Puback(2)]
    assert watcher.payloads() == [b"1", b"2", b"2"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", SPLITS)
def test_a_handshake_continues_in_a_split(state: ViewState, version: int) -> None:
    """A packet id in use is answered, and so is PUBREL, whatever the split and the flags."""
    broker, watcher, client = with_watcher(version)
    assert client.publish("t", b"x", 2, 7) == [Pubrec(7)]
    broker.node.policy.view_state = state
    assert client.publish("t", b"x", 2, 7, dup=True) == [Pubrec(7)]
    assert client.ask(Pubrel(7)) == [Pubcomp(7)]
    assert watcher.payloads() == [b"x"]


def test_a_full_disk_does_not_refuse_dup_to_v5_either() -> None:
    """0x97 is only for a message that was never routed (H-20): the answer to a repeated one waits."""
    broker, watcher, client = with_watcher(5)
    broker.persistent("d", 5).subscribe(("d", 1))
    broker.disk.full = True
    broker.client("other", 5).publish("d", b"", 1, 1)
    broker.pass_s(0.1)
    assert broker.node.policy.restricted
    assert client.publish("t", b"x", 1, 1, dup=True) == []
    assert client.publish("t", b"y", 1, 2) == [Puback(2, 0x97)]
    broker.disk.full = False
    broker.pass_s(10)
    assert client.take() == [Puback(1)]
    assert watcher.payloads() == [b"x"]


# -- messages accepted before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", SPLITS)
def test_deliveries_continue_in_a_split(state: ViewState, version: int) -> None:
    """A connected durable session gets its waiting messages, and its acknowledgements count."""
    broker = BrokerHarness(max_inflight_messages=1)
    subscriber = broker.persistent("s", version, **({"receive_maximum": 1} if version == 5 else {}))
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    for number in range(1, 5):
        publisher.publish("t", b"%d" % number, 1 + number % 2, number)
    broker.node.policy.view_state = state
    assert [message.payload for message in subscriber.drain()] == [b"1", b"2", b"3", b"4"]
    session = broker.node.sessions.get("", "s")
    assert session is not None and not session.queue.inflight and not session.queue.waiting
    assert subscriber.ask(Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("state", SPLITS)
def test_messages_of_the_broker_are_never_refused(state: ViewState) -> None:
    """No policy applies to `$SYS`."""
    broker = BrokerHarness(systree_enabled=True, systree_interval_ms=1000)
    client = broker.client("c")
    client.subscribe(("$SYS/#", 0))
    systree = Systree(broker.node)
    systree.values = lambda: {"bytes_sent": 12, "queue_processes": 0}
    systree.start()
    broker.node.policy.view_state = state
    broker.pass_s(1.5)
    assert len(client.messages()) == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flag", ["off", "majority"])
def test_a_will_on_a_side_with_a_lease_is_published(flag: str, version: int) -> None:
    """P5: the policy of PUBLISH does not apply to it, whichever node is missing."""
    broker = BrokerHarness(allow_publish_during_netsplit=flag)
    watcher = broker.client("watcher", 5)
    watcher.subscribe(("will", 1))
    client = broker.client("c", version, will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MAJORITY
    client.vanish()
    assert watcher.payloads() == [b"gone"]
    assert broker.events("policy.deny") == []


# -- refused packets have no effect, parked packets keep their order


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_that_is_refused_is_not_stored(qos: int, version: int) -> None:
    """Neither set nor deleted; parked messages are retained at the heal."""
    broker = BrokerHarness()
    client = broker.client("c", version)
    client.publish("r", b"old", 1, 1, retain=True)
    broker.node.policy.view_state = ViewState.MAJORITY
    client.publish("r", b"", qos, 2, retain=True)
    client.publish("r2", b"new", qos, 3, retain=True)

    def retained(topic: str) -> list[bytes]:
        return [message.payload for message in broker.node.retained.table("").match(topic, broker.node.env.now)]

    assert (retained("r"), retained("r2")) == ([b"old"], [])
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    parked = qos > 0 and version < 5
    assert (retained("r"), retained("r2")) == (([], [b"new"]) if parked else ([b"old"], []))


@pytest.mark.parametrize("version", [3, 4])
def test_parked_publishes_are_accepted_in_order(version: int) -> None:
    """The default `off` never reorders (P2): with two aborted heals, a full window, and both QoS."""
    broker, watcher, client = with_watcher(version, max_parked_publishes=3)
    broker.node.policy.view_state = ViewState.MINORITY
    for number in range(1, 9):
        client.send(publish("t", b"%d" % number, 1 + number % 2, number))
    broker.settle()
    assert client.take() == []
    broker.node.policy.view_state = ViewState.MAJORITY
    broker.node.policy.view_state = ViewState.MINORITY
    broker.settle()
    assert client.take() == [] and len(broker.events("policy.deny")) == 3, "each is refused once"
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert sorted(packet.packet_id for packet in client.take()) == list(range(1, 9))
    came = watcher.payloads()
    for qos in (1, 2):
        assert [each for each in came if 1 + int(each) % 2 == qos] == [
            b"%d" % number for number in range(1, 9) if 1 + number % 2 == qos
        ]
    assert client.publish("t", b"9", 1, 9) == [Puback(9)]


def test_a_majority_accepts_publishes_parked_without_a_lease() -> None:
    """With `majority` the side that regains its lease need not be whole."""
    broker, watcher, client = with_watcher(4, allow_publish_during_netsplit="majority")
    broker.node.policy.view_state = ViewState.MINORITY
    assert client.publish("t", b"1", 1, 1) == []
    broker.node.policy.view_state = ViewState.MAJORITY
    broker.settle()
    assert client.take() == [Puback(1)]
    assert watcher.payloads() == [b"1"]


def test_a_flag_that_is_changed_in_a_split_does_not_reorder() -> None:
    """`vmq-admin set allow_publish_during_netsplit=majority`: the parked publishes are accepted before the next PUBLISH
    (P2).
    """
    broker, watcher, client = with_watcher(4)
    broker.node.policy.view_state = ViewState.MAJORITY
    client.publish("t", b"1", 1, 1)
    client.publish("t", b"2", 1, 2)
    broker.node.env.options.allow_publish_during_netsplit = "majority"
    assert client.publish("t", b"3", 1, 3) == [Puback(1), Puback(2), Puback(3)]
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.publish("t", b"4", 1, 4) == [Puback(4)]
    assert watcher.payloads() == [b"1", b"2", b"3", b"4"]


def test_permissions_cached_in_a_split_are_used_afterwards() -> None:
    """In a split every PUBLISH is checked for DUP; the cached permission stays."""
    broker, _, _ = with_watcher(allow_register_during_netsplit="on", allow_publish_during_netsplit="on")
    broker.node.policy.view_state = ViewState.MAJORITY
    client = broker.client("c", 5)
    client.publish("t", b"1", 1, 1)
    connection = next(connection for connection in broker.node.connections.values() if connection.client_id == "c")
    epoch = broker.node.env.hooks.epoch
    assert connection.publishing.permitted == {"t": ~epoch}
    broker.node.policy.view_state = ViewState.WHOLE
    client.publish("t", b"2", 1, 2)
    assert connection.publishing.permitted == {"t": epoch}


def test_unsubscribing_in_a_split_is_retried_by_v3() -> None:
    """3.1 and 3.1.1 get no answer, keep the subscription, and are served after the heal."""
    broker, watcher, client = with_watcher(4)
    client.subscribe(("x", 1))
    broker.node.policy.view_state = ViewState.MAJORITY
    assert client.unsubscribe("x") == []
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.unsubscribe("x") == [packets.Unsuback(1, [])]
    assert watcher.ask(Pingreq()) == [Pingresp()]
