"""A node that restarts gets only what differs from the rows that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.catch_up import away, back, make_sessions
from bench.cluster_nodes import bad_lines, end, start_joined, until
from bench.copies_cost import COPIES_S, cluster
from bench.ha_test import Slots

from ..brokers import Background

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]

SESSIONS = 20_000


@pytest.mark.by_hand
def test_a_node_that_restarts_gets_a_small_part_of_the_bytes_of_its_copies(tmp_path: Path) -> None:
    """The copies that the others made meanwhile, of a third of the slots, had no rows to compare."""
    nodes = cluster(tmp_path, 2, "os")
    background = Background()
    try:
        background.run(start_joined(nodes))
        background.run(until("each slot has two copies", Slots(nodes).all_copied, COPIES_S), 2 * COPIES_S)
        background.run(make_sessions(nodes, SESSIONS), 300)
        whole = background.run(away(nodes), 2 * COPIES_S)
        part = background.run(back(nodes), 2 * COPIES_S)
        assert part.number > whole.number and whole.bytes > 500_000
        assert part.bytes < whole.bytes / 5
        assert bad_lines(nodes) == []
    finally:
        background.run(end(nodes))
        background.close()
