"""Keys that the harness chooses: a test that sets one gets an error that says what to do instead."""

from __future__ import annotations

import re

import pytest

from strogoff.testing.broker_process import BrokerProcess
from strogoff.testing.chosen_keys import OF_CLUSTER, OF_NODES, check_keys
from strogoff.testing.cluster import Cluster


@pytest.mark.parametrize("key", list(OF_CLUSTER))
def test_a_cluster_refuses_keys_that_it_chooses(key: str) -> None:
    """They would be ignored silently. One node may have a listener for other nodes."""
    with pytest.raises(
        ValueError, match=re.escape(f"conf has {key}, which the test harness chooses: {OF_CLUSTER[key]}")
    ):
        Cluster(2, {key: "127.0.0.1:26111"})
    check_keys({"listener.vmq.default": "127.0.0.1:0", "listener.tcp.mine": "127.0.0.1:0"}, OF_NODES)


def test_a_process_refuses_them_too() -> None:
    with pytest.raises(ValueError, match="read it as `host` and `port`"):
        BrokerProcess({"listener.tcp.default": "127.0.0.1:26111"})
