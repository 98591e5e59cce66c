"""The input of checkers: the history of one simulation, with its bounds and exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from ...broker.connection.connection import FAILOVER_GRACE_S
from ...mqtt.topics import parse_shared
from ...netsplit.policy import ViewState
from ..history import FIRST, NEVER, Attempt, Delivery, History, Subscribed
from ..workload.swarm import Swarm

SLEW = 0.006
"""Cluster time runs at most this much faster or slower than true time (`cluster.clock.SLEW`, and a little more)."""

LOADED_S = 0.1
"""The longest time, in seconds, that a node needs after its start to look at all deadlines."""


@dataclass(slots=True)
class Case:
    """One finished simulation.

    `sessions` has the epoch of every client that is connected at the end. `kept` is False if the durability promises
    nothing: the power was lost with `os`. `end_s` is the time of the end. `pending` has a sentence for everything that
    is not at rest. `scattered`: the world has several nodes. `drift` is the greatest difference of the clocks' rates.
    `relay_s`: how much earlier or later than its gateway a node notices the end of a relayed connection, at most.
    `stood_s` is the total time of suspensions; `stood` has (node, from, to) of each suspension.
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
    relay_s: float = 0.0
    _matches: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def slack_s(self) -> float:
        """The largest difference between a deadline in cluster time and in true time, in s."""
        return (SLEW + self.drift) * self.end_s + self.stood_s + self.relay_s + 0.05

    @property
    def commit_s(self) -> float:
        """The longest time of a commit in this simulation, in s. A kill may undo unacknowledged work of this time."""
        slow = {"stall", "full", "fails"} & set(self.swarm.faults)
        return 4 * self.swarm.latency_s[1] + (20.0 if slow else 0.0)

    def up_from(self, time_s: float, node: str = FIRST) -> float:
        """Returns the time itself if a process of the node ran then, else the time of the next start."""
        life = self.history.life(node)
        ended = max((each for each in life.ends if each <= time_s), default=-1.0)
        starts = [each for each in life.starts if each >= ended]
        return max(time_s, min(starts, default=time_s))

    def looked_from(self, time_s: float, node: str = FIRST) -> float:
        """Returns the first time from `time_s` on at which a process of the node has looked at all deadlines.

        A process needs up to `LOADED_S` for that after its start, and looks at each deadline in time from then on.
        """
        life = self.history.life(node)
        for start in [-inf, *sorted(life.starts)]:
            ended = min((each for each in life.ends if each > start), default=inf)
            looks = max(time_s, start + LOADED_S)
            if looks < ended:
                return looks
        return inf

    def leased_from(self, time_s: float, node: str = FIRST) -> float:
        """Returns the first time from `time_s` on at which the node has had a lease for the grace of a failover.

        No session of a node of a cluster ends before that.
        """
        states = self.history.views.states.get(node, [])
        for (begins_s, state), (ends_s, _) in pairwise([*states, (inf, ViewState.MINORITY)]):
            if state is ViewState.MINORITY and begins_s <= time_s < ends_s + FAILOVER_GRACE_S:
                time_s = ends_s + FAILOVER_GRACE_S
        return time_s

    def matches(self, pattern: str, topic: str) -> bool:
        """Whether a filter, with or without `$share/GROUP/`, matches a topic."""
        known = self._matches.get((pattern, topic))
        if known is None:
            known = self._matches[pattern, topic] = topic_matches(parse_shared(pattern)[1], topic)
        return known

    def by_old_copy(self, client: str, number: int) -> bool:
        """Whether the node of this connection served without a lease on a replaced disk, and had not entered a view
        since."""
        connection = next((each for each in self.history.connections.get(client, []) if each.number == number), None)
        if connection is None or not connection.without_lease:
            return False
        life = self.history.life(connection.node)
        emptied = max([at_s for at_s in life.emptied if at_s < connection.asked_at], default=-1.0)
        return emptied > max([at_s for at_s in life.entered if at_s < connection.asked_at], default=-1.0)

    def received(self) -> dict[tuple[str, int], set[str]]:
        """Returns the keys that each session got, by client and epoch."""
        found: dict[tuple[str, int], set[str]] = {}
        for each in self.history.deliveries:
            found.setdefault((each.client, each.epoch), set()).add(each.key)
        return found

    def first_deliveries(self) -> dict[tuple[str, int], list[Delivery]]:
        """Returns for each session the first delivery of each message, in the order of arrival."""
        found: dict[tuple[str, int], list[Delivery]] = {}
        seen: set[tuple[str, int, str]] = set()
        for each in self.history.deliveries:
            if (each.client, each.epoch, each.key) not in seen:
                seen.add((each.client, each.epoch, each.key))
                found.setdefault((each.client, each.epoch), []).append(each)
        return found

    def dropped(self) -> set[tuple[str, str]]:
        """Returns the messages that a node dropped and reported, as (client, key)."""
        return {(each.client, each.key) for each in self.history.drops}

    def owed(self, shared: bool) -> Iterator[tuple[Subscribed, Attempt]]:
        """Yield each acknowledged message with each subscription that it is owed to, of sessions that exist at the end.

        The subscription was granted before the message was sent, and given up after the message was acknowledged. The
        nodes had leases at both answers. A session ends with its node's disk (docs/promises.md). The client may not
        notice that: if the CONNACK without a session is lost, the next CONNACK reports the empty session that the
        unanswered CONNECT has made.
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
            if any(
                at_s > subscription.granted_at for at_s in self.history.losses(subscription.node, subscription.client)
            ):
                continue
            for attempt in attempts:
                in_time = subscription.granted < attempt.sent and attempt.acked < subscription.given_up
                if in_time and self.matches(subscription.filter, attempt.topic):
                    yield subscription, attempt


def topic_matches(pattern: str, topic: str) -> bool:
    """Whether a filter without `$share` matches a topic. It is simple, and independent of the broker's fast version."""
    wanted, levels = pattern.split("/"), topic.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)


Checker = Callable[[Case], Iterator[str]]
"""Yields a sentence for each violation."""
