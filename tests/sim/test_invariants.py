"""The invariants, and the monitor that looks at all machines at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from strogoff.cluster.identity import slot_of
from strogoff.netsplit.policy import OPERATIONS, ViewState
from strogoff.sim.checkers.unanswered import PATIENCE_S
from strogoff.sim.engine.host import EPOCH_MS
from strogoff.sim.faults.schedule import FaultSchedule
from strogoff.sim.invariants import Lease, LeaseTimes, MajorityReach, Metadata
from strogoff.sim.scenarios.script import IDLE_S, reader, with_script, writer
from strogoff.sim.simulation import ClusterSimulation
from strogoff.storage.engine import Durability

from .clusters import joined, quiet, until


def test_states_and_leases() -> None:
    simulation = joined(trace=True)
    world = simulation.world
    now = world.loop.now_s
    assert simulation.monitor.leases > 10 and not simulation.monitor.problems
    assert world.history.views.between("n2", now, now) == {ViewState.WHOLE}
    assert world.history.views.lacked_whole_view("n2", 0.9) and not world.history.views.lacked_whole_view("n2", now)
    assert any("leads, whole, view" in line for line in world.history.lines or ())


def test_a_violation_is_reported_once() -> None:
    simulation = joined()
    simulation.monitor.report("it is so")
    simulation.monitor.report("it is so")
    assert list(simulation.monitor.problems) == ["it is so"]


@pytest.mark.parametrize("half", [0, 1])
def test_nodes_with_the_same_writes_and_other_values_are_seen_at_once(half: int) -> None:
    """In the durable half and in the volatile one."""
    simulation = joined()
    world = simulation.world
    maps = [machine.member.metadata for machine in world.machines.values() if machine.member is not None]
    until(world, lambda: len({each.digests(half) for each in maps}) == 1)
    maps[1]._halves[half].digest ^= 1
    until(world, lambda: bool(simulation.monitor.problems))
    text = "disagree: n1 and n2 have seen the same writes, and have different metadata"
    assert text in simulation.monitor.problems


def test_a_promise_without_a_lease_is_seen_at_the_moment_it_leaves() -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    node: Any = machine.node
    assert node is not None and machine.member is not None and machine.member.lease_service is not None
    options = msgspec.structs.replace(
        world.swarm.options, **{f"allow_{each}_during_netsplit": "majority" for each in OPERATIONS}
    )
    world.swarm = simulation.monitor._world.swarm = replace(world.swarm, options=options)
    node.env.cluster.may_acknowledge = lambda connection, operations, frames: True
    simulation.monitor.watch_promises(machine)
    assert node.env.cluster.may_acknowledge(None, 1, []) and not simulation.monitor.problems
    machine.member.lease_service.holder._lose()
    assert node.env.cluster.may_acknowledge(None, 1, [])
    assert list(simulation.monitor.problems) == ["two leases: n2 promises without a lease"]


def test_a_majority_reached_between_two_cuts_counts() -> None:
    """5 nodes, seed 30937: a lease requested during the first cut."""
    world = joined().world
    sides, held = MajorityReach(), [Lease("n3", 1, 1, (), 1, 1, "", "")]

    def looked(seconds: float) -> list[str]:
        world.loop.run_for(seconds)
        return list(sides(world, held))

    def cut_off() -> None:
        world.network.cut("n1", "n3")
        world.network.cut("n2", "n3")

    assert looked(0.0) == []
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    world.network.heal()
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    assert looked(0.2) == ["side: n3 holds a lease, and could reach no majority of the voters for 1.90 s"]


def test_a_majority_reached_between_two_suspensions_counts() -> None:
    """3 nodes, seed 49340: a leader answered for eleven milliseconds."""
    world = joined().world
    sides, held = MajorityReach(), [Lease("n3", 1, 1, (), 1, 1, "", "")]
    others = [world.machines[name] for name in ("n1", "n2")]

    def looked(seconds: float) -> list[str]:
        world.loop.run_for(seconds)
        return list(sides(world, held))

    def suspend() -> None:
        for machine in others:
            machine.suspend(frozen=True)

    assert looked(0.0) == []
    suspend()
    assert looked(0.05) == [] and looked(1.7) == []
    for machine in others:
        machine.resume()
    suspend()
    assert looked(0.05) == [] and looked(1.7) == []
    assert looked(0.2) == ["side: n3 holds a lease, and could reach no majority of the voters for 1.90 s"]


def test_a_publish_deferred_by_a_policy_needs_no_answer() -> None:
    cast = {"n1.reader": reader(), "n1.writer": writer(pace_s=0.5)}
    schedule = FaultSchedule.parse("at 2s cut n1 n2 | n3 for 14s")
    simulation = ClusterSimulation(replace(with_script(quiet(), cast, "off"), schedule=schedule))
    world = simulation.world
    assert simulation.run().violations == ()
    assert any(each.acked_at - each.sent_at > 8.0 for each in world.history.attempts.values())


def test_an_unread_publish_needs_no_answer_while_a_link_is_slow() -> None:
    """The node stops reading its publishers while another node is slow (3 nodes, seed 223355)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=0.5)}, "off"))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.spec.writes)
    until(world, lambda: bool(client.sender.open))
    assert client.peer is not None
    client.peer.pipe.to_node.pause()
    world.network.slow("n1", "n2", 0.1)
    until(world, lambda: bool(client.sender.open))
    world.loop.run_for(2 * PATIENCE_S)
    assert not simulation.monitor.problems
    world.network.mend()
    world.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in simulation.monitor.problems)


