"""What plugins hear of a session whose slot goes to another node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.thinning import thinned

Heard = list[tuple[int, str]]
"""Numbers of nodes, with what a plugin hears there."""


class Listener:
    """A plugin that hears how sessions begin, continue and end."""

    def __init__(self, node: int, heard: Heard) -> None:
        self.node, self.heard = node, heard

    def on_client_wakeup(self, subscriber: Any) -> None:
        self.heard.append((self.node, "wakeup"))

    def on_client_offline(self, subscriber: Any) -> None:
        self.heard.append((self.node, "offline"))

    def on_client_gone(self, subscriber: Any) -> None:
        self.heard.append((self.node, "gone"))

    def on_session_expired(self, subscriber: Any) -> None:
        self.heard.append((self.node, "expired"))


def listening(cluster: CopiedCluster) -> Heard:
    """Everything that plugins hear at all nodes from now on, also after restarts."""
    heard: Heard = []
    for number, harness in enumerate(cluster.nodes, 1):
        plugin = Listener(number, heard)
        harness.host.plugins = {**harness.host.plugins, "listener": plugin}
        harness.node.env.hooks.add("listener", plugin)
    return heard


def strike(cluster: CopiedCluster, fault: str) -> None:
    """Let this happen to n1, the primary of `sub`."""
    if fault == "kill":
        cluster[1].kill()
    elif fault == "restart":
        cluster.restart(1)
    elif fault == "pause":
        cluster[1].pause_process()
    elif fault == "cut":
        cluster.isolate(1)
    else:
        cluster.move("sub", cluster.copied()[1])


def recover(cluster: CopiedCluster, fault: str) -> None:
    if fault == "kill":
        cluster[1].start()
    elif fault == "pause":
        cluster[1].resume_process()
    elif fault == "cut":
        cluster.network.heal()
    cluster.whole()


def lose_lease_and_client(cluster: CopiedCluster) -> None:
    """Pause n1, the primary of `sub`, until its lease has ended. The connection of `sub` breaks meanwhile."""
    client = cluster[1].client("sub", clean=False, expiry_s=600)
    cluster[1].pause_process()
    cluster.pass_s(2.5)
    client.break_off()
    cluster[1].resume_process()


@pytest.mark.parametrize("fault", thinned(["kill", "restart", "move", "pause", "cut"], 3))
@pytest.mark.parametrize("relayed", thinned([True, False], 2))
@pytest.mark.parametrize("back", [False, True])
def test_plugins_hear_of_each_absence_once(fault: str, relayed: bool, back: bool) -> None:
    """H-43: one node tells that the client is absent, and that before the client is back. A former primary that was
    paused or cut off tells nothing when it goes on."""
    cluster = CopiedCluster()
    primary, follower = cluster.copied()
    assert primary == 1
    heard = listening(cluster)
    cluster[cluster.third() if relayed else 1].client("sub", clean=False, expiry_s=60)
    strike(cluster, fault)
    cluster.pass_s(10.0)
    if back:
        cluster[follower].client("sub", clean=False, expiry_s=60)
    recover(cluster, fault)
    cluster.pass_s(80.0)
    teller = 1 if fault == "move" else follower
    assert heard == [(1, "wakeup"), (teller, "offline"), (follower, "wakeup" if back else "expired")]


def test_a_node_without_a_lease_for_a_moment_tells_of_an_absence_later() -> None:
    """H-43: it keeps the slot, so nobody else tells."""
    cluster = CopiedCluster(idle_sessions=0)
    heard = listening(cluster)
    lose_lease_and_client(cluster)
    cluster.settle()
    assert not cluster[1].member.leased() and heard == [(1, "wakeup")]
    cluster.pass_s(20.0)
    assert cluster.copied()[0] == 1
    assert heard == [(1, "wakeup"), (1, "offline")]


def test_a_client_that_is_back_before_its_node_has_a_lease_was_never_absent() -> None:
    """H-43"""
    cluster = CopiedCluster(idle_sessions=0)
    heard = listening(cluster)
    lose_lease_and_client(cluster)
    cluster.until(lambda: cluster[1].member.leased())
    cluster.pass_s(1.0)
    cluster[1].client("sub", clean=False, expiry_s=600)
    cluster.pass_s(20.0)
    assert cluster.copied()[0] == 1
    assert heard == [(1, "wakeup"), (1, "wakeup")]
