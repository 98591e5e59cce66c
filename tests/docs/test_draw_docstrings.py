"""The docstrings that a reader judges are drawn from the whole product."""

from __future__ import annotations

import sys

import pytest

from docs import draw_docstrings
from docs.draw_docstrings import draw


@pytest.mark.slow
def test_a_seed_draws_the_same_ten_and_another_seed_others() -> None:
    first = draw(1, 10)
    assert len(first) == 10 and first == draw(1, 10) and first != draw(2, 10)


@pytest.mark.slow
def test_every_package_is_drawn_from() -> None:
    packages = {name.partition("/")[0] for name, _ in draw(3, 1000)}
    assert packages == {*draw_docstrings.PACKAGES} >= {"broker", "cluster", "judge", "netsplit", "sim", "storage"}


def test_the_command_prints_names_and_docstrings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["draw_docstrings.py", "--seed", "1", "--count", "10"])
    draw_docstrings.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == [name for name, _ in draw(1, 10)]
