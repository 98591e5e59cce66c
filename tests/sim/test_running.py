"""How seeds are run."""

from __future__ import annotations

import argparse

import pytest

from strogoff.sim.fleet.plan import ALL
from strogoff.sim.fleet.rare import RARE
from strogoff.sim.running import Order, kinds_of, run_seed, worlds_of


def test_kinds() -> None:
    assert kinds_of("all") is None and kinds_of("none") == () and kinds_of("kill,cut") == ("kill", "cut")
    assert kinds_of("rare") == RARE and kinds_of("all,raft_full") == (ALL, "raft_full")
    with pytest.raises(argparse.ArgumentTypeError, match="'flood' is not a kind of fault; there are kill, "):
        kinds_of("kill,flood")


def test_one_node_knows_its_kinds() -> None:
    assert run_seed(4, Order(5.0, kinds=())).faults == 0
    assert run_seed(4, Order(5.0, kinds=("clock_jump",))).faults > 0
    assert run_seed(4, Order(5.0, kinds=(ALL, "raft_full"))) == run_seed(4, Order(5.0))


def test_worlds() -> None:
    assert worlds_of("drawn") is None and worlds_of("usual") == () and worlds_of("small,narrow") == ("small", "narrow")
    with pytest.raises(argparse.ArgumentTypeError, match="'huge' is not a kind of world; there are sparse, "):
        worlds_of("huge")
