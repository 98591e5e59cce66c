"""Retained messages on disk and in the cluster: one row for each topic, until the message is deleted or expires."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.message import Message
from strogoff.broker.queues.records import decode_message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.router import AFTER_COMMIT
from strogoff.storage.keys import retained_prefix
from tests.harness.broker import BrokerHarness


class SharedMap(Standalone):
    """A cluster that stores retained messages (`stores`), and notes the calls it gets."""

    def __init__(self, stores: bool) -> None:
        self.stores = stores
        self.retained: list[tuple[str, str, bytes | None]] = []
        self.deleted: list[tuple[str, str]] = []

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        self.retained.append((mountpoint, topic, None if message is None else message.payload))
        context.need().add()
        return self.stores

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        self.deleted.append((mountpoint, topic))
        context.need().add()


class Keeper(BrokerHarness):
    """A node whose retained messages the test changes."""

    def retain(
        self,
        topic: str,
        payload: bytes = b"m",
        mountpoint: str = "",
        lasts_ms: int = 0,
        context: AckContext | None = None,
        qos: int = 1,
    ) -> int:
        env = self.node.env
        expires_at = env.tick() + lasts_ms if lasts_ms else 0
        message = Message(mountpoint, topic, payload, qos, True, None, expires_at, "p", env.origin, 1)
        return self.node.retained.retain(message, AckContext() if context is None else context)

    def in_cluster(self, stores: bool = True) -> SharedMap:
        cluster = SharedMap(stores)
        self.node.env.cluster = cluster
        return cluster

    def rows(self) -> list[bytes]:
        return self.keys(b"r")

    def payload(self, topic: str) -> bytes | None:
        found = self.node.retained.table("").get(topic, self.node.env.now)
        return None if found is None else found.payload


def _row(topic: str, mountpoint: str = "") -> bytes:
    return retained_prefix(mountpoint) + topic.encode()


def test_each_topic_has_one_row() -> None:
    broker = Keeper()
    assert broker.retain("a", b"1") == AFTER_COMMIT
    broker.retain("a", b"2")
    broker.retain("b", b"3", "m")
    assert broker.rows() == [_row("a"), _row("b", "m")]
    value = broker.disk.content()[_row("a")]
    assert decode_message(_row("a"), value, "", broker.node.env.origins).payload == b"2"
    assert (broker.node.retained.count, broker.node.retained.mountpoints) == (2, ["", "m"])


def test_an_answer_waits_for_the_disk_while_the_disk_has_something_to_write() -> None:
    """An empty payload writes nothing here, but a write of another client may still be pending."""
    broker = Keeper()
    assert broker.retain("a", b"") == 0
    broker.hold_disk()
    broker.node.env.store.put(b"nx", b"")
    assert broker.retain("a", b"") == AFTER_COMMIT


def test_delete_removes_message_and_row() -> None:
    broker = Keeper()
    broker.retain("a")
    broker.rows()
    assert broker.node.retained.delete("", "a", AckContext()) is True
    assert (broker.rows(), broker.payload("a")) == ([], None)
    assert broker.node.retained.delete("", "a", AckContext()) is False


def test_an_empty_payload_removes_message_and_row() -> None:
    broker = Keeper()
    cluster = broker.in_cluster(stores=False)
    broker.retain("a")
    assert broker.rows() == [_row("a")]
    assert broker.retain("a", b"") == AFTER_COMMIT
    assert (broker.rows(), broker.payload("a")) == ([], None)
    assert cluster.retained == [("", "a", b"m"), ("", "a", None)]
    assert cluster.deleted == []


def test_an_empty_payload_without_a_message_asks_the_cluster() -> None:
    broker, context = Keeper(), AckContext()
    cluster = broker.in_cluster()
    assert broker.retain("a", b"", "m", context=context) == 0
    assert cluster.deleted == [("m", "a")]
    assert cluster.retained == []
    assert context.need().open == 1


def test_nothing_is_on_disk_if_the_cluster_keeps_it() -> None:
    broker, context = Keeper(), AckContext()
    cluster = broker.in_cluster()
    assert broker.retain("a", b"1", context=context) == 0
    assert (broker.rows(), broker.payload("a")) == ([], b"1")
    assert context.need().open == 1
    broker.node.retained.delete("", "a", context)
    assert cluster.retained == [("", "a", b"1"), ("", "a", None)]
    assert context.need().open == 2


@pytest.mark.parametrize("payload", [b"new", b""])
def test_a_full_disk_refuses_a_message_with_qos_0(payload: bytes) -> None:
    broker = Keeper()
    broker.retain("a", b"old")
    _fill_disk(broker)
    assert broker.retain("a", payload, qos=0) == 0
    assert broker.payload("a") == b"old"
    _is_refused(broker, "a", "store_full")


@pytest.mark.parametrize("payload", [b"new", b""])
def test_an_accepted_message_waits_until_a_full_disk_takes_it(payload: bytes) -> None:
    """A node accepts a message with QoS 2, waits for the copies of its packet id, and routes it then (3 nodes, copies
    and sparse, seed 31101310)."""
    broker = Keeper()
    broker.retain("a", b"old")
    _fill_disk(broker)
    assert broker.retain("a", payload) == AFTER_COMMIT
    assert broker.payload("a") == (payload or None)
    broker.disk.full = False
    broker.pass_s(10)
    assert broker.rows() == ([_row("a")] if payload else [])


def _fill_disk(broker: Keeper) -> None:
    broker.settle()
    broker.disk.full = True
    broker.node.env.store.put(b"nx", b"")
    broker.settle()
    assert not broker.node.env.store.accepting


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"retained_max_messages": 1}, "retained_max_messages"), ({"retained_max_bytes": 400}, "retained_max_bytes")],
)
def test_a_limit_refuses(options: dict[str, Any], reason: str) -> None:
    broker = Keeper(**options)
    assert broker.retain("a") == AFTER_COMMIT
    broker.settle()
    assert broker.retain("b") == 0
    assert (broker.rows(), broker.payload("b")) == ([_row("a")], None)
    _is_refused(broker, "b", reason)


def _is_refused(broker: Keeper, topic: str, reason: str) -> None:
    assert broker.node.env.counters.drops_by_reason == {reason: 1}
    (event,) = broker.events("ret.refuse")
    assert (event["topic"], event["client"], event["reason"]) == (topic, "p", reason)


def test_a_sweep_deletes_the_rows_of_expired_messages() -> None:
    broker = Keeper()
    broker.retain("a", lasts_ms=1000)
    broker.retain("b", lasts_ms=1000)
    broker.retain("c", lasts_ms=9000)
    broker.pass_s(1.0)
    now = broker.node.env.tick()
    assert broker.node.retained.sweep("", now, 1, AckContext()) == 1
    assert broker.rows() == [_row("b"), _row("c")]
    assert broker.node.retained.sweep("", now, 10, AckContext()) == 1
    assert broker.rows() == [_row("c")]


def test_the_node_sweeps_at_intervals() -> None:
    broker = Keeper(expire_retain_cache_s=10)
    broker.retain("a", mountpoint="m", lasts_ms=1000)
    broker.pass_s(9.0)
    assert broker.rows() == [_row("a", "m")]
    broker.pass_s(2.0)
    assert broker.rows() == []
    broker.retain("a", lasts_ms=1000)
    broker.pass_s(11.0)
    assert broker.rows() == []


def test_the_node_never_sweeps_without_an_interval() -> None:
    broker = Keeper(expire_retain_cache_s=0)
    broker.retain("a", lasts_ms=1000)
    broker.pass_s(100.0)
    assert broker.rows() == [_row("a")]


def test_a_restart_loads_the_messages() -> None:
    broker = Keeper(retained_max_messages=2)
    broker.retain("a", b"1")
    broker.retain("b", b"2", "mount")
    broker.settle()
    broker.restart()
    retained = broker.node.retained
    assert broker.payload("a") == b"1"
    (other,) = retained.table("mount").match("#", 0)
    assert (other.mountpoint, other.topic, other.payload, other.qos, other.publisher) == ("mount", "b", b"2", 1, "p")
    assert (retained.count, retained.mountpoints) == (2, ["", "mount"])
    assert [(mountpoint, message.topic) for mountpoint, message in retained.on_disk()] == [("", "a"), ("mount", "b")]


def test_a_message_is_an_event_at_the_level_of_messages() -> None:
    broker, silent = Keeper(level=2), Keeper(level=1)
    for each in (broker, silent):
        each.retain("a", b"1")
    (event,) = broker.events("ret.set")
    assert (event["topic"], event["bytes"], event["digest"]) == ("a", 1, blake2b(b"1", digest_size=8).hexdigest())
    assert silent.events("ret.set") == []


def test_the_end_of_a_message_is_an_event() -> None:
    """An operator deletes it, or it expires: nobody publishes an empty message then."""
    broker = Keeper(level=2)
    broker.retain("a", b"1", "m")
    broker.retain("b", b"2", lasts_ms=1000)
    broker.node.retained.delete("m", "a", AckContext())
    broker.node.retained.delete("m", "a", AckContext())
    broker.node.retained.sweep("", broker.node.env.now + 999, 10, AckContext())
    broker.node.retained.sweep("", broker.node.env.now + 1000, 10, AckContext())
    found = [
        (row["mountpoint"], row["topic"], row["bytes"], row.get("mid") is None) for row in broker.events("ret.set")
    ]
    assert found == [("m", "a", 1, False), ("", "b", 1, False), ("m", "a", 0, True), ("", "b", 0, True)]
