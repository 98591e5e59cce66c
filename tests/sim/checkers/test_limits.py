"""Messages are dropped only for a configured limit."""

from __future__ import annotations

import pytest

from strogoff.sim.checkers.limits import check

from ..histories import HistoryBuilder


@pytest.mark.parametrize(
    ("size", "expiry_s", "reason", "qos", "wrong"),
    [
        (1, 0, "queue_full", 1, False), (1000, 0, "queue_full", 1, True), (-1, 0, "queue_full", 1, True),
        (1000, 0, "queue_full", 0, False), (-1, 5, "expired", 1, False), (-1, 0, "expired", 1, True),
        (1, 0, "whatever", 1, True),
    ],
)  # fmt: skip
def test_reasons(size: int, expiry_s: int, reason: str, qos: int, wrong: bool) -> None:
    builder = HistoryBuilder(max_online_messages=size, max_offline_messages=size)
    builder.subscribe("s", "t/#")
    builder.publish("w-1", qos=qos, expiry_s=expiry_s)
    builder.drop("w-1", reason=reason)
    assert bool(list(check(builder.case()))) is wrong
