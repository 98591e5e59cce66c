"""Members on virtual time: joining, leaving, returning, and effects that a replayed log must not have."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import msgspec
import pytest

from strogoff.cluster.links.hello import PeerInfo, encode_hello
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.membership.commands import Leave, MalformedCommand, encode_command
from strogoff.cluster.membership.consensus import Consensus
from strogoff.cluster.membership.peer_addresses import STRANGERS_MOST
from strogoff.cluster.ports import Datagram
from strogoff.cluster.raft.interface import Settings as RaftSettings
from strogoff.cluster.slots.table import SlotRow
from strogoff.cluster.transport.memory_stream import Stream
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import Wire
from tests.harness.members import Machine, MemberHarness


def told(machine: Machine) -> tuple[str, bool, bool]:
    """Returns the last event about lease and view that the listener got."""
    _, leased, whole = next(each for each in reversed(machine.listener.said) if each[0] == "standing")
    return ("standing", leased, whole)


def test_a_node_without_a_cluster_is_standalone_and_may_acknowledge() -> None:
    member = MemberHarness(1, joined=False)[1].member
    assert (member.standalone, member.leased(), member.whole, member.clustered) == (True, True, True, False)
    assert member.view.id == 0
    assert member.incarnation is None


def test_three_nodes_become_one_cluster() -> None:
    cluster = MemberHarness(3)
    views = [machine.member.view for machine in cluster.machines]
    assert views[0] == views[1] == views[2]
    assert [machine.member.me.cluster_id for machine in cluster.machines] == ["cluster-of-n1"] * 3
    assert cluster[1].member.view.serving == ("n1", "n2", "n3")
    assert all(not machine.member.standalone for machine in cluster.machines)


def test_publishes_cross_in_order_and_are_acknowledged() -> None:
    cluster = MemberHarness(2)
    for number in range(50):
        cluster[1].member.links.send("n2", Lane.PUBLISH, b"%d" % number)
    cluster.pass_s(0.1)
    assert [payload for _, payload in cluster[2].listener.taken] == [b"%d" % number for number in range(50)]
    assert cluster[1].listener.acknowledged == {"n2": 50}


def test_a_cut_off_node_loses_its_lease_before_the_view_changes() -> None:
    cluster = MemberHarness(3)
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    member = cluster[3].member
    cluster.until(lambda: cluster[1].member.view.row("n3") is None)
    assert not member.leased()
    cluster.network.heal()
    cluster.whole()
    since = [said[1] for said in cluster[3].listener.said if said[0] == "entering"]
    assert since == sorted(since)
    assert len(since) == 2


def test_it_enters_before_it_announces_and_is_informed_before_it_serves() -> None:
    cluster = MemberHarness(3)
    said = [each[0] for each in cluster[3].listener.said if each[0] in ("entering", "announce", "informed")]
    assert said[:3] == ["entering", "announce", "informed"]


@pytest.mark.parametrize("power", [False, True])
def test_a_fast_restart_is_another_incarnation(power: bool) -> None:
    cluster = MemberHarness(3)
    before = cluster[1].member.view.incarnation("n2")
    cluster[2].kill(power)
    cluster[2].start()
    cluster.until(lambda: cluster[2].serving)
    cluster.whole()
    after = cluster[1].member.view.incarnation("n2")
    assert before is not None
    assert after is not None
    assert after.boot == before.boot + 1
    assert after.entered_in_view > before.entered_in_view
    downs = [facts["target"] for kind, facts in cluster[1].events if kind == "mem.down"]
    assert downs == ["n2"]


def test_all_restart_at_once() -> None:
    cluster = MemberHarness(3)
    for machine in cluster.machines:
        machine.kill(power=True)
    for machine in cluster.machines:
        machine.start()
    assert cluster.whole() < 6.0
    assert [row.boot for row in cluster[1].member.view.rows] == [2, 2, 2]


def test_a_founder_killed_with_an_empty_log_reports_its_lease() -> None:
    """The listener of every member begins without a lease. A founder always has one, so it must be reported once."""
    cluster = MemberHarness(1, joined=False)
    cluster[1].member.found()
    cluster.pass_s(0.1)
    cluster[1].kill()
    cluster[1].start()
    assert cluster[1].member.membership.members == {}
    cluster.pass_s(1.0)
    assert told(cluster[1]) == ("standing", True, True)


def test_a_restarted_founder_is_not_standalone_before_it_has_read_its_log() -> None:
    """Only it votes of the two: it leads at once, and applies its log after the next write of its disk."""
    cluster = MemberHarness(2)
    cluster[1].kill()
    cluster[1].start()
    assert not cluster[1].member.standalone
    assert not cluster[1].member.leased()
    assert told(cluster[1])[1] is False
    cluster.whole()


def test_a_new_disk_ignores_the_log_entries_of_its_former_disk() -> None:
    cluster = MemberHarness(3)
    cluster[1].kill()
    cluster[1].replace_disk("n1-second-disk")
    cluster[1].start()
    before = len(cluster[1].listener.said)
    cluster.until(lambda: cluster[2].member.view.row("n1") is None)
    cluster.join(cluster[1], "n2:1")
    assert cluster[1].listener.said[before:].index(("standing", True, True)) > cluster[1].listener.said.index(
        ("informed",)
    )


def test_a_member_back_with_another_disk_ignores_its_logged_leave() -> None:
    cluster = MemberHarness(3)
    answers = cluster[1].leave("n3")
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    cluster[3].member.left()
    assert cluster[3].left == 1
    cluster[3].kill()
    cluster[3].replace_disk("n3-second-disk")
    cluster[3].start()
    cluster.join(cluster[3])
    cluster.whole()
    assert cluster[3].left == 1  # the old one alone
    assert cluster[3].member.registrar.problem == ""


@pytest.mark.parametrize("leader", ["new node", "new disk"])
def test_a_member_that_does_not_know_the_leader_learns_from_it(leader: str) -> None:
    """Only the leader can send it the log, which says that the leader is a member (5 nodes, seeds 1379 and 1574)."""
    cluster = MemberHarness(5, joined=False)
    new, away = (cluster[4], cluster[3]) if leader == "new node" else (cluster[5], cluster[2])
    for machine in cluster.machines[1:]:
        if leader == "new disk" or machine.name in ("n2", "n3"):
            cluster.join(machine)
    cluster.until(lambda: len(cluster.leader().member.consensus.raft.configuration.voters) % 2)  # type: ignore[union-attr]
    for machine in cluster.machines:
        if machine is not away:
            cluster.network.cut(machine.name, away.name)
    if leader == "new disk":
        new.kill()
        new.replace_disk("second-disk")
        new.start()
    for machine in cluster.machines[3:]:
        if not machine.member.clustered:
            cluster.join(machine)
    peer = new.member.peer
    cluster.until(lambda: cluster.leader().member.consensus.raft.caught_up(peer))  # type: ignore[union-attr]
    cluster.until(lambda: peer in cluster.leader().member.consensus.raft.configuration.voters)  # type: ignore[union-attr]
    cluster.leader().member.consensus.raft.transfer(peer)  # type: ignore[union-attr]
    cluster.until(lambda: new.member.consensus.leads)  # type: ignore[union-attr]
    cluster.network.heal()
    cluster.until(lambda: away.serving and new.member.whole)


def new_disk(cluster: MemberHarness, number: int, address: str) -> None:
    """Give a node a new disk, let it join through the node at `address`, and wait until it votes."""
    machine = cluster[number]
    machine.kill()
    machine.replace_disk(f"{machine.name}-second-disk")
    machine.start()
    cluster.join(machine, address)
    cluster.until(lambda: machine.member.peer in cluster.leader().member.consensus.raft.configuration.voters)  # type: ignore[union-attr]


def test_a_member_comes_back_when_no_other_member_has_the_disk_that_it_knows() -> None:
    cluster = MemberHarness(5)
    away = cluster[5]
    away.kill()
    for number in (1, 2, 3, 4):
        new_disk(cluster, number, "n4:1" if number < 4 else "n1:1")
    away.start()
    cluster.whole()
    assert away.serving and away.member.registrar.problem == ""


def test_the_disk_of_each_member_is_replaced_and_the_last_reads_of_former_disks_and_addresses() -> None:
    """The log is longer than one message, and names disks and addresses that nobody has any more."""
    cluster = MemberHarness(3)
    for machine in cluster.machines:
        machine.settings = msgspec.structs.replace(
            machine.settings, raft=RaftSettings(max_append_bytes=1, max_inflight=1)
        )
    for machine in cluster.machines[1:]:
        machine.port = 2
    for number in (2, 3):
        new_disk(cluster, number, "n1:1")
    new_disk(cluster, 1, "n2:2")
    cluster.whole()


def test_a_node_behind_in_the_log_keeps_its_tombstones() -> None:
    """It does not know the other members (3 nodes, seed 41100 with disk_lost,kill,cut)."""
    cluster = MemberHarness(3, joined=False)
    cluster.join(cluster[2])
    answers = cluster[3].join("n1:1")
    cluster.until(lambda: bool(answers))
    for other in ("n1", "n2"):
        cluster.network.cut("n3", other)
    cluster[3].adopt(answers[0])
    metadata = cluster[3].member.metadata
    metadata.put(b"tx", b"v")
    metadata.delete(b"tx")
    cluster.pass_s(20.0)
    assert metadata.statistics().tombstones == 1
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(30.0)
    assert metadata.statistics().tombstones == 0


def test_a_member_removed_while_away_stays_out() -> None:
    cluster = MemberHarness(3)
    cluster[3].kill()
    cluster.until(lambda: cluster[1].member.view.row("n3") is None)
    answers = cluster[1].leave("n3")
    cluster.until(lambda: bool(answers))
    cluster[3].start()
    cluster.pass_s(5.0)
    assert not cluster[3].serving
    assert cluster[1].member.whole


def test_a_new_disk_is_reported_once() -> None:
    cluster = MemberHarness(3)
    cluster[3].kill()
    cluster[3].replace_disk("n3-second-disk")
    cluster[3].start()
    cluster.join(cluster[3])
    cluster.whole()
    assert ("replaced", "n3") in cluster[1].listener.said
    cluster[2].kill()
    cluster[2].start()
    cluster.whole()
    cluster[3].member.links.send("n2", Lane.PUBLISH, b"after")
    cluster.pass_s(1.0)
    assert cluster[2].listener.taken == [("n3", b"after")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": "other"}, "belongs to the cluster other, not to cluster-of-n1"),
        ({"node": "n9"}, "n9 is not a member of this cluster"),
        ({"disk": "stolen"}, "n2 has another disk than the member of that name"),
        ({"boot": 0}, "n2 was started 1 times, and this is start 0"),
        ({"process": "twin"}, "start 1 of n2 was another process"),
    ],
)
def test_strangers_are_refused_with_a_reason(change: dict[str, object], reason: str) -> None:
    cluster = MemberHarness(2)
    me = cluster[2].member.me
    fields = {"node": me.node, "boot": me.boot, "disk": me.disk, "process": me.process} | {
        "cluster_id": me.cluster_id,
        "address": me.address,
    }
    said = cluster[1].member.check(PeerInfo(**(fields | change)))  # type: ignore[arg-type]
    assert said is not None
    assert reason in said
    assert cluster[1].member.check(PeerInfo(**fields)) is None  # type: ignore[arg-type]


class _Caller:
    """A peer that dials, and ignores what it hears."""

    def __init__(self) -> None:
        self.refused = ""

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """The stream is open."""

    def received(self, frame: bytes) -> None:
        """A frame arrived."""

    def drained(self) -> None:
        """There is room."""

    data_drained = drained

    def closed(self, reason: str) -> None:
        self.refused = reason


def test_strangers_that_claim_to_be_ahead_of_the_log_are_few_and_forgotten() -> None:
    """1000 names with an entry far ahead of the log, from a peer that knows the cookie."""
    cluster = MemberHarness(2)
    member, transport = cluster[1].member, MemoryTransport(cluster.network, "x")

    def call(number: int) -> tuple[_Caller, Stream]:
        name, caller = f"x{number}", _Caller()
        hello = PeerInfo(name, 1, name, name, member.me.cluster_id, f"{name}:1", joined=1 << 40)
        return caller, transport.dial(member.me.address, encode_hello(hello), caller)

    calls = [call(number) for number in range(1000)]
    cluster.pass_s(0.5)
    refused = [caller.refused for caller, _ in calls if caller.refused]
    assert len(refused) == 1000 - STRANGERS_MOST and "that its log does not name yet" in refused[0]
    assert len(member.links._in) == len(member.links._out) == STRANGERS_MOST + 1
    for _, stream in calls:
        stream.cancel()
    cluster.pass_s(0.5)
    for number in range(1000, 1100):
        _, stream = call(number)
        cluster.pass_s(0.05)
        stream.cancel()
        cluster.pass_s(0.05)
    assert len(member.links._in) <= 3 and len(member.links._out) <= 3
    cluster.whole()


def test_a_standalone_node_sends_nothing() -> None:
    cluster = MemberHarness(2, joined=False)
    me = cluster[2].member.me
    hello = PeerInfo(me.node, me.boot, me.disk, me.process, me.cluster_id, me.address)
    assert cluster[1].member.check(hello) == "n1 is not in a cluster"


def test_an_unknown_call_is_answered() -> None:
    cluster = MemberHarness(1, joined=False)
    answers: list[bytes] = []
    cluster[1].member.answer_call("dance", b"", answers.append)
    assert b"does not know the call dance" in answers[0]


def test_views_are_applied_alike_and_in_order() -> None:
    cluster = MemberHarness(3)
    cluster[2].kill()
    cluster.until(lambda: cluster[1].member.view.row("n2") is None)
    cluster[2].start()
    cluster.whole()
    for number in (1, 3):
        seen = [said[1] for said in cluster[number].listener.said if said[0] == "view"]
        assert all(a < b for a, b in pairwise(seen))


def test_a_closed_member_is_silent() -> None:
    cluster = MemberHarness(2)
    cluster[2].member.close()
    cluster.pass_s(1.0)
    frames = cluster[2].member.links.traffic.frames_out
    cluster.pass_s(3.0)
    assert cluster[2].member.links.traffic.frames_out == frames
    assert cluster[1].member.view.row("n2") is None


@pytest.mark.parametrize("later_ms", range(0, 700, 35))
def test_the_cluster_survives_when_the_second_node_dies_while_a_third_joins(later_ms: int) -> None:
    """Two of three are alive, whenever it dies. One log entry makes the second and the third voters."""
    cluster = MemberHarness(3, joined=False)
    cluster.join(cluster[2])
    answers = cluster[3].join("n1:1")
    cluster.until(lambda: bool(answers))
    cluster[3].adopt(answers[0])
    cluster.pass_s(later_ms / 1000)
    cluster[2].kill()
    assert cluster.until(lambda: cluster[1].serving and cluster[3].serving) < 5
    cluster.pass_s(3)
    assert cluster[1].serving and cluster[3].serving


@pytest.mark.parametrize("when", ["while it ran", "while it was away"])
def test_a_removed_node_reports_its_removal_after_its_next_start(when: str) -> None:
    cluster = MemberHarness(3)
    machine = next(each for each in cluster.machines if each is not cluster.leader())
    if when == "while it was away":
        machine.kill()
        cluster.until(lambda: cluster.leader().member.view.row(machine.name) is None)
    answers = cluster.leader().leave(machine.name)
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    if when == "while it ran":
        machine.member.left()
        cluster.pass_s(0.1)
        machine.kill()
    machine.start()
    cluster.until(lambda: machine.member.registrar.problem)
    problem = machine.member.registrar.problem
    assert "has left the cluster" in problem or "no longer a member" in problem
    assert any("strogoff reset" in text for level, text in machine.log if level == "error")
    assert not machine.member.leased() and cluster.leader().member.leased()
    machine.kill()
    machine.replace_disk("begun-anew")
    machine.start()
    cluster.join(machine, f"{cluster.leader().name}:1")
    cluster.whole()


def test_a_member_with_a_new_disk_differs_from_the_one_that_left() -> None:
    """Another member may not have read yet that it has returned."""
    cluster = MemberHarness(3)
    membership = cluster[1].member.membership
    assert membership.last_possible("n4") == 0
    assert membership.last_possible("n3") == membership.boots["n3"] + 1000


def ticks_in(cluster: MemberHarness, machine: Machine, seconds: float) -> int:
    """Returns how often a member ticked."""
    ticked = 0
    reporting = machine.member.reporting
    tick = reporting.tick

    def counted() -> None:
        nonlocal ticked
        ticked += 1
        tick()

    reporting.tick = counted  # type: ignore[method-assign]
    cluster.pass_s(seconds)
    reporting.tick = tick  # type: ignore[method-assign]
    return ticked


def test_in_a_healthy_cluster_a_member_ticks_once_per_heartbeat() -> None:
    cluster = MemberHarness(3)
    cluster.pass_s(1.0)
    heartbeats = 5.0 / (cluster.leader().member.settings.raft.heartbeat_ms / 1000)
    for machine in cluster.machines:
        assert heartbeats - 3 <= ticks_in(cluster, machine, 5.0) <= heartbeats + 3


def test_while_a_member_is_silent_the_others_tick_at_the_full_rate() -> None:
    """From four heartbeats before it counts as not heard, until it is back."""
    cluster = MemberHarness(3)
    cluster.pass_s(1.0)
    silent, *others = sorted(cluster.machines, key=lambda machine: machine is cluster.leader())
    for other in others:
        cluster.network.cut(silent.name, other.name)
    cluster.pass_s(0.8)
    for machine in others:
        assert ticks_in(cluster, machine, 2.0) >= 2.0 / machine.member.settings.tick_s - 2
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert all(machine.member.calm() for machine in cluster.machines)


def test_while_a_lease_is_not_renewed_a_member_ticks_at_the_full_rate() -> None:
    cluster = MemberHarness(3)
    cluster.pass_s(1.0)
    other = next(machine for machine in cluster.machines if machine is not cluster.leader())
    other.disks[0].stall_until = inf
    cluster.pass_s(1.2)
    assert other.member.leased() and not other.member.calm() and not cluster.leader().member.calm()


def test_a_follower_stands_for_election_at_its_deadline() -> None:
    """Its timer ends with the Raft deadline, wherever that lies between two calm ticks."""
    cluster = MemberHarness(3)
    cluster.pass_s(1.0)
    machine = next(machine for machine in cluster.machines if machine is not cluster.leader())
    consensus = machine.member.consensus
    assert consensus is not None and machine.member.calm()
    due_ms = machine.member.ports.now_ms() + 120
    consensus.raft._election_at_ms = due_ms + 1  # as if the leader had been silent for long
    machine.member._tick()
    cluster.network.cut(machine.name, cluster.leader().name)
    cluster.until(lambda: consensus.raft.role != "follower", 1.0)
    assert abs(machine.member.ports.now_ms() - due_ms) < 20


def lead(cluster: MemberHarness, number: int) -> None:
    """Make this node the leader."""
    consensus = of(cluster.leader())
    if cluster.leader() is not cluster[number]:
        cluster.until(lambda: len(consensus.raft.configuration.voters) == 3 and len(consensus.raft.quorums) == 1)
        consensus.raft.transfer(cluster[number].member.peer)
        cluster.until(lambda: not consensus.leads)
        cluster.until(lambda: all(of(machine).leader == f"n{number}" for machine in cluster.machines))


def of(machine: Machine) -> Consensus:
    """The consensus of a node that runs."""
    assert machine.member.consensus is not None
    return machine.member.consensus


def in_sync(machine: Machine, slot: int, other: Machine) -> SlotRow:
    """The request that another node should hold this slot too."""
    row, target = machine.member.slots.row(slot), other.member.own_holder
    assert target is not None
    return SlotRow(slot, row.epoch, row.version, row.primary, (*row.in_sync, target))


@pytest.mark.parametrize("leader", [1, 2])
def test_the_primary_of_a_slot_can_have_its_row_changed(leader: int) -> None:
    cluster = MemberHarness(3)
    lead(cluster, leader)
    cluster[1].member.request_slots((in_sync(cluster[1], 7, cluster[3]),))
    cluster.until(lambda: len(cluster[2].member.slots.row(7).in_sync) == 2)


@pytest.mark.parametrize("asker", [2, 3])
def test_no_other_node_can_have_a_row_changed(asker: int) -> None:
    cluster = MemberHarness(3)
    lead(cluster, 3)
    cluster[asker].member.request_slots((in_sync(cluster[1], 7, cluster[3]),))
    cluster.pass_s(1)
    assert len(cluster[2].member.slots.row(7).in_sync) == 1


@pytest.mark.parametrize("leader", [1, 3])
def test_a_follower_can_take_itself_out_and_nobody_else_can(leader: int) -> None:
    cluster = MemberHarness(3)
    lead(cluster, leader)
    cluster[1].member.request_slots((in_sync(cluster[1], 7, cluster[3]),))
    cluster.until(lambda: all(len(machine.member.slots.row(7).in_sync) == 2 for machine in cluster.machines))
    row = cluster[1].member.slots.row(7)
    alone = SlotRow(7, row.epoch, row.version, row.primary, (cluster[1].member.own_holder,))  # type: ignore[arg-type]
    given = SlotRow(7, row.epoch, row.version, row.in_sync[1], row.in_sync[1:])
    cluster[1].member.request_slots((alone,))
    cluster[2].member.request_slots((alone,), leaving=True)
    cluster[3].member.request_slots((given,), leaving=True)
    cluster[3].member.request_slots((alone,))
    cluster.pass_s(1)
    assert cluster[2].member.slots.row(7) == row
    cluster[3].member.request_slots((alone,), leaving=True)
    cluster.until(lambda: cluster[2].member.slots.row(7).in_sync == row.in_sync[:1])
    assert cluster[2].member.slots.row(7).epoch == row.epoch


def test_changes_of_slots_reach_the_listener_and_so_do_their_acknowledgements() -> None:
    cluster = MemberHarness(2)
    for payload in (b"1", b"2"):
        cluster[1].member.links.send("n2", Lane.REPLICA, payload)
    cluster[2].member.links.datagram("n1", Datagram.SLOT_COPY, b"answer")
    cluster.pass_s(0.5)
    taken = [each[1:] for each in cluster[2].listener.said if each[0] == "replica"]
    assert taken == [("n1", 1, b"1"), ("n1", 2, b"2")]
    assert [each for each in cluster[1].listener.said if each[0] == "replicas acked"][-1] == ("replicas acked", "n2", 2)
    assert cluster[1].listener.acknowledged == {}
    assert ("copy message", "n2", b"answer") in cluster[1].listener.said
    assert cluster[1].member.watermark("n2", "n2-disk", 1, Lane.REPLICA) == 0


def test_changes_of_slots_are_never_acknowledged_early() -> None:
    cluster = MemberHarness(2)
    early: list[list[int]] = []
    cluster[1].listener.acked_early = lambda node, seqs: early.append(seqs)  # type: ignore[method-assign]
    for lane in Lane:
        cluster[1].member.acked_early("n2", lane, [int(lane)])
    assert early == [[int(Lane.PUBLISH)]]


def test_a_request_about_slots_that_cannot_be_decoded_is_an_error_of_its_sender() -> None:
    cluster = MemberHarness(2)
    with pytest.raises(MalformedCommand, match="command of 4 bytes"):
        cluster[1].member.datagram("n2", Datagram.SET_SLOTS, b"junk")
    cluster[1].member.datagram("n2", Datagram.SET_SLOTS, encode_command(Leave("n1")))
    cluster.pass_s(1)
    assert "n1" in cluster[2].member.membership.members


def test_a_member_ticks_on_after_a_tick_that_has_raised() -> None:
    """Else a leader sends no heartbeats any more, and a member of a cluster that is not calm asks for no lease."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    member = leader.member

    def raises() -> None:
        member.on_tick = lambda: None
        raise ZeroDivisionError

    member.on_tick = raises
    with pytest.raises(ZeroDivisionError):
        cluster.pass_s(1)
    cluster.pass_s(5)
    assert cluster.leader() is leader
