"""Slots without primary: which of the last holders gets them, what these may take meanwhile, and what an operator may
do if none comes back."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering.slot_recovery import orphan_rows
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.recovery import orphans, requests
from strogoff.cluster.slots.table import SlotRow
from strogoff.mqtt.packets import Pubcomp, Publish, Pubrec, Pubrel
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient, publish
from tests.harness.thinning import thinned


def both_away(cluster: CopiedCluster, lost_power: int = 0) -> tuple[int, int]:
    """Kill primary and follower of the slot at once. Returns their numbers. `lost_power`: which of them loses its
    power; 1: the primary, 2: both, 3: the follower."""
    primary, follower = cluster.copied()
    cluster[primary].kill(power=lost_power in (1, 2))
    cluster[follower].kill(power=lost_power in (2, 3))
    cluster.until(lambda: cluster.row().primary is None, 30)
    return primary, follower


def start(cluster: CopiedCluster, number: int) -> None:
    """Start a node, and let time pass until it serves."""
    cluster[number].start()
    cluster.until(cluster[number].member.leased, 30)


def five(durability: Any = "os") -> CopiedCluster:
    """Five nodes, so that two may be away. A session has two messages; a loss of power may cost the second one."""
    cluster = CopiedCluster(5, durability=durability)
    subscriber(cluster).leave()
    primary, _ = cluster.copied()
    writer = cluster[primary].client("writer")
    writer.publish("t", b"1", 1)
    for harness in cluster.nodes:
        harness.disks[0].sync()
    writer.publish("t", b"2", 1)
    return cluster


def bystander(cluster: CopiedCluster) -> int:
    """A running node."""
    return next(number for number in range(1, 6) if cluster[number].host.up)


def events(cluster: CopiedCluster, kind: str) -> list[dict[str, Any]]:
    return [row for harness in cluster.nodes for row in harness.host.events if row["type"] == kind]


def lines(cluster: CopiedCluster, number: int) -> list[str]:
    return [text for _, text in cluster[number].host.lines]


def recover(cluster: CopiedCluster, number: int, slots: list[int]) -> None:
    """An operator at a node asks for the recovery of slots, as `slot_recovery.recover` does."""
    member = cluster[number].member
    rows = [row for row in orphans(member.slots) if row.slot in slots]
    member.recover_slots(tuple(requests(rows, member.membership.holders(), member.view.serving)))
    cluster.until(lambda: not any(row.slot in slots for row in orphans(member.slots)))


class Apart(CopiedCluster):
    """Five nodes. The slot of `sub` is at node `primary`, and `apart` takes both nodes with copies out of the view."""

    def __init__(self, primary: int, text: str = "t", **options: object) -> None:
        super().__init__(5, **options)
        self.primary, self.follower = primary, 0
        subscriber(self, text=text).leave()
        if self[1].node.options.queue_replicas > 1:
            self.move("sub", primary)
            self.primary, self.follower = self.copied()
        self.held = [each for each in (self.primary, self.follower) if each]
        self.others = [each for each in range(1, 6) if each not in self.held]
        self.writer = self[3].client("writer")

    def apart(self) -> None:
        """One entry of the log takes the holders out of the view, which stand still meanwhile. They do not hear one of
        the others, so they stay out when they go on. Node 3 hears everybody."""
        for number in self.held:
            self[number].pause_process()
        self.until(lambda: self.row().primary is None)
        deaf = next(each for each in self.others if each != 3 and not self[each].leads)
        for number in self.held:
            self.network.cut(f"n{number}", f"n{deaf}")

    def go_on(self, *numbers: int) -> None:
        """Let nodes go on, and time pass until they know that they are out of the view."""
        for number in numbers:
            self[number].resume_process()
        self.until(lambda: all(self[number].member.own_holder is None for number in numbers))
        self.pass_s(2)

    def back(self, number: int) -> None:
        """A node hears the others again, gets the slot, and the rest follows."""
        self.network.heal(f"n{number}")
        self.until(lambda: self.row().primary is not None)
        assert self.row().home == f"n{number}"
        self.network.heal()
        self.whole()

    def answered(self, client: PacketClient) -> bool:
        """Let some time pass. Whether the client got an answer."""
        self.pass_s(3)
        return bool(client.take())


def test_a_holder_that_lost_power_waits_for_the_complete_one() -> None:
    cluster = five()
    primary, follower = both_away(cluster, 1)
    start(cluster, primary)
    cluster.pass_s(10)
    row = cluster.row()
    assert row.primary is None and row.incomplete == (f"n{primary}",)
    assert [holder.node for holder in row.in_sync] == [f"n{follower}", f"n{primary}"]
    assert any(f"They wait for n{follower}" in text for text in lines(cluster, primary))
    start(cluster, follower)
    cluster.until(lambda: cluster.row().primary is not None)
    assert cluster.row().home == f"n{follower}" and not events(cluster, "slot.loss_possible")
    assert resumed(cluster, bystander(cluster)) == [b"1", b"2"]
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)


def test_a_holder_that_was_killed_gets_the_slot_at_once() -> None:
    cluster = five()
    primary, _ = both_away(cluster, 3)
    start(cluster, primary)
    cluster.until(lambda: cluster.row().primary is not None)
    assert cluster.row().home == f"n{primary}"
    assert resumed(cluster, primary) == [b"1", b"2"]


def test_a_holder_with_a_synced_disk_is_complete_after_a_loss_of_power() -> None:
    cluster = five("sync")
    primary, _ = both_away(cluster, 2)
    start(cluster, primary)
    cluster.until(lambda: cluster.row().primary is not None)
    assert resumed(cluster, primary) == [b"1", b"2"] and not events(cluster, "slot.loss_possible")


def test_another_start_does_not_make_a_disk_complete() -> None:
    cluster = five()
    primary, _ = both_away(cluster, 1)
    start(cluster, primary)
    for _ in range(2):
        cluster[primary].kill()
        start(cluster, primary)
    cluster.pass_s(5)
    assert cluster.row().primary is None


def test_a_loss_that_an_unlogged_start_found_is_told_by_the_next_one() -> None:
    cluster = five()
    primary, _ = both_away(cluster, 1)
    cluster[primary].start()
    cluster[primary].kill()  # before it has told anybody
    start(cluster, primary)
    cluster.pass_s(5)
    assert cluster.row().primary is None and cluster.row().incomplete == (f"n{primary}",)


def test_when_all_are_back_and_none_is_complete_one_gets_the_slot_with_an_event() -> None:
    cluster = five()
    primary, follower = both_away(cluster, 2)
    start(cluster, primary)
    cluster.pass_s(5)
    assert cluster.row().primary is None
    start(cluster, follower)
    cluster.until(lambda: cluster.row().primary is not None)
    found = events(cluster, "slot.loss_possible")
    assert found and {row["reason"] for row in found} == {"power_loss"}
    assert {tuple(row["nodes"]) for row in found if cluster.row().home == row["target"]} == {
        tuple(sorted((f"n{primary}", f"n{follower}")))
    }
    assert resumed(cluster, bystander(cluster))[:1] == [b"1"]


def test_a_node_with_the_only_copy_serves_after_a_loss_of_power() -> None:
    cluster = CopiedCluster(3, queue_replicas=1, durability="os")
    subscriber(cluster).leave()
    cluster[1].kill(power=True)
    cluster.until(lambda: cluster[2].member.slots.row(cluster.slot).primary is None, 30)
    start(cluster, 1)
    cluster.until(lambda: cluster.row().primary is not None)
    assert cluster.row().home == "n1"
    assert {row["target"] for row in events(cluster, "slot.loss_possible")} == {"n1"}


def test_messages_for_a_slot_that_waits_are_kept_for_the_complete_holder() -> None:
    """The publisher is at the incomplete holder, which has the session on its disk."""
    cluster = five()
    primary, follower = both_away(cluster, 1)
    start(cluster, primary)
    other = next(number for number in (2, 3, 4, 5) if cluster[number].host.up and number != primary)
    writers = [cluster[number].client(f"late{number}") for number in (primary, other)]
    for at, writer in enumerate(writers):
        writer.send(publish("t", b"late%d" % at, 1, 7))
    cluster.pass_s(10)
    assert not any(writer.take() for writer in writers), "acknowledged, although the holder of the session is away"
    start(cluster, follower)
    cluster.until(lambda: all(writer.take() for writer in writers))
    assert sorted(resumed(cluster, follower)) == [b"1", b"2", b"late0", b"late1"]


def test_an_operator_gives_slots_whose_holders_are_dead_to_an_empty_node() -> None:
    cluster = five()
    primary, follower = both_away(cluster)
    here = bystander(cluster)
    (orphan,) = [each for each in orphan_rows(cluster[here].member) if each.slot == cluster.slot]
    assert {holder.node for holder in orphan.holders} == {f"n{primary}", f"n{follower}"}
    assert orphan.filters == 1 and not any(holder.here for holder in orphan.holders)
    slots = [each.slot for each in orphan_rows(cluster[here].member)]
    recover(cluster, here, slots)
    assert cluster.row().primary is not None
    found = events(cluster, "slot.loss_possible")
    assert {(row["reason"], row["source"]) for row in found} == {("recovered", f"n{here}")}
    client, connack = cluster[here].connect("sub", clean=False, expiry_s=600)
    assert not connack.session_present
    client.subscribe(("t", 1))
    cluster[here].client("writer").publish("t", b"new", 1)
    assert client.payloads() == [b"new"]


def test_holders_that_come_back_after_a_recovery_delete_their_rows() -> None:
    cluster = five()
    primary, follower = both_away(cluster)
    here = bystander(cluster)
    recover(cluster, here, [row.slot for row in orphans(cluster[here].member.slots)])
    client, _ = cluster[here].connect("sub", clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    for number in (primary, follower):
        start(cluster, number)
    cluster.whole()
    cluster.until(lambda: all("are deleted" in "\n".join(lines(cluster, each)) for each in (primary, follower)))
    cluster[primary].client("writer").publish("t", b"new", 1)
    assert client.payloads() == [b"new"]
    cluster.until(lambda: len(cluster.row().in_sync) == 2, 60)


def test_an_operator_gives_a_slot_to_the_holder_with_the_older_copy() -> None:
    cluster = five()
    primary, _ = both_away(cluster, 1)
    start(cluster, primary)
    here = bystander(cluster)
    cluster.until(lambda: cluster[here].member.view.row(f"n{primary}") is not None)
    (orphan,) = [each for each in orphan_rows(cluster[here].member) if each.slot == cluster.slot]
    assert [(each.node, each.here, each.complete) for each in orphan.holders][-1] == (f"n{primary}", True, False)
    recover(cluster, here, [cluster.slot])
    assert cluster.row().home == f"n{primary}"
    assert resumed(cluster, here)[:1] == [b"1"]


def test_a_request_for_a_slot_with_a_primary_changes_nothing() -> None:
    cluster = five()
    before = cluster.row()
    member, other = cluster[1].member, cluster[2].member.own_holder
    member.recover_slots((SlotRow(cluster.slot, before.epoch, before.version, other, (other,)),))  # type: ignore[arg-type]
    cluster.pass_s(2)
    assert cluster.row() == before


def test_a_client_is_refused_with_the_nodes_that_have_its_messages() -> None:
    cluster = five()
    primary, follower = both_away(cluster)
    client = cluster[bystander(cluster)].connect_soon("sub", clean=False, expiry_s=600)
    found: list[Any] = []

    def answered() -> bool:
        found.extend(client.take())
        return bool(found)

    cluster.until(answered)
    names = " and ".join(sorted((f"n{primary}", f"n{follower}")))
    assert found[0].reason == 0x88
    said = str(found[0].properties)
    assert f"slot {slot_of('', 'sub')} has no primary; its sessions and messages are at {names}" in said


def test_a_node_that_loses_power_costs_nothing_while_another_one_has_a_copy() -> None:
    cluster = CopiedCluster(durability="os")
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    other = cluster.third()
    writer = cluster[other].client("writer")
    for number in range(20):
        writer.publish("t", b"%d" % number, 1)
    cluster[primary].kill(power=True)
    assert cluster.taken_over(primary) == follower
    cluster[primary].start()
    cluster.whole()
    assert resumed(cluster, other) == [b"%d" % number for number in range(20)]
    assert not events(cluster, "slot.loss_possible")


def test_all_nodes_lose_power_at_once_and_nothing_is_lost_with_synced_disks() -> None:
    cluster = CopiedCluster()
    subscriber(cluster).leave()
    cluster.copied()
    writer = cluster[3].client("writer")
    for number in range(20):
        writer.publish("t", b"%d" % number, 1)
    for harness in cluster.nodes:
        harness.kill(power=True)
    for harness in cluster.nodes:
        harness.start()
    cluster.whole()
    assert resumed(cluster, 2) == [b"%d" % number for number in range(20)]
    assert not events(cluster, "slot.loss_possible")


@pytest.mark.parametrize("first", [True, False], ids=["as the first holder", "as the second holder"])
@pytest.mark.parametrize("text", thinned(["t", "$share/g/t"], 2))
def test_holders_that_are_out_of_the_view_take_no_message(text: str, first: bool) -> None:
    """The other holder may get the slot. And the former follower has no session that takes anything."""
    cluster = Apart(2 if first else 5, text)
    assert (cluster.primary < cluster.follower) is first
    cluster.apart()
    cluster.go_on(cluster.primary, cluster.follower)
    cluster.writer.send(publish("t", b"1", 1, 7))
    assert not cluster.answered(cluster.writer)
    cluster.back(cluster.follower)
    assert cluster.answered(cluster.writer)
    assert resumed(cluster, 3) == [b"1"]


def test_a_copy_that_became_the_last_one_while_its_node_was_out_of_the_view_takes_no_message() -> None:
    cluster = Apart(2)
    cluster.apart()
    cluster.go_on(cluster.primary, cluster.follower)
    problems = list[str]()
    cluster[3].host.leave(f"n{cluster.primary}", problems.append)
    cluster.until(lambda: cluster.row().home == f"n{cluster.follower}")
    assert problems == [""] and len(cluster.row().in_sync) == 1 and cluster.row().primary is None
    cluster.writer.send(publish("t", b"1", 1, 7))
    assert not cluster.answered(cluster.writer)
    cluster.network.heal()
    cluster.until(lambda: cluster.row().primary is not None)
    assert cluster.answered(cluster.writer)
    assert resumed(cluster, 3) == [b"1"]


@pytest.mark.parametrize("back", ["primary", "follower"])
def test_what_the_follower_lacks_is_not_acknowledged_when_both_leave_the_view(back: str) -> None:
    cluster = Apart(2)
    cluster.network.cut(f"n{cluster.primary}", f"n{cluster.follower}")
    cluster.writer.send(publish("t", b"1", 1, 7))
    cluster.pass_s(0.1)
    cluster.apart()
    cluster.go_on(cluster.primary)
    assert len(cluster.rows(cluster.primary)) > len(cluster.rows(cluster.follower)), "the primary has the message"
    assert not cluster.answered(cluster.writer)
    cluster[cluster.follower].resume_process()
    cluster.back(getattr(cluster, back))
    assert cluster.answered(cluster.writer)
    assert resumed(cluster, 3) == [b"1"]


@pytest.mark.parametrize("back", ["primary", "follower"])
def test_a_handshake_of_a_connected_client_stands_still_while_both_are_out_of_the_view(back: str) -> None:
    """The next primary may lack each step. It would deliver again after PUBREL, or drop the next use of a packet id
    after PUBCOMP."""
    cluster = Apart(2)
    client, _ = cluster[cluster.primary].connect("sub", clean=False, expiry_s=600)
    client.subscribe(("t", 2))
    cluster.writer.send(publish("t", b"1", 2, 7))
    client.send(publish("u", b"2", 2, 9))
    cluster.pass_s(1)
    (message,) = [each for each in client.take() if isinstance(each, Publish)]
    cluster.apart()
    cluster.go_on(cluster.primary, cluster.follower)
    client.send(Pubrec(message.packet_id), Pubrel(9))
    assert not cluster.answered(client)
    cluster.back(getattr(cluster, back))
    if back == "primary":
        assert [type(each) for each in client.take()] == [Pubrel, Pubcomp]
    else:
        assert not client.take()
        assert resumed(cluster, 3) == [b"1"], "the client knows its packet id"


def test_the_only_holder_takes_messages_out_of_the_view() -> None:
    """Nobody else can get the slot, unless its disk is lost."""
    cluster = Apart(1, queue_replicas=1)
    cluster.apart()
    cluster.go_on(cluster.primary)
    cluster.writer.send(publish("t", b"1", 1, 7))
    assert cluster.answered(cluster.writer)
    cluster.back(cluster.primary)
    assert resumed(cluster, 3) == [b"1"]
