"""Saving and loading the state of a peer, on a memory engine and on a disk that loses power."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.interface import Ready, Settings
from strogoff.cluster.raft.messages import (
    Configuration,
    Entry,
    HardState,
    MalformedMessage,
    Saved,
    Snapshot,
    bootstrap,
    empty,
)
from strogoff.cluster.raft.stable import RaftStable
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.storage.engine import OutOfDescriptors
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store

from .raft_harness import Disk, entry


class Rig:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.store = Store(VolatileMemoryEngine(self.loop.call_soon), self.loop.call_soon, self.loop.call_later)
        self.stable = RaftStable(self.store)
        self.done = 0

    def save(self, **parts: object) -> None:
        self.stable.save(batch(**parts), self.count)

    def count(self) -> None:
        self.done += 1

    def again(self) -> Saved:
        self.loop.settle()
        return RaftStable(self.store).load()


def batch(**parts: object) -> Ready:
    base: dict[str, object] = {"hard": None, "snapshot": None, "compacted": None, "entries": (), "messages": ()}
    base |= {"committed": (), "confirmed": (), "sync": True}
    return Ready(**(base | parts))  # type: ignore[arg-type]


def log(*terms: int, first: int = 1) -> tuple[Entry, ...]:
    return tuple(entry(index, term, b"x") for index, term in enumerate(terms, first))


def test_nothing_is_an_empty_peer() -> None:
    assert Rig().again() == empty()


def test_the_first_save_and_load() -> None:
    rig = Rig()
    rig.stable.begin(bootstrap("a"), rig.count)
    assert rig.done == 0
    assert rig.again() == bootstrap("a") and rig.done == 1
    with pytest.raises(AssertionError, match="already"):
        rig.stable.begin(bootstrap("b"), rig.count)


def test_entries_replace_all_from_the_first_on() -> None:
    rig = Rig()
    rig.save(hard=HardState(2, "a", 1), entries=log(1, 1, 2, 2))
    rig.save(entries=log(3, first=3))
    saved = rig.again()
    assert saved.hard == HardState(2, "a", 1) and saved.entries == [*log(1, 1), *log(3, first=3)]
    assert rig.done == 2


def test_a_received_snapshot_replaces_the_log_and_the_own_only_its_beginning() -> None:
    rig = Rig()
    rig.save(entries=log(1, 1, 1, 1))
    own = Snapshot(2, 1, Configuration(("a",)), b"own")
    rig.save(compacted=own, entries=log(2, first=5))
    assert rig.again() == Saved(HardState(), own, [*log(1, 1, 2, first=3)])
    other = Snapshot(4, 2, Configuration(("a",)), b"other")
    rig.save(snapshot=other)
    assert rig.again() == Saved(HardState(), other, [])
    assert len(rig.store.keys(b"Re", b"Rf")) == 0


def test_compaction_never_reaches_beyond_the_saved_snapshot() -> None:
    rig = Rig()
    rig.save(entries=log(1, 1, 1))
    rig.stable.compacted(3)
    assert len(rig.again().entries) == 3


def test_a_peer_goes_on_while_its_disk_returns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has no free file descriptor for a moment. Meanwhile the peer replaces entries and compacts others."""
    rig = Rig()
    rig.save(hard=HardState(term=1), entries=log(1, 1, 1, 1, 1))
    rig.again()

    def unreadable(*_: object) -> list[bytes]:
        raise OutOfDescriptors("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(VolatileMemoryEngine, "keys", unreadable)
        rig.save(entries=log(2, 2, first=4))
        rig.save(compacted=Snapshot(2, 1, Configuration(("a",)), b"s"))
        rig.save(entries=log(2, first=6))
    saved = rig.again()
    assert [each.index for each in saved.entries] == [3, 4, 5, 6]
    assert rig.store.keys(b"Re", b"Rf", 1) == [b"Re" + (3).to_bytes(8, "big")]


def test_a_peer_that_begins_with_a_snapshot_deletes_only_its_own_entries() -> None:
    rig = Rig()
    rig.save(snapshot=Snapshot(10**6, 1, Configuration(("a",)), b"s"))
    rig.save(entries=log(1, 1, 1, first=10**6 + 1))
    rig.again()
    rig.save(compacted=Snapshot(10**6 + 2, 1, Configuration(("a",)), b"s"))
    assert rig.store.bytes_waiting < 200
    assert [each.index for each in rig.again().entries] == [10**6 + 3]


def test_a_batch_without_sync_continues_at_once() -> None:
    rig = Rig()
    rig.save(entries=log(1))
    rig.loop.settle()
    rig.save(hard=HardState(1, "", 1), sync=False)
    assert rig.done == 2
    assert rig.again().hard.commit == 1


def test_damage_is_named() -> None:
    rig = Rig()
    rig.save(hard=HardState(2, "a", 2), entries=log(1, 1, 1))
    rig.loop.settle()
    rig.store.put(b"Rh", b"\xff")
    with pytest.raises(MalformedMessage, match="Rh"):
        rig.again()
    rig.save(hard=HardState(2, "a", 9))
    with pytest.raises(MalformedMessage, match="ends at 3"):
        rig.again()
    rig.store.delete(b"Re" + (2).to_bytes(8, "big"))
    with pytest.raises(MalformedMessage, match="gap"):
        rig.again()


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_keeps_durable_batches(seed: int) -> None:
    """A single voter on a disk that loses power: each batch is there whole or not at all, in order."""
    rng = Random(seed)
    loop = VirtualLoop()
    disk = SimDisk(rng, loop.call_later, lambda: loop.now_s)
    model = Disk(bootstrap("a"))
    RaftStable(Store(disk, loop.call_soon, loop.call_later)).begin(bootstrap("a"), lambda: None)
    loop.run_for(1)
    for _ in range(5):
        stable = RaftStable(Store(disk, loop.call_soon, loop.call_later))
        saved = stable.load()
        raft = Raft("a", saved, Settings(tail=1), rng, 0)
        raft.tick(0)
        durable = [saved.hard.term, saved.entries[-1].index if saved.entries else 0]
        for number in range(rng.randint(3, 30)):
            raft.propose(b"%d" % number)
            if rng.random() < 0.2 and raft.applied_index > 1:
                raft.compact(raft.applied_index, b"state")
            ready = raft.ready()
            if ready is not None:
                model.save(ready)
                stable.save(ready, lambda raft=raft, ready=ready: raft.advance(ready))  # type: ignore[misc]
            loop.run_for(rng.choice((0, 0.002, 0.02)))
            durable = [raft._log.term(raft._log.stable) or 0, raft._log.stable]
        disk.crash(power=True)
        disk = disk.reopen()
        found = RaftStable(Store(disk, loop.call_soon, loop.call_later)).load()
        last = found.entries[-1].index if found.entries else found.snapshot.index if found.snapshot else 0
        assert last >= durable[1] and found.hard.term >= durable[0]
        for kept in found.entries:
            assert model.entries.get(kept.index, kept) == kept
        model = Disk(found)
