"""A client of a cluster."""

from __future__ import annotations

from dataclasses import replace

from strogoff.broker.sessions.latest_connect import OUTDATED
from strogoff.netsplit.policy import ViewState
from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.history import NEVER, Connection
from strogoff.sim.scenarios.script import IDLE_S, with_script, writer
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.workload.roaming_client import RoamingClient
from strogoff.sim.world import ClusterWorld

from ..clusters import joined, quiet, until


def _moves(each: ClusterPlan) -> bool:
    return bool(each.roaming) and "breaks" in each.swarm.features and each.swarm.clients[-1].name in each.roaming


def connected_writer(policy: str) -> tuple[ClusterWorld, RoamingClient, Connection]:
    """A writer at n1 that is connected, and then does nothing."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, policy))
    world, client = simulation.world, next(each for each in simulation.world.clients if each.spec.writes)
    simulation.begin()
    until(world, lambda: client.connected)
    connection = client.connection
    assert connection is not None
    return world, client, connection


def test_clients_without_a_session_change_their_node() -> None:
    seed = next(seed for seed in range(100) if _moves(plan(seed, 3, kinds=())))
    simulation = ClusterSimulation(plan(seed, 3, kinds=()))
    world = simulation.world
    assert simulation.run().violations == ()
    places = {name: {each.gateway for each in known} for name, known in world.history.connections.items()}
    assert all(places[name] == {world.plan.homes[name]} for name in places if name not in world.plan.roaming)
    assert any(len(places[name]) > 1 for name in world.plan.roaming)


def test_a_refusal_is_right_as_soon_as_the_node_has_lost_its_view() -> None:
    """The node refuses before the monitor checks it again (3 nodes, seed 229188)."""
    world = joined().world
    client = world.clients[0]
    assert not client._lacked_whole_view(world.loop.now_s)
    assert client.host.node is not None
    client.host.node.policy.view_state = ViewState.MINORITY
    assert client._lacked_whole_view(world.loop.now_s)


def test_a_refusal_is_right_if_the_node_that_refused_had_no_whole_view() -> None:
    """The slot left that node while the CONNACK was on its way (5 nodes, copies, seed 34100088)."""
    world, client, connection = connected_writer("off")
    now, views = world.loop.now_s, world.history.views
    other = next(name for name in world.machines if name not in (client.host.name, client.server.name))

    def may_be_refused(operation: str, reason: int) -> bool:
        return client.may_be_refused(operation, reason, (0, now, False))

    connection.asked_at = now
    views.states = {name: [(-60.0, ViewState.WHOLE)] for name in world.machines}
    views.note(other, now - 1.0, ViewState.MAJORITY)
    assert not may_be_refused("register", 0x88)  # another node has no whole view, but has refused nothing
    denied = {"type": "policy.deny", "node": other, "client": client.name}
    world.history.events.append((now, {**denied, "operation": "publish"}))
    assert not may_be_refused("register", 0x88)
    world.history.events.append((now, {**denied, "operation": "register"}))
    assert may_be_refused("register", 0x88) and not may_be_refused("register", 0x80)
    assert not may_be_refused("subscribe", 0x87)
    views.note(other, now - 0.5, ViewState.WHOLE)
    assert not may_be_refused("register", 0x88)


def test_the_node_of_a_connection_is_the_one_that_accepted_it() -> None:
    """The slot left that node while the CONNACK was on its way (5 nodes, seed 11700002)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off"))
    world, client = simulation.world, next(each for each in simulation.world.clients if each.spec.writes)
    simulation.begin()
    events = world.history.events

    def accepted(since_s: float = 0.0) -> str:
        return client._answered_by("conn.open", since_s)

    until(world, lambda: accepted() != "", 0.001)
    by, connection = accepted(), client.connection
    assert connection is not None and connection.opened == NEVER and by != "n3"
    client._find = lambda gateway: world.machines["n3"]
    until(world, lambda: connection.opened != NEVER, 0.001)
    assert client.server.name == "n3" and connection.node == by
    assert accepted(connection.opened_at) == ""  # a later CONNECT has not been accepted yet
    events.append((world.loop.now_s, {"type": "conn.open", "client": "another", "node": "n3"}))
    assert accepted() == by
    events.append((world.loop.now_s, {"type": "conn.open", "client": client.name, "node": "n3"}))
    assert accepted() == "n3"


def test_a_former_primary_may_refuse_for_its_full_disk() -> None:
    """The gateway did not know yet that the slot was elsewhere (3 nodes, copies, small, moves and sparse, 7450135)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.writer": writer(pace_s=IDLE_S)}, "off"))
    world, client = simulation.world, next(each for each in simulation.world.clients if each.spec.writes)
    simulation.begin()
    until(world, lambda: client.connected)
    former, connection = world.machines["n2"], client.connection
    assert connection is not None and former.name not in (connection.node, connection.gateway, client.server.name)

    def excused() -> bool:
        return client.may_be_refused("register", 0x97, (0, world.loop.now_s, False))

    refused = {"type": "conn.refuse", "client": client.name, "reason": "full"}
    world._event(former, refused)
    assert not excused()  # its disk has free space
    world._event(former, {"type": "store.state", "state": "full"})
    assert not excused()  # it has refused nobody since then
    world._event(former, refused)
    assert excused()
    world._event(former, {"type": "store.state", "state": "serving"})
    assert excused()  # the answer was on its way
    connection.asked_at = world.loop.now_s + 0.1
    assert not excused()  # that was an earlier CONNECT


def test_a_connect_may_be_refused_as_older_than_one_that_the_client_has_given_up() -> None:
    world, client, connection = connected_writer("off")

    def excused() -> bool:
        return client.may_be_refused("register", 0x88, (0, world.loop.now_s, False))

    client.lists.append(connection)
    client.lists[-2] = replace(connection, opened=NEVER)
    assert not excused()  # nobody has refused it
    world._event(world.machines["n2"], {"type": "conn.refuse", "client": client.name, "reason": OUTDATED})
    assert excused()
    client.lists[-2] = connection
    assert not excused()  # it has given up none


def test_a_slot_has_no_primary_while_it_leaves_a_full_disk() -> None:
    """A CONNECT that waited for it says that the server is unavailable (3 nodes, copies, rare faults, 18600107)."""
    world, client, connection = connected_writer("majority")
    connection.asked_at = world.loop.now_s

    def excused(operation: str = "register") -> bool:
        return client.may_be_refused(operation, 0x88, (0, world.loop.now_s, False))

    assert not excused()
    world._event(world.machines[client.server.name], {"type": "store.state", "state": "full"})
    assert excused() and not excused("unsubscribe")
    world._event(world.machines[client.server.name], {"type": "store.state", "state": "serving"})
    connection.asked_at = world.loop.now_s + 0.1
    assert not excused()
