"""What stays behind on the disk of the former node, and when it is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering import slot_leftovers
from strogoff.broker.clustering.route_advertiser import RouteAdvertiser
from strogoff.broker.clustering.routes import LASTING, writer_of
from strogoff.broker.routing.remote_table import NOWHERE
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.storage.engine import OutOfDescriptors
from tests.broker.clustering.moving_cluster import MovingCluster, resumed, subscriber
from tests.harness.steps import Steps


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def writers(cluster: MovingCluster, number: int) -> set[str]:
    """Who wrote the routes to the slot that a node knows."""
    found = cluster[number].member.metadata.scan(LASTING + bytes((cluster.slot,)))
    return {writer_of(value) for _, value in found}


def moved_without_routes(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> RouteAdvertiser:
    """Move the slot of an absent subscriber to n2, which writes no routes. Returns what would write them."""
    subscriber(cluster).leave()
    advertiser = cluster[2].host.clustering.advertiser  # type: ignore[union-attr]
    monkeypatch.setattr(advertiser, "announce", lambda *filter_and_slot: None)
    assert cluster.move(2) == ""
    return advertiser


def test_the_rows_stay_until_the_routes_of_the_new_node_are_here(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the former node would know of no subscriber."""
    advertiser = moved_without_routes(cluster, monkeypatch)
    cluster.pass_s(5)
    assert cluster.rows(1) and writers(cluster, 1) == {"n1"}
    writer = cluster[1].client("writer")
    writer.publish("t", b"1", 1)
    assert resumed(cluster, 3) == [b"1"]
    monkeypatch.undo()
    advertiser.announce("", "t", None, cluster.slot)
    cluster.until(lambda: not cluster.rows(1))
    assert writers(cluster, 1) == {"n2"}
    assert not cluster[1].node.router.elsewhere and not cluster[1].node.sessions.elsewhere
    writer.publish("t", b"2", 1, 2)
    assert resumed(cluster, 2) == [b"2"]


