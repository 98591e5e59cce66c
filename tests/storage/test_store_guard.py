"""A guard holds back `committed` until other nodes have a batch; what concerns the own disk waits for `landed` only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.storage.engine import Batch
from strogoff.storage.store import Store

from .contract import Harness, make_harness


class Nodes:
    """The other nodes: they have all batches up to `safe`. The guard of a store."""

    def __init__(self) -> None:
        self.safe = 0
        self.closed: list[tuple[int, Batch]] = []
        self.late: list[set[bytes]] = []
        self.hurried = 0

    def closing(self, commit: int, batch: Batch, late: set[bytes]) -> None:
        self.closed.append((commit, dict(batch)))
        self.late.append(late)

    def hurry(self) -> None:
        self.hurried += 1


class Guarded:
    """A store with a guard, and the order of its callbacks."""

    def __init__(self, tmp_path: Path) -> None:
        self.harness: Harness = make_harness("memory", tmp_path / "db", 0)
        self.store = Store(self.harness.engine, self.harness.loop.call_soon, self.harness.loop.call_later)
        self.nodes = Nodes()
        self.store.guard = self.nodes
        self.called: list[str] = []

    def write(self, key: bytes) -> int:
        self.store.put(key, b"v")
        return self.store.open_commit

    def wait(self, commit: int, name: str) -> None:
        self.store.when_committed(commit, partial(self.called.append, name))

    def land(self, commit: int) -> None:
        self.harness.loop.run_until(lambda: self.store.landed >= commit)

    def have(self, commit: int) -> None:
        """The other nodes have all batches up to this commit."""
        self.nodes.safe = commit
        self.store.settle()


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_a_batch_is_committed_when_the_other_nodes_have_it(guarded: Guarded) -> None:
    first = guarded.write(b"1")
    guarded.wait(first, "1")
    guarded.land(first)
    second = guarded.write(b"2")
    guarded.wait(second, "2")
    guarded.land(second)
    assert (guarded.store.landed, guarded.store.committed, guarded.called) == (second, 0, [])
    guarded.have(first)
    assert (guarded.store.committed, guarded.called) == (first, ["1"])
    guarded.have(second)
    assert (guarded.store.committed, guarded.called) == (second, ["1", "2"])


def test_a_batch_that_the_nodes_have_first_waits_for_the_disk(guarded: Guarded) -> None:
    commit = guarded.write(b"1")
    guarded.wait(commit, "1")
    guarded.have(commit)
    assert guarded.called == []
    guarded.land(commit)
    assert guarded.called == ["1"]


def test_callbacks_for_a_batch_that_has_landed_wait_with_those_from_before(guarded: Guarded) -> None:
    commits = []
    for key in (b"1", b"2", b"3"):
        commits.append(guarded.write(key))
        guarded.land(commits[-1])
    guarded.have(commits[0])
    guarded.wait(commits[2], "3")
    guarded.wait(commits[1], "2")
    guarded.wait(commits[0], "1")
    assert guarded.called == ["1"]
    guarded.have(commits[1])
    assert guarded.called == ["1", "2"]
    guarded.have(commits[2])
    assert guarded.called == ["1", "2", "3"]


def test_what_concerns_the_disk_does_not_wait_for_the_other_nodes(guarded: Guarded) -> None:
    commit = guarded.write(b"1")
    guarded.store.when_landed(commit, partial(guarded.called.append, "landed"))
    guarded.store.flush(partial(guarded.called.append, "flushed"))
    guarded.harness.loop.run_until(lambda: guarded.called == ["landed", "flushed"])
    assert guarded.store.committed == 0
    guarded.store.when_landed(commit, partial(guarded.called.append, "again"))
    assert guarded.called[-1] == "again"


def test_landing_callbacks_of_two_batches_run_in_the_order_of_the_batches(guarded: Guarded) -> None:
    first = guarded.write(b"1")
    guarded.harness.loop.turn()
    second = guarded.write(b"2")
    assert second == first + 1
    guarded.store.when_landed(second, partial(guarded.called.append, "2"))
    guarded.store.when_landed(first, partial(guarded.called.append, "1"))
    guarded.land(second)
    assert guarded.called == ["1", "2"]


def test_without_a_guard_everything_that_has_landed_is_committed(guarded: Guarded) -> None:
    commit = guarded.write(b"1")
    guarded.wait(commit, "1")
    guarded.land(commit)
    guarded.store.guard = None
    guarded.store.settle()
    assert (guarded.called, guarded.store.committed) == (["1"], commit)
    later = guarded.write(b"2")
    guarded.wait(later, "2")
    guarded.land(later)
    assert guarded.called == ["1", "2"]


def test_the_guard_sees_each_batch_once_and_may_change_it(guarded: Guarded) -> None:
    class Fence(Nodes):
        def closing(self, commit: int, batch: Batch, late: set[bytes]) -> None:
            super().closing(commit, batch, late)
            batch.pop(b"foreign", None)
            batch[b"added"] = b"v"

    nodes = guarded.store.guard = guarded.nodes = Fence()
    guarded.write(b"foreign")
    commit = guarded.write(b"own")
    guarded.land(commit)
    assert nodes.closed == [(commit, {b"foreign": b"v", b"own": b"v"})]
    assert guarded.harness.all() == {b"own": b"v", b"added": b"v"}


def test_a_guard_that_raises_fails_the_store(guarded: Guarded) -> None:
    class Broken(Nodes):
        def closing(self, commit: int, batch: Batch, late: set[bytes]) -> None:
            raise ValueError("no")

    guarded.store.guard = Broken()
    guarded.write(b"1")
    with pytest.raises(ValueError, match="no"):
        guarded.harness.loop.run_until(lambda: guarded.store.state == "failed")
    assert guarded.store.state == "failed" and guarded.store.committed == 0


def test_a_store_can_be_read_while_a_batch_is_written_from_which_the_guard_has_taken_keys(guarded: Guarded) -> None:
    """The keys were in a sorted view already, because somebody read from the open batch."""
    store, seen = guarded.store, list[list[bytes]]()

    class Dropping(Nodes):
        def closing(self, commit: int, batch: Batch, late: set[bytes]) -> None:
            super().closing(commit, batch, late)
            batch.pop(b"2", None)

    store.guard = Dropping()
    for key in (b"1", b"2", b"3"):
        guarded.write(key)
    assert store.keys(b"0", b"9") == [b"1", b"2", b"3"]
    write = guarded.harness.engine.write

    def noted(batch: Batch, done: Callable[[Exception | None], None]) -> None:
        seen.append(store.keys(b"0", b"9"))
        write(batch, done)

    guarded.harness.engine.write = noted
    guarded.land(store.open_commit)
    assert seen == [[b"1", b"3"]] and store.keys(b"0", b"9") == [b"1", b"3"]


def test_the_guard_knows_which_keys_nobody_waits_for(guarded: Guarded) -> None:
    """A key that was also written by `put` or `delete` in the batch is not one of them, in whatever order."""
    store = guarded.store
    store.put(b"first put", b"1")
    for key in (b"first put", b"alone", b"then put", b"then deleted"):
        store.write_later(key, None)
    store.put(b"then put", b"1")
    store.delete(b"then deleted")
    store.write_later(b"alone", b"2")
    guarded.land(store.open_commit)
    store.write_later(b"next", None)
    guarded.land(guarded.write(b"urgent"))
    assert guarded.nodes.late == [{b"alone"}, {b"next"}]


@pytest.mark.parametrize("method", ["flush", "when_all_safe"])
def test_who_waits_for_all_writes_waits_for_the_late_ones(guarded: Guarded, method: str) -> None:
    store, nodes = guarded.store, guarded.nodes
    store.write_later(b"late", None)
    getattr(store, method)(partial(guarded.called.append, "all"))
    assert nodes.hurried == 1 and guarded.called == []
    commit = store.open_commit
    guarded.land(commit)
    assert nodes.late == [set()]
    guarded.have(commit)
    assert guarded.called == ["all"]


def test_all_is_safe_only_when_the_guard_has_closed_a_commit_after_the_question(guarded: Guarded) -> None:
    """The other nodes may lack late writes of commits that are safe."""
    store = guarded.store
    first = guarded.write(b"1")
    guarded.land(first)
    guarded.have(first)
    store.when_all_safe(partial(guarded.called.append, "all"))
    guarded.land(first + 1)
    assert guarded.called == [] and guarded.nodes.closed[-1] == (first + 1, {})
    guarded.have(first + 1)
    assert guarded.called == ["all"]


steps = st.lists(st.sampled_from(["write", "wait", "turn", "have"]), max_size=60)


@settings(max_examples=200, deadline=None)
@given(steps=steps, choices=st.randoms(use_true_random=False))
def test_callbacks_run_in_order_and_never_before_both_disks(tmp_path_factory, steps, choices) -> None:  # type: ignore[no-untyped-def]
    guarded = Guarded(tmp_path_factory.mktemp("store"))
    store = guarded.store
    seen: list[int] = []

    def called(commit: int) -> None:
        assert commit <= min(store.landed, guarded.nodes.safe)
        seen.append(commit)

    waiting: list[int] = []
    for step in steps:
        if step == "write":
            guarded.write(b"%d" % choices.randrange(9))
        elif step == "wait" and store.open_commit > 1:
            commit = choices.randint(store.committed + 1, store.open_commit)
            waiting.append(commit)
            store.when_committed(commit, partial(called, commit))
        elif step == "turn":
            guarded.harness.loop.turn()
        else:
            guarded.have(choices.randint(guarded.nodes.safe, store.open_commit))
    end = guarded.write(b"end")
    guarded.land(end)
    guarded.have(end)
    assert sorted(waiting) == sorted(seen)
    assert seen == sorted(seen)
