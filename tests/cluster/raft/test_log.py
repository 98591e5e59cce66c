"""The log against a simple list, and its edge cases: conflicts, hints, compaction, replaced batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.raft.log import Log
from strogoff.cluster.raft.messages import Change, Configuration, HardState, Saved, Snapshot

from .raft_harness import change_entry, entry


def make(terms: str, commit: int = 0) -> Log:
    entries = [entry(index, int(term), b"x") for index, term in enumerate(terms, 1)]
    return Log(Saved(HardState(9, "", commit), None, entries))


def terms_of(log: Log) -> str:
    return "".join(str(entry.term) for entry in log.slice(log.base + 1, log.last_index))


@given(
    st.lists(st.integers(1, 3), max_size=8).map(sorted), st.lists(st.integers(1, 4), max_size=8).map(sorted), st.data()
)
def test_merge_follows_the_paper(mine: list[int], theirs: list[int], data: st.DataObject) -> None:
    agree = next((n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
    agree = min(len(mine), len(theirs)) if agree is None else agree
    first = data.draw(st.integers(0, agree))
    last = data.draw(st.integers(first, len(theirs)))
    log = make("".join(map(str, mine)))
    log.merge(tuple(entry(index + 1, theirs[index], b"x") for index in range(first, last)))
    conflict = any(index < len(mine) and mine[index] != theirs[index] for index in range(first, last))
    dumb = theirs[:last] + ([] if conflict else mine[last:])
    assert terms_of(log) == "".join(map(str, dumb))


def test_an_old_message_cuts_nothing() -> None:
    log = make("1123")
    log.merge((entry(2, 1, b"x"),))
    assert terms_of(log) == "1123" and log.stable == 4


def test_committed_entries_are_never_cut() -> None:
    log = make("112", commit=2)
    with pytest.raises(AssertionError, match="committed"):
        log.merge((entry(2, 3, b"y"),))


def test_terms_and_ends() -> None:
    log = make("1122")
    assert [log.term(index) for index in (0, 1, 4, 5)] == [0, 1, 2, None]
    assert (log.last_index, log.last_term) == (4, 2)
    assert log.is_behind(4, 2) and log.is_behind(1, 3) and not log.is_behind(9, 1) and not log.is_behind(3, 2)


@pytest.mark.parametrize(("index", "term", "found"), [(9, 9, 7), (9, 3, 5), (6, 4, 6), (9, 2, 2), (9, 0, 0), (3, 3, 3)])
def test_last_of_skips_whole_terms(index: int, term: int, found: int) -> None:
    assert make("1133344").last_of(index, term) == found


def test_portions() -> None:
    log = Log(Saved(HardState(), None, [entry(index, 1, b"x" * 10) for index in range(1, 6)]))
    assert [found.index for found in log.portion(2, 25)] == [2, 3]
    assert [found.index for found in log.portion(2, 1)] == [2]
    assert log.portion(6, 100) == ()


def test_a_batch_that_was_replaced_meanwhile_does_not_count_as_written() -> None:
    log = make("1")
    log.append(entry(2, 1, b"x"))
    (batch,) = log.unstable()
    log.merge((entry(2, 2, b"y"),))
    log.written(batch)
    assert log.stable == 1
    assert log.unstable() == (entry(2, 2, b"y"),)


def test_compaction_keeps_a_tail_and_the_configuration() -> None:
    log = make("11122", commit=5)
    log.append(change_entry(6, 2, Change("voter", "a")))
    log.written(log.unstable()[-1])
    log.commit(6)
    log.applied = 6
    log.compact(4, b"state", tail=2)
    assert log.snapshot == Snapshot(4, 2, Configuration(), b"state") == log.pending_compaction
    assert log.base == 2 and log.term(2) == 1 and log.term(1) is None and terms_of(log) == "1222"
    log.compact(3, b"older", tail=2)
    assert log.snapshot.index == 4
    log.compact(6, b"newer", tail=0)
    assert log.snapshot == Snapshot(6, 2, Configuration(("a",)), b"newer") and log.last_index == 6
    with pytest.raises(AssertionError):
        log.compact(7, b"", 0)


def test_restoring_replaces_everything() -> None:
    log = make("1122", commit=2)
    snapshot = Snapshot(7, 3, Configuration(("a",)), b"state")
    log.restore(snapshot)
    assert (log.last_index, log.last_term, log.committed, log.history.last.voters) == (7, 3, 7, ("a",))
    assert log.to_apply() == () and log.applied == 0
    log.restored(snapshot)
    assert log.applied == 7 and log.pending_snapshot is None


def test_a_restart_reads_the_saved_log() -> None:
    snapshot = Snapshot(2, 1, Configuration(("a",)), b"state")
    log = Log(Saved(HardState(2, "a", 3), snapshot, [entry(index, 2, b"x") for index in (1, 2, 3, 4)]))
    assert (log.base, log.applied, log.committed, log.last_index, log.stable) == (2, 2, 3, 4, 4)
    assert [found.index for found in log.to_apply()] == [3]
