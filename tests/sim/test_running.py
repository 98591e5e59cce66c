"""How seeds are run."""

from __future__ import annotations

import argparse

import pytest

from strogoff.sim.running import Order, kinds_of, run_seed


def test_kinds() -> None:
    assert kinds_of("all") is None and kinds_of("none") == () and kinds_of("kill,cut") == ("kill", "cut")
    with pytest.raises(argparse.ArgumentTypeError, match="'flood' is not a kind of fault; there are kill, "):
        kinds_of("kill,flood")


def test_one_node_knows_its_kinds() -> None:
    assert run_seed(4, Order(5.0, kinds=())).faults == 0
    assert run_seed(4, Order(5.0, kinds=("clock_jump",))).faults > 0
