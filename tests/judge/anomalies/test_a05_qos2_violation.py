"""A5: QoS 2, more than once."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log
from .found import kinds


@pytest.mark.parametrize(
    ("answered", "same_id", "dup", "wrong"),
    [
        (False, True, False, False),
        (False, True, True, False),
        (False, False, True, True),
        (True, True, True, False),
        (True, True, False, True),
        (True, False, True, True),
    ],
)
def test_what_a_receiver_can_recognise(answered: bool, same_id: bool, dup: bool, wrong: bool) -> None:
    """The same packet id, and after its answer DUP."""
    log = Log()
    log.subscriber()
    mid = log.accept(qos=2)
    log.route(mid, "rx")
    log.ack(mid)
    log.send(mid, packet_id=5)
    if answered:
        log.got(mid, packet_id=5)
    log.send(mid, packet_id=5 if same_id else 6, dup=dup)
    assert kinds(log) == [("A5", "sent twice")] * wrong
