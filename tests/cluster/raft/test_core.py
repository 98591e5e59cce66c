"""The interface of a peer: batches, deadlines, unknown senders, restarts."""

from __future__ import annotations

import pytest

from strogoff.cluster.raft.interface import ChangePending, NotLeader, Rejected, Settings
from strogoff.cluster.raft.messages import Change, Kind, Message, MessageKind, bootstrap

from .raft_harness import RaftHarness


def test_a_single_voter_elects_itself_at_once_and_commits_alone() -> None:
    world = RaftHarness()
    world.add("a", bootstrap("a"))
    raft = world["a"]
    assert raft.next_deadline_ms == 0
    raft.tick(0)
    assert (raft.role, raft.leader, raft.term) == ("leader", "a", 2)
    raft.propose(b"x")
    raft.confirm(1)
    world.settle()
    assert world.peers["a"].machine.commands == [b"x"]
    assert world.peers["a"].confirmed == [1]
    assert raft.applied_index == raft.commit_index == raft.last_index == 3


def test_one_batch_at_a_time() -> None:
    world = RaftHarness()
    world.add("a", bootstrap("a"))
    raft = world["a"]
    raft.tick(0)
    ready = raft.ready()
    assert ready is not None and ready.sync
    raft.propose(b"x")
    assert raft.ready() is None
    raft.advance(ready)
    with pytest.raises(AssertionError):
        raft.advance(ready)
    second = raft.ready()
    assert second is not None and [entry.kind for entry in second.entries] == [Kind.COMMAND]


def test_a_batch_that_only_commits_need_not_wait_for_the_disk() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    world["a"].propose(b"x")
    world.peers["a"].work()
    for message in [m for m in world.flying if m.to == "b"]:
        world.deliver(message)
    world.flying.clear()
    world.peers["b"].work()
    for message in world.flying:
        world.deliver(message)
    ready = world["a"].ready()
    assert ready is not None and ready.hard is not None and not ready.sync and ready.committed


def test_nothing_to_do_is_no_batch() -> None:
    assert RaftHarness.of("a", "b")["a"].ready() is None


def test_only_the_leader_takes_requests() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    raft = world["b"]
    for ask in (
        lambda: raft.propose(b""),
        lambda: raft.change(Change("remove", "a")),
        lambda: raft.confirm(1),
        lambda: raft.transfer("c"),
    ):
        with pytest.raises(NotLeader) as refusal:
            ask()
        assert refusal.value.leader == "a"
    assert not raft.caught_up("c") and not raft.answers("c")


def test_changes_one_at_a_time_and_learners_first() -> None:
    world = RaftHarness.of("a")
    raft = world["a"]
    raft.tick(0)
    with pytest.raises(ChangePending):
        raft.change(Change("learner", "b"))
    world.settle()
    with pytest.raises(Rejected):
        raft.change(Change("voter", "b"))
    raft.change(Change("learner", "b"))
    assert raft.configuration.learners == ("b",)
    world.settle()
    with pytest.raises(Rejected):  # b was never heard
        raft.change(Change("voter", "b"))
    world.add("b")
    world.run(400)
    raft.change(Change("voter", "b"))
    world.settle()
    assert world["b"].configuration.voters == ("a", "b")


def test_replies_of_strangers_and_messages_for_another_disk_are_dropped() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    raft.step(Message(MessageKind.APPEND_REPLY, "a", "x", 99), 0)
    raft.step(Message(MessageKind.APPEND, "a/old", "b", 99), 0)
    raft.step(Message(MessageKind.APPEND, "a", "a", 99), 0)
    assert (raft.role, raft.term) == ("leader", 2)


def test_two_leaders_of_a_term_raise_an_error() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    with pytest.raises(AssertionError, match="two leaders of term 2"):
        raft.step(Message(MessageKind.APPEND, "a", "b", 2), 0)


def test_a_stalled_disk_piles_up_no_answers() -> None:
    world = RaftHarness.of("a", "b", "c")
    peer = world.peers["b"]
    world.deliver(Message(MessageKind.HEARTBEAT, "b", "a", 2))
    assert peer.take()
    for number in range(50):
        world.deliver(Message(MessageKind.HEARTBEAT, "b", "a", 2, round=number))
        world.now_ms += 2000
        peer.raft.tick(world.now_ms)
    peer.finish()
    peer.take()
    assert len(peer.taken.messages if peer.taken else ()) <= 3


def test_deadlines() -> None:
    world = RaftHarness.of("a", "b", "c")
    low, high = Settings().election_ms
    assert all(low <= world[name].next_deadline_ms <= high for name in "abc")
    raft = world.elect("a")
    assert raft.next_deadline_ms == Settings().heartbeat_ms


def test_a_restart_applies_committed_entries_again() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    for text in (b"x", b"y", b"z"):
        raft.propose(text)
        world.settle()
    world.peers["b"].crash()
    world.peers["b"].restart()
    assert (world["b"].term, world["b"].applied_index, world["b"].last_index) == (2, 1, 5)
    world.settle()
    assert world.peers["b"].machine.commands == [b"x", b"y", b"z"]


def test_a_vote_waits_for_the_disk() -> None:
    """This holds also if nothing else is written: a peer that loses its vote in a crash could vote
    twice in one term.
    """
    world = RaftHarness.of("a", "b", "c")
    raft = world["b"]
    last = raft.last_index
    raft.step(Message(MessageKind.VOTE, "b", "a", raft.term + 1, index=last, log_term=1, force=True), 0)
    ready = raft.ready()
    assert ready is not None and ready.hard is not None and ready.hard.vote == "a" and not ready.entries
    assert [message.kind for message in ready.messages] == [MessageKind.VOTE_REPLY] and ready.sync


def test_a_later_term_waits_for_the_disk() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world["b"]
    raft.step(Message(MessageKind.HEARTBEAT, "b", "a", raft.term + 3), 0)
    ready = raft.ready()
    assert ready is not None and ready.hard is not None and ready.hard.vote == "" and ready.sync


def test_entries_wait_for_the_disk_in_a_term_that_is_known() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    world.settle()
    world["a"].propose(b"x")
    world.peers["a"].take()
    ready = world.peers["a"].finish()
    assert ready.entries and ready.sync
