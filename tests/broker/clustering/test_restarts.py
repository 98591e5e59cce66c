"""The whole cluster restarts, one node after the other (P1, P4; H-01, H-04)."""

from __future__ import annotations

from math import inf

import pytest

from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.membership.admission import LEAVE, LeaveRequest, encode_call
from strogoff.cluster.ports import Settings
from strogoff.cluster.raft.interface import Settings as RaftSettings
from strogoff.mqtt import packets
from strogoff.mqtt.reasons import ReasonCode
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from strogoff.sim.engine.host import EPOCH_MS
from tests.harness.broker import option, publish
from tests.harness.cluster import MAJORITY, ON, ClusterHarness
from tests.harness.thinning import thinned


@pytest.mark.parametrize("last", [1, 2, 3])
def test_the_first_node_serves_only_when_it_knows_the_sessions_of_the_others(last: int) -> None:
    """Only the node of a session announces it: a publish accepted before that would miss the session."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[last].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    for harness in cluster.nodes:
        harness.kill(power=True)
    first = last % 3 + 1
    for number in (1, 2, 3):
        if number != last:
            cluster[number].start()
    cluster.pass_s(1.5)
    cluster[last].start()
    cluster.until(lambda: cluster[first].node.policy.view_state is not ViewState.MINORITY)
    assert cluster[first].client("writer").publish("t", b"m", 1)[0].reason == 0
    cluster.until(lambda: cluster[last].node.policy.view_state is not ViewState.MINORITY)
    reader = cluster[last].client("reader", clean=False, expiry_s=600)
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_rejoining_nodes_wait_for_the_last_member_with_a_durable_route() -> None:
    """P1, P4: the full disks of n1 and n2 lack the route, as SUBACK does not wait for full disks."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[3].client("reader", clean=False, expiry_s=600)
    for number in (1, 2):
        cluster[number].disks[0].full = True
    reader.send(packets.Subscribe(1, [option("t", 1)], None))
    cluster.until(lambda: bool(reader.received))
    assert reader.take()[0].reasons == [1]
    for harness in cluster.nodes:
        harness.kill(power=True)
    for path in (("n1", "n3"), ("n3", "n1")):
        cluster.network.delay(*path, 0.25)
    for number in (1, 2):
        cluster[number].start()
        cluster[number].disks[0].full = False
        assert not cluster[number].node.env.cluster.remote_matches("", "t").plain
    cluster[3].start()
    members = [cluster[number].host.member for number in (1, 2)]
    cluster.until(lambda: all(each.membership.boots["n3"] == 2 for each in members if each))
    cluster[3].kill()  # no node waits for its last lease now, and it enters after the others

    def exchanged() -> bool:
        holders = [each.lease_service.holder for each in members if each and each.lease_service]
        return all(each.incarnation and not each.wants_exchange for each in holders)

    cluster.until(exchanged)
    cluster[3].start()
    cluster.until(lambda: cluster[1].node.policy.view_state is not ViewState.MINORITY)
    writer = cluster[1].client("writer")
    writer.send(publish("t", b"m", 1, 1))
    cluster.until(lambda: bool(writer.received))
    assert writer.take()[0].reason == 0
    cluster.whole()
    reader = cluster[3].client("reader", clean=False, expiry_s=600)
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_a_restarted_node_repeats_a_cancelled_acknowledgement_of_metadata() -> None:
    """P4: a node out of the view learns a write of a restarted node from a third node, before it has a stream to the
    writer.

    A repeated subscription to a known filter writes nothing, so no later acknowledgement covers it.
    """
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.isolate(3)
    cluster.state_of(2, ViewState.MAJORITY)
    cluster[2].kill()
    cluster[2].start()
    cluster.until(lambda: cluster[2].node.policy.view_state is ViewState.MAJORITY)
    reader = cluster[2].client("reader")
    assert reader.subscribe(("t", 1))[0].reasons == [1]
    cluster.network.heal()
    cluster.network.cut("n2", "n3")
    cluster.until(lambda: cluster[3].node.env.cluster.remote_matches("", "t").plain != ())
    cluster.network.heal()
    cluster.whole()
    again = cluster[2].client("again")
    again.send(packets.Subscribe(1, [option("t", 1)], None))
    cluster.until(lambda: bool(again.received), 5.0)
    assert again.take()[0].reasons == [1]


