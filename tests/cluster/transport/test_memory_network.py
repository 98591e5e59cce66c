"""The faults of the memory network behave like those of TCP."""

from __future__ import annotations

import pytest

from strogoff.cluster.transport.wire import CallFailed, TransportError

from .transport_pair import TransportPair


def test_a_short_cut_delays() -> None:
    """Data sent during the cut arrives afterwards, in order, and the stream stays open."""
    two = TransportPair()
    mine, theirs = two.joined()
    two.network.cut("a", "b")
    mine.say(b"1")
    theirs.say(b"x")
    two.loop.run_for(0.9)
    assert theirs.frames == mine.frames == []
    two.network.heal("a", "b")
    mine.say(b"2")
    two.loop.run_for(5)
    assert theirs.frames == [b"1", b"2"] and mine.frames == [b"x"]
    assert mine.reason is theirs.reason is None


def test_a_remaining_one_way_cut_stops_that_direction() -> None:
    """Two cuts overlap, and one of them is over (3 nodes, seed 3943)."""
    two = TransportPair()
    mine, theirs = two.joined()
    two.network.cut("a", "b")
    mine.say(b"1")
    theirs.say(b"x")
    two.network.heal("a", "b")
    two.network.one_way("a", "b")
    two.loop.run_for(0.5)
    assert theirs.frames == [] and mine.frames == [b"x"]
    two.network.heal("a", "b")
    mine.say(b"2")
    two.loop.run_for(0.5)
    assert theirs.frames == [b"1", b"2"]


def test_a_long_cut_closes_both_ends() -> None:
    """After a configured time; data sent during the cut never arrives, also after the healing."""
    two = TransportPair(notice_s=1.0)
    mine, theirs = two.joined()
    mine.say(b"lost")
    two.network.cut("a", "b")
    two.loop.run_for(0.99)
    assert mine.reason is theirs.reason is None
    two.loop.run_for(0.02)
    assert mine.reason == theirs.reason == "the peer does not answer"
    two.network.heal()
    two.loop.run_for(5)
    assert theirs.frames == [] and two.network.streams == {}


def test_one_way() -> None:
    """The other direction delivers until both notice."""
    two = TransportPair()
    mine, theirs = two.joined()
    two.network.one_way("a", "b")
    assert two.network.is_cut("a", "b") and not two.network.is_cut("b", "a")
    mine.say(b"lost")
    theirs.say(b"heard")
    two.loop.run_for(0.5)
    assert mine.frames == [b"heard"] and theirs.frames == []
    two.loop.run_for(1)
    assert mine.reason is not None and theirs.reason is not None


@pytest.mark.parametrize("cut", [("a", "b"), ("b", "a")])
def test_a_dial_into_a_cut(cut: tuple[str, str]) -> None:
    """The dial ends after its time; a connection opened only at the far end is closed there as well."""
    two = TransportPair()
    two.network.one_way(*cut)
    mine = two.dial()
    two.loop.run_for(1.99)
    assert mine.wire is None
    two.loop.run_for(3)
    assert mine.reason is not None
    assert all(ear.reason is not None for ear in two.accepted)
    assert two.network.streams == {}


def test_a_delay_is_of_one_direction_and_keeps_the_order() -> None:
    """This holds also when the delay shrinks while data is on its way."""
    two = TransportPair()
    mine, theirs = two.joined()
    two.network.delay("a", "b", 0.5)
    mine.say(b"slow")
    theirs.say(b"fast")
    two.loop.run_for(0.1)
    assert mine.frames == [b"fast"] and theirs.frames == []
    two.network.delay("a", "b", 0)
    mine.say(b"quick")
    two.loop.run_for(1)
    assert theirs.frames == [b"slow", b"quick"]


def test_drop() -> None:
    """Both ends close at once; a new dial succeeds."""
    two = TransportPair()
    mine, theirs = two.joined()
    two.network.drop("b", "a")
    two.loop.settle()
    assert mine.reason == theirs.reason == "connection reset"
    again, _ = two.joined()
    assert again.wire is not None


def test_other_hosts_are_not_affected() -> None:
    """A cut affects two hosts; `heal` of one host ends all of its cuts and no others."""
    two = TransportPair()
    for pair in (("a", "b"), ("a", "c"), ("c", "d")):
        two.network.cut(*pair)
    two.network.heal("a")
    assert not two.network.is_cut("b", "a") and not two.network.is_cut("a", "c") and two.network.is_cut("d", "c")


def test_a_call_into_a_cut() -> None:
    """No answer in time, in either direction."""
    two = TransportPair()
    two.b.listen("b:7", lambda *_: pytest.fail("a stream"), lambda method, request, answer: answer(request))
    answers: list[bytes | CallFailed] = []
    two.a.ask("b:7", "m", b"x", 1.0, answers.append)
    two.loop.run_for(2)
    for path in (("a", "b"), ("b", "a")):
        two.network.one_way(*path)
        two.a.ask("b:7", "m", b"x", 1.0, answers.append)
        two.loop.run_for(2)
        two.network.heal()
    assert answers[0] == b"x" and [str(answer) for answer in answers[1:]] == ["no answer from b:7 in 1 s"] * 2


def test_an_address_is_bound_once() -> None:
    two = TransportPair()
    with pytest.raises(TransportError, match="cannot listen on b:1: it is in use"):
        two.a.listen("b:1", two._accept)
