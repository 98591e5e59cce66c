"""Acknowledgements have the order of the PUBLISH packets of their connection (H-07, H-13).

The checker compares packets of one connection and QoS that were first sent on this connection. It reports a packet that
is acknowledged while an earlier packet has no answer.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from ..history import NEVER, Attempt
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check each connection of every writer."""
    lanes: dict[tuple[str, int, int], list[Attempt]] = {}
    opened = {name: [each.asked for each in found] for name, found in case.history.connections.items()}
    for attempt in case.history.attempts.values():
        if attempt.qos:
            number = bisect(opened.get(attempt.writer, []), attempt.sent)
            lanes.setdefault((attempt.writer, number, attempt.qos), []).append(attempt)
    for (writer, number, _), sent in lanes.items():
        yield from _overtaken(f"{writer}, connection {number}", sent)


def _overtaken(who: str, sent: list[Attempt]) -> Iterator[str]:
    waiting: Attempt | None = None
    for attempt in sent:
        answered = min(attempt.acked, attempt.refused) if not attempt.resent else NEVER
        if waiting is not None and answered < _answered(waiting) and attempt.acked != NEVER:
            yield f"ack order: {who}: {attempt.key} was acknowledged before {waiting.key}, although it was sent later"
        if waiting is None or answered >= _answered(waiting):
            waiting = attempt


def _answered(attempt: Attempt) -> int:
    return NEVER if attempt.resent else min(attempt.acked, attempt.refused)
