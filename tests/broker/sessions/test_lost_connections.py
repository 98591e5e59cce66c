"""Connections that have ended all at once end in steps, or earlier when somebody asks for them."""

from __future__ import annotations

from functools import partial

import pytest

from strogoff.broker.sessions import lost_connections
from strogoff.broker.sessions.lost_connections import LostConnections
from tests.harness.broker import BrokerHarness


def lost(numbers: range, ended: list[int]) -> tuple[BrokerHarness, LostConnections]:
    """Returns the lost connections of a broker; each writes its number into `ended`."""
    broker = BrokerHarness()
    broker.node.sessions.lost.add({number: partial(ended.append, number) for number in numbers})
    return broker, broker.node.sessions.lost


def test_each_turn_ends_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_connections, "STEP", 3)
    sizes: list[int] = []
    step = LostConnections._step

    def counted(self: LostConnections) -> None:
        before = len(self)
        step(self)
        sizes.append(before - len(self))

    monkeypatch.setattr(LostConnections, "_step", counted)
    ended: list[int] = []
    broker, waiting = lost(range(7), ended)
    waiting.add({7: partial(ended.append, 7)})
    assert ended == [] and len(waiting) == 8
    broker.settle()
    assert sizes == [3, 3, 2] and sorted(ended) == list(range(8))


def test_one_that_is_needed_ends_at_once_and_only_once() -> None:
    ended: list[int] = []
    broker, waiting = lost(range(3), ended)
    assert 1 in waiting
    waiting.end(1)
    waiting.end(1)
    waiting.end(9)
    waiting.end(None)
    assert ended == [1] and 1 not in waiting
    broker.settle()
    assert sorted(ended) == [0, 1, 2]


def test_all_end_at_once_when_the_node_stops() -> None:
    ended: list[int] = []
    broker, waiting = lost(range(3), ended)
    broker.node.close()
    assert sorted(ended) == [0, 1, 2] and not waiting
    broker.settle()
    assert sorted(ended) == [0, 1, 2]


def test_the_others_end_although_one_raises() -> None:
    ended: list[int] = []
    broker, waiting = lost(range(3), ended)
    waiting.add({3: lambda: [].pop()})
    with pytest.raises(IndexError):
        broker.settle()
    broker.settle()
    assert sorted(ended) == [0, 1, 2]
