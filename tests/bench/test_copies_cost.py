"""The figures about the second copy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.cluster_nodes import Node
from bench.copies_cost import Pair, copied, id_of_pair, puback_figures, puback_ms, table
from strogoff.analytics.event_lines import header_line, row_line
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.placement import wanted


def nodes_in(folder: Path) -> list[Node]:
    return [Node(folder, name) for name in ("n1", "n2", "n3")]


def test_the_figures_of_the_load_generator() -> None:
    result = {"broker_us_per_delivered": 20.5, "delivered_s": 1500, "ack_us": {"p50": 400.0, "p99": 2500.0}}
    assert puback_figures(result) == (20.5, 1500, 0.4, 2.5)


def test_the_table_compares_medians_with_the_goals() -> None:
    rounds: dict[str, list[tuple[float, ...]]] = {
        "one": [(10.0, 1.0, 0.5, 2.0), (1.0, 1.0, 0.5, 2.0), (12.0, 1.0, 0.5, 2.0)],
        "two": [(15.0, 1.0, 1.25, 3.0)],
    }
    lines = table({"sync": {"rate": rounds}})
    assert [cell.strip() for cell in lines[2].split("|")[3:7]] == ["10.0", "15.0", "**1.50**", "2.0"]
    assert lines[3:] == ["PUBACK p50 at 1,500/s, sync: 0.75 ms more, goal 1.0 ms"]


def test_the_session_of_the_single_subscriber_is_at_its_node_and_its_copy_at_the_third(tmp_path: Path) -> None:
    nodes = nodes_in(tmp_path)
    slot = slot_of("", f"{id_of_pair(nodes)}-s0")
    assert wanted(slot, {node.name: node.name for node in nodes}, 1) == (nodes[1].name,)


def test_a_message_counts_until_it_is_acknowledged_and_delivered(tmp_path: Path) -> None:
    first, second, _ = nodes_in(tmp_path)
    pair = Pair(1, first, second)
    pair.due = {b"1": 10.0, b"2": 11.0}
    pair.unanswered = {b"2"}
    pair.delivered = {b"1", b"2"}
    assert not asyncio.run(pair.all_there())
    pair.unanswered.clear()
    assert asyncio.run(pair.all_there())
    pair.delivered.remove(b"1")
    assert not asyncio.run(pair.all_there())


def test_the_pubacks_of_a_time_are_those_of_its_messages(tmp_path: Path) -> None:
    first, second, _ = nodes_in(tmp_path)
    pair = Pair(1, first, second)
    pair.took = [(9.9, 5.0), *[(10.0 + number / 100, 0.001 * (number + 1)) for number in range(100)], (11.0, 7.0)]
    assert [round(each) for each in puback_ms([pair], 10.0, 11.0)] == [51, 100]
    assert puback_ms([pair], 20.0, 21.0) == (0.0, 0.0)


def test_the_copies_of_a_node_are_in_the_event_logs_of_the_primaries(tmp_path: Path) -> None:
    nodes = nodes_in(tmp_path)
    for node, rows in (
        (nodes[0], [("n3", 100.5, 7), ("n2", 101.0, 1000), ("n3", 90.0, 500)]),
        (nodes[1], [("n3", 102.25, 5)]),
    ):
        path = node.data / "eventlog/date=2026-01-01/hour=00/node=n1/boot=1-1.jsonl.open"
        path.parent.mkdir(parents=True)
        lines = [header_line("r", node.name, 1)]
        for seq, (name, at, size) in enumerate(rows, 1):
            fields = {"slot": 1, "target": f"{name}@127.0.0.1", "bytes": size}
            lines.append(row_line("slot.copied", seq, int(at * 1000) << 16, 5, fields))
        path.write_bytes(b"".join(lines) + b'["slot.cop')
    assert copied(nodes[:2], nodes[2].name, 99.0) == (12, 102.25)
    assert copied(nodes[:2], nodes[2].name, 200.0) == (0, 200.0)