def test_a_publisher_for_an_absent_node_delays_no_other_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The restarted node has a snapshot, and no log entry tells it that the other node has left the view."""
    settings = Settings(raft=RaftSettings(tail=0, snapshot_every=1), links=LinkSettings(buffer_bytes=1000))
    monkeypatch.setattr(cluster_host, "Settings", lambda: settings)
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[3].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    cluster[3].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[1].kill()
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    assert cluster[1].client("writer").publish("t", bytes(2000), 1) == []
    other = cluster[1].client("other")
    for packet_id in (1, 2):
        assert [type(each) for each in other.publish("u", b"", 1, packet_id)] == [packets.Puback]


def test_a_refused_old_copy_of_a_disk_serves_no_client_even_with_policy_on() -> None:
    """The copy may lack packet ids in use: the node would give them to new messages (H-01)."""
    cluster = ClusterHarness(3, allow_register_during_netsplit="on")
    harness = cluster[3]
    copies, boot = [disk.content() for disk in harness.disks], harness.host.boot
    for _ in range(2):
        harness.kill()
        harness.start()
        cluster.whole()
    harness.kill()
    cluster.isolate(3)
    harness.disks[:] = [cluster.disk(f"copy/{number}", content) for number, content in enumerate(copies)]
    harness.host.boot = boot
    harness.host.start()
    cluster.pass_s(11.0)
    before = harness.client("before")  # the content of the copy does not tell that it is a copy
    member = harness.host.member
    assert member is not None and not member.registrar.problem
    cluster.network.heal()
    cluster.until(lambda: bool(member.registrar.problem))
    cluster.settle()
    assert [type(each) for each in before.take()] == [packets.Disconnect]
    _, connack = harness.connect("after")
    assert connack.reason == ReasonCode.SERVER_UNAVAILABLE


@pytest.mark.parametrize("returns", [True, False])
def test_no_node_serves_while_the_only_informed_node_is_away(returns: bool) -> None:
    """P1: that node had sessions that the others do not know. They wait until it is back or removed."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[3].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[2].kill()
    cluster[2].start()
    cluster[2].disks[0].stall_until = inf  # it votes, and does not serve
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    reader = cluster[1].connect_soon("reader", clean=False, expiry_s=600)
    reader.send(packets.Subscribe(1, [option("t", 1)], None))
    cluster.until(lambda: len(reader.received) == 2)
    cluster[1].kill()
    cluster[2].disks[0].stall_until = 0.0
    cluster[3].start()
    cluster.pass_s(10.0)
    members = [cluster[number].host.member for number in (2, 3)]
    assert all(each and each.view.nodes == ("n2", "n3") and not each.view.serving for each in members)
    _, connack = cluster[2].connect("writer")
    assert connack.reason == ReasonCode.SERVER_UNAVAILABLE
    if returns:
        cluster[1].start()
        cluster.whole()
    else:
        answers: list[bytes] = []
        for each in members:
            assert each is not None
            each.answer_call(LEAVE, encode_call(LeaveRequest("n1", True)), answers.append)
        cluster.until(lambda: cluster[2].node.policy.view_state is ViewState.WHOLE)
    assert cluster[2].client("writer").publish("t", b"m", 1)[0].reason == (0 if returns else 0x10)
    if returns:
        reader = cluster[1].client("reader", clean=False, expiry_s=600)
        assert [each.payload for each in reader.drain()] == [b"m"]


