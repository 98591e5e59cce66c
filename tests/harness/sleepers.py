"""Absent clients whose sessions are on disk only, and how many of them a turn of the loop makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from strogoff.broker.background import Background
from tests.harness.broker import BrokerHarness
from tests.harness.cluster import NodeHarness


class _SlowSteps(Background):
    def __init__(self, broker: BrokerHarness | NodeHarness, step_s: float) -> None:
        super().__init__(broker.node.env.after_turn)
        self._later = partial(broker.loop.call_later, step_s)
        self._broker, self._node = broker, broker.node

    def __call__(self, step: Callable[[], None]) -> None:
        self._later(lambda: step() if self._broker.host.node is self._node else None)


def sleepers(broker: BrokerHarness, count: int, *wanted: Any, prefix: str = "s") -> None:
    """Let so many clients subscribe with a persistent session, leave, and leave memory."""
    for number in range(count):
        client = broker.persistent(f"{prefix}{number}")
        client.subscribe(*wanted)
        client.leave()
    broker.pass_s(200)
    assert asleep(broker) >= count


def asleep(broker: BrokerHarness) -> int:
    """The number of sessions that only the disk has."""
    return broker.node.sessions.startup.dormant.total


def turn(broker: BrokerHarness) -> bool:
    """Run one turn of the loop; False if nothing was due."""
    return broker.loop._turn(broker.loop.now_s)


def slow_steps(broker: BrokerHarness | NodeHarness, step_s: float = 0.1) -> None:
    """From now on each step of long work takes so much time: the disk and clients go on meanwhile."""
    broker.node.env.background = _SlowSteps(broker, step_s)


def most_made(broker: BrokerHarness) -> int:
    """Run everything that is due. Returns the most sessions that one turn has made."""
    most, before = 0, asleep(broker)
    while turn(broker):
        most, before = max(most, before - asleep(broker)), asleep(broker)
    return most


def messages_waiting(broker: BrokerHarness, count: int, prefix: str = "s") -> list[list[bytes]]:
    """The payloads that each of the absent clients gets when it is back."""
    return [[each.payload for each in broker.persistent(f"{prefix}{n}").drain()] for n in range(count)]
