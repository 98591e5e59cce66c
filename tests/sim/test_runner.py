"""How seeds run."""

from __future__ import annotations

import argparse

import pytest

from strogoff.sim.cluster_plan import ALL
from strogoff.sim.faults.rare import RARE
from strogoff.sim.runner import RunOptions, kinds_of, run_seed, variants_of


def test_kinds() -> None:
    assert kinds_of("all") is None and kinds_of("none") == () and kinds_of("kill,cut") == ("kill", "cut")
    assert kinds_of("rare") == RARE and kinds_of("all,raft_full") == (ALL, "raft_full")
    with pytest.raises(argparse.ArgumentTypeError, match="'flood' is not a kind of fault; there are kill, "):
        kinds_of("kill,flood")


def test_one_node_knows_its_kinds() -> None:
    assert run_seed(4, RunOptions(5.0, kinds=())).faults == 0
    assert run_seed(4, RunOptions(5.0, kinds=("clock_jump",))).faults > 0
    assert run_seed(4, RunOptions(5.0, kinds=(ALL, "raft_full"))) == run_seed(4, RunOptions(5.0))


def test_variants() -> None:
    assert (
        variants_of("drawn") is None
        and variants_of("usual") == ()
        and variants_of("small,narrow") == ("small", "narrow")
    )
    with pytest.raises(argparse.ArgumentTypeError, match="'huge' is not a variant; there are sparse, "):
        variants_of("huge")
