"""The figures of the Raft paper (extended version, 2014) and of the thesis, as tests."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.interface import ChangePending, Contradicted, Settings
from strogoff.cluster.raft.messages import Change, HardState, Message, MessageKind, Saved

from .planted_bugs import OldTermsRaft
from .raft_harness import RaftHarness, entry, saved_voters


def with_log(world: RaftHarness, name: str, terms: str, voters: str, term: int) -> None:
    """A peer whose log after the snapshot at 1 has entries of these terms, one digit each."""
    saved = saved_voters(*voters)
    entries = [entry(index, int(digit), b"%s%d" % (digit.encode(), index)) for index, digit in enumerate(terms, 2)]
    world.add(name, Saved(HardState(term, "", 1), saved.snapshot, entries))


def test_figure_2_a_server_votes_once_per_term_and_remembers_it() -> None:
    world = RaftHarness.of("a", "b", "c")
    for candidate, granted in (("b", True), ("c", False), ("b", True)):
        world.deliver(Message(MessageKind.VOTE, "a", candidate, 2, index=1, log_term=1))
        world.peers["a"].work()
        assert world.flying.pop().reject is not granted
    world.peers["a"].crash()
    world.peers["a"].restart()
    world.deliver(Message(MessageKind.VOTE, "a", "c", 2, index=9, log_term=1))
    world.peers["a"].work()
    assert world.flying.pop().reject


def test_figure_2_a_lower_term_learns_the_higher() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    for kind in (MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.VOTE):
        world.deliver(Message(kind, "b", "c", 1))
        world.peers["b"].work()
        answer = world.flying.pop()
        assert (answer.to, answer.term) == ("c", 2)
        assert answer.kind is MessageKind.APPEND_REPLY or answer.reject


def test_figure_2_a_leader_of_a_lower_term_steps_down() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    world.deliver(Message(MessageKind.APPEND_REPLY, "a", "b", 9))
    assert (raft.role, raft.term, raft.leader) == ("follower", 9, None)


FIGURE_7 = {
    "a": "11445566",  # it lacks the last one
    "b": "1144"[:3],
    "c": "11445566" + "66",
    "d": "11445566" + "677",
    "e": "114444",
    "f": "1122233333",
}


def test_figure_6_and_7_all_followers_get_the_log_of_the_leader() -> None:
    """The paper's six followers a to f, here with one entry less in front, and the leader of term 8."""
    world = RaftHarness(settings=Settings(max_append_bytes=6))
    voters = "abcdefl"
    with_log(world, "l", "114455666", voters, 7)
    for name, terms in FIGURE_7.items():
        with_log(world, name, terms, voters, 7)
    world["l"]._term = 7
    for rich in "cd":
        world.peers[rich].up = False  # they would not vote for it
    world.elect("l")
    assert world["l"].role == "leader"
    for rich in "cd":
        world.peers[rich].restart()
    world.run(1500)
    assert world.leaders() == ["l"]
    logs = {tuple(world.log(name)) for name in world.peers}
    assert logs == {(*enumerate((1, 1, 4, 4, 5, 5, 6, 6, 6, 8), 2),)}
    assert len({tuple(peer.machine.commands) for peer in world.peers.values()}) == 1


def figure_8(core: type[Raft]) -> RaftHarness:
    """Figure 8 up to (c): s1 of term 4 has its entry of term 2 on a majority, and its entry of term
    4 on no other peer.
    """
    world = RaftHarness(settings=Settings(max_append_bytes=1), core=core)
    names = ("s1", "s2", "s3", "s4", "s5")
    snapshot = saved_voters(*names).snapshot
    logs = {"s1": [entry(2, 2, b"two")], "s2": [entry(2, 2, b"two")], "s5": [entry(2, 3, b"three")]}
    for name in names:
        world.add(name, Saved(HardState(3, "", 1), snapshot, logs.get(name, [])))
    world.isolate("s4", "s5")
    raft = world["s1"]
    raft._campaign(trial=False)
    for _ in range(12):  # everything arrives except the entries of term 4
        for peer in world.peers.values():
            peer.work()
        flying, world.flying = world.flying, []
        for message in flying:
            older = tuple(entry for entry in message.entries if entry.term < 4)
            world.deliver(msgspec.structs.replace(message, entries=older))
    world.peers["s1"].work()
    return world


def test_figure_8_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    world = figure_8(Raft)
    assert [world[name]._log.term(2) for name in ("s1", "s2", "s3")] == [2, 2, 2]
    assert world["s1"].commit_index == 1
    world.flying.clear()
    world.peers["s1"].crash()
    world.heal()
    world.now_ms += 2000  # s1 is down
    world["s5"]._term = 4
    world["s5"]._campaign(trial=False)  # (d): s5 is elected and replaces the entry everywhere
    world.settle()
    world.peers["s1"].restart()
    world.run(1000)
    assert {peer.machine.commands[0] for peer in world.peers.values()} == {b"three"}


