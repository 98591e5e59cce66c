"""A relayed client publishes, disconnects and closes: its last packets wait at the primary, and are handled (H-19)."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets as p
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY

from .relay_harness import RelayHarness


def gone(cluster: RelayHarness, watcher: PacketClient) -> None:
    """A client of n1 has gone, and n2 has all its packets and GONE. Its rate is used up: DISCONNECT waits."""
    watcher.subscribe(("will", 0), ("t", 0))
    client = cluster[1].client("c", will=p.Will("will", b"will"))
    client.send(*[publish("t", b"%d" % n) for n in range(20)])
    cluster.settle()
    client.send(p.Disconnect())
    client.close()
    cluster.settle()
    ((transport, _),) = [each for each in cluster.gateways(2)._peers["n1"].served.values() if each[1].client_id == "c"]
    assert transport.gone_for


@pytest.mark.parametrize("end", ["stop", "kill", "cut"])
def test_the_gateway_ends_while_a_disconnect_waits_for_a_rate(end: str) -> None:
    cluster = RelayHarness(3, max_message_rate=3, **MAJORITY)
    watcher = cluster[3].client("watcher")
    gone(cluster, watcher)
    if end == "stop":
        cluster[1].host.stop(lambda: None)
    elif end == "kill":
        cluster[1].kill()
    else:
        cluster.network.cut("n1", "n2")
        cluster.network.cut("n1", "n3")
    cluster.pass_s(20)
    assert watcher.payloads() == [b"%d" % n for n in range(20)]
    assert not cluster[2].node.sessions.get("", "c").online  # type: ignore[union-attr]


def test_a_gateway_that_comes_back_while_a_disconnect_waits() -> None:
    """Its connections have other numbers than those of its former process."""
    cluster = RelayHarness(3, max_message_rate=3, **MAJORITY)
    watcher = cluster[3].client("watcher")
    gone(cluster, watcher)
    cluster[1].kill()
    cluster[1].start()
    cluster.relay(cluster[1], "n2")
    cluster.pass_s(1)
    other = cluster[1].client("other")
    other.ask(publish("t", b"other", 1, 1))
    cluster.pass_s(20)
    assert not other.closed
    assert sorted(watcher.payloads()) == sorted([b"other", *[b"%d" % n for n in range(20)]])


def test_a_disconnect_behind_publishes_that_are_deferred() -> None:
    """The disk of the primary is full, and more wait than `session.max_parked_publishes`; DISCONNECT is behind them."""
    cluster = RelayHarness(3)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 0), ("t", 0))
    client = cluster[1].client("c", 4, will=p.Will("will", b"will"))
    node = cluster[2].node
    node.env.store.state = "full"
    node.policy.look_again()
    client.send(*[publish("t", b"%d" % n, 1, n) for n in range(1, 26)], p.Disconnect())
    client.close()
    cluster.pass_s(1)
    node.env.store.state = "serving"
    node.policy.look_again()
    cluster.pass_s(10)
    assert watcher.payloads() == [b"%d" % n for n in range(1, 26)]
    assert cluster.gateways(2)._peers["n1"].served == {} and not node.sessions.get("", "c").online  # type: ignore[union-attr]
