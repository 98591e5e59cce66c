"""Wills without a lease: parked, and published once when the node has a lease again (P5; H-13)."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import FLAGS, ViewState

from ..harness.broker import BrokerHarness


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_will_without_a_lease_is_parked(persistent: bool, flag: str, version: int) -> None:
    """This holds for any flags: the side with a lease may publish the will, and it is published once."""
    broker = BrokerHarness(allow_publish_during_netsplit=flag)
    watcher = broker.client("watcher", 5)
    watcher.subscribe(("will", 1))
    will = packets.Will("will", b"gone", 1)
    client = (broker.persistent if persistent else broker.client)("c", version, will=will)
    broker.node.policy.view_state = ViewState.MINORITY
    client.vanish()
    broker.node.policy.view_state = ViewState.MINORITY
    assert watcher.payloads() == []
    assert broker.events("will.fire") == []
    broker.node.policy.view_state = ViewState.MAJORITY
    assert watcher.payloads() == [b"gone"]
    broker.node.policy.view_state = ViewState.WHOLE
    assert watcher.payloads() == []
