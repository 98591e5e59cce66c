"""Wills on the disk of a node without a lease."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.records import RecordError
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import BrokerHarness


def test_a_will_waits_for_the_lease_over_a_restart_and_fires_once() -> None:
    stage = BrokerHarness()
    reader = stage.persistent("reader", 5)
    reader.subscribe(("will", 1))
    mortal = stage.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    stage.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    assert reader.payloads() == []
    assert len(stage.keys(b"l")) == 1
    stage.node.policy.view_state = ViewState.MAJORITY
    assert reader.payloads() == [b"gone"]
    assert stage.keys(b"l") == []


def test_a_restart_goes_on_with_it() -> None:
    stage = BrokerHarness()
    stage.persistent("reader", 5).subscribe(("will", 1))
    mortal = stage.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    stage.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    stage.restart()
    stage.pass_s(0.1)
    assert stage.persistent("reader", 5).payloads() == [b"gone"]
    assert stage.keys(b"l") == []


def test_a_record_that_cannot_be_read_is_named() -> None:
    stage = BrokerHarness()
    stage.node.env.store.put(b"lx", b"\xc1")
    with pytest.raises(RecordError, match="will at key"):
        stage.node.wills.load()
