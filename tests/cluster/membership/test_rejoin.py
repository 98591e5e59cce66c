"""The entrance of a node: in any order of events it reports a step only when the step is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.membership.rejoin import Rejoin

A1, A2, B1 = Incarnation("a", 1, 1), Incarnation("a", 2, 6), Incarnation("b", 1, 2)


class Desk:
    """The host of an entrance; the test gives each answer."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.asked: list[tuple[str, int, Callable[[bool], None]]] = []
        self.announcements: list[tuple[int, Callable[[int], None]]] = []
        self.barriers: list[tuple[int, Callable[[bool], None]]] = []
        self.rejoin = Rejoin(_Newcomer(self), self._exchange, self._barrier, self._complete)

    def _exchange(self, node: str, view: int, then: Callable[[bool], None]) -> None:
        self.said.append(("exchange", node, view))
        self.asked.append((node, view, then))

    def _barrier(self, counter: int, then: Callable[[bool], None]) -> None:
        self.said.append(("barrier", counter))
        self.barriers.append((counter, then))

    def _complete(self, incarnation: Incarnation, entered_in_view: int) -> None:
        self.said.append(("complete", incarnation, entered_in_view))

    def announce(self, entered_in_view: int, announced: Callable[[int], None]) -> None:
        self.said.append(("announce", entered_in_view))
        self.announcements.append((entered_in_view, announced))

    def informed(self) -> None:
        self.said.append("informed")

    def began(self, entered_in_view: int) -> None:
        self.said.append(("entering", entered_in_view))

    def answer(self, complete: bool = True, number: int = 0) -> None:
        """Finish an exchange."""
        self.asked.pop(number)[2](complete)

    def take(self) -> list[Any]:
        said, self.said = self.said, []
        return said


