"""A9: delivered without an answer to the publisher."""

from __future__ import annotations

from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import Log


def found(log: Log, complete: bool = True) -> list[str]:
    return [each.kind for each in judge(log.rows, complete=complete).findings if each.anomaly == "A9"]


def test_only_qos_1_and_2_are_acknowledged() -> None:
    for qos in (0, 1, 2):
        log = Log()
        log.subscriber()
        log.send(log.accept(qos=qos))
        assert found(log) == ["unacknowledged"] * (qos > 0)


def test_a_message_that_nobody_got_is_no_such_case() -> None:
    log = Log()
    log.accept()
    assert found(log) == []
