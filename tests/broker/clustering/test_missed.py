"""Clean sessions of a node that was out of the view, on three real nodes (review, hole 18)."""

from __future__ import annotations

import pytest

from strogoff.cluster import consensus
from strogoff.cluster.raft.interface import Settings as RaftSettings
from strogoff.cluster.surroundings import Settings
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim import cluster_host
from tests.broker.clustering.theatre import Theatre

MAJORITY = {f"allow_{each}_during_netsplit": "majority" for each in ("register", "publish", "subscribe", "unsubscribe")}


def _snapshots_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consensus, "SNAPSHOT_EVERY", 1)
    monkeypatch.setattr(cluster_host, "Settings", lambda: Settings(raft=RaftSettings(tail=0)))


def test_clean_sessions_of_a_node_that_gets_a_snapshot_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review, hole 18: the views without this node are in no entry that it ever sees."""
    _snapshots_only(monkeypatch)
    theatre = Theatre(3, **MAJORITY)
    clean = theatre[3].client("clean")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    assert writer.publish("t", b"missed", 1)[0].reason == 0x10
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]


def test_a_snapshot_may_skip_the_view_in_which_something_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review, hole 18: there are later ones, in which nothing was published."""
    _snapshots_only(monkeypatch)
    theatre = Theatre(3, **MAJORITY)
    clean = theatre[3].client("clean")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    assert writer.publish("t", b"missed", 1)[0].reason == 0x10
    theatre[2].kill()
    theatre[2].start()
    theatre.state_of(2, ViewState.MAJORITY)
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]


def test_a_clean_session_that_missed_a_will_is_told_so() -> None:
    """Review, hole 18; P5."""
    theatre = Theatre(3, **MAJORITY)
    clean = theatre[3].client("clean")
    clean.subscribe(("t", 1))
    dying = theatre[1].client("dying", will=packets.Will("t", b"gone", 1))
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    dying.vanish()
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]


def test_a_clean_session_is_told_so_if_who_knew_that_it_missed_something_is_gone() -> None:
    """Review, hole 18: two nodes go one after the other, and the second one accepts what it can tell nobody."""
    theatre = Theatre(3, **MAJORITY)
    clean = theatre[3].client("clean")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    theatre.network.cut("n1", "n2")
    theatre.pass_s(1.2)
    assert [type(each) for each in writer.publish("t", b"missed", 1)] == [packets.Puback]
    theatre[1].kill()
    theatre.network.heal()
    theatre.state_of(3, ViewState.MAJORITY)
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]


def test_a_clean_session_that_has_unsubscribed_since_it_missed_something_is_told_so() -> None:
    """It is owed what was acknowledged while it was subscribed, whatever it is subscribed to when its node is back."""
    theatre = Theatre(3, **{**MAJORITY, "allow_unsubscribe_during_netsplit": "on"})
    clean, other = theatre[3].client("clean"), theatre[3].client("other")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    theatre.state_of(3, ViewState.MINORITY)
    assert writer.publish("t", b"missed", 1)[0].reason == 0x10
    assert [type(each) for each in clean.unsubscribe("t")] == [packets.Unsuback]
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]
    assert other.take() == []


def test_a_clean_session_that_unsubscribed_before_its_node_was_cut_off_goes_on() -> None:
    """Also if its node was without a lease then, and has had one since."""
    theatre = Theatre(3, **{**MAJORITY, "allow_unsubscribe_during_netsplit": "on"})
    clean = theatre[3].client("clean")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(3)
    theatre.until(lambda: theatre[3].node.view_state is ViewState.MINORITY)
    assert [type(each) for each in clean.unsubscribe("t")] == [packets.Unsuback]
    theatre.network.heal()
    theatre.whole()
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    assert [type(each) for each in writer.publish("t", b"of no concern", 1)] == [packets.Puback]
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert clean.take() == []


def test_a_snapshot_may_skip_the_views_in_which_one_went_who_knew_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review, hole 18: who accepted it is gone before this node hears that it was out of the view itself."""
    _snapshots_only(monkeypatch)
    theatre = Theatre(5, **MAJORITY)
    clean = theatre[5].client("clean")
    clean.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    theatre.isolate(5)
    theatre.state_of(1, ViewState.MAJORITY)
    theatre.isolate(1)
    assert [type(each) for each in writer.publish("t", b"missed", 1)] == [packets.Puback]
    theatre[1].kill()
    member = theatre[2].host.member
    assert member is not None
    theatre.until(lambda: {row.node for row in member.view.rows} == {"n2", "n3", "n4"})
    theatre.network.heal()
    theatre.until(lambda: theatre[5].node.view_state is ViewState.MAJORITY)
    theatre.pass_s(1.0)
    assert [(type(each), each.reason) for each in clean.take()] == [(packets.Disconnect, 0x83)]