class _Newcomer:
    """The host of a newcomer, whose attribute `rejoin` exists already."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.rejoin = desk.began
        self.announce = desk.announce
        self.informed = desk.informed


def me(entered_in_view: int) -> Incarnation:
    return Incarnation("me", 1, entered_in_view)


def test_the_steps() -> None:
    it = Desk()
    it.rejoin.view(me(7), False, (A1, B1), 7)
    assert it.take() == [("entering", 7), ("exchange", "a", 7), ("exchange", "b", 7)]
    it.answer()
    assert it.take() == []
    it.answer()
    assert it.take() == [("announce", 7)]
    it.announcements.pop()[1](41)
    assert it.take() == [("barrier", 41)]
    it.barriers.pop()[1](True)
    assert it.take() == [("exchange", "a", 7), ("exchange", "b", 7)]
    it.answer()
    assert it.take() == []
    it.answer()
    assert it.take() == ["informed", ("complete", A1, 7), ("complete", B1, 7), ("complete", me(7), 7)]
    assert it.rejoin.active
    it.rejoin.view(me(7), True, (A1, B1), 8)
    assert not it.rejoin.active
    assert it.take() == []


def test_a_failed_exchange_is_asked_for_again_by_the_next_tick() -> None:
    it = Desk()
    it.rejoin.view(me(7), False, (A1,), 7)
    it.take()
    it.answer(complete=False)
    assert it.take() == []
    it.rejoin.tick()
    it.rejoin.tick()
    assert it.take() == [("exchange", "a", 7)]


def test_a_new_incarnation_of_a_required_node_is_asked_again() -> None:
    it = Desk()
    it.rejoin.view(me(4), False, (A1,), 4)
    it.answer()
    it.announcements.pop()[1](1)
    it.barriers.pop()[1](True)
    it.take()
    it.rejoin.view(me(4), False, (A2,), 6)
    assert it.take() == [("exchange", "a", 6)]
    it.answer()  # the second exchange with a departed node does not count
    assert it.take() == []
    it.answer()
    assert it.take() == [("exchange", "a", 6)]
    it.answer()
    assert it.take() == ["informed", ("complete", A2, 4), ("complete", me(4), 4)]


def test_an_entrance_completes_although_required_nodes_left() -> None:
    it = Desk()
    it.rejoin.view(me(4), False, (A1,), 4)
    it.rejoin.view(me(4), False, (), 5)
    it.announcements.pop()[1](3)
    it.take()
    it.barriers.pop()[1](True)
    assert it.take() == ["informed", ("complete", me(4), 4)]


def test_the_first_serving_node_is_asked_again() -> None:
    """It has exchanged with all nodes: the last one may know facts that the first did not know before."""
    it = Desk()
    it.rejoin.view(me(7), False, (A1,), 7, any_serving=False)
    it.answer()
    it.rejoin.view(me(7), False, (A1, B1), 8, any_serving=False)
    assert it.take() == [("entering", 7), ("exchange", "a", 7), ("announce", 7), ("exchange", "b", 8)]
    it.rejoin.view(me(7), False, (A1,), 9)
    assert it.take() == [("exchange", "a", 9)]
    it.answer()  # the exchange with b, which is not needed any more
    it.rejoin.view(me(7), False, (A1,), 10)
    it.announcements.pop()[1](1)
    it.barriers.pop()[1](True)
    assert it.take() == [("barrier", 1)]
    it.answer()
    assert it.take() == [("exchange", "a", 10)]
    it.answer()
    assert it.take() == ["informed", ("complete", A1, 7), ("complete", me(7), 7)]


def test_entering_a_new_view_restarts_all_steps() -> None:
    it = Desk()
    it.rejoin.view(me(4), False, (A1,), 4)
    late = it.asked.pop()[2]
    it.rejoin.view(None, False, (A1,), 5)
    assert not it.rejoin.active
    it.take()
    late(True)
    assert it.take() == []
    it.rejoin.view(me(6), False, (A1,), 6)
    assert it.take() == [("entering", 6), ("exchange", "a", 6)]
    late(True)
    assert it.take() == []


def test_a_barrier_of_an_earlier_entrance_does_not_count() -> None:
    it = Desk()
    it.rejoin.view(me(4), False, (), 4)
    it.announcements.pop()[1](1)
    late = it.barriers.pop()[1]
    it.rejoin.view(me(6), False, (), 6)
    it.take()
    late(True)
    assert it.take() == []
    assert it.rejoin.active


def test_the_first_node_announces_and_needs_no_exchange() -> None:
    it = Desk()
    it.rejoin.view(me(1), True, (), 1)
    assert it.take() == [("entering", 1), ("announce", 1)]
    it.announcements.pop()[1](3)
    it.barriers.pop()[1](True)
    assert it.take() == [("barrier", 3)]


class Walk(RuleBasedStateMachine):
    """Views, restarts of other nodes, answers and failures in every order."""

    @initialize()
    def begin(self) -> None:
        self.it = Desk()
        self.view = 1
        self.peers = {"a": Incarnation("a", 1, 1), "b": Incarnation("b", 1, 1)}
        self.mine: Incarnation | None = None
        self.first: set[Incarnation] = set()
        self.second: set[Incarnation] = set()
        self.passed = False
        self.pending: list[tuple[Incarnation | None, Callable[[bool], None]]] = []

    def apply(self) -> None:
        required = tuple(self.peers[name] for name in sorted(self.peers))
        self.it.rejoin.view(self.mine, False, required, self.view)
        self.collect()

    def collect(self) -> None:
        """Note for each new exchange the incarnation of the peer."""
        for node, view, then in self.it.asked:
            assert view == self.view
            self.pending.append((self.peers.get(node), then))
        self.it.asked.clear()
        for said in self.it.take():
            if said == "informed":
                assert self.passed
                assert self.second >= set(self.peers.values())
            elif said[0] == "complete":
                assert said[1] in self.second or said[1] == self.mine
                assert said[2] == self.mine.entered_in_view if self.mine else False

    @rule()
    def enter_anew(self) -> None:
        self.view += 1
        self.mine = me(self.view)
        self.first, self.second, self.passed = set(), set(), False
        self.pending = [(None, then) for _, then in self.pending]
        self.it.announcements.clear()
        self.it.barriers.clear()
        self.apply()

    @rule(name=st.sampled_from("abc"))
    def restarts(self, name: str) -> None:
        self.view += 1
        boot = self.peers[name].boot + 1 if name in self.peers else 1
        self.peers[name] = Incarnation(name, boot, self.view)
        self.apply()

    @rule(name=st.sampled_from("abc"))
    def goes(self, name: str) -> None:
        self.view += 1
        self.peers.pop(name, None)
        self.apply()

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), complete=st.booleans())
    def exchanged(self, data: st.DataObject, complete: bool) -> None:
        incarnation, then = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        if complete and incarnation is not None:
            (self.second if self.passed and incarnation in self.first else self.first).add(incarnation)
        then(complete)
        self.collect()

    @precondition(lambda self: self.it.announcements)
    @rule()
    def announced(self) -> None:
        self.it.announcements.pop()[1](5)
        self.collect()

    @precondition(lambda self: self.it.barriers)
    @rule()
    def barrier_passes(self) -> None:
        self.passed = True
        self.it.barriers.pop()[1](True)
        self.collect()

    @rule()
    def tick(self) -> None:
        self.it.rejoin.tick()
        self.collect()

    @invariant()
    def nobody_is_asked_twice_at_once(self) -> None:
        asked = [incarnation for incarnation, _ in self.pending if incarnation is not None]
        assert len(asked) == len(set(asked))


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