def test_a_long_wait_for_a_route_is_in_the_log(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with the slot and the filter."""
    monkeypatch.setattr(slot_leftovers, "LONG", 3)
    monkeypatch.setattr(slot_leftovers, "PAUSE_MS", 500)
    moved_without_routes(cluster, monkeypatch)
    cluster.pass_s(5)
    ((level, line),) = [each for each in cluster[1].host.lines if "keeps its rows" in each[1]]
    assert level == "warning" and f"slot {cluster.slot} has left this node" in line and "'t'" in line


def test_a_restart_goes_on_with_the_deletion(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    advertiser = moved_without_routes(cluster, monkeypatch)
    cluster.restart(1)
    monkeypatch.undo()
    cluster.whole()
    assert cluster.rows(1) and cluster.homes() == {"n2"}
    writer = cluster[1].client("writer")
    writer.publish("t", b"1", 1)
    advertiser.announce("", "t", None, cluster.slot)
    cluster.until(lambda: not cluster.rows(1))
    assert resumed(cluster, 1) == [b"1"]


def test_a_slot_comes_back_after_its_rows_are_deleted(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()
    for target, here in ((2, 1), (1, 2), (3, 1)):
        assert cluster.move(target, here) == ""
    assert cluster.homes() == {"n3"}
    cluster.until(lambda: not cluster.rows(1) and not cluster.rows(2))


def test_what_belongs_to_clients_without_a_session_stays(cluster: MovingCluster) -> None:
    """A clean client at the former node has its will there."""
    subscriber(cluster).leave()
    name = next(name for name in (f"c{n}" for n in range(10_000)) if slot_of("", name) == cluster.slot)
    cluster[1].client(name, will=packets.Will("will", b"gone", 1, False))
    assert cluster.move(2) == ""
    cluster.until(lambda: not cluster.rows(1))
    assert [key[1] for key in cluster[1].node.env.store.keys(b"S", b"T")] == [cluster.slot]
    assert not [key for key in cluster.rows(2) if name.encode() in key]


def test_rows_of_a_slot_that_comes_back_empty_wait_for_no_other_node(cluster: MovingCluster) -> None:
    """The slot was lost at its new node before that had written a route: nobody else will ever write one."""
    subscriber(cluster).leave()
    opening = cluster[1].host.clustering.slots.opening  # type: ignore[union-attr]
    cluster[1].node.slot_sessions.lose(cluster.slot)
    opening.leftovers.start(cluster.slot)
    cluster.until(lambda: not cluster.rows(1))
    assert not cluster[1].node.router.elsewhere
    client = subscriber(cluster)
    cluster[3].client("writer").publish("t", b"1", 1)
    assert [each.payload for each in client.drain()] == [b"1"]


@pytest.mark.parametrize("text", ["t", "$share/g/t"])
def test_a_route_that_another_node_wrote_ends_where_the_slot_has_been(cluster: MovingCluster, text: str) -> None:
    """n2 knows the route of n1, has the slot for a while, and removes the route. Then the slot goes to n3."""
    client = cluster[1].client("sub", clean=False, expiry_s=600)
    client.subscribe((text, 1))
    client.leave()
    assert cluster.move(2) == ""
    client, _ = cluster[2].connect("sub", clean=False, expiry_s=600)
    client.unsubscribe(text)
    client.leave()
    assert cluster.move(3, 2) == ""
    cluster.pass_s(3)
    routes = [cluster[number].host.clustering.routes for number in (1, 2, 3)]  # type: ignore[union-attr]
    assert [each.match("", "t") for each in routes] == [NOWHERE] * 3


def _leftovers(
    cluster: MovingCluster, slots: list[int], monkeypatch: pytest.MonkeyPatch, rows: int = 12
) -> tuple[Any, list[int]]:
    """Give n1 so many rows of each of these slots, and begin to delete them, 5 in a step. Returns the object, and a
    list that gets the number of rows that each turn deletes."""
    monkeypatch.setattr(slot_leftovers, "STEP", 5)
    store = cluster[1].node.env.store
    for slot in slots:
        for number in range(rows):
            store.put(b"q%c%02d" % (slot, number), b"")
    clustering = cluster[1].host.clustering
    assert clustering is not None
    leftovers, deleted = clustering.slots.opening.leftovers, list[int]()
    step = leftovers._step

    def turn() -> None:
        before = len(_rows_of(cluster, slots))
        step()
        deleted.append(before - len(_rows_of(cluster, slots)))

    monkeypatch.setattr(leftovers, "_step", turn)
    for slot in slots:
        leftovers.start(slot)
    return leftovers, deleted


def _rows_of(cluster: MovingCluster, slots: list[int]) -> list[bytes]:
    return [key for key in cluster[1].node.env.store.keys(b"q", b"r") if key[1] in slots]


def test_each_turn_deletes_some_rows_of_one_slot(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that returns may have the rows of all slots."""
    slots = [slot for slot in range(10) if slot != cluster.slot]
    leftovers, deleted = _leftovers(cluster, slots, monkeypatch)
    cluster.until(lambda: not any(slot in leftovers for slot in slots))
    assert not _rows_of(cluster, slots)
    assert sum(deleted) == 12 * len(slots) and max(deleted) == 5


def test_a_turn_deletes_the_few_rows_of_several_slots(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns it waits for the disk, and clients wait for the slots (3 nodes, `--variant copies,moves`, seed
    830084). A slot without rows counts like a row."""
    slots = [slot for slot in range(10) if slot != cluster.slot]
    leftovers, deleted = _leftovers(cluster, slots, monkeypatch, rows=1)
    cluster.until(lambda: not any(slot in leftovers for slot in slots))
    assert max(deleted) > 1 and len(deleted) < len(slots)


def test_a_slot_that_is_this_nodes_again_is_first(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed until its former rows are gone."""
    first, second, third = slots = [slot for slot in range(10) if slot != cluster.slot][:3]
    leftovers, _ = _leftovers(cluster, slots, monkeypatch)
    cleared: list[int] = []
    monkeypatch.setattr(leftovers, "_is_back", lambda slot: slot == third)
    monkeypatch.setattr(leftovers, "_clear", cleared.append)
    cluster.until(lambda: len(cleared) == 3)
    assert cleared == [third, first, second]


def test_a_client_that_waits_for_the_end_of_the_former_rows_is_served_then(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot has come back as an empty one (3 nodes, `--variant copies,moves`, seed 760366)."""
    subscriber(cluster).leave()
    leftovers = cluster[1].host.clustering.slots.opening.leftovers  # type: ignore[union-attr]
    turns = Steps(cluster[1].node.env, monkeypatch)
    cluster[1].node.slot_sessions.lose(cluster.slot)
    leftovers.start(cluster.slot)
    client = cluster[1].connect_soon("sub", clean=False, expiry_s=600)
    cluster.pass_s(1)
    assert client.take() == []
    while cluster.slot in leftovers:
        turns.pop()()
        cluster.until(lambda: bool(turns) or cluster.slot not in leftovers)
    cluster.pass_s(1)
    assert [each.session_present for each in client.take()] == [False]


def test_rows_of_a_slot_stay_that_comes_back_between_two_steps(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = slots = [slot for slot in range(10) if slot != cluster.slot][:3]
    turns = Steps(cluster[1].node.env, monkeypatch)
    leftovers, _ = _leftovers(cluster, slots, monkeypatch)
    turns.pop()()
    cluster.until(lambda: bool(turns))
    leftovers.stop(first)
    leftovers.stop(second)
    while third in leftovers:
        turns.pop()()
        cluster.until(lambda: bool(turns) or third not in leftovers)
    assert [key[1] for key in _rows_of(cluster, slots)] == [first] * 8 + [second] * 12
    monkeypatch.undo()
    leftovers.start(first)
    leftovers.start(second)
    cluster.until(lambda: not _rows_of(cluster, slots))


@pytest.mark.parametrize("kind", [b"q", b"j"])
def test_rows_that_cannot_be_deleted_are_deleted_later(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    """A node that does not try again keeps the slot closed when it comes back, or opens what is left of its former
    sessions."""
    store, slot = cluster[1].node.env.store, cluster.slot
    subscriber(cluster).leave()
    cluster[1].client("writer").publish("t", b"1", 1)
    opening = cluster[1].host.clustering.slots.opening  # type: ignore[union-attr]
    cluster[1].node.slot_sessions.lose(slot)
    with monkeypatch.context() as patched:

        def unreadable(start: bytes, *others: Any) -> list[Any]:
            if start[:1] == kind:
                raise OutOfDescriptors("too many open files")
            return read(start, *others)

        read = store._engine.scan
        patched.setattr(store._engine, "scan", unreadable)
        opening.leftovers.start(slot)
        cluster.pass_s(5)
        opening.settle(())
    assert slot in opening.leftovers and cluster.rows(1)
    cluster.until(lambda: not cluster.rows(1))
    assert slot not in cluster[1].node.slot_sessions.marks
    lines = [text for _, text in cluster[1].host.lines if "cannot be deleted yet" in text]
    assert len(lines) == 1 and f"slot {slot}" in lines[0]


def test_one_line_names_all_slots_whose_rows_are_deleted(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(cluster[1].node.env, "log", lambda level, text: lines.append(text))
    opening = cluster[1].host.clustering.slots.opening  # type: ignore[union-attr]
    for slot in (7, 9, 8, 20):
        opening._cleared(slot)
    cluster.pass_s(2)
    assert lines == ["the former rows of the slots 7-9 20 are deleted"]


def test_a_node_that_is_killed_while_it_deletes_rows_never_opens_the_rest(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session has ended at another node since, and the slot has come back as an empty one."""
    moved_without_routes(cluster, monkeypatch)
    cluster[3].client("sub").leave()  # a Clean Start ends the session at n2
    cluster.give("sub", cluster[1])
    assert cluster.rows(1)
    cluster[1].kill()
    cluster[1].start()
    cluster.whole()
    _, connack = cluster[3].connect("sub", clean=False, expiry_s=600)
    assert not connack.session_present