def test_suback_waits_for_one_log_entry_after_another_node_starts() -> None:
    """The other node is out of the view since its start: one log entry says that only n1 and n2 are informed."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[3].kill()
    cluster[3].start()
    cluster[3].disks[0].stall_until = inf  # it does not enter the view
    cluster.state_of(1, ViewState.MAJORITY)
    reader = cluster[1].client("reader", clean=False, expiry_s=600)
    reader.send(packets.Subscribe(1, [option("t", 1)], None))
    assert cluster.until(lambda: bool(reader.received)) < 3.0
    member = cluster[1].host.member
    assert member is not None and member.membership.informed_members == ("n1", "n2")


HOUR_MS = 3_600_000.0


@pytest.mark.parametrize("wrong_ms", thinned([HOUR_MS, -HOUR_MS], 2))
@pytest.mark.parametrize("machine", thinned(["", "the first boot", "another"], 2))
def test_a_restart_with_a_wrong_clock_ends_no_session(machine: str, wrong_ms: float) -> None:
    """The clock of the machine tells how long the node was away; after a boot of the machine the node waits for the
    leader's time.
    """
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", clean=False, expiry_s=200)
    reader.subscribe(("t", 1))
    reader.leave()
    cluster[2].client("writer").publish("t", b"kept", 1, message_expiry_interval=200)
    cluster.pass_s(30)
    cluster[2].kill()
    cluster.pass_s(50)
    cluster[2].host.wall_off_ms = wrong_ms
    cluster[2].host.machine = machine
    cluster[2].start()
    cluster.whole()
    assert abs(cluster[2].node.env.clock.now_ms() - cluster[1].node.env.clock.now_ms()) < 100
    assert [each.payload for each in cluster[2].client("reader", clean=False, expiry_s=200).drain()] == [b"kept"]
    cluster.pass_s(30)
    assert abs(cluster[2].node.env.clock.now_ms() - cluster[1].node.env.clock.now_ms()) < 100


@pytest.mark.parametrize("machine", ["the first boot", "another"])
def test_deadlines_of_a_downtime_pass_when_the_node_knows_the_time(machine: str) -> None:
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", clean=False, expiry_s=60)
    reader.subscribe(("t", 1))
    reader.leave()
    cluster.pass_s(30)
    cluster[2].kill()
    cluster.pass_s(50)
    cluster[2].host.machine = machine
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(6)  # the session waits for its client (H-43)
    assert cluster[2].node.sessions.get("", "reader") is None


def test_the_first_leader_sets_the_time_after_all_machines_boot() -> None:
    cluster = ClusterHarness(3)
    reader = cluster[1].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    reader.leave()
    cluster.pass_s(30)
    for harness in cluster.nodes:
        harness.kill(power=True)
    cluster.pass_s(200)
    for harness in cluster.nodes:
        harness.host.machine = "another"
        harness.start()
    cluster.whole()
    truth_ms = EPOCH_MS + cluster.loop.now_s * 1000
    assert all(abs(harness.node.env.clock.now_ms() - truth_ms) < 100 for harness in cluster.nodes)
    assert cluster[1].node.sessions.get("", "reader") is not None


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_a_newcomer_takes_the_time_of_the_cluster(wrong_ms: float) -> None:
    cluster = ClusterHarness(2, joined=False)
    newcomer = cluster[2]
    newcomer.kill()
    newcomer.host.wall_off_ms = wrong_ms
    newcomer.start()
    client = newcomer.client("early")
    assert newcomer.join() == ""
    cluster.whole()
    cluster.pass_s(1)
    assert abs(newcomer.node.env.clock.now_ms() - cluster[1].node.env.clock.now_ms()) < 100
    due: list[float] = []
    newcomer.node.env.timers.at(newcomer.node.env.tick() + 2000, lambda: due.append(cluster.loop.now_s))
    begin = cluster.loop.now_s
    cluster.pass_s(5)
    assert [at - begin for at in due] == [pytest.approx(2.0, abs=0.1)]
    assert [type(each) for each in client.publish("t", b"m", 1)] == [packets.Puback]


def test_a_node_without_a_lease_uses_its_wall_clock_after_a_boot() -> None:
    """With `on`: otherwise all expiries would wait for a leader that may never appear."""
    cluster = ClusterHarness(2, **ON)
    cluster.pass_s(30)
    for harness in cluster.nodes:
        harness.kill()
    cluster.pass_s(200)
    cluster[2].host.machine = "another"
    cluster[2].start()
    cluster.pass_s(10)
    assert not cluster[2].node.env.clock.known
    cluster[2].client("c")
    assert abs(cluster[2].node.env.clock.now_ms() - (EPOCH_MS + cluster.loop.now_s * 1000)) < 100
