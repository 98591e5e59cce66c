"""A24: damage of a message store, once for each boot."""

from __future__ import annotations

from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import Log
from .found import findings, kinds, proof


def test_damage_is_found_once_for_each_boot() -> None:
    log = Log()
    for _ in range(2):
        for state in ("damaged", "damaged", "failed"):
            log.say("store.state", state=state, detail="a table")
        log.boot()
    found = findings(log)
    assert [(each.kind, each.severity, each.subject.detail) for each in found] == [
        ("damaged", "error", "boot 1"),
        ("damaged", "error", "boot 2"),
    ]
    assert proof(found[0], log) == ["store.state"] and "a table" in found[0].text
    assert judge(log.rows).verdict == "valid", "sessions with damaged records are refused, nothing is acknowledged"


def test_other_states_are_no_damage() -> None:
    log = Log()
    for state in ("full", "serving", "failed"):
        log.say("store.state", state=state)
    assert kinds(log) == []
