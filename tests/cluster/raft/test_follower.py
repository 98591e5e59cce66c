"""The answers of a follower to each message of its leader."""

from __future__ import annotations

import pytest

from strogoff.cluster.raft import follower
from strogoff.cluster.raft.interface import Contradicted, Forgotten
from strogoff.cluster.raft.log import Log
from strogoff.cluster.raft.messages import Configuration, Message, MessageKind, Snapshot

from .raft_harness import entry
from .test_log import make, terms_of


def append(log: Log, index: int, log_term: int, terms: str = "", commit: int = 0) -> Message:
    entries = tuple(entry(number, int(term), b"x") for number, term in enumerate(terms, index + 1))
    return follower.append(log, Message(MessageKind.APPEND, "me", "l", 9, index, log_term, commit, entries))


def test_entries_that_fit_are_taken() -> None:
    log = make("11")
    answer = append(log, 2, 1, "22", commit=3)
    assert (answer.reject, answer.index, answer.to, answer.term) == (False, 4, "l", 9)
    assert log.committed == 3 and terms_of(log) == "1122"


@pytest.mark.parametrize(
    ("terms", "index", "log_term", "hint"),
    [("11", 5, 3, (2, 1)), ("1122", 4, 3, (4, 2)), ("11333", 5, 2, (2, 1)), ("333", 3, 1, (0, 0))],
)
def test_a_gap_or_a_conflict_is_refused_with_a_hint(
    terms: str, index: int, log_term: int, hint: tuple[int, int]
) -> None:
    answer = append(make(terms), index, log_term, "9")
    assert (answer.reject, answer.index, answer.hint, answer.log_term) == (True, index, *hint)


@pytest.mark.parametrize(("index", "log_term", "terms"), [(3, 2, ""), (1, 1, "13"), (0, 0, "2")])
def test_committed_entries_are_not_contradicted(index: int, log_term: int, terms: str) -> None:
    """A leader without the entry: a voter has lost its vote, and continues with an old copy of its disk."""
    log = make("1111")
    log.commit(3)
    with pytest.raises(Contradicted, match="is committed here with term 1, and l has it with term"):
        append(log, index, log_term, terms)
    assert terms_of(log) == "1111"


def test_no_more_is_committed_than_the_message_proves() -> None:
    log = make("1111")
    append(log, 2, 1, "", commit=4)
    assert log.committed == 2


def test_entries_before_the_commit_index_are_agreed() -> None:
    log = make("1111", commit=3)
    assert append(log, 1, 1, "1").index == 3


def test_a_heartbeat_answer_has_the_round() -> None:
    log = make("11")
    answer = follower.beat(log, Message(MessageKind.HEARTBEAT, "me", "l", 9, commit=2, round=7))
    assert answer.kind is MessageKind.HEARTBEAT_REPLY and answer.round == 7 and log.committed == 2


def test_a_log_without_entries_that_it_had_acknowledged_is_an_old_copy() -> None:
    log = make("11")
    with pytest.raises(
        Forgotten, match="l has an acknowledgement of entry 3, and the log of this disk ends with entry 2"
    ):
        follower.beat(log, Message(MessageKind.HEARTBEAT, "me", "l", 9, commit=3))
    assert log.committed == 0


@pytest.mark.parametrize(
    ("index", "term", "restored", "agreed"), [(9, 3, True, 9), (3, 1, False, 3), (2, 1, False, 2), (3, 2, True, 3)]
)
def test_snapshots(index: int, term: int, restored: bool, agreed: int) -> None:
    log = make("1111", commit=2)
    snapshot = Snapshot(index, term, Configuration(("a",)), b"state")
    answer = follower.install(log, Message(MessageKind.SNAPSHOT, "me", "l", 9, snapshot=snapshot))
    assert (answer.index, log.pending_snapshot is not None) == (agreed, restored)
    assert log.last_index == (index if restored else 4)
