"""The messages of a leader, and the acknowledgements that it counts, on a log of its own."""

from __future__ import annotations

import pytest

from strogoff.cluster.raft.interface import Rejected, Settings
from strogoff.cluster.raft.leader import Leadership
from strogoff.cluster.raft.log import Log
from strogoff.cluster.raft.messages import Message, MessageKind

from .raft_harness import saved_voters


def make(max_inflight: int = 2) -> tuple[Leadership, Log]:
    log = Log(saved_voters("a", "b", "c"))
    settings = Settings(election_ms=(800, 1200), max_append_bytes=1, max_inflight=max_inflight)
    return Leadership("a", 2, log, settings, 0), log


def agreed(leader: Leadership, peer: str, index: int, now_ms: float = 0) -> None:
    leader.receive(Message(MessageKind.APPEND_REPLY, "a", peer, 2, index=index), now_ms)


def test_everything_since_the_last_batch_leaves_together_within_the_window() -> None:
    leader, _ = make()
    assert [(m.to, len(m.entries)) for m in leader.messages(0)] == [("b", 1), ("c", 1)]
    for text in (b"x", b"y", b"z"):
        leader.propose(text)
    assert leader.messages(0) == []  # both are probed
    agreed(leader, "b", 2)
    assert [(m.to, m.index) for m in leader.messages(0)] == [("b", 2), ("b", 3)]
    agreed(leader, "b", 3)
    assert [(m.to, m.index) for m in leader.messages(0)] == [("b", 4)]


def test_an_answer_to_a_heartbeat_repeats_the_probe_but_not_its_entries() -> None:
    leader, _ = make()
    leader.messages(0)
    for _ in range(3):
        leader.receive(Message(MessageKind.HEARTBEAT_REPLY, "a", "b", 2), 0)
        assert [(m.to, m.index, m.entries) for m in leader.messages(0)] == [("b", 1, ())]
    agreed(leader, "b", 1)
    assert [(m.to, m.index, len(m.entries)) for m in leader.messages(0)] == [("b", 1, 1)]


def test_its_own_entries_count_when_they_are_durable() -> None:
    leader, log = make()
    leader.messages(0)
    agreed(leader, "b", 2)
    assert not leader.commit()
    log.written(log.unstable()[-1])
    assert leader.commit() and log.committed == 2
    assert [m.commit for m in leader.messages(0) if m.to == "b"] == [2]


def test_a_majority_commits_also_before_the_own_disk() -> None:
    leader, log = make()
    leader.messages(0)
    agreed(leader, "b", 2)
    agreed(leader, "c", 2)
    assert leader.commit() and log.committed == 2


def test_a_peer_is_caught_up_while_it_answers() -> None:
    leader, _ = make()
    assert not leader.caught_up("b", 0)
    agreed(leader, "b", 2, 100)
    assert leader.caught_up("b", 800) and not leader.caught_up("b", 1000)
    assert leader.caught_up("a", 1000) and not leader.caught_up("x", 0)
    for _ in range(65):
        leader.propose(b"x")
    assert not leader.caught_up("b", 100)


def test_a_peer_that_lacks_much_of_the_log_may_answer() -> None:
    leader, _ = make()
    assert leader.answers("a", 1000) and leader.answers("b", 100)
    assert not leader.answers("b", 1000) and not leader.answers("x", 0)
    for _ in range(65):
        leader.propose(b"x")
    agreed(leader, "b", 2, 1000)
    assert leader.answers("b", 1100) and not leader.caught_up("b", 1100)


def test_it_steps_down_without_a_majority() -> None:
    leader, _ = make()
    assert leader.tick(1199)
    leader.receive(Message(MessageKind.HEARTBEAT_REPLY, "a", "b", 2), 1199)
    assert leader.tick(2398)
    assert not leader.tick(2399)


def test_tickets_of_one_batch_share_a_round_and_old_answers_do_not_count() -> None:
    leader, log = make()
    leader.messages(0)
    agreed(leader, "b", 2)
    log.written(log.unstable()[-1])
    leader.commit()
    leader.confirm(7)
    beats = [m for m in leader.messages(0) if m.kind is MessageKind.HEARTBEAT]
    assert [m.round for m in beats] == [1, 1]
    leader.confirm(8)
    leader.receive(Message(MessageKind.HEARTBEAT_REPLY, "a", "b", 2, round=0), 0)
    assert leader.confirmed() == ()
    leader.receive(Message(MessageKind.HEARTBEAT_REPLY, "a", "b", 2, round=1), 0)
    assert leader.confirmed() == (7,)


def test_a_transfer_waits_until_the_new_leader_has_all_entries() -> None:
    leader, _ = make()
    leader.messages(0)
    leader.transfer("b", 0)
    assert not [m for m in leader.messages(0) if m.kind is MessageKind.TIMEOUT_NOW]
    agreed(leader, "b", 2)
    assert [m.to for m in leader.messages(0) if m.kind is MessageKind.TIMEOUT_NOW] == ["b"]
    for peer in "ax":
        with pytest.raises(Rejected):
            leader.transfer(peer, 0)
