"""Publishing: what is retained is stored before it is routed, and the broker's own messages have no publisher."""

from __future__ import annotations

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import RemoteMatch
from tests.harness.broker import BrokerHarness


class Recorder(Standalone):
    """A cluster with a subscriber on another node, which records the order of calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.contexts: list[AckContext] = []

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        return RemoteMatch((RemoteTarget("n2", live=True, durable=False),), ())

    def publishing(self) -> None:
        self.calls.append("publishing")

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        self.calls.append("retain")
        return True

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        self.calls.append("forward")
        self.contexts.append(context)


def published(qos: int, retain: bool) -> Recorder:
    node = BrokerHarness().node
    node.env.cluster = cluster = Recorder()
    node.publisher.publish(Message("", "t", b"x", qos, retain, None, 0, "", node.env.origin, node.env.numbers.next()))
    return cluster


def test_a_retained_message_is_stored_before_it_is_routed() -> None:
    assert published(1, True).calls == ["publishing", "retain", "forward"]


def test_a_message_of_qos_0_is_not_announced() -> None:
    assert published(0, False).calls == ["forward"]


def test_nobody_waits_for_a_message_of_the_broker() -> None:
    (context,) = published(1, False).contexts
    assert not context.answered


def test_the_encoding_of_a_retained_message_is_not_kept() -> None:
    broker = BrokerHarness()
    broker.client("s").subscribe(("t", 1))
    broker.client("p").publish("t", b"x", 1, retain=True)
    kept = broker.node.retained.table("").get("t", broker.node.env.now)
    assert kept is not None and (kept.frame_key, kept.head, kept.tail) == (-1, b"", b"")
