"""A23: what a loss of power could have taken."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log
from .found import findings


@pytest.mark.parametrize(
    ("durability", "copied", "exposed"), [("sync", False, 0), ("os", False, 2), ("os", True, 0), ("none", False, 2)]
)
def test_acknowledged_entries_in_the_memory_of_one_machine(durability: str, copied: bool, exposed: int) -> None:
    log = Log()
    log.subscriber(expiry_s=60)
    for acked in (True, True, False):
        mid = log.accept()
        log.route(mid, "rx", durable=False)
        log.say("q.durable", mid=mid, client="rx", durability=durability, copied=copied)
        if acked:
            log.ack(mid)
    found = findings(log)
    assert [(each.kind, each.value, each.severity) for each in found] == [(durability, exposed, "metric")][
        : exposed > 0
    ]


def test_older_logs_do_not_say_it() -> None:
    log = Log()
    log.subscriber(expiry_s=60)
    log.whole()
    for row in log.rows:
        row.pop("durability", None)
    assert findings(log) == []
