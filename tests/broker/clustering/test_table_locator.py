"""The real slot table decides which node runs a session: three nodes that relay by it."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.table_locator import TableLocator
from strogoff.broker.routing.remote import MOVING
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.ports import Identity
from strogoff.cluster.slots.table import Holder, SlotHome, SlotRow, SlotTable
from strogoff.mqtt import packets as p
from tests.harness.broker import PacketClient, connect, publish
from tests.harness.cluster import ClusterHarness, snapshots_only

from .slot_cluster import SlotCluster, locator_of


def test_a_node_in_no_cluster_runs_all_its_sessions() -> None:
    cluster = ClusterHarness(1, joined=False)
    locator = locator_of(cluster[1])
    assert {locator.primary_of(slot) for slot in range(SLOTS)} == {"n1"}
    assert {locator.registrar_of(slot) for slot in range(SLOTS)} == {"n1"}
    assert {locator.epoch_of(slot) for slot in range(SLOTS)} == {0}


def test_all_nodes_have_the_same_places() -> None:
    cluster = SlotCluster()
    assert len(set(cluster.places("c"))) == 1 and cluster.places("c")[0][0] == "n1"
    assert cluster.places("c")[0][1] > 0


def test_a_session_is_found_from_every_node_and_goes_with_the_table() -> None:
    cluster = SlotCluster()
    cluster.give("c", cluster[3])
    for number in (1, 2, 3, 2):
        client, connack = cluster[number].connect("c", clean=False, expiry_s=600)
        assert connack.reason == 0 and connack.session_present is (number != 1 or client is None)
        client.subscribe(("t", 1))
        client.leave()
        assert [len(harness.node.sessions) for harness in cluster.nodes] == [0, 0, 1]
        publisher = cluster[number % 3 + 1].client("publisher")
        assert publisher.publish("t", b"%d" % number, 1)[0].reason == 0
        publisher.leave()
        again, _ = cluster[number % 3 + 1].connect("c", clean=False, expiry_s=600)
        assert [each.payload for each in again.drain()] == [b"%d" % number]
        again.leave()


def test_incarnations_have_the_epoch_of_the_slot() -> None:
    cluster = SlotCluster()
    cluster.give("c", cluster[3])
    cluster[1].client("c", clean=False, expiry_s=600)
    session = cluster[3].node.sessions.get("", "c")
    assert session is not None
    assert (session.incarnation >> 32) & 0x7FFFFFFF == cluster.places("c")[0][1]


def test_a_node_in_no_cluster_numbers_sessions_without_epochs() -> None:
    cluster = ClusterHarness(1, joined=False)
    cluster[1].client("c", clean=False, expiry_s=600)
    session = cluster[1].node.sessions.get("", "c")
    assert session is not None and (session.incarnation >> 32) & 0x7FFFFFFF == 0


@pytest.mark.parametrize("snapshots", [False, True])
def test_while_the_primary_is_away_its_clients_wait(snapshots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if snapshots:
        snapshots_only(monkeypatch)
    cluster = SlotCluster()
    cluster.give("c", cluster[3])
    (before, epoch), *_ = cluster.places("c")
    client = cluster[1].client("c", clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    cluster[3].kill()
    cluster.until(lambda: cluster.places("c")[0][0] is None)
    assert client.closed and client.take() == []
    waiting = PacketClient(cluster[2], 5)  # type: ignore[arg-type]
    waiting.send(connect("c", 5, False, 600))
    cluster.pass_s(2)
    assert waiting.take() == []
    publisher = cluster[1].client("clean")
    publisher.send(publish("t", b"1", 1))
    cluster[3].start()
    answers: list[object] = []

    def answered() -> bool:
        answers.extend(waiting.take())
        return bool(answers)

    cluster.until(answered)
    assert isinstance(answers[0], p.Connack) and answers[0].reason == 0 and answers[0].session_present
    assert cluster.places("c") == [("n3", cluster.places("c")[0][1])] * 3
    assert before == "n3" and cluster.places("c")[0][1] > epoch and not waiting.closed
    came = [each.payload for each in answers[1:] if isinstance(each, p.Publish)]
    assert came + [each.payload for each in waiting.drain()] == [b"1"]


def test_a_process_that_reads_its_log_again_is_primary_of_nothing_yet() -> None:
    """The log names an earlier process of this node."""
    cluster = SlotCluster()
    cluster.isolate(1)
    cluster.restart(1)
    cluster.pass_s(1)
    assert cluster[1].member.slots.row(0).primary is not None
    assert cluster.locator(1).primary_of(0) is None
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, False, 600))
    cluster.pass_s(0.1)
    assert len(cluster[1].node.sessions) == 0
    cluster.network.heal()
    cluster.until(lambda: cluster.locator(1).primary_of(0) == "n1")


def test_one_client_id_is_served_once_whoever_registers_it() -> None:
    cluster = SlotCluster()
    cluster.give("c", cluster[2])
    client = cluster[3].client("c")
    for number in (1, 2, 3, 1):
        other = cluster[number].client("c", expiry_s=600 * (number % 2))
        assert client.closed and not other.closed
        client = other


def registrar(cluster: SlotCluster, client_id: str) -> str | None:
    """The registrar of a client id, in the tables of all running nodes."""
    slot = slot_of("", client_id)
    (found,) = {locator_of(harness).registrar_of(slot) for harness in cluster.nodes if harness.host.up}
    return found


def test_while_the_primary_is_away_its_deputy_registers_clients_without_state() -> None:
    cluster = SlotCluster()
    cluster.give("c", cluster[3])
    client = cluster[1].client("c")
    cluster[3].kill()
    cluster.until(lambda: cluster.places("c")[0][0] is None)
    assert registrar(cluster, "c") in ("n1", "n2") and not client.closed
    other = cluster[2].client("c")
    assert client.closed and not other.closed
    cluster[3].start()
    cluster.whole()
    again = cluster[3].client("c")
    assert other.closed and not again.closed and registrar(cluster, "c") == "n3"


def test_a_process_that_reads_its_log_again_is_deputy_of_nothing_yet() -> None:
    """The log names an earlier process of this node."""
    cluster = SlotCluster(5)
    cluster.give("c", cluster[3])
    cluster[3].kill()
    cluster.until(lambda: cluster.places("c")[0][0] is None)
    deputy = int(str(registrar(cluster, "c"))[1:])
    cluster.isolate(deputy)
    cluster.restart(deputy)
    cluster.pass_s(1)
    slot = slot_of("", "c")
    row = cluster[deputy].member.slots.row(slot)
    assert row.deputy is not None and row.deputy.node == f"n{deputy}"
    assert cluster.locator(deputy).registrar_of(slot) is None


def agree(cluster: ClusterHarness) -> bool:
    """What a locator says of all slots at once is what it says of each slot."""
    for harness in cluster.nodes:
        if harness.host.up:
            locator, name = locator_of(harness), harness.host.name
            assert list(locator.homes()) == [locator.home_of(slot) for slot in range(SLOTS)]
            mine = [slot for slot in range(SLOTS) if locator.registrar_of(slot) == name]
            assert locator.registered_by(name) == {slot: locator.epoch_of(slot) for slot in mine}
            assert list(locator.registered_by(name)) == mine
    return True


def test_all_slots_at_once() -> None:
    cluster = SlotCluster()
    agree(cluster)
    for client_id in ("c", "d", "e"):
        cluster.give(client_id, cluster[3])
        agree(cluster)
    cluster[3].kill()
    cluster.until(lambda: cluster.places("c")[0][0] is None)
    agree(cluster)
    cluster[3].start()
    cluster.until(lambda: agree(cluster) and cluster.places("c")[0][0] == "n3")
    agree(ClusterHarness(1, joined=False))


class Member:
    """A cluster node with a slot table."""

    clustered = True

    def __init__(self) -> None:
        self.me = Identity("n1", "d", 1, "p", "n1:1", "c")
        self.own = Holder("n1", "d", 3)
        self.own_holder: Holder | None = None
        self.slots = SlotTable(tuple([SlotRow(slot, 5, 5, self.own, (self.own,), None, 4) for slot in range(SLOTS)]), 5)


def test_the_homes_follow_the_entrance_of_this_process_without_a_new_table() -> None:
    member = Member()
    locator = TableLocator(member)  # type: ignore[arg-type]
    assert set(locator.homes()) == {SlotHome("n1", False, 0, 4)}
    member.own_holder = member.own
    assert set(locator.homes()) == {SlotHome("n1", True, 3, 4)}
    member.own_holder = Holder("n1", "d", 9)
    assert set(locator.homes()) == {SlotHome("n1", False, 0, 4)}


def test_a_sealed_slot_is_moving_until_it_is_open() -> None:
    member, sealed = Member(), {7}
    locator = TableLocator(member, sealed=sealed)  # type: ignore[arg-type]
    there = SlotHome("n1", False, 0, 4)
    assert locator.homes() == (there,) * 7 + (SlotHome(MOVING, False, 0, 4),) + (there,) * 248
    sealed.clear()
    assert set(locator.homes()) == {there}


def test_a_slot_is_held_by_its_primary_alone() -> None:
    """A slot that is being handed over has two holders; the sessions may begin at the primary only (H-40)."""
    cluster = SlotCluster(2)
    slot = slot_of("", "c")
    row, target = cluster[1].member.slots.row(slot), cluster[2].member.own_holder
    assert target is not None
    change = SlotRow(slot, row.epoch, row.version, row.primary, (*row.in_sync, target))
    cluster[1].member.request_slots((change,))
    cluster.until(lambda: all(len(harness.member.slots.row(slot).in_sync) == 2 for harness in cluster.nodes))
    assert [cluster.locator(number).holds(slot) for number in (1, 2)] == [True, False]
    cluster.give("c", cluster[2])
    assert [cluster.locator(number).holds(slot) for number in (1, 2)] == [False, True]
    cluster[2].kill()
    cluster.until(lambda: cluster.places("c")[0][0] is None)
    assert not cluster.locator(1).holds(slot)


def test_a_closed_slot_is_held_by_nobody() -> None:
    """Without a lease the policy `on` begins no session in a slot that the leader may have given away (H-40)."""
    cluster = SlotCluster(2)
    slot = slot_of("", "c")
    handover = cluster[1].host.clustering.slots.handover  # type: ignore[union-attr]
    target = cluster[2].member.own_holder
    assert target is not None and cluster.locator(1).holds(slot)
    handover._handover.close(cluster[1].member.slots.row(slot), target)
    assert not cluster.locator(1).holds(slot)
