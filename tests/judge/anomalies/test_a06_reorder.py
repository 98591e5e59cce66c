"""A6: the order of a lane."""

from __future__ import annotations

from typing import Any

import pytest

from ...testing.log_audit.log_builder import Log
from .found import findings, kinds


def sent_in(order: list[int], *publishes: dict[str, Any], filter: str = "t/#") -> Log:
    log = Log()
    log.subscriber(filter=filter)
    mids = [log.accept(**publish) for publish in publishes]
    for mid in mids:
        log.route(mid, "rx")
    for at in order:
        log.send(mids[at], packet_id=at + 1)
    return log


def test_each_message_behind_a_newer_one_is_named() -> None:
    log = sent_in([2, 0, 1, 3], {}, {}, {}, {})
    found = findings(log)
    assert [each.subject.message[2] for each in found if each.subject.message] == [1, 2]
    assert kinds(log, lifo=True) == []


@pytest.mark.parametrize("other", [{"topic": "t/2"}, {"qos": 2}, {"client": "ty"}, {"conn": 44}])
def test_no_order_is_promised_across_lanes(other: dict[str, Any]) -> None:
    assert kinds(sent_in([1, 0], {}, other)) == []


def test_only_first_sendings_count() -> None:
    assert kinds(sent_in([0, 1, 0], {}, {})) == []


def test_a_group_has_no_order() -> None:
    assert kinds(sent_in([1, 0], {}, {}, filter="$share/g/t/#")) == []
