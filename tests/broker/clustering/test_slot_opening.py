"""A node that was away finds slots at another node: it gives up their sessions without any effect."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering import slot_opening
from strogoff.broker.clustering.routes import prefix_to_slot, writer_of
from strogoff.broker.clustering.slot_opening import SlotOpening
from strogoff.broker.sessions.slot_sessions import KEPT
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Connack, Puback, Publish, Pubrec, Will
from strogoff.mqtt.reasons import ReasonCode
from strogoff.storage.engine import OutOfDescriptors
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import publish
from tests.harness.cluster import ON
from tests.harness.thinning import thinned


@pytest.fixture
def cluster() -> CopiedCluster:
    return CopiedCluster()


def test_the_will_of_a_session_that_was_taken_over_is_published_once(cluster: CopiedCluster) -> None:
    """The paused node does not publish it, although the connection has ended there, too."""
    other = cluster[3]
    watcher = other.client("watcher")
    watcher.subscribe(("w", 1))
    client = cluster[1].client("sub", clean=False, expiry_s=600, will=Will("w", b"gone", 1, False))
    client.subscribe(("t", 1))
    primary, _ = cluster.copied()
    cluster[primary].pause_process()
    cluster.taken_over(primary)
    cluster[primary].resume_process()
    cluster.whole()
    cluster.pass_s(20)
    assert watcher.payloads() == [b"gone"]


def test_a_client_that_comes_back_in_time_has_its_will_cancelled(cluster: CopiedCluster) -> None:
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("w", 1))
    client = cluster[1].client("sub", clean=False, expiry_s=600, will=Will("w", b"gone", 1, False))
    client.subscribe(("t", 1))
    primary, follower = cluster.copied()
    cluster[primary].kill()
    cluster.taken_over(primary)
    again, connack = cluster[follower].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    cluster.pass_s(20)
    assert watcher.payloads() == [] and not again.closed


def test_a_restarted_node_gives_up_the_slots_that_were_taken_over(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster[primary].start()
    assert cluster.slot not in cluster[primary].node.slot_sessions.marks
    cluster.until(lambda: cluster[primary].member.own_holder is not None)
    assert cluster[primary].node.slot_sessions.marks[cluster.slot] == KEPT
    taken = [row for row in cluster[primary].host.events if row["type"] == "slot.taken"]
    assert [(row["slot"], row["target"]) for row in taken] == [(cluster.slot, f"n{follower}")]
    assert any("other nodes have got the slots" in text for _, text in cluster[primary].host.lines)


def start_alone(cluster: SlotCluster, number: int) -> None:
    """Start a killed node, cut off. Let time pass until the policy `on` lets it serve without a lease."""
    cluster.isolate(number)
    cluster[number].start()
    cluster.until(lambda: not cluster[number].node.policy.settling)
    assert not cluster[number].member.leased()


def test_a_process_that_was_in_no_view_serves_no_session_that_its_follower_may_have() -> None:
    """Its last process had a follower. What this one answered alone would be lost (3 nodes, copies, seed 1300394)."""
    cluster = CopiedCluster(**ON)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster[primary].kill()
    start_alone(cluster, primary)
    old = cluster[primary].connect_soon("sub", clean=False, expiry_s=600)
    new = cluster[primary].connect_soon("new", clean=False, expiry_s=600)
    cluster[primary].client("without a session")
    cluster.until(lambda: old.closed and new.closed)
    for client in (old, new):
        (connack,) = client.take()
        assert isinstance(connack, Connack) and connack.reason == ReasonCode.SERVER_UNAVAILABLE
    assert cluster.taken_over(primary) == follower
    cluster.network.heal()
    cluster.whole()
    assert resumed(cluster, primary) == []


def test_a_process_that_was_in_no_view_begins_no_session_in_a_slot_that_may_have_been_given_away() -> None:
    """Its last process has asked for another primary of an empty slot. The log has taken that, and nobody has told."""
    cluster = SlotCluster(**ON)
    cluster.give("new", cluster[3])
    cluster[3].kill()
    cluster.give("new", cluster[2])
    start_alone(cluster, 3)
    assert cluster[3].member.slots.row(slot_of("", "new")).home == "n3"
    client = cluster[3].connect_soon("new", clean=False, expiry_s=600)
    cluster.pass_s(1.0)
    assert client.take() == []
    cluster.network.heal()
    cluster.until(lambda: bool(client.received))
    assert "new" in [session.client_id for session in cluster[2].node.sessions.in_memory()]


def test_with_one_copy_a_process_that_was_in_no_view_continues_the_sessions_on_its_disk() -> None:
    """A slot with sessions leaves a node with a mark on its disk only."""
    cluster = SlotCluster(**ON)
    cluster[1].client("old", clean=False, expiry_s=600).leave()
    cluster[1].kill()
    start_alone(cluster, 1)
    _, connack = cluster[1].connect("old", clean=False, expiry_s=600)
    assert connack.session_present


def test_both_nodes_are_killed_and_the_new_primary_has_what_came_meanwhile(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    writer.publish("t", b"1", 1)
    cluster[primary].kill()
    cluster.taken_over(primary)
    writer.publish("t", b"2", 1)
    cluster[primary].start()
    cluster[follower].kill()
    cluster[follower].start()
    cluster.whole()
    assert resumed(cluster, other) == [b"1", b"2"]


def test_late_writes_of_sessions_that_were_lost_do_not_reach_the_disk(cluster: CopiedCluster) -> None:
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    opening = cluster[primary].host.clustering.slots.opening  # type: ignore[union-attr]
    opening.lost.add(cluster.slot)
    store = cluster[primary].node.env.store
    row = b"q%c late" % cluster.slot
    store.put(row, b"1")
    store.put(b"q%c late" % (cluster.slot ^ 1), b"1")
    cluster.pass_s(0.1)
    assert store.get(row) is None and store.get(b"q%c late" % (cluster.slot ^ 1)) == b"1"


def test_an_unanswered_publish_at_the_former_primary_does_not_end_the_session(cluster: CopiedCluster) -> None:
    """The new registrar asks the former one for its clients. This one has ended, and is durable: no Clean Start."""
    receiver = cluster[3].client("receiver")
    receiver.subscribe(("r", 1))
    client = subscriber(cluster)
    primary, follower = cluster.copied()
    cluster.isolate(primary)
    client.send(publish("r", b"1", 1, 9))
    cluster.taken_over(primary)
    client.vanish()
    cluster.network.heal()
    cluster.whole()
    again, connack = cluster[follower].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present and not again.closed


# -- many slots at once


def _opened_later(cluster: CopiedCluster, number: int, monkeypatch: pytest.MonkeyPatch) -> SlotOpening:
    """The node opens no slot but in `_go_on`, which the test calls."""
    clustering = cluster[number].host.clustering
    assert clustering is not None
    opening = clustering.slots.opening
    monkeypatch.setattr(opening, "_open_some", lambda: None)
    return opening


@pytest.mark.parametrize("full", [False, True])
def test_a_node_that_gets_many_slots_opens_some_in_each_turn(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Fewer if they have sessions; here all or only one of them do."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster.all_copied()
    clustering = cluster[follower].host.clustering
    assert clustering is not None
    opening, turns = clustering.slots.opening, list[list[int]]()
    open_some, reopen = opening._open_some, opening.reopen

    def turn() -> None:
        turns.append([])
        open_some()

    def opened(slot: int) -> None:
        turns[-1].append(slot)
        reopen(slot)

    monkeypatch.setattr(opening, "_open_some", turn)
    monkeypatch.setattr(opening, "reopen", opened)
    if full:
        monkeypatch.setattr(opening._node.sessions, "empty", lambda slots: [])
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster.until(lambda: not opening.unopened and bool(turns))
    most = slot_opening.WORK // slot_opening.FULL if full else slot_opening.WORK
    assert len(turns) > 3 and max(map(len, turns)) == most
    assert resumed(cluster, follower) == []


def test_what_comes_for_a_slot_that_is_not_open_yet_waits(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    opening = _opened_later(cluster, follower, monkeypatch)
    third = cluster[cluster.third()]
    local, remote = cluster[follower].client("local"), third.client("remote")
    cluster[primary].kill()
    cluster.taken_over(primary)
    assert cluster.slot in opening.unopened
    local.send(publish("t", b"1", 1, 7))
    remote.send(publish("t", b"2", 1, 7))
    client = third.connect_soon("sub", clean=False, expiry_s=600)
    cluster.pass_s(1)
    assert not local.take() and not remote.take() and not client.take()
    monkeypatch.undo()
    opening._go_on()
    cluster.until(lambda: not opening.unopened)
    cluster.pass_s(1)
    assert [type(each) for each in local.take() + remote.take()] == [Puback, Puback]
    got = client.take()
    assert isinstance(got[0], Connack) and got[0].session_present
    assert sorted([each.payload for each in got if isinstance(each, Publish)]) == [b"1", b"2"]


def test_a_slot_that_is_lost_before_it_is_open_is_not_opened(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    opening = _opened_later(cluster, follower, monkeypatch)
    opened: list[int] = []
    cluster[primary].kill()
    cluster.taken_over(primary)
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_is_own", lambda slot: slot != cluster.slot)
    reopen = opening.reopen

    def noted(slot: int) -> None:
        opened.append(slot)
        reopen(slot)

    monkeypatch.setattr(opening, "reopen", noted)
    opening._go_on()
    cluster.until(lambda: not opening.unopened)
    assert opened and cluster.slot not in opened
    clustering = cluster[follower].host.clustering
    assert clustering is not None and cluster.slot not in clustering.gate.sealed


@pytest.mark.parametrize("qos", [1, 2])
def test_a_slot_that_is_not_open_does_not_count_as_having_what_comes_for_it(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """The node has got the slot, and leaves the view before it opens it. A message of its own client was on its way to
    the former primary; that of another node's client comes now. Both reach the session when the slot is open."""
    subscriber(cluster, qos=2).leave()
    primary, follower = cluster.copied()
    opening = _opened_later(cluster, follower, monkeypatch)
    local, remote = cluster[follower].client("local"), cluster[cluster.third()].client("remote")
    cluster.network.cut(f"n{primary}", f"n{follower}")
    local.send(publish("t", b"1", qos, 7))
    cluster.pass_s(0.1)
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster.network.heal()
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_is_own", lambda slot: slot != cluster.slot)
    opening._go_on()
    cluster.until(lambda: not opening.unopened)
    remote.send(publish("t", b"2", qos, 7))
    cluster.pass_s(1)
    assert not local.take() and not remote.take()
    monkeypatch.undo()
    opening.open([cluster.slot], False)
    opening._opened()
    cluster.pass_s(1)
    assert [type(each) for each in local.take() + remote.take()] == [Puback if qos == 1 else Pubrec] * 2
    assert sorted(resumed(cluster, follower)) == [b"1", b"2"]