def test_figure_8_with_the_rule_switched_off_an_applied_entry_is_contradicted() -> None:
    world = figure_8(OldTermsRaft)
    assert world["s1"].commit_index == 2
    assert world.peers["s1"].machine.commands == [b"two"]
    world.flying.clear()
    world.peers["s1"].crash()
    world.heal()
    world.now_ms += 2000  # s1 is down
    world["s5"]._term = 4
    world["s5"]._campaign(trial=False)
    with pytest.raises(Contradicted, match="entry 2 is committed here"):
        world.settle()


def test_section_6_a_change_waits_for_the_one_before_and_rolls_back_with_its_entry() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    world.add("d")
    world.cut = [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")]
    raft.change(Change("remove", "c"))
    assert raft.configuration.voters == ("a", "b")
    with pytest.raises(ChangePending):
        raft.change(Change("learner", "d"))
    world.settle()
    world.now_ms += 1300
    world.elect("b")
    assert world["b"].configuration.voters == ("a", "b", "c")
    world.heal()
    world.run(300)
    assert list(raft.configuration.voters) == ["a", "b", "c"]


def test_section_6_a_new_leader_changes_no_configuration_before_its_first_commit() -> None:
    """Ongaro on raft-dev, 2015: single-server changes need an entry of the own term first."""
    world = RaftHarness.of("a", "b", "c")
    raft = world["a"]
    raft._campaign(trial=False)
    for voter in "bc":
        raft.step(Message(MessageKind.VOTE_REPLY, "a", voter, 2), 0)
    assert raft.role == "leader"
    with pytest.raises(ChangePending):
        raft.change(Change("learner", "d"))


def two_more_voters() -> RaftHarness:
    """Thesis 4.3: a makes d and e voters in one entry, which b and c do not get."""
    world = RaftHarness()
    for name in "abcde":
        world.add(name, saved_voters("a", "b", "c", learners=("d", "e")))
    world.elect("a")
    world.run(300)
    world.cut = [pair for other in "bc" for pair in (("a", other), (other, "a"))]
    world["a"].change(Change("voter", "d", (Change("voter", "e"),)))
    world.settle()
    assert world["d"].configuration.voters == ("a", "b", "c", "d", "e")
    return world


def test_thesis_4_3_two_changes_in_one_entry_need_a_majority_of_the_former_voters() -> None:
    world = two_more_voters()
    raft, before = world["a"], world["a"].commit_index
    assert raft.last_index == before + 1 and raft.quorums == (("a", "b", "c", "d", "e"), ("a", "b", "c"))
    raft.confirm(1)
    world.settle()
    assert world.peers["a"].confirmed == []
    world.heal()
    world.run(300)
    assert raft.commit_index == before + 1 and list(raft.quorums) == [("a", "b", "c", "d", "e")]
    assert world.peers["a"].confirmed == [1]


def test_thesis_4_3_the_new_voters_alone_elect_no_leader() -> None:
    world = two_more_voters()
    world.peers["a"].crash()
    world.now_ms += 2000
    world.cut = [pair for one in "de" for other in "bc" for pair in ((one, other), (other, one))]
    world.peers["a"].restart()
    world["d"].tick(world.now_ms)
    world.settle()
    assert world["d"].role == "precandidate"  # a and e would vote for it
    world.elect("b")
    world.heal()
    world.run(600)
    assert world["d"].configuration.voters == ("a", "b", "c")


def test_section_6_a_voter_on_its_way_out_is_elected_where_it_alone_has_the_entry() -> None:
    """Thesis 4.2.2: the leader a makes c the only voter, and no other peer has that entry when a fails."""
    world = RaftHarness.of("a", "c")
    raft = world.elect("a")
    world.isolate("a")
    raft.change(Change("remove", "a"))
    world.settle()
    world.peers["a"].crash()
    world.peers["a"].restart()
    world.heal()
    world.run(4000)
    assert world.leaders() == ["c"]
    assert world["c"].configuration.voters == ("c",)


def test_thesis_9_6_a_peer_that_was_cut_off_raises_no_term() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    world.isolate("c")
    world.run(10_000)
    assert world["c"].term == 2
    world.heal()
    world.run(1000)
    assert (world.leaders(), world["a"].term) == (["a"], 2)


def test_check_quorum_a_leader_without_a_majority_steps_down_within_the_upper_bound() -> None:
    world = RaftHarness.of("a", "b", "c")
    raft = world.elect("a")
    world.isolate("a")
    world.run(world.settings.election_ms[1] - 50)
    assert raft.role == "leader"
    world.run(250)
    assert (raft.role, raft.leader) == ("follower", None)


def test_check_quorum_one_of_two_others_is_enough() -> None:
    world = RaftHarness.of("a", "b", "c")
    world.elect("a")
    world.peers["b"].crash()
    world.run(5000)
    assert world.leaders() == ["a"]


def test_a_learner_is_never_elected_and_never_counted() -> None:
    world = RaftHarness()
    for name in ("a", "b", "c", "d"):
        world.add(name, saved_voters("a", "b", "c", learners=("d",)))
    raft = world.elect("a")
    world.isolate("a", "d")
    raft.propose(b"x")
    world.settle()
    assert raft.caught_up("d") and world["d"].last_index == 3
    assert raft.commit_index == 2
    world.peers["a"].crash()
    world.run(5000)
    assert world["d"].role == "follower" and world["d"].leader is None
    assert world.leaders() in (["b"], ["c"])
