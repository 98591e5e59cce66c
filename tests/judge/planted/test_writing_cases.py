"""What only these cases need."""

from __future__ import annotations

from strogoff.cluster.identity import left_out
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.planted.writing_cases import CASES


def test_ids_say_which_messages_are_left_out() -> None:
    """Only rows of level `session`, and those of an earlier version, name such a message."""
    named: dict[str, set[str]] = {}
    for name in CASES.cases:
        rows = list(PlantedLog(3, 200, [name]).rows())
        named[name] = {row["type"] for row in rows if "mid" in row and left_out(row["mid"][2])}
    assert {name: kinds for name, kinds in named.items() if kinds} == {
        "sampling": {"q.drop"},
        "rows-of-an-earlier-version": {"fwd.recv", "dlv.send"},
    }
