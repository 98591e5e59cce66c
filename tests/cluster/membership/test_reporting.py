"""Reports of a member: its lease with the cause of its loss, and views. On virtual time."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from strogoff.cluster.membership.events import SlotsChanged, SlotsDoubtful, SlotsLost
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.slots.table import Holder, SlotTable
from tests.harness.members import Machine, MemberHarness


def follower(cluster: MemberHarness) -> Machine:
    return next(machine for machine in cluster.machines if machine is not cluster.leader())


def last(machine: Machine, kind: str) -> dict[str, Any]:
    return [facts for each, facts in machine.events if each == kind][-1]


def lost(cluster: MemberHarness, machine: Machine) -> dict[str, Any]:
    """Returns the event of the loss."""
    before = sum(kind == "lease.lose" for kind, _ in machine.events)
    cluster.until(lambda: sum(kind == "lease.lose" for kind, _ in machine.events) > before)
    return last(machine, "lease.lose")


def test_a_cluster_that_forms_reports_leases_and_views_and_no_loss() -> None:
    cluster = MemberHarness(3)
    cluster.pass_s(5.0)
    names = sorted(machine.name for machine in cluster.machines)
    for machine in cluster.machines:
        kinds = [kind for kind, _ in machine.events]
        assert kinds.count("lease.get") == 1 and "lease.lose" not in kinds
        view = last(machine, "mem.view")
        assert (sorted(view["nodes"]), view["joining"], view["missing"]) == (names, [], [])
        assert view["view"] == machine.member.view.id


def test_a_node_that_goes_is_missing_in_the_view_of_the_others() -> None:
    cluster = MemberHarness(3)
    gone = follower(cluster)
    gone.kill()
    for machine in cluster.machines:
        if machine is not gone:
            cluster.until(lambda machine=machine: last(machine, "mem.view")["missing"] == [gone.name])


def test_a_restarted_node_does_not_report_the_view_of_its_earlier_boot() -> None:
    cluster = MemberHarness(3)
    other = follower(cluster)
    before = len(other.events)
    old = other.member.view.id
    other.kill()
    other.start()
    cluster.whole()
    cluster.pass_s(0.2)
    views = [facts["view"] for kind, facts in other.events[before:] if kind == "mem.view"]
    assert views and min(views) > old


def test_a_disk_that_hangs_is_the_cause_and_not_the_network() -> None:
    cluster = MemberHarness(3)
    other = follower(cluster)
    other.disks[0].stall_until = inf
    event = lost(cluster, other)
    assert event["detail"].startswith("its disk has not answered for ") and event["nodes"] == []
    assert other.member.reporting.because == event["detail"]
    other.disks[0].stall_until = 0.0
    cluster.until(other.member.leased)
    cluster.pass_s(0.1)
    assert last(other, "lease.get")["view"] == other.member.view.id and other.member.reporting.because == ""


def test_the_disk_of_the_log_is_the_cause_if_it_hangs_at_the_leader() -> None:
    """The leader has to write a view, and sends no heartbeats meanwhile: else it would only miss a leader."""
    cluster = MemberHarness(3)
    leader, gone = cluster.leader(), follower(cluster)
    leader.disks[1].stall_until = inf
    gone.kill()
    assert lost(cluster, leader)["detail"].startswith("its disk has not answered for ")


def test_a_cut_is_the_cause_with_the_nodes_that_are_silent() -> None:
    cluster = MemberHarness(3)
    other = follower(cluster)
    rest = sorted(machine.name for machine in cluster.machines if machine is not other)
    for name in rest:
        cluster.network.cut(other.name, name)
    event = lost(cluster, other)
    assert event["detail"].startswith("it has not heard 2 of 2 other members for ") and event["nodes"] == rest


def test_a_member_that_is_down_for_long_is_not_the_time_of_a_cut() -> None:
    """The node had its lease without that member. It loses it because it does not hear the other one."""
    cluster = MemberHarness(3)
    gone = follower(cluster)
    gone.kill()
    cluster.pass_s(30.0)
    here, there = [machine for machine in cluster.machines if machine is not gone]
    assert here.member.leased() and there.member.leased()
    cluster.network.cut(here.name, there.name)
    event = lost(cluster, here)
    assert event["detail"].startswith("it has not heard 2 of 2 other members for ")
    assert int(event["detail"].split()[-2]) < 5_000


def test_a_paused_process_is_the_cause() -> None:
    cluster = MemberHarness(3)
    other = follower(cluster)
    member = other.member
    assert member.leased()
    ticked = member._tick
    assert member._timer is not None
    member._timer.cancel()  # the loop of this process runs nothing for a while
    other.member.datagram = lambda node, kind, data: None  # type: ignore[method-assign]
    cluster.until(lambda: not member.leased())
    ticked()
    assert last(other, "lease.lose")["detail"].startswith("this process did nothing for 1")


def test_diverging_clocks_are_the_cause() -> None:
    cluster = MemberHarness(3)
    other = follower(cluster)
    other.wall_off_ms += 60_000
    event = lost(cluster, other)
    assert event["detail"] == "this machine stood still, or its clock was set, by 60000 ms"


def test_changes_of_slots_are_one_event_per_entry_at_each_node_of_the_view() -> None:
    cluster = MemberHarness(3)
    cluster.whole()
    founder = next(
        node for node, slots in cluster.machines[0].member.slots.slots_by_primary.items() if len(slots) == 256
    )
    owner = next(machine for machine in cluster.machines if machine.name == founder)
    others = [machine for machine in cluster.machines if machine is not owner]
    before = len(owner.events)
    owner.kill()
    for machine in others:
        cluster.until(lambda machine=machine: any(kind == "slot.primary" for kind, _ in machine.events))
        assert last(machine, "slot.primary")["without"] == 256
        assert last(machine, "slot.primary")["primaries"] == {}
    owner.start()
    cluster.whole()
    entered = owner.member.slots.row(0).primary
    assert entered is not None and entered.entered_in_view > 1 and entered.node == founder
    for machine in cluster.machines:
        event = last(machine, "slot.primary")
        assert (event["count"], event["slots"], event["primaries"]) == (256, ["0-255"], {founder: 256})
        assert event["without"] == 0 and event["view"] >= entered.entered_in_view
    again = [facts for kind, facts in owner.events[before:] if kind == "slot.primary"]
    assert len(again) == 1  # not those of its earlier start, which it reads in the log again
    assert len({machine.member.slots.index for machine in cluster.machines}) == 1


def test_a_member_that_leaves_loses_its_slots_with_an_event_at_the_others() -> None:
    cluster = MemberHarness(3)
    cluster.whole()
    owner = next(machine for machine in cluster.machines if machine.name in machine.member.slots.slots_by_primary)
    others = [machine for machine in cluster.machines if machine is not owner]
    others[0].leave(owner.name)
    for machine in others:
        cluster.until(lambda machine=machine: any(kind == "slot.lost" for kind, _ in machine.events))
        lost = last(machine, "slot.lost")
        assert (lost["target"], lost["count"], lost["slots"]) == (owner.name, 256, ["0-255"])
        assert last(machine, "slot.primary")["primaries"] == {each.name: 128 for each in others}


def test_the_leader_alone_reports_a_loss_while_no_process_is_in_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes were killed, and the log takes the removal of one before another one is in the view again."""
    cluster = MemberHarness(3)
    leader, other = cluster.leader(), follower(cluster)
    monkeypatch.setattr(ClusterNode, "incarnation", None)
    for machine in (leader, other):
        machine.events.clear()
        machine.member.reporting.slots(SlotsLost("n3", (7, 8)))
    assert [(kind, facts["slots"]) for kind, facts in leader.events] == [("slot.lost", ["7-8"])]
    assert other.events == []