# -- routes of filters with many subscribers


def _crowd(cluster: CopiedCluster, text: str) -> list[str]:
    """Give the slot of `sub` 20 sessions with this filter, and let its follower count the subscribers of the filter.
    Returns their client ids."""
    names = [name for name in (f"c{n}" for n in range(20_000)) if slot_of("", name) == cluster.slot][:20]
    _subscribe(cluster, names[:10], text)
    _, follower = cluster.copied()
    clustering = cluster[follower].host.clustering
    assert clustering is not None
    clustering.advertiser.ports.count_above = 4
    cluster.until(lambda: len(cluster[follower].node.router.table("").items("all")) == 10)
    cluster[follower].client("near").subscribe((text, 1))
    assert clustering.advertiser._counted
    _subscribe(cluster, names[10:], text)
    return names


def _subscribe(cluster: CopiedCluster, names: list[str], text: str) -> None:
    for name in names:
        client = cluster[1].client(name, clean=False, expiry_s=600)
        client.subscribe((text, 1))
        client.leave()


def _unsubscribe(cluster: CopiedCluster, number: int, names: list[str], text: str) -> None:
    for name in names:
        client, connack = cluster[number].connect(name, clean=False, expiry_s=600)
        assert connack.session_present
        client.unsubscribe(text)
        client.leave()


