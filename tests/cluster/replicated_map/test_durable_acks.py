"""Acknowledgements that wait for the disk of the map."""

from __future__ import annotations

from random import Random

from strogoff.cluster.replicated_map.durable_acks import DurableAcks
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.storage.store import Store


class Rig:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.disk = SimDisk(Random(1), self.loop.call_later, lambda: self.loop.now_s, "sync", (0.1, 0.1))
        self.store = Store(self.disk, self.loop.call_soon, self.loop.call_later)
        self.durable_acks = DurableAcks(self.store)
        self.heard: list[str] = []

    def write(self, name: str) -> None:
        self.store.put(name.encode(), b"v")
        self.durable_acks.wrote()
        self.durable_acks.when_durable(lambda: self.heard.append(name))


def test_at_once_where_nothing_was_written() -> None:
    rig = Rig()
    rig.durable_acks.when_durable(lambda: rig.heard.append("x"))
    assert rig.heard == ["x"]


def test_at_once_without_a_store() -> None:
    heard: list[str] = []
    durable_acks = DurableAcks(None)
    durable_acks.wrote()
    durable_acks.when_durable(lambda: heard.append("x"))
    assert heard == ["x"]


def test_each_ack_waits_for_its_commit_in_order() -> None:
    rig = Rig()
    rig.write("a")
    rig.durable_acks.when_durable(lambda: rig.heard.append("behind a"))
    rig.loop.run_for(0.05)
    rig.write("b")
    assert rig.heard == []
    rig.loop.run_for(0.06)
    assert rig.heard == ["a", "behind a"]
    rig.loop.run_for(0.1)
    assert rig.heard == ["a", "behind a", "b"]


def test_a_later_ack_does_not_overtake() -> None:
    """Acknowledgements of writes without a disk confirm earlier writes as well."""
    rig = Rig()
    rig.write("a")
    rig.store.when_committed(1, lambda: rig.durable_acks.when_durable(lambda: rig.heard.append("later")))
    rig.loop.run_for(0.2)
    assert rig.heard == ["a", "later"]


def test_a_full_disk_is_not_waited_for() -> None:
    rig = Rig()
    rig.disk.full = True
    rig.write("a")
    rig.loop.run_for(0.2)
    rig.durable_acks.look()
    assert rig.heard == ["a"]
    rig.write("b")
    assert rig.heard == ["a", "b"]
    rig.disk.full = False
    rig.loop.run_for(2)
    rig.write("c")
    assert rig.heard == ["a", "b"]
    rig.loop.run_for(0.2)
    assert rig.heard == ["a", "b", "c"]