@pytest.mark.parametrize(
    ("copies", "window_bytes", "read_bytes", "write_s", "late"),
    [
        (2, 1024, 16 << 20, 0.4, False),
        (2, 8 << 20, 200, 0.4, False),
        (1, 1024, 16 << 20, 0.4, True),
        (2, 8 << 20, 16 << 20, 0.4, True),
        (2, 1024, 200, 0.005, True),
    ],
)
def test_a_publish_may_take_longer_if_a_slow_node_takes_little(
    copies: int, window_bytes: int, read_bytes: int, write_s: float, late: bool
) -> None:
    """A change waits for many commits of a follower (3 nodes, copies and small, seed 7400168), or a packet for many
    commits of its node, which reads no more before it (3 nodes, copies, seed 31001232)."""
    plan = with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off")
    options = msgspec.structs.replace(plan.swarm.options, queue_replicas=copies, pause_reading_bytes=read_bytes)
    links = msgspec.structs.replace(plan.settings.links, replica_window_bytes=window_bytes)
    swarm = replace(plan.swarm, options=options, latency_s=(0.0002, write_s))
    settings = msgspec.structs.replace(plan.settings, links=links)
    simulation = ClusterSimulation(replace(plan, swarm=swarm, settings=settings))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.spec.writes)
    until(world, lambda: client.connected)
    world.loop.run_for(5)
    assert client.peer is not None
    client.peer.pipe.to_node.pause()
    client.sender.publish("t/0", 1)
    world.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in simulation.monitor.problems) == late
    world.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in simulation.monitor.problems)


def test_a_relayed_publish_that_the_primary_does_not_read_needs_no_answer_while_a_link_is_slow() -> None:
    """The gateway reads the client; the primary waits for a follower (3 nodes, copies, seed 9)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off"))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.spec.writes)
    client.host = world.machines["n2"]
    client.lose()
    client.connect(False)
    until(world, lambda: client.connected)
    node = world.machines["n1"].node
    assert node is not None and client.server is world.machines["n1"]
    session = node.sessions.known("", client.name)
    assert session is not None and session.connection is not None and client.is_read
    connection: Any = session.connection
    connection.flow.pause("a follower")
    client.sender.publish("t/0", 1)
    assert not client.is_read and client.peer is not None and not client.peer.pipe.to_node.paused
    world.network.slow("n1", "n3", 0.1)
    world.loop.run_for(2 * PATIENCE_S)
    assert not simulation.monitor.problems
    world.network.mend()
    world.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in simulation.monitor.problems)


def test_a_clean_start_may_wait_for_the_node_that_has_the_former_session() -> None:
    """That node ends the session first, and its disk may be full (3 nodes, copies and moves, seed 1400247)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off"))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.spec.writes)
    until(world, lambda: client.connected)
    client.lose()
    world.machines["n1"].messages.disk.full = True
    client.host = world.machines["n2"]
    client.connect(True)
    world.loop.run_for(1.2 * PATIENCE_S)
    assert not client.connected and client.former_server is world.machines["n1"]
    assert not simulation.monitor.problems
    world.machines["n1"].messages.disk.full = False
    until(world, lambda: client.connected)
    assert client.former_server is None and client.server is world.machines["n2"]


