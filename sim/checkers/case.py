"""What checkers are given: the history of one simulation, and what can be demanded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...mqtt.topics import parse_shared
from ..history import FIRST, NEVER, Attempt, Delivery, History, Subscribed
from ..workload.swarm import Swarm

SLEW = 0.006
"""Cluster time runs at most so much faster or slower than true time (`cluster.clock.SLEW`, and a little more)."""


@dataclass(slots=True)
class Case:
    """One finished simulation.

    `sessions` has the epoch of every client that was connected at the end. `kept` is False where the durability
    promises nothing any more: `os`, and the power was lost. `end_s` is when it ended. `scattered`: there are several
    nodes. `drift` is by how much the rates of clocks differ at most, `stood_s` how long machines stood still, `stood`
    which one from when to when.
    """

    history: History
    swarm: Swarm
    sessions: dict[str, int]
    kept: bool
    end_s: float
    pending: list[str] = field(default_factory=list)
    scattered: bool = False
    drift: float = 0.0
    stood_s: float = 0.0
    stood: tuple[tuple[str, float, float], ...] = ()
    _matches: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def slack_s(self) -> float:
        """How far deadlines in cluster time may be off in true time."""
        return (SLEW + self.drift) * self.end_s + self.stood_s + 0.05

    @property
    def commit_s(self) -> float:
        """How long a commit may take in this simulation: what a kill may undo of what was not acknowledged."""
        slow = {"stall", "full", "fails"} & set(self.swarm.faults)
        return 4 * self.swarm.latency_s[1] + (20.0 if slow else 0.0)

    def up_from(self, time_s: float, node: str = FIRST) -> float:
        """That time if a process of the node ran then, else when the next one started."""
        life = self.history.life(node)
        ended = max((each for each in life.ends if each <= time_s), default=-1.0)
        starts = [each for each in life.starts if each >= ended]
        return max(time_s, min(starts, default=time_s))

    def matches(self, pattern: str, topic: str) -> bool:
        """Whether a filter, `$share/GROUP/` in front or not, matches a topic."""
        known = self._matches.get((pattern, topic))
        if known is None:
            known = self._matches[pattern, topic] = topic_matches(parse_shared(pattern)[1], topic)
        return known

    def by_old_copy(self, client: str, number: int) -> bool:
        """Whether the node of this connection had another disk than before, with which it had never entered a view, and
        served without a lease."""
        connection = next((each for each in self.history.connections.get(client, []) if each.number == number), None)
        if connection is None or not connection.without_lease:
            return False
        life = self.history.life(connection.node)
        emptied = max([at_s for at_s in life.emptied if at_s < connection.asked_at], default=-1.0)
        return emptied > max([at_s for at_s in life.entered if at_s < connection.asked_at], default=-1.0)

    def received(self) -> dict[tuple[str, int], set[str]]:
        """The keys that each session got, by client and epoch."""
        found: dict[tuple[str, int], set[str]] = {}
        for each in self.history.deliveries:
            found.setdefault((each.client, each.epoch), set()).add(each.key)
        return found

    def first_deliveries(self) -> dict[tuple[str, int], list[Delivery]]:
        """For each session the first delivery of each message, in the order in which they came."""
        found: dict[tuple[str, int], list[Delivery]] = {}
        seen: set[tuple[str, int, str]] = set()
        for each in self.history.deliveries:
            if (each.client, each.epoch, each.key) not in seen:
                seen.add((each.client, each.epoch, each.key))
                found.setdefault((each.client, each.epoch), []).append(each)
        return found

    def dropped(self) -> set[tuple[str, str]]:
        """What the node gave up, visibly: (client, key)."""
        return {(each.client, each.key) for each in self.history.drops}

    def owed(self, shared: bool) -> Iterator[tuple[Subscribed, Attempt]]:
        """Each acknowledged message with each subscription, of a session that is there at the end, that it is owed to:
        granted before the message was sent, not given up before it was acknowledged, both on a side with a lease.

        A session ends with its node's disk (docs/promises.md). The client need not know: where the CONNACK that said so
        got lost, the next one speaks of the empty session that the unanswered CONNECT has made.
        """
        attempts = [
            each
            for each in self.history.attempts.values()
            if each.qos and each.acked != NEVER and not each.without_lease
        ]
        for subscription in self.history.subscriptions:
            if subscription.filter.startswith("$share/") is not shared or subscription.granted == NEVER:
                continue
            if (
                subscription.without_lease
                or not subscription.qos
                or self.sessions.get(subscription.client) != subscription.epoch
            ):
                continue
            if any(at_s > subscription.granted_at for at_s in self.history.life(subscription.node).emptied):
                continue
            for attempt in attempts:
                in_time = subscription.granted < attempt.sent and attempt.acked < subscription.given_up
                if in_time and self.matches(subscription.filter, attempt.topic):
                    yield subscription, attempt


def topic_matches(pattern: str, topic: str) -> bool:
    """Whether a filter without `$share` matches a topic: the dumb way, to check the broker's clever one against."""
    wanted, levels = pattern.split("/"), topic.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)


Checker = Callable[[Case], Iterator[str]]
"""Yields a sentence for each violation."""
