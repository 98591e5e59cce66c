"""Wills on the disk of a node without a lease."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.records import RecordError
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import BrokerHarness


def test_a_will_waits_for_the_lease_over_a_restart_and_fires_once() -> None:
    broker = BrokerHarness()
    reader = broker.persistent("reader", 5)
    reader.subscribe(("will", 1))
    mortal = broker.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    assert reader.payloads() == []
    assert [key[1] for key in broker.keys(b"z")] == [slot_of("", "mortal")]
    broker.node.policy.view_state = ViewState.MAJORITY
    assert reader.payloads() == [b"gone"]
    assert broker.keys(b"z") == []


def test_a_waiting_will_is_sent_after_a_restart() -> None:
    broker = BrokerHarness()
    broker.persistent("reader", 5).subscribe(("will", 1))
    mortal = broker.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    broker.restart()
    broker.pass_s(0.1)
    assert broker.persistent("reader", 5).payloads() == [b"gone"]
    assert broker.keys(b"z") == []


def test_a_record_that_cannot_be_read_is_named() -> None:
    broker = BrokerHarness()
    broker.node.env.store.put(b"z\x07x", b"\xc1")
    with pytest.raises(RecordError, match="will at key"):
        broker.node.wills.load()
