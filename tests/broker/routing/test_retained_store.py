"""Retained messages of a node, on its own disk or in the hands of the cluster."""

from __future__ import annotations

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.router import AFTER_COMMIT
from tests.harness.broker import BrokerHarness


def message(broker: BrokerHarness, topic: str, payload: bytes = b"x", expires_at: int = 0) -> Message:
    env = broker.node.env
    return Message("", topic, payload, 1, True, None, expires_at, "p", env.origin, env.numbers.next())


def retained(broker: BrokerHarness) -> list[str]:
    return [each.topic for each in broker.node.retained.table("").match("#", broker.node.env.now)]


class SharedRetained(Standalone):
    """A cluster that takes retained messages."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bool]] = []
        self.confirmed: list[str] = []

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        self.taken.append((topic, message is not None))
        context.need().add()
        return True

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        self.confirmed.append(topic)


def test_a_node_alone_writes_and_deletes_rows() -> None:
    broker = BrokerHarness()
    store = broker.node.retained
    assert store.retain(message(broker, "a"), AckContext()) == AFTER_COMMIT
    store.retain(message(broker, "b"), AckContext())
    assert len(broker.keys(b"r")) == 2 and store.count == 2 and store.mountpoints == [""]
    store.retain(message(broker, "a", b""), AckContext())
    assert len(broker.keys(b"r")) == 1
    assert store.delete("", "b", AckContext())
    assert not store.delete("", "b", AckContext())
    assert broker.keys(b"r") == [] and store.count == 0 and store.mountpoints == []


def test_a_restart_brings_them_back() -> None:
    broker = BrokerHarness()
    broker.node.retained.retain(message(broker, "a"), AckContext())
    broker.settle()
    broker.restart()
    assert retained(broker) == ["a"]


def test_a_cluster_takes_them_and_the_answer_waits_for_it() -> None:
    broker = BrokerHarness()
    cluster = SharedRetained()
    broker.node.env.cluster = cluster
    context = AckContext()
    broker.node.retained.retain(message(broker, "a"), context)
    assert cluster.taken == [("a", True)] and broker.keys(b"r") == []
    assert context.pending is not None and context.pending.open == 1
    broker.node.retained.retain(message(broker, "a", b""), AckContext())
    assert cluster.taken[1:] == [("a", False)] and cluster.confirmed == []


def test_a_deletion_of_nothing_is_confirmed_by_the_cluster() -> None:
    broker = BrokerHarness()
    cluster = broker.node.env.cluster = SharedRetained()
    broker.node.retained.retain(message(broker, "a", b""), AckContext())
    assert cluster.confirmed == ["a"] and cluster.taken == []


def test_a_limit_and_a_full_disk_refuse_visibly() -> None:
    broker = BrokerHarness(retained_max_messages=1)
    store = broker.node.retained
    store.retain(message(broker, "a"), AckContext())
    assert store.retain(message(broker, "b"), AckContext()) == 0
    broker.disk.full = True
    broker.pass_s(1.0)
    broker.node.env.store.put(b"nx", b"")
    broker.pass_s(1.0)
    assert store.retain(message(broker, "a", b"later"), AckContext()) == 0
    assert [event["reason"] for event in broker.events("ret.refuse")] == ["retained_max_messages", "store_full"]
    assert retained(broker) == ["a"]


def test_expired_messages_are_swept_from_the_disk() -> None:
    broker = BrokerHarness(expire_retain_cache_s=5)
    store = broker.node.retained
    store.retain(message(broker, "a", expires_at=broker.node.env.now + 1000), AckContext())
    store.retain(message(broker, "b"), AckContext())
    assert len(broker.keys(b"r")) == 2
    broker.pass_s(6.0)
    assert len(broker.keys(b"r")) == 1 and store.count == 1
