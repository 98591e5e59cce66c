"""Alerts of planted logs: what the audit calls lost, nothing in a clean log, the same in whatever parts it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from strogoff.judge.alerts import LOSS
from strogoff.judge.planted.generate import CASES

from .streams import planted, streamed

LOST = ("stale-route", "routed-and-never-queued", "lost-on-a-link", "lost-behind-a-link", "lost-for-a-group")
"""The cases of A1 that show themselves while the subscriber is connected."""


def test_a_clean_log_has_no_alerts_but_its_split(tmp_path: Path) -> None:
    _, rows = planted(1, 1500)
    found = streamed(tmp_path / "w", rows, 1)
    assert {each.alert for each in found} == {"split"}
    assert len(found) == 3


def test_messages_that_are_lost_for_a_connected_client(tmp_path: Path) -> None:
    log, rows = planted(4, 300, [*LOST, "overtaken"])
    found = [each for each in streamed(tmp_path / "w", rows, 4) if each.alert == LOSS]
    expected = {(each.kind, replace(each.subject, session=0)) for each in log.expected if each.case in LOST}
    lost = [(each.kind, each.subject) for each in found if each.severity == "fatal"]
    assert len(lost) == len(LOST) and {*lost} == expected
    waits = {each.subject.client.partition("-")[0] for each in found if each.kind == "waits"}
    assert waits == {f"c{len(LOST)}"}


def test_alerts_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    _, rows = planted(5, 300, CASES)
    first, *others = (streamed(tmp_path / f"w{seed}", rows, seed) for seed in range(3))
    assert all(each == first for each in others)
    assert len({each.id for each in first}) == len(first)
    assert {each.alert for each in first} == {"loss", "slow", "drops", "split"}
