"""Clean sessions of a node that was out of the view, on real nodes (H-18)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import MAJORITY, ClusterHarness, snapshots_only


class Absence:
    """A clean session at the last node subscribes to `t`, a writer and who is to die with a will on `t` are at n1."""

    def __init__(self, nodes: int = 3, **options: Any) -> None:
        self.cluster = cluster = ClusterHarness(nodes, **{**MAJORITY, **options})
        self.last = nodes
        self.clean, self.writer = cluster[nodes].client("clean"), cluster[1].client("writer")
        self.dying = cluster[1].client("dying", will=packets.Will("t", b"gone", 1))
        self.clean.subscribe(("t", 1))

    def cut_off(self) -> None:
        """The last node is out of the view of the others."""
        self.cluster.isolate(self.last)
        self.cluster.state_of(1, ViewState.MAJORITY)

    def publish(self) -> None:
        """Something is acknowledged on `t`."""
        assert [type(each) for each in self.writer.publish("t", b"missed", 1)] == [packets.Puback]

    def back(self) -> list[Any]:
        """The cluster is whole again; returns what came to the clean session."""
        self.cluster.network.heal()
        self.cluster.whole()
        return self.came()

    def came(self) -> list[Any]:
        """What came to the clean session until a second from now."""
        self.cluster.pass_s(1.0)
        return self.clean.take()


def told(came: list[Any]) -> bool:
    """The connection was closed, and nothing else."""
    return [(type(each), each.reason) for each in came] == [(packets.Disconnect, 0x83)]


def test_they_have_ended_also_where_the_node_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The views without this node are in no entry that it ever sees."""
    snapshots_only(monkeypatch)
    absence = Absence()
    absence.cut_off()
    absence.publish()
    assert told(absence.back())


def test_a_snapshot_may_skip_the_view_in_which_something_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are later ones, in which nothing was published."""
    snapshots_only(monkeypatch)
    absence = Absence()
    absence.cut_off()
    absence.publish()
    second = absence.cluster[2]
    second.kill()
    second.start()
    absence.cluster.state_of(2, ViewState.MAJORITY)
    assert told(absence.back())


def test_who_missed_a_will_is_told_so() -> None:
    """P5."""
    absence = Absence()
    absence.cut_off()
    absence.dying.vanish()
    assert told(absence.back())


def test_who_missed_nothing_goes_on() -> None:
    absence = Absence()
    absence.cut_off()
    assert absence.back() == []


def test_they_are_told_so_if_who_knew_that_something_was_missed_is_gone() -> None:
    """Two nodes go one after the other, and the second one accepts what it can tell nobody."""
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


def test_a_snapshot_may_skip_the_views_in_which_one_went_who_knew_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who accepted it is gone before this node hears that it was out of the view itself."""
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


def test_who_has_unsubscribed_since_is_told_so() -> None:
    """It is owed what was acknowledged while it was subscribed, whatever it is subscribed to when its node is back."""
    absence = Absence(allow_unsubscribe_during_netsplit="on")
    other = absence.cluster[3].client("other")
    absence.cut_off()
    absence.cluster.state_of(3, ViewState.MINORITY)
    absence.publish()
    assert [type(each) for each in absence.clean.unsubscribe("t")] == [packets.Unsuback]
    assert told(absence.back())
    assert other.take() == []


def test_who_unsubscribed_before_its_node_was_cut_off_goes_on() -> None:
    """Also if its node was without a lease then, and has had one since."""
    absence = Absence(allow_unsubscribe_during_netsplit="on")
    cluster = absence.cluster
    cluster.isolate(3)
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    assert [type(each) for each in absence.clean.unsubscribe("t")] == [packets.Unsuback]
    assert absence.back() == []
    absence.cut_off()
    absence.publish()
    assert absence.back() == []
