"""Slots with sessions move by themselves to the nodes that should have them, when it is time for it."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering import slot_balance, slot_handover, slot_replicator
from strogoff.broker.clustering.slot_balance import HOLD_MS, LOOK_MS
from strogoff.broker.clustering.slot_departure import CLOSING, FILLING
from strogoff.cluster.identity import slot_of
from tests.broker.clustering.balanced_cluster import WAIT_S, BalancedCluster
from tests.harness.broker import publish


@pytest.fixture
def cluster() -> BalancedCluster:
    return BalancedCluster()


def test_a_node_that_is_back_gets_its_slots_when_the_view_is_steady(cluster: BalancedCluster) -> None:
    assert cluster.begun() == []
    cluster.back(3)
    assert "n3" not in cluster.primaries().values()
    assert any("s must pass" in cluster.balance(number).state for number in (1, 2))
    took = cluster.first_move()
    assert WAIT_S - 1 < took < WAIT_S + 5
    cluster.all_placed()
    cluster.all_copied()
    slots = sorted(slot_of("", name) for name in cluster.of(3))
    assert sorted(cluster.begun()) == slots, "the slots of other nodes stay"
    assert sorted(cluster.closed_names()) == sorted(cluster.of(3))
    cluster.until(lambda: {cluster.balance(number).state for number in (1, 2, 3)} == {"balanced"})
    cluster.nothing_moves()


def test_the_log_says_when_a_balancing_begins_and_ends(cluster: BalancedCluster) -> None:
    cluster.back(3)
    givers = {name for name in cluster.primaries().values() if name != "n3"}
    cluster.all_placed()
    cluster.until(lambda: len(cluster.rows_of("slot.balanced")) == len(cluster.rows_of("slot.balance")))
    begun, ended = cluster.rows_of("slot.balance"), cluster.rows_of("slot.balanced")
    assert sum(int(str(row["count"])) for row in begun) == sum(int(str(row["count"])) for row in ended) == 3
    assert begun[0]["slots"] and "reason" not in ended[0]
    lines = [line for harness in cluster.nodes for _, line in harness.host.lines if harness.host.name in givers]
    assert any("this node gives slots with sessions to the nodes that should have them: " in line for line in lines)
    assert any("to n3. All members have served for 8 s" in line for line in lines)
    assert any("slots with sessions have moved to n3: all are in place" in line for line in lines)


def test_nothing_is_lost_or_reordered_and_each_client_is_closed_once(cluster: BalancedCluster) -> None:
    writer = cluster[2].client("writer")
    for name in cluster.names:
        cluster.clients[name].subscribe(("t", 1))
    got: dict[str, list[bytes]] = {name: [] for name in cluster.names}
    closed = dict.fromkeys(cluster.names, 0)
    sent: list[bytes] = []

    def go_on() -> None:
        for name in cluster.closed_names():
            closed[name] += 1
            take(name)
            cluster.come(name, len(sent) % 3 + 1)
        sent.append(b"%d" % len(sent))
        writer.send(publish("t", sent[-1], 1, len(sent)))
        cluster.pass_s(0.05)

    def take(name: str) -> None:
        for each in cluster.clients[name].drain():
            if each.payload not in got[name]:  # the answer to it was lost with a connection
                got[name].append(each.payload)

    cluster.back(3)
    cluster.first_move()
    while not cluster.placed():
        go_on()
        for name in cluster.names:
            take(name)
        assert len(sent) < 2_000
    for _ in range(5):
        go_on()
    cluster.settle()
    for name in cluster.names:
        take(name)
    assert {name: payloads == sent for name, payloads in got.items()} == dict.fromkeys(cluster.names, True)
    assert closed == {name: int(name in cluster.of(3)) for name in cluster.names}


def test_one_slot_of_a_node_moves_at_a_time_and_the_next_when_all_have_two_copies(cluster: BalancedCluster) -> None:
    """So a failure finds at most one slot of each primary with one copy."""
    cluster.back(3)
    cluster.first_move()
    seen: list[int] = []

    def look() -> bool:
        moving = [harness.host.clustering.slots.moves.departure for harness in cluster.nodes if harness.host.clustering]
        if any(moving) and len(seen) < len(cluster.begun()):
            seen.append(sum(len(row.in_sync) < 2 for row in cluster.row_table()))
        return cluster.placed()

    cluster.until(look, 120)
    assert len(seen) > 1 and max(seen) <= 1, seen


@pytest.mark.slow
def test_a_rolling_restart_moves_no_slot_between_the_restarts(cluster: BalancedCluster) -> None:
    for number in (1, 2, 3, 1):
        cluster.back(number)
        cluster.pass_s(WAIT_S / 2)
    assert cluster.begun() == [] and not cluster.placed()
    assert WAIT_S / 2 - 1 < cluster.first_move() < WAIT_S + 5
    cluster.all_placed()


@pytest.mark.parametrize(
    ("option", "reason"), [({"queue_balance": "manual"}, "manual"), ({"queue_replicas": 1}, "= 1")]
)
def test_it_can_be_off_and_is_off_with_one_copy(option: dict[str, object], reason: str) -> None:
    cluster = BalancedCluster(queue_balance="manual")
    cluster.back(3)
    for harness in cluster.nodes:
        for key, value in option.items():
            setattr(harness.node.options, key, value)
        if "queue_balance" not in option:
            harness.node.options.queue_balance = "auto"
    cluster.nothing_moves()
    assert not cluster.placed() and reason in cluster.balance(2).state


def test_a_slot_that_an_operator_has_moved_stays_until_the_view_changes(cluster: BalancedCluster) -> None:
    (name, *_) = cluster.of(1)
    cluster.move(name, 2)
    cluster.all_copied()
    moved = cluster.begun()
    cluster.nothing_moves()
    assert cluster.primaries()[name] == "n2" and moved == [slot_of("", name)]
    cluster.back(3)
    cluster.all_placed()


def test_no_slot_moves_while_another_one_has_one_copy(cluster: BalancedCluster) -> None:
    replicator = cluster.replicator(2)
    replicator.tick = lambda: None  # type: ignore[method-assign]  # it begins no copy
    cluster.back(3)
    cluster.nothing_moves()
    assert not cluster.placed() and "too few copies" in cluster.balance(2).why_not()
    assert "too few copies" in cluster.balance(1).why_not(), "the slots of all nodes count"
    del replicator.tick
    cluster.all_placed()


def test_no_slot_moves_while_the_node_makes_a_copy_in_another_place(cluster: BalancedCluster) -> None:
    """A move of a slot to a node without a copy of it would have to fill one first."""
    cluster.back(3)
    cluster.all_copied()
    for number in (1, 2):
        cluster.balance(number)._lacking = lambda: [7]
    cluster.nothing_moves()
    assert "being made" in cluster.balance(2).why_not()


def test_a_node_that_fails_stops_it(cluster: BalancedCluster) -> None:
    cluster.back(3)
    cluster.first_move()
    cluster.pass_s(1)
    before = cluster.begun()
    assert 0 < len(before) < 3
    cluster[1].kill()
    cluster.pass_s(0.2)
    assert "n1 must serve first" in cluster.balance(2).why_not(), "the lost connection tells it before the view does"
    assert len(cluster[2].member.view.serving) == 3
    cluster.until(lambda: len(cluster[2].member.view.serving) == 2)
    cluster.nothing_moves()
    assert cluster.begun() == before and "n1 must serve first" in cluster.balance(2).why_not()
    reasons = [row.get("reason") for row in cluster.rows_of("slot.balanced")]
    assert "n1 must serve first" in reasons
    cluster[1].start()
    cluster.whole()
    cluster.all_placed()


def test_no_slot_moves_while_a_disk_is_full(cluster: BalancedCluster) -> None:
    cluster.back(3)
    for disk in cluster[3].disks:
        disk.full = True
    cluster.until(lambda: cluster[2].member.full == ("n3",))
    cluster.nothing_moves()
    assert "n3 takes no slots" in cluster.balance(2).why_not()
    for disk in cluster[3].disks:
        disk.full = False
    begun_s = cluster.loop.now_s
    cluster.until(lambda: not cluster[2].member.full)
    assert "the cluster changed" in cluster.balance(2).why_not()
    cluster.all_placed()
    assert cluster.loop.now_s - begun_s > WAIT_S


def test_no_slot_moves_right_after_a_node_has_got_its_lease_back(cluster: BalancedCluster) -> None:
    """The view is the same: no majority could change it."""
    cluster.back(3)
    cluster.pass_s(WAIT_S / 2)
    view = cluster[2].member.view.id
    cluster.isolate(1)
    cluster.isolate(3)
    cluster.until(lambda: not cluster[2].member.leased())
    cluster.pass_s(WAIT_S)
    cluster.network.heal()
    cluster.until(cluster[2].member.leased)
    assert cluster[2].member.view.id == view and not cluster.placed()
    assert cluster.first_move() > WAIT_S - 2


def test_a_node_whose_disk_takes_no_writes_gives_no_slot(cluster: BalancedCluster) -> None:
    cluster.back(3)
    cluster[2].node.env.store.state = "failed"
    assert "its disk takes no writes" in cluster.balance(2).why_not()


@pytest.mark.slow
def test_a_node_that_leaves_gets_no_slots_and_no_copies() -> None:
    cluster = BalancedCluster(4)
    cluster.back(3)
    service = cluster[3].member.lease_service
    assert service is not None
    service.leaves = True
    cluster.until(lambda: cluster[2].member.full == ("n3",))
    cluster.nothing_moves()
    copies = [row for row in cluster.row_table() if any(each.node == "n3" for each in row.in_sync)]
    assert [row.slot for row in copies if row.primary is None or row.primary.node != "n3"] == []
    assert not cluster.placed() and "n3 takes no slots" in cluster.balance(2).why_not()


@pytest.mark.parametrize("how", ["stops", "closes", "leaves"])
def test_a_node_that_stops_or_leaves_gives_no_slot_by_itself(cluster: BalancedCluster, how: str) -> None:
    cluster.back(3)
    for number in (1, 2):
        node = cluster[number].node
        node.policy.stops_soon = how == "stops"
        node.closing = how == "closes"
        cluster.balance(number).leaving = how == "leaves"
    assert "this node stops or leaves" in cluster.balance(2).why_not()
    cluster.nothing_moves()


@pytest.mark.slow
def test_a_slot_that_stays_is_not_tried_again_before_the_view_changes(cluster: BalancedCluster) -> None:
    """Its clients would be disconnected again and again."""
    cluster.back(3)
    for number in (1, 2):
        moves = cluster.moves(number)
        moves._busy = lambda departure: "a test says so"  # type: ignore[method-assign]
    cluster.until(lambda: len(cluster.begun()) == 3, 60)
    cluster.until(lambda: len(cluster.rows_of("slot.stay")) == 3)
    assert sorted(cluster.closed_names()) == sorted(cluster.of(3))
    for number in (1, 2):
        del cluster.moves(number)._busy
    cluster.nothing_moves()
    assert len(set(cluster.begun())) == 3
    assert "balanced, but slot" in cluster.balance(2).state and "a test says so" in cluster.balance(2).state
    assert "a test says so" in str(cluster.rows_of("slot.balanced"))
    cluster.back(3)
    cluster.all_placed()


def test_a_move_that_no_client_has_noticed_is_tried_again(cluster: BalancedCluster) -> None:
    cluster.back(3)
    for number in (1, 2):
        moves = cluster.moves(number)
        moves._problem = lambda slot, target: "a test says so"  # type: ignore[method-assign]
    cluster.pass_s(2 * WAIT_S)
    assert cluster.begun() == []
    for number in (1, 2):
        del cluster.moves(number)._problem
    cluster.all_placed()


def test_the_slot_with_the_fewest_connections_is_first(cluster: BalancedCluster) -> None:
    cluster.back(3)
    (giver,) = {cluster.primaries()[name] for name in cluster.of(3)}
    one, two, three = sorted(cluster.of(3), key=lambda name: slot_of("", name))
    cluster.clients[three].leave()
    friend = next(f"f{n}" for n in range(9_999) if slot_of("", f"f{n}") == slot_of("", one))
    cluster.come(friend)
    cluster.all_placed()
    assert giver and cluster.begun() == [slot_of("", name) for name in (three, two, one)]


def test_the_next_slot_waits_longer_the_more_connections_were_closed(
    cluster: BalancedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_balance, "CLOSINGS_PER_S", 0.2)
    cluster.back(3)
    cluster.first_move()
    assert LOOK_MS < 5_000 < 1000 * cluster.first_move() < 8_000


def test_no_slot_moves_by_itself_while_an_operator_moves_slots(cluster: BalancedCluster) -> None:
    cluster.back(3)
    cluster.pass_s(WAIT_S - 2)
    for number in (1, 2):
        cluster.balance(number).hold()
    cluster.nothing_moves(HOLD_MS / 1000 - 1)
    assert "an operator moves slots" in cluster.balance(2).why_not()
    cluster.all_placed()


def test_a_move_is_cancelled_only_while_no_client_has_noticed_it(cluster: BalancedCluster) -> None:
    moves, outcome = cluster.moves(1), list[str]()
    (name, *_) = cluster.of(1)
    primary, _ = cluster.copied(name)
    third = cluster.third(name)
    cluster[third].pause_process()
    moves.begin(slot_of("", name), f"n{third}", outcome.append)
    assert primary == 1 and moves.departure is not None and moves.departure.phase == FILLING
    moves.cancel("a test says so")
    assert outcome == [f"slot {slot_of('', name)} stays at n1: a test says so"] and cluster.closed_names() == []
    cluster[third].resume_process()
    cluster.whole()
    target = cluster.copied(name)[1]
    moves.begin(slot_of("", name), f"n{target}", outcome.append)
    assert moves.departure is not None and moves.departure.phase == CLOSING
    moves.cancel("a test says so")
    cluster.until(lambda: len(outcome) == 2)
    assert outcome[1] == ""


def test_a_failure_cancels_the_fill_for_a_move(cluster: BalancedCluster) -> None:
    """The target has no copy, and another node fails meanwhile: the clients stay connected."""
    cluster.back(3)
    for number in (1, 2):
        cluster.balance(number)._obstacle = lambda: ""  # type: ignore[method-assign]
    (name, *_) = cluster.of(2)
    third = cluster.third(name)
    cluster.balance(2)._move(slot_of("", name), f"n{third}", 0)
    assert cluster.balance(2).state == f"slot {slot_of('', name)} moves to n{third}"
    cluster.balance(2)._obstacle = lambda: "a test says so"  # type: ignore[method-assign]
    cluster.balance(2)._next_ms = 0
    cluster.balance(2).tick()
    assert cluster.balance(2).moving is None and cluster.closed_names() == []


def test_a_node_with_a_new_disk_gets_its_slots(cluster: BalancedCluster) -> None:
    cluster[3].kill()
    cluster.until(lambda: set(cluster.primaries().values()) == {"n1", "n2"})
    cluster[3].replace_disk()
    cluster[3].host.start()
    assert cluster[3].join() == ""
    cluster.whole()
    for name in cluster.closed_names():
        cluster.come(name)
    cluster.all_placed()
    assert sorted(cluster.closed_names()) == sorted(cluster.of(3))
    assert sorted(cluster.begun()) == sorted(slot_of("", name) for name in cluster.of(3))


def test_zones_are_respected_after_a_failure_and_after_the_balancing(monkeypatch: pytest.MonkeyPatch) -> None:
    zones = {"n1:1": "a", "n2:1": "a", "n3:1": "b", "n4:1": "b"}
    for module in (slot_replicator, slot_handover):
        monkeypatch.setattr(module, "zone_of", lambda row: zones[row.address])
    cluster = BalancedCluster(4, of_each=2)

    def apart() -> bool:
        rows = [[zones[f"{each.node}:1"] for each in row.in_sync] for row in cluster.row_table()]
        return all(sorted(each) == ["a", "b"] for each in rows)

    cluster.until(apart, 120)
    cluster[4].kill()
    cluster.until(lambda: len(cluster[1].member.view.serving) == 3)
    cluster.until(apart, 120)
    cluster[4].start()
    cluster.whole()
    cluster.all_placed()
    cluster.until(apart, 120)
    count: dict[str, int] = {}
    for row in cluster.row_table():
        for holder in row.in_sync:
            count[holder.node] = count.get(holder.node, 0) + 1
    assert min(count.values()) > 256 * 2 / 4 / 2, count


def test_an_empty_slot_is_left_to_the_handover(cluster: BalancedCluster) -> None:
    cluster.back(3)
    cluster.all_copied()
    gone, *others = cluster.of(3)
    for number in (1, 2):
        cluster.balance(number)._handover._look = lambda: False  # type: ignore[method-assign]
    client, _ = cluster[1].connect(gone, clean=True, expiry_s=0)
    client.leave()
    cluster.clients.pop(gone)
    cluster.pass_s(3 * WAIT_S)
    assert sorted(cluster.begun()) == sorted(slot_of("", name) for name in others)
