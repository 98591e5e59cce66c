"""Clean sessions of a node that was out of the view are closed if they missed a publish (H-18)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import MAJORITY, ClusterHarness, snapshots_only


class Absence:
    """The last node has a clean session subscribed to `t`; n1 has a writer and a client with a will on `t`."""

    def __init__(self, nodes: int = 3, **options: Any) -> None:
        self.cluster = cluster = ClusterHarness(nodes, **{**MAJORITY, **options})
        self.last = nodes
        self.clean, self.writer = cluster[nodes].client("clean"), cluster[1].client("writer")
        self.dying = cluster[1].client("dying", will=packets.Will("t", b"gone", 1))
        self.clean.subscribe(("t", 1))

    def cut_off(self) -> None:
        """Cut the last node off until it is out of the view."""
        self.cluster.isolate(self.last)
        self.cluster.state_of(1, ViewState.MAJORITY)

    def publish(self) -> None:
        """Publish on `t` and get the acknowledgement."""
        assert [type(each) for each in self.writer.publish("t", b"missed", 1)] == [packets.Puback]

    def back(self) -> list[Any]:
        """Heal the cluster; returns the packets of the clean session."""
        self.cluster.network.heal()
        self.cluster.whole()
        return self.came()

    def came(self) -> list[Any]:
        """Returns the packets of the clean session within one second."""
        self.cluster.pass_s(1.0)
        return self.clean.take()


def told(came: list[Any]) -> bool:
    """Whether the connection was closed with 0x83 and got nothing else."""
    return [(type(each), each.reason) for each in came] == [(packets.Disconnect, 0x83)]


def test_clean_sessions_are_closed_if_their_node_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """No log entry that this node gets has the views without it."""
    snapshots_only(monkeypatch)
    absence = Absence()
    absence.cut_off()
    absence.publish()
    assert told(absence.back())


def test_clean_sessions_are_closed_if_a_snapshot_skips_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot has later views, in which no client published."""
    snapshots_only(monkeypatch)
    absence = Absence()
    absence.cut_off()
    absence.publish()
    second = absence.cluster[2]
    second.kill()
    second.start()
    absence.cluster.state_of(2, ViewState.MAJORITY)
    assert told(absence.back())


def test_a_session_that_missed_a_will_is_closed() -> None:
    """P5."""
    absence = Absence()
    absence.cut_off()
    absence.dying.vanish()
    assert told(absence.back())


def test_a_session_that_missed_nothing_stays_connected() -> None:
    absence = Absence()
    absence.cut_off()
    assert absence.back() == []


def test_clean_sessions_are_closed_if_the_accepting_node_is_gone() -> None:
    """Two nodes leave one after the other, and the second one accepts a publish that it can report to no node."""
    absence = Absence()
    cluster = absence.cluster
    absence.cut_off()
    cluster.network.cut("n1", "n2")
    cluster.pass_s(1.2)
    absence.publish()
    cluster[1].kill()
    cluster.network.heal()
    cluster.state_of(3, ViewState.MAJORITY)
    assert told(absence.came())


def test_clean_sessions_are_closed_if_a_snapshot_skips_the_accepting_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that accepted the publish is gone before this node learns of its own absence."""
    snapshots_only(monkeypatch)
    absence = Absence(5)
    cluster = absence.cluster
    absence.cut_off()
    cluster.isolate(1)
    absence.publish()
    cluster[1].kill()
    member = cluster[2].host.member
    assert member is not None
    cluster.until(lambda: {row.node for row in member.view.rows} == {"n2", "n3", "n4"})
    cluster.network.heal()
    cluster.until(lambda: cluster[5].node.policy.view_state is ViewState.MAJORITY)
    assert told(absence.came())


def test_a_session_that_unsubscribed_during_the_cut_is_closed() -> None:
    """The session must get the publishes acknowledged during its subscription, whatever its subscriptions are later."""
    absence = Absence(allow_unsubscribe_during_netsplit="on")
    other = absence.cluster[3].client("other")
    absence.cut_off()
    absence.cluster.state_of(3, ViewState.MINORITY)
    absence.publish()
    assert [type(each) for each in absence.clean.unsubscribe("t")] == [packets.Unsuback]
    assert told(absence.back())
    assert other.take() == []


def test_a_session_that_unsubscribed_before_the_cut_stays_connected() -> None:
    """This also holds if its node had no lease then and has had one since."""
    absence = Absence(allow_unsubscribe_during_netsplit="on")
    cluster = absence.cluster
    cluster.isolate(3)
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    assert [type(each) for each in absence.clean.unsubscribe("t")] == [packets.Unsuback]
    assert absence.back() == []
    absence.cut_off()
    absence.publish()
    assert absence.back() == []
