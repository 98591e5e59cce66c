"""Messages expire at their time, neither early nor late, whatever the wall clock shows (H-17; P7).

Early: a message is dropped as expired before its interval is over in true time. Late: a message leaves for the first
time after that. A message that may have left before is completed (MQTT 5.0 section 4.3.3). If a node was killed, a few
messages count as sent that were not: no more than `memory_window` for each earlier connection of the client (H-51).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER, Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check the drops of expired messages, and the deliveries of messages with an expiry interval."""
    attempts, excused = case.history.attempts, _Excused(case)
    for each in case.history.drops:
        attempt = attempts.get(each.key)
        if each.reason != "expired" or attempt is None:
            continue
        age = each.at_s - attempt.sent_at
        if age < attempt.expiry_s - case.slack_s:
            yield f"expired early: {each.key} after {age:.3f} s of {attempt.expiry_s} s, for {each.client}"
    for delivery in case.history.deliveries:
        attempt = attempts.get(delivery.key)
        if attempt is None or not attempt.expiry_s or attempt.acked == NEVER:
            continue
        if delivery.dup and not excused.exceeded_by(delivery):
            continue
        age = delivery.sent_at - attempt.acked_at
        if age > attempt.expiry_s + case.slack_s:
            late = f"{age:.3f} s after its acknowledgement, interval {attempt.expiry_s} s"
            yield f"expired late: {delivery.key} left for {delivery.client} {late}"


class _Excused:
    """The expired messages that each client has got with DUP although they were never sent to it before."""

    def __init__(self, case: Case) -> None:
        self._doubtful = case.history.doubtful
        self._most = case.swarm.options.memory_window
        self._keys: dict[str, set[str]] = {}

    def exceeded_by(self, delivery: Delivery) -> bool:
        """Whether this is one more than the kills so far explain."""
        if (delivery.client, delivery.key) not in self._doubtful:
            return False
        keys = self._keys.setdefault(delivery.client, set())
        keys.add(delivery.key)
        return len(keys) > self._most * (delivery.connection - 1)