def test_a_slot_that_may_lack_changes_is_reported_with_the_node_that_asked() -> None:
    cluster = MemberHarness(3)
    cluster.whole()
    member = cluster[1].member
    member.reporting.slots(SlotsDoubtful("n2", (7, 8), ("n3",), "n1"))
    event = last(cluster[1], "slot.loss_possible")
    assert (event["target"], event["slots"], event["nodes"]) == ("n2", ["7-8"], ["n3"])
    assert (event["reason"], event["source"], event["count"]) == ("recovered", "n1", 2)
    member.reporting.slots(SlotsDoubtful("n2", (7,), ("n2", "n3")))
    event = last(cluster[1], "slot.loss_possible")
    assert event["reason"] == "power_loss" and "source" not in event


def test_a_copy_that_comes_without_another_primary_is_no_event() -> None:
    cluster = MemberHarness(2)
    member = cluster[1].member
    rows = list(member.slots.rows)
    holders = (*rows[7].in_sync, Holder("n2", "n2-disk", 2))
    rows[7] = msgspec.structs.replace(rows[7], version=rows[7].version + 1, in_sync=holders)
    before = len(cluster[1].events)
    member.reporting.slots(SlotsChanged(member.slots, SlotTable(tuple(rows), 99)))
    assert cluster[1].events[before:] == []
