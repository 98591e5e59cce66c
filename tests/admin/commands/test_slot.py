"""`slot show`: the table in ranges, one slot, and a node without a cluster. `slot move`: from any node."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from strogoff.admin.fan_out import NodeResult
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.handover import first_wanted

from ..cluster_harness import ClusterHarness
from ..fake_operator_port import THIS_NODE
from ..server_harness import ServerHarness, run_with_server
from ..test_fan_out import run
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


def test_a_slot_is_moved_by_a_command_at_any_node() -> None:
    async def test(fake: ClusterHarness) -> None:
        names = [node.name for node in fake.cluster.nodes]
        slot = slot_of("", "c")
        await fake.cluster.client("c", 0, clean_start=False)
        for at, target in ((2, names[1]), (2, names[0]), (1, names[2]), (2, names[2])):
            assert (await fake.said(at, "slot", "move", f"slot={slot}", f"node={target}"))[-1] == "Done"
            (row,) = await fake.rows(names.index(target), "slot", "show", f"slot={slot}")
            assert row["Node"] == target

    run(test)


def test_a_slot_that_cannot_move_has_a_reason() -> None:
    async def test(fake: ClusterHarness) -> None:
        names = [node.name for node in fake.cluster.nodes]
        said = await fake.refused(0, "slot", "move", "slot=3", "node=nobody")
        assert said == f"nobody is not a member of this cluster. Members are {', '.join(sorted(names))}."

    run(test)


def test_the_move_of_a_slot_without_a_primary_is_refused(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        answer = await harness.admin("slot", "move", "slot=17", "node=b@127.0.0.1")
        assert answer.status == 1 and "slot 17 has no primary now" in answer.err

    run_with_server(tmp_path, test)


def test_a_move_that_takes_long_is_reported_and_goes_on(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.moved = False
        answer = await harness.admin("slot", "move", "slot=3", "node=b@127.0.0.1", "--timeout=7")
        assert answer.status == 1 and "slot 3 has not moved within 7 s. It may still move" in answer.err
        assert fake.asked == [("move_slot", 3, "b@127.0.0.1")] * 2
        fake.asked.clear()
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([]))
        assert (await harness.good("slot", "move", "slot=200", "node=c@127.0.0.1")).out == "Done\n"
        assert fake.asked == [("ask", "b@127.0.0.1")]
        fake.wrong = "slot 3 stays at a: b has left"
        answer = await harness.admin("slot", "move", "slot=3", "node=b@127.0.0.1")
        assert answer.status == 1 and "slot 3 stays at a: b has left" in answer.err

    run_with_server(tmp_path, test)


def test_slots_with_sessions_go_to_the_nodes_that_should_have_them() -> None:
    async def test(fake: ClusterHarness) -> None:
        nodes = {node.name: "" for node in fake.cluster.nodes}
        names = list(nodes)
        slots = sorted({slot_of("", f"c{number}") for number in range(6)})
        for number in range(6):
            await fake.cluster.client(f"c{number}", 0, clean_start=False)
        away = {}
        for slot in slots[:3]:
            away[slot] = next(name for name in names if name != first_wanted(slot, nodes))
            await fake.said(0, "slot", "move", f"slot={slot}", f"node={away[slot]}")
        lines = await fake.said(2, "slot", "balance")
        assert lines[-1] == "Done: 3 slots have moved"
        for slot in slots:
            (row,) = await fake.rows(0, "slot", "show", f"slot={slot}")
            assert row["Node"] == first_wanted(slot, nodes)
        assert (await fake.said(1, "slot", "balance"))[-1] == "Done: 0 slots have moved"

    run(test)


def test_a_balance_names_what_has_not_moved(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.wrong = "it is busy"
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([]))
        answer = await harness.admin("slot", "balance")
        assert answer.status == 1 and "have not: repeat the command. it is busy" in answer.err

    run_with_server(tmp_path, test)
