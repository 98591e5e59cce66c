"""Who may ask for which change of a row, and which changes of the in-sync set are safe."""

from __future__ import annotations

import pytest

from strogoff.cluster.slots.requests import may_ask, taken_out
from strogoff.cluster.slots.table import HOLDERS_MOST, Holder, SlotRow

A, B, C, D = (Holder(node, f"disk-{node}", view) for view, node in enumerate("abcd", 1))


def row(*in_sync: Holder, primary: Holder | None = A) -> SlotRow:
    return SlotRow(7, 10, 11, primary, in_sync)


@pytest.mark.parametrize(
    ("change", "before"),
    [
        (row(A), row(A)),
        (row(A, B), row(A)),
        (row(A, B, C), row(A)),
        (row(C, A), row(A, B)),
        (row(A, C, D), row(A, B)),
        (row(A, D), row(A, B)),
        (row(B, primary=B), row(A, B)),
        (row(C, primary=C), row(A, B, C)),
    ],
)
def test_what_a_primary_may_do(change: SlotRow, before: SlotRow) -> None:
    assert taken_out(change, before, "") == ""


@pytest.mark.parametrize(
    ("change", "before", "reason"),
    [
        (row(A), row(A, B), "it takes b out of the in-sync set and adds 0"),
        (row(A), row(A, B, C), "it takes b and c out of the in-sync set and adds 0"),
        (row(A, D), row(A, B, C), "it takes b and c out of the in-sync set and adds 1"),
        (row(A, B, primary=B), row(A, B), "its new primary has to be alone in the in-sync set"),
        (row(B, C, primary=B), row(A, B, C), "its new primary has to be alone in the in-sync set"),
    ],
)
def test_what_a_primary_may_not_do(change: SlotRow, before: SlotRow, reason: str) -> None:
    assert taken_out(change, before, "") == reason


def test_a_follower_takes_itself_out() -> None:
    assert taken_out(row(A), row(A, B), "b") == ""
    assert taken_out(row(C, A), row(A, B, C), "b") == ""


@pytest.mark.parametrize(
    ("change", "before", "reason"),
    [
        (row(A), row(A, B, C), "b may only take itself out"),
        (row(A, B), row(A, B, C), "b may only take itself out"),
        (row(A, C, D), row(A, B, C), "b may only take itself out"),
        (row(A, B), row(A, B), "b may only take itself out"),
        (row(B, primary=B), row(A, B), "b may only take itself out"),
        (row(C, primary=C), row(A, B, C), "b may only take itself out"),
        (row(A), row(A), "b is not in sync"),
        (row(A), row(A, C), "b is not in sync"),
        (row(A, primary=A), row(A, B, primary=B), "b is not a follower"),
        (row(A, primary=None), row(A, B, primary=None), "b is not a follower"),
    ],
)
def test_a_follower_may_do_nothing_else(change: SlotRow, before: SlotRow, reason: str) -> None:
    assert taken_out(change, before, "b") == reason
    assert not may_ask("b", change, before, leaving=True)


def test_who_may_ask() -> None:
    before, without = row(A, B, C), row(A, C)
    assert may_ask("a", row(A, B, C, D), before, leaving=False) and may_ask("b", without, before, leaving=True)
    assert not any(may_ask(node, without, before, leaving=False) for node in "bcd")
    assert not any(may_ask(node, without, before, leaving=True) for node in "acd")
    assert not may_ask("a", row(*[A] * (HOLDERS_MOST + 1)), before, leaving=False)
    assert not any(may_ask("a", without, row(A, primary=None), leaving=leaving) for leaving in (False, True))