def _slot_routes(cluster: CopiedCluster, number: int) -> list[bytes]:
    """The values of the routes to the slot that a node knows."""
    prefix = prefix_to_slot("", cluster.slot)
    return [value for _, value in cluster[number].member.metadata.scan(prefix)]


@pytest.mark.parametrize("text", ["all", "$share/g/all"])
def test_a_follower_counts_the_subscribers_that_come_and_go_in_a_copy(cluster: CopiedCluster, text: str) -> None:
    """As primary it removes the route with the last subscriber, and not before."""
    names = _crowd(cluster, text)
    primary, follower = cluster.copied()
    third = cluster.third()
    _unsubscribe(cluster, primary, names[5:15], text)
    cluster.until(lambda: cluster.rows(follower) == cluster.rows(primary))
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster.until(lambda: [writer_of(value) for value in _slot_routes(cluster, third)] == [f"n{follower}"])
    left = [*names[:5], *names[15:]]
    _unsubscribe(cluster, follower, left[:-1], text)
    cluster.pass_s(2)
    assert len(_slot_routes(cluster, third)) == 1
    _unsubscribe(cluster, follower, left[-1:], text)
    cluster.until(lambda: _slot_routes(cluster, third) == [])


def unreadable(cluster: CopiedCluster, number: int, kinds: bytes, patched: pytest.MonkeyPatch) -> None:
    """From now on the disk of a node returns no row of these kinds."""
    engine = cluster[number].host.engine
    for name in ("keys", "scan"):
        read = getattr(engine, name)

        def tried(start: bytes, *others: Any, read: Any = read, **more: Any) -> Any:
            if start[0] in kinds:
                raise OutOfDescriptors("too many open files")
            return read(start, *others, **more)

        patched.setattr(engine, name, tried)


