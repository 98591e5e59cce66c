"""Wills without a lease: parked, and published once when the node has a lease again (P5; H-13)."""

from __future__ import annotations

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.netsplit.policy import FLAGS, ViewState

from ..harness.broker import BrokerHarness, publish


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


def test_what_a_client_publishes_when_it_is_back_follows_its_will(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is back before the node has a lease, and publishes in the turn in which the node gets one."""
    broker = BrokerHarness(allow_register_during_netsplit="on", allow_publish_during_netsplit="majority")
    watcher, policy = broker.client("watcher", 5), broker.node.policy
    watcher.subscribe(("t", 1))
    monkeypatch.setattr(Standalone, "has_lease", lambda port: policy.view_state is not ViewState.MINORITY)
    client = broker.client("c", 5, will=packets.Will("t", b"offline", 1, True))
    policy.view_state = ViewState.MINORITY
    client.vanish()
    broker.client("c", 5)
    (connection,) = [each for each in broker.node.connections.values() if each.client_id == "c"]
    policy.view_state = ViewState.WHOLE
    connection.receive(encode(publish("t", b"online", 1, 1, retain=True), 5))
    broker.settle()
    assert watcher.payloads() == [b"offline", b"online"]
