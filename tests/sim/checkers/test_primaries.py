"""The checker finds sessions at two nodes, and at nodes that are not their primary."""

from __future__ import annotations

from dataclasses import replace

from strogoff.sim.checkers.primaries import Served, judge

DIRECT = Served("n1", "c", "n1", 3, None, True)
RELAYED = replace(DIRECT, opened_in=3)


def test_a_session_at_its_primary_is_in_order() -> None:
    assert list(judge([DIRECT, replace(RELAYED, client="d")])) == []


def test_a_direct_client_stays_while_its_slot_has_no_primary() -> None:
    assert list(judge([replace(DIRECT, primary=None)])) == []


def test_a_session_at_another_node_than_its_primary_is_found() -> None:
    assert list(judge([replace(DIRECT, primary="n2")])) == ["primary: n1 serves c, whose primary is n2"]


def test_a_relayed_client_of_an_earlier_epoch_is_found() -> None:
    assert list(judge([replace(RELAYED, epoch=4)])) == ["primary: n1 serves c of epoch 3 in epoch 4"]
    assert list(judge([replace(RELAYED, primary=None)])) == ["primary: n1 serves c of epoch 3 in epoch 3"]


def test_two_nodes_with_leases_that_serve_a_client_are_found() -> None:
    other = replace(DIRECT, node="n2", primary="n2")
    assert list(judge([DIRECT, other])) == ["two owners: n1 and n2 serve c at the same time"]
    assert list(judge([DIRECT, replace(other, leased=False)])) == []


def test_a_relayed_client_that_has_gone_may_be_heard_out() -> None:
    """Its slot closes, and stays in the same epoch."""
    leaving = replace(RELAYED, leaving=True)
    assert list(judge([replace(leaving, primary=None)])) == []
    assert list(judge([replace(leaving, epoch=4)])) == ["primary: n1 serves c of epoch 3 in epoch 4"]