def test_a_node_that_cannot_read_its_disk_gives_up_the_slots_that_were_taken_over(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = subscriber(cluster)
    primary, _ = cluster.copied()
    cluster[primary].pause_process()
    cluster.taken_over(primary)
    unreadable(cluster, primary, b"vf", monkeypatch)
    cluster[primary].resume_process()
    cluster.until(lambda: client.closed)
    cluster.whole()


def test_a_node_opens_the_slots_that_it_has_got_when_it_can_read_its_disk(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster[cluster.third()].client("writer").publish("t", b"1", 1)
    with monkeypatch.context() as patched:
        unreadable(cluster, follower, b"y", patched)
        cluster[primary].kill()
        assert cluster.taken_over(primary) == follower
        cluster.pass_s(3.0)
        clustering = cluster[follower].host.clustering
        assert clustering is not None and cluster.slot in clustering.slots.opening.unopened
    assert resumed(cluster, follower) == [b"1"]


def test_a_slot_moves_although_its_sessions_cannot_be_counted(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is only for the log. Without this the slot stays closed, and its node ticks no more."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()

    def unreadable(slot: int) -> int:
        raise OutOfDescriptors("too many open files")

    monkeypatch.setattr(cluster[primary].node.slot_sessions, "count", unreadable)
    cluster.move("sub", follower)
    assert resumed(cluster, follower) == []


@pytest.mark.parametrize("kind", thinned([b"e", b"j", b"z", b"i"], 2))
def test_the_will_of_a_client_of_a_dead_node_is_published_when_the_disk_can_be_read(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    """The slot is open meanwhile, and the node does not open it again in each turn."""
    watcher = cluster[cluster.third()].client("watcher")
    watcher.subscribe(("w", 1))
    primary, follower = cluster.copied()
    cluster[primary].client("sub", clean=False, expiry_s=600, will=Will("w", b"gone", 1, False)).subscribe(("t", 1))
    cluster.pass_s(1)
    with monkeypatch.context() as patched:
        unreadable(cluster, follower, kind, patched)
        cluster[primary].kill()
        assert cluster.taken_over(primary) == follower
        cluster.pass_s(3.0)
    cluster.pass_s(80)
    assert watcher.payloads() == [b"gone"]


def test_routes_are_written_when_the_subscriptions_can_be_read_again(
    cluster: CopiedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former primary keeps its rows until the next one has written their routes."""
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    third = cluster.third()
    with monkeypatch.context() as patched:
        unreadable(cluster, follower, b"b", patched)
        cluster[primary].kill()
        assert cluster.taken_over(primary) == follower
        cluster.until(lambda: any("cannot be announced" in text for _, text in cluster[follower].host.lines))
        assert [writer_of(value) for value in _slot_routes(cluster, third)] == [f"n{primary}"]
    cluster.until(lambda: [writer_of(value) for value in _slot_routes(cluster, third)] == [f"n{follower}"])
