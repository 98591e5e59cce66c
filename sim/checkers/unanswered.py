"""No publish waits for ever while a majority is alive (H-06, H-07).

A publish must get an answer after three detection times in which these conditions hold:

* its client is connected and reads;
* its node holds a lease, and so does every node that may have a durable session for it;
* earlier messages of the client with the same QoS are answered, because acknowledgements leave in that order.

If the client connects again, it sends a publish with QoS 1 again, which is a new message for the node: its time begins
anew. One with QoS 2 is the same message, and goes on to wait for what it waited for.

If slots have two copies, time counts a third while links are slow, and if nodes or their followers take little at a
time and have slow disks (`SLOW_COPIES`).

A publish rightly waits for an absent node with durable sessions for it. A publish that its node has not accepted may
also wait: a policy defers it (H-13), or the node waits for a slow link and does not read its publishers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...cluster.membership.settings import Settings
from ...netsplit.policy import Decision, ViewState, decide
from ..history import Attempt

PATIENCE_S = 3 * Settings().detection_ms / 1000
"""Three times the detection time."""

SLOW_COPIES = 3
"""How much longer a publish may take while links are slow, if slots have two copies. With QoS 2 it makes six trips
between two nodes instead of two: its packet id goes to a follower, then the message to the node of a subscriber, then
the subscriber's rows to a follower, and each is answered."""

SLOW_DISK_S = 0.1
"""A disk with longer writes is slow, also if it is so all the time."""

LITTLE_BYTES = 4096
"""A node takes little if it stops reading at this many bytes, or fewer, that are not on its disk yet. A follower then
acknowledges a few changes with each commit, and a primary handles a few packets. With a slow disk a packet waits for
many commits."""


def accepted(flag: str, arrival: set[ViewState], later: set[ViewState], dup: bool) -> bool:
    """Whether a node with this policy has certainly accepted a PUBLISH, unless it refused it.

    `arrival` has the possible view states of the node when the PUBLISH arrived, `later` those since then. The policy
    must allow all of the first, or one of the second. A node with a lease always accepts a PUBLISH with DUP.
    """
    allowed = {state for state in ViewState if decide(flag, state) is not Decision.REFUSE}
    return arrival <= (allowed | {ViewState.MAJORITY} if dup else allowed) or bool(later & allowed)


def denied_at(events: list[tuple[float, dict[str, Any]]], attempt: Attempt, since_s: float) -> float:
    """Returns when the policy last denied a PUBLISH of this writer and topic since `since_s`; 0 if it did not."""
    denied = ("policy.deny", attempt.writer, attempt.topic)
    times = [at_s for at_s, row in events if at_s >= since_s and _what(row) == denied]
    return times[-1] if times else 0.0


def _what(row: dict[str, Any]) -> tuple[str, str, str]:
    return (row["type"], row.get("client", ""), row.get("topic", ""))


def takes_little(room_bytes: int, write_s: float) -> bool:
    """Whether a node takes little in a second. `room_bytes`: it stops reading at this many bytes that are
    not on its disk yet. `write_s`: the longest time that its disk takes for a write."""
    return room_bytes <= LITTLE_BYTES and write_s > SLOW_DISK_S


class Waits:
    """Adds up the time that each publish has waited without a good reason."""

    def __init__(self) -> None:
        self._waited: dict[tuple[str, int], float] = {}

    def judge(
        self, passed_s: float, open_attempts: Iterable[Attempt], calm: Mapping[str, float], slow_copies: bool = False
    ) -> Iterator[str]:
        """Yield each publish that has waited too long. `passed_s`: the time since the last call.

        `calm`: node -> seconds for which it has been stable. `open_attempts`: the unanswered publishes at stable nodes.
        `slow_copies`: slots have two copies, and links are slow or nodes take little.
        """
        if slow_copies:
            passed_s /= SLOW_COPIES
        waited: dict[tuple[str, int], float] = {}
        latest_first = sorted(open_attempts, key=lambda each: each.sent, reverse=True)
        first = {(each.writer, each.qos): each for each in latest_first}
        for attempt in first.values() if min(calm.values(), default=0.0) > 0.0 else ():
            message = attempt.key, attempt.resent if attempt.qos == 1 else 0
            waited[message] = total = self._waited.get(message, 0.0) + passed_s
            if total > PATIENCE_S:
                yield f"unanswered: {attempt.key} at {attempt.node}, though all it may wait for is there"
        self._waited = waited