@pytest.mark.parametrize(("share", "late"), [(0.1, True), (0.5, False)])
def test_a_connect_needs_no_answer_while_a_link_loses_half_of_its_packets(share: float, late: bool) -> None:
    """A stream breaks each second, and a request and its answer take longer (3 nodes, copies, seed 5200037)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off"))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.spec.writes)
    until(world, lambda: client.connected)
    client.lose()
    client.connect(False)
    client.pause()  # it does not see its CONNACK
    world.network.lose("n2", "n3", share)
    world.loop.run_for(2 * PATIENCE_S)
    assert not client.connected
    assert any("unavailable: " in text for text in simulation.monitor.problems) == late


def test_metadata_counts_as_lost_when_all_nodes_that_serve_have_lost_power() -> None:
    """The third node is frozen, and it alone knows a subscription (3 nodes, copies, seed 5200767)."""
    world, check = joined().world, Metadata()

    def serve(*names: str) -> bool:
        list(check(world, [Lease(name, 1, 1, (), 1, 1, "p", "p") for name in names]))
        return world.history.metadata_lost

    world.history.gappy = {"n1"}
    assert not serve("n1", "n2") and world.history.gappy == set()
    world.history.gappy = {"n1", "n3"}
    assert not serve("n2")
    assert serve("n1", "n3") and world.history.gappy == set()


@pytest.mark.parametrize(
    ("durability", "power", "gappy"), [("os", True, {"n1"}), ("os", False, set()), ("sync", True, set())]
)
def test_a_loss_of_power_costs_writes_that_are_not_synced(durability: Durability, power: bool, gappy: set[str]) -> None:
    found = quiet()
    world = ClusterSimulation(replace(found, swarm=replace(found.swarm, durability=durability))).world
    world.start(world.machines["n1"])
    world.crash(world.machines["n1"], power)
    assert world.history.gappy == gappy


def test_a_publish_with_two_copies_may_cross_a_slow_link_six_times() -> None:
    """The slot of the writer is at n3 and has its copy at n2. With the reader's slot it is the other way round."""
    plan = with_script(quiet(), {"n2.reader": reader("c1"), "n3.writer": writer(pace_s=IDLE_S)}, qos=2)
    options = msgspec.structs.replace(plan.swarm.options, queue_replicas=2)
    simulation = ClusterSimulation(replace(plan, swarm=replace(plan.swarm, options=options)))
    world = simulation.world
    simulation.begin()
    until(world, lambda: all(each.connected for each in world.clients))
    world.loop.run_for(5)
    member, client = world.machines["n1"].member, next(each for each in world.clients if each.spec.writes)
    assert member is not None
    for name in ("c1", "w0"):
        assert {holder.node for holder in member.slots.row(slot_of("", name)).in_sync} == {"n2", "n3"}
    world.network.slow("n2", "n3", 1.05)
    client.sender.publish("t/0", 2)
    assert until(world, lambda: all(flight.released for flight in client.sender.open.values())) > PATIENCE_S
    assert not simulation.monitor.problems


@pytest.mark.parametrize(("flag", "found"), [("majority", 1), ("on", 0)])
def test_the_cluster_time_of_leases_is_compared(flag: str, found: int) -> None:
    """Under a policy `on` the times may differ, because a node that serves without a leader takes its wall clock."""
    simulation = joined()
    world, monitor = simulation.world, LeaseTimes()
    others = {f"allow_{operation}_during_netsplit": "majority" for operation in OPERATIONS}
    flags: dict[str, Any] = {**others, "allow_publish_during_netsplit": flag}
    world.swarm = replace(world.swarm, options=msgspec.structs.replace(world.swarm.options, **flags))
    held = [Lease("n2", 1, 1, (), 1, 1, "", "")]
    assert list(monitor(world, held)) == []
    lease_service = world.machines["n2"].member.lease_service  # type: ignore[union-attr]
    assert lease_service is not None
    assert abs(lease_service.holder.offset_ms + world.machines["n2"].mono_s() * 1000 - EPOCH_MS) < 60_000
    lease_service.holder.offset_ms += 3_600_000
    assert len(list(monitor(world, held))) == found
