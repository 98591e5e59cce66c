"""kill -9 under load, in short; `make kill-test` is the long form."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.kill_test import Run

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.mark.parametrize("durability", ["os", "sync"])
def test_acknowledged_data_survives_kill_9(durability: str, tmp_path: Path) -> None:
    """P1, P2, P5, P7: ten kills at random moments under QoS 1 and 2 load."""
    run = Run(10, durability, seed=7, folder=tmp_path)
    assert asyncio.run(run.run()) == []
    assert len(run.ledger.acked) > 500
