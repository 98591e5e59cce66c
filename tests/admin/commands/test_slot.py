"""`slot show`: the table in ranges, one slot, and a node without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..fake_operator_port import THIS_NODE
from ..server_harness import ServerHarness, run_with_server
from .test_cluster import give


def test_all_slots_of_a_node_alone(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.good("slot", "show")).out == (
            "+-----------------+-----------------+-----+-----+-------+\n"
            "|      Node       |      Zone       |Count|Slots| State |\n"
            "+-----------------+-----------------+-----+-----+-------+\n"
            "|VerneMQ@127.0.0.1|VerneMQ@127.0.0.1| 256 |0-255|primary|\n"
            "+-----------------+-----------------+-----+-----+-------+\n"
        )

    run_with_server(tmp_path, test)


def test_slots_by_primary_and_state(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        both = "b@127.0.0.1 c@127.0.0.1"
        columns = ("Node", "Zone", "Count", "Slots", "State")
        assert (await harness.good("slot", "show", "--format=json")).table == [
            dict(zip(columns, row, strict=True))
            for row in [
                (None, None, 1, "255", "empty"),
                (THIS_NODE, "rack1", 99, "0-16 18-99", "primary"),
                ("b@127.0.0.1", "rack2", 155, "100-254", "primary"),
                (both, None, 1, "17", "away"),
                ("c@127.0.0.1", "c@127.0.0.1", 0, None, "none"),
            ]
        ]

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("slot", "row"),
    [
        (
            "3",
            (3, THIS_NODE, "rack1", "primary", 40, 41, f"{THIS_NODE} since view 5, b@127.0.0.1 since view 6", None),
        ),
        ("17", (17, "b@127.0.0.1 c@127.0.0.1", None, "away", 30, 44, "b@127.0.0.1 away, c@127.0.0.1 away", THIS_NODE)),
        ("255", (255, None, None, "empty", 30, 44, None, None)),
    ],
)
def test_one_slot(tmp_path: Path, slot: str, row: tuple[object, ...]) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        (found,) = (await harness.good("slot", "show", f"slot={slot}", "--format=json")).table
        columns = ("Slot", "Node", "Zone", "State", "Epoch", "Version", "In sync", "Deputy")
        assert found == dict(zip(columns, row, strict=True))

    run_with_server(tmp_path, test)


@pytest.mark.parametrize("slot", ["256", "-1", "x", "", "1000"])
def test_the_number_of_a_slot_is_checked(tmp_path: Path, slot: str) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("slot", "show", f"slot={slot}")
        assert answer.status == 1 and f"slot=: '{slot}' is invalid: expected a slot, 0 to 255." in answer.err

    run_with_server(tmp_path, test)
