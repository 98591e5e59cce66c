"""The order of publishing: a message is retained, then routed; a message of the broker itself has no answer."""

from __future__ import annotations

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import RemoteMatch
from strogoff.broker.routing.router import AFTER_COMMIT, NO_MATCH
from strogoff.mqtt import packets
from tests.harness.broker import BrokerHarness
from tests.harness.forwarding import live


class Recorder(Standalone):
    """A cluster with a subscriber for every topic. It notes the calls it gets, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answered: list[bool] = []

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        return RemoteMatch((live("n2"),), ())

    def publishing(self) -> None:
        self.calls.append("publishing")

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        self.calls.append("retain")
        return True

    def forward(
        self, message: Message, targets: tuple[RemoteTarget, ...], members: list[RemoteMembers], context: AckContext
    ) -> None:
        self.calls.append("forward")
        self.answered.append(context.answered)


def _clustered() -> tuple[BrokerHarness, Recorder]:
    broker, cluster = BrokerHarness(), Recorder()
    broker.node.env.cluster = cluster
    return broker, cluster


def _message(broker: BrokerHarness, qos: int = 0, retain: bool = False) -> Message:
    return Message("", "t", b"m", qos, retain, None, 0, "", broker.node.env.origin, 1)


def test_a_retained_message_is_stored_before_it_is_routed() -> None:
    broker, cluster = _clustered()
    broker.node.publisher.publish(_message(broker, retain=True))
    assert cluster.calls == ["retain", "forward"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_retained_message_of_a_client_is_stored_before_it_is_routed(qos: int) -> None:
    broker, cluster = _clustered()
    broker.client("p").publish("t", b"m", qos, retain=True)
    assert [call for call in cluster.calls if call != "publishing"] == ["retain", "forward"]
    assert cluster.answered == [True]


def test_other_messages_are_not_stored() -> None:
    broker, cluster = _clustered()
    broker.node.publisher.publish(_message(broker))
    assert cluster.calls == ["forward"]


@pytest.mark.parametrize("retain", [False, True])
def test_no_client_waits_for_the_answer_to_a_message_of_the_broker(retain: bool) -> None:
    broker, cluster = _clustered()
    broker.node.publisher.publish(_message(broker, retain=retain))
    assert cluster.answered == [False]


def test_no_client_waits_for_the_answer_to_a_will() -> None:
    broker, cluster = _clustered()
    broker.client("c", will=packets.Will("t", b"gone", 1)).vanish()
    assert cluster.answered == [False]


@pytest.mark.parametrize(("qos", "told"), [(0, []), (1, ["publishing"]), (2, ["publishing"])])
def test_the_cluster_is_informed_before_a_message_above_qos_0(qos: int, told: list[str]) -> None:
    broker, cluster = _clustered()
    broker.node.publisher.publish(_message(broker, qos))
    assert cluster.calls == [*told, "forward"]


def test_the_answer_waits_for_the_retained_message() -> None:
    """There is no subscriber, so routing adds no wait."""
    broker = BrokerHarness()
    assert broker.node.publisher.publish(_message(broker)) == NO_MATCH
    assert broker.node.publisher.publish(_message(broker, retain=True)) == AFTER_COMMIT


def test_the_answer_waits_for_the_queues() -> None:
    """The cluster stores the retained message, so retaining adds no wait."""
    broker, _ = _clustered()
    broker.persistent("s").subscribe(("t", 1))
    broker.settle()
    assert broker.node.publisher.publish(_message(broker, 1, retain=True)) == AFTER_COMMIT


class Copied(Standalone):
    """A cluster with copies of slots. The sessions here seem to lack each message."""

    def take_own(self, message: Message, slots: list[int]) -> list[int]:
        return slots


@pytest.mark.parametrize("again", [False, True])
def test_what_an_earlier_process_may_have_delivered_comes_with_dup(again: bool) -> None:
    """The retained message itself has no DUP: later subscribers get it for the first time (H-51)."""
    broker = BrokerHarness()
    broker.node.env.cluster = Copied()
    reader = broker.persistent("s")
    reader.subscribe(("t", 1))
    message = _message(broker, 1, retain=True)
    if again:
        broker.node.publisher.route_inherited(message, broker.node.router.plans(""), AckContext(), None, True)
    else:
        broker.node.publisher.retain(message, AckContext())
        broker.node.publisher.publish_inherited(message, AckContext(), again)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"m", again)]
    later = broker.persistent("later")
    _, retained = later.subscribe(("t", 1))
    assert (retained.payload, retained.dup, retained.retain) == (b"m", False, True)


@pytest.mark.parametrize("again", [False, True])
def test_what_a_member_left_behind_comes_with_dup_if_another_may_have_it(again: bool) -> None:
    broker, cluster = _clustered()
    reader = broker.persistent("s")
    reader.subscribe(("$share/g/t", 1))
    broker.node.publisher.publish_left(_message(broker, 1), "$share/g/t", AckContext(), again)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"m", again)]
    assert cluster.calls[-1] == "publishing"


def test_a_retained_message_keeps_no_encoding() -> None:
    broker = BrokerHarness()
    reader = broker.client("s")
    reader.subscribe(("t", 0))
    message = _message(broker, retain=True)
    broker.node.publisher.publish(message)
    assert reader.payloads() == [b"m"]
    assert (message.frame_key, message.head, message.tail) == (-1, b"", b"")
