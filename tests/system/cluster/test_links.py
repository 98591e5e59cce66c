"""Cuts, kills and pauses under load, in short; `make link-test` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.link_test import NODES, Run

from ..brokers import Background
from .conftest import entered, space_or_skip

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]


def test_acknowledged_messages_survive_broken_links(tmp_path: Path) -> None:
    """P1, P2, P6: six faults of the two nodes on the path of each message, under QoS 1 and 2 load."""
    space = space_or_skip(NODES)
    background = Background()
    try:
        background.run(entered(space))
        run = Run(6, seed=7, folder=tmp_path, space=space)
        assert background.run(run.run(), 140) == []
        assert len(run.ledger.acked) > 300
    finally:
        background.close()
        space.close()
