"""`slot show`: the table in ranges, one slot, and a node without a cluster. `slot move`: from any node.
`slot check`: all nodes compare copies. `slot recover`: who had the slots without primary, and whether their loss is
accepted."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from strogoff.admin.commands.slot import orphan_table
from strogoff.admin.fan_out import NodeResult
from strogoff.broker.clustering.operator_port import LastHolder, Orphan
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.handover import first_wanted

from ..cluster_harness import ClusterHarness
from ..fake_operator_port import THIS_NODE
from ..server_harness import ServerHarness, run_with_server
from ..test_fan_out import run
from .test_cluster import give

OTHERS = "b@127.0.0.1 c@127.0.0.1"


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
        (
            "17",
            (
                17,
                "b@127.0.0.1 c@127.0.0.1",
                None,
                "away",
                30,
                44,
                "b@127.0.0.1 away, c@127.0.0.1 may lack changes",
                THIS_NODE,
            ),
        ),
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


def test_the_copies_of_all_nodes_are_compared(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([(7,)]))
        answer = await harness.admin("slot", "check")
        assert "Done: the copies of 263 slots are compared now" in answer.out
        assert "c@127.0.0.1 was left out: it does not run." in answer.out + answer.err
        assert ("check_copies", *range(256)) in fake.asked and ("ask", "b@127.0.0.1") in fake.asked
        answer = await harness.admin("slot", "check", "slot=17")
        assert "Done: the copies of 8 slots are compared now" in answer.out
        assert ("check_copies", 17) in fake.asked

    run_with_server(tmp_path, test)


def test_the_copies_of_real_nodes_are_compared() -> None:
    async def test(fake: ClusterHarness) -> None:
        (said,) = await fake.said(0, "slot", "check")
        assert re.fullmatch(r"Done: the copies of \d+ slots are compared now, see slots_check_due and the logs", said)
        ports = [node.server.cluster for node in fake.cluster.nodes]
        begun = sum([port.status().copies_due for port in ports if port is not None])
        checked = sum([node.node.env.counters.queue_copy_checks for node in fake.cluster.nodes])
        assert begun + checked > 0 or " 0 slots" in said

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


@pytest.mark.slow
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


def test_the_slots_of_a_dead_node_are_recovered_by_a_command_at_any_node() -> None:
    async def test(fake: ClusterHarness) -> None:
        cluster = fake.cluster
        names = [node.name for node in cluster.nodes]
        slot = slot_of("", "c")
        await cluster.client("c", 0, clean_start=False)
        await fake.said(0, "slot", "move", f"slot={slot}", f"node={names[2]}")
        assert (await fake.rows(0, "slot", "recover")) == []
        await cluster.kill(2)
        await cluster.sees((0, 1), "majority")
        found = await fake.rows(0, "slot", "recover")
        assert {row["Node"] for row in found} == {names[2]} and {row["State"] for row in found} == {"away"}
        assert "use --accept-loss" in await fake.refused(1, "slot", "recover", f"slot={slot}")
        (said,) = await fake.said(1, "slot", "recover", f"slot={slot}", "--accept-loss")
        assert said.endswith("has no copy: clients begin new sessions\nDone")
        (row,) = await fake.rows(0, "slot", "show", f"slot={slot}")
        assert row["State"] == "primary" and row["Node"] in names[:2]
        assert (await fake.said(0, "slot", "recover", "slot=all", "--accept-loss"))[-1].endswith("Done")
        assert (await fake.rows(0, "slot", "recover")) == []

    run(test, queue_replicas=1)


def test_slots_without_primary_are_listed_with_their_last_holders(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        columns = ("Slots", "Filters", "Node", "Disk", "State", "Away (s)", "What to do")
        waits = "waits for the others; slot recover gives it the slots, with what it has"
        assert (await harness.good("slot", "recover", "--format=json")).table == [
            dict(zip(columns, row, strict=True))
            for row in [
                ("17-19", 6, "b@127.0.0.1", "d2", "here, may lack changes", None, waits),
                ("17-19", 6, "c@127.0.0.1", "d3", "away", 90, "start it with its disk: it gets the slots"),
            ]
        ]

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("complete", "words"),
    [
        ((False, False), "start it: when all are back, one of them gets the slots"),
        ((False, True), "start the complete one"),
    ],
)
def test_the_remedy_for_a_holder_that_lost_power(complete: tuple[bool, bool], words: str) -> None:
    holders = tuple([LastHolder(f"n{at}", "d", False, None, each) for at, each in enumerate(complete)])
    ((*_, remedy), *_) = orphan_table([Orphan(3, holders, 0)]).rows
    assert remedy == words


def test_slots_are_recovered_only_if_the_loss_is_accepted(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        answer = await harness.admin("slot", "recover", "slot=all")
        assert answer.status == 1 and "of the slots 17-19 are at b@127.0.0.1 and c@127.0.0.1" in answer.err
        assert "--accept-loss" in answer.err and fake.asked == []
        assert (await harness.good("slot", "recover", "slot=17", "--accept-loss")).out == (
            "b@127.0.0.1 is the primary of the slots 17, and has an older copy, without the last changes\nDone\n"
        )
        assert (await harness.good("slot", "recover", "slot=all", "--accept-loss")).out == (
            "b@127.0.0.1 is the primary of the slots 18-19, and has no copy: clients begin new sessions\nDone\n"
        )
        assert fake.asked == [("recover_slots", 17), ("recover_slots", 18, 19)]

    run_with_server(tmp_path, test)


def test_a_repeated_recovery_changes_nothing(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        assert "slot 3 has a primary" in (await harness.good("slot", "recover", "slot=3", "--accept-loss")).out
        fake.lost = []
        assert "each slot has a primary" in (await harness.good("slot", "recover", "slot=all", "--accept-loss")).out
        assert fake.asked == []

    run_with_server(tmp_path, test)


def test_a_node_without_a_lease_does_not_say_that_all_is_well(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.sees(sees="minority")
        fake.lost = []
        answer = await harness.admin("slot", "recover", "slot=all", "--accept-loss")
        assert answer.status == 1 and "has no lease, and may not know" in answer.err and fake.asked == []

    run_with_server(tmp_path, test)


def test_a_recovery_that_fails_has_a_reason(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.wrong = "a has no lease"
        answer = await harness.admin("slot", "recover", "slot=17", "--accept-loss")
        assert answer.status == 1 and "a has no lease" in answer.err
        answer = await harness.admin("slot", "recover", "slot=256", "--accept-loss")
        assert answer.status == 1 and "expected a slot, 0 to 255, or all." in answer.err

    run_with_server(tmp_path, test)
