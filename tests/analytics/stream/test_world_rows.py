"""The rows of the world on the disk: batches that are repeated, and what is forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.stream import world_rows
from strogoff.analytics.stream.world_rows import RunRows, WorldRows
from strogoff.analytics.trouble import Trouble
from strogoff.judge.alerts import Minute
from strogoff.judge.lives import BootRows


def row(hlc: int, kind: str = "sub.add") -> dict[str, Any]:
    return {"type": kind, "node": "a", "boot": 1, "seq": hlc, "hlc": hlc, "client": "c", "filter": f"{hlc}"}


def news(*hlcs: int) -> dict[str, RunRows]:
    found = RunRows()
    boots = [(("a", 1), BootRows(hlc, hlc, hlc, hlc, False)) for hlc in hlcs]
    found.add([row(hlc) for hlc in hlcs], boots)
    return {"r": found}


def batch(rows: WorldRows, number: int, *hlcs: int, since_ms: int = 0) -> list[int]:
    """One batch. Returns the stamps of all rows."""
    runs, _ = rows.add(number, news(*hlcs))
    found = [each["hlc"] for each in runs["r"].rows]
    rows.save(number, news(*hlcs), since_ms)
    return found


def test_rows_of_all_batches_in_their_order(tmp_path: Path) -> None:
    rows = WorldRows(tmp_path / "w")
    assert batch(rows, 0, 3, 1) == [1, 3]
    assert batch(rows, 1, 2) == [1, 2, 3]
    runs, _ = WorldRows(tmp_path / "w").add(2, {})
    assert [each["hlc"] for each in runs["r"].rows] == [1, 2, 3]
    assert runs["r"].boots == {("a", 1): BootRows(1, 1, 3, 3, False)}


@pytest.mark.parametrize("saved", [False, True])
def test_a_batch_that_is_repeated_counts_once(tmp_path: Path, saved: bool) -> None:
    rows = WorldRows(tmp_path)
    batch(rows, 0, 1)
    rows.add(1, news(2))
    if saved:
        rows.save(1, news(2), 0)
    again = WorldRows(tmp_path)
    assert batch(again, 1, 2) == [1, 2]
    assert batch(again, 2, 3) == [1, 2, 3]


def test_minutes_that_are_not_over_are_those_of_the_last_batch(tmp_path: Path) -> None:
    rows = WorldRows(tmp_path)
    minute = Minute("r", "slow", "x", "", "", "c", 0)
    _, minutes = rows.add(0, news(1))
    minutes[minute] = (2, 5, ("a", 1, 1))
    rows.save(0, news(1), 0)
    again = WorldRows(tmp_path)
    _, minutes = again.add(1, {})
    assert minutes == {minute: (2, 5, ("a", 1, 1))}
    minutes.clear()
    again.save(1, {}, 0)
    assert WorldRows(tmp_path).add(2, {})[1] == {}
    assert WorldRows(tmp_path).add(1, {})[1] == {minute: (2, 5, ("a", 1, 1))}


def test_what_does_not_matter_any_more_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_rows, "LEAST_NEW", 3)
    rows = WorldRows(tmp_path)
    ended = {"r": RunRows()}
    ended["r"].add([row(at, "sess.create") for at in range(9)] + [row(9, "sess.end")], [])
    rows.add(0, ended)
    rows.save(0, ended, 1)  # one millisecond is 65536
    assert [path.name for path in tmp_path.iterdir()] == ["all-000000000000.json"]
    runs, _ = WorldRows(tmp_path).add(1, {})
    assert runs["r"].rows == []
    for number in range(1, 12):
        batch(rows, number, number, since_ms=0)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert len(names) < 12, names
        before, _ = WorldRows(_copy(tmp_path, tmp_path.parent / f"copy{number}")).add(number, {})
        assert [each["hlc"] for each in before["r"].rows] == [*range(1, number)]  # the last batch can be repeated


def _copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_too_many_rows_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_rows, "MOST_ROWS", 2)
    rows = WorldRows(tmp_path)
    batch(rows, 0, 1, 2)
    with pytest.raises(Trouble, match="more than 2 rows"):
        rows.add(1, news(3))
