"""The policy table, cell by cell (docs/netsplit.md)."""

from __future__ import annotations

import pytest

from strogoff.netsplit.policy import TABLE, Decision, ViewState, decide

LINES = """
off       whole     serve
off       majority  refuse
off       minority  refuse
majority  whole     serve
majority  majority  serve
majority  minority  refuse
on        whole     serve
on        majority  serve
on        minority  ap
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_every_cell(line: str) -> None:
    flag, state, decision = line.split()
    assert decide(flag, ViewState(state)) is Decision(decision)


def test_the_table_has_no_other_cells() -> None:
    assert len(TABLE) == len(LINES.strip().splitlines())


def test_an_unknown_flag_raises_a_key_error() -> None:
    with pytest.raises(KeyError):
        decide("perhaps", ViewState.WHOLE)
