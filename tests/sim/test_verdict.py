"""The verdict on a world at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

import strogoff.sim.checkers
from strogoff.broker.clustering import slot_leftovers
from strogoff.broker.gateway.local_clients import LocalClients
from strogoff.broker.queues.records import QUEUED, EntryRecord, encode
from strogoff.broker.sessions.slot_sessions import KEPT
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim import invariants, verdict
from strogoff.sim.engine.peer import Peer, connect_packet
from strogoff.sim.history import Attempt
from strogoff.sim.relay import server_of
from strogoff.sim.scenarios.script import reader, with_script
from strogoff.sim.simulation import ClusterSimulation, NodeSimulation
from strogoff.sim.verdict import CHECKERS, cluster_rests, judge, make_case, of_cluster
from strogoff.sim.workload.roaming_client import RoamingClient
from strogoff.sim.workload.swarm import ClientSpec, draw
from strogoff.storage.keys import client_key, message_id, queue_prefix

from .clusters import joined, quiet, until, whole
from .histories import HistoryBuilder


def test_every_checker_is_asked() -> None:
    modules = {path.stem for path in Path(strogoff.sim.checkers.__file__).parent.glob("*.py")} - {"__init__", "case"}
    asked = {check.__module__.rpartition(".")[2] for check in CHECKERS}
    world = {
        name
        for name, value in {**vars(verdict), **vars(invariants)}.items()
        if getattr(value, "__package__", "") == "strogoff.sim.checkers"
    }
    assert asked | world == modules


def test_violations_of_several_promises() -> None:
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.subscribe("s", "t/#")
    builder.publish("w-1", mark=1)
    builder.history.problem("the sky falls")
    kinds = [text.split(":")[0] for text in judge(builder.case())]
    assert kinds == ["wrong", "lost", "early ack"]


def test_a_case_from_a_world() -> None:
    simulation = NodeSimulation(draw(1, "sync", 3.0))
    world = simulation.world
    simulation.run()
    assert world.machine.node is not None
    case = make_case(
        world.history, world.swarm, world.clients, world.machine.node, world.machine.messages.disk.content()
    )
    assert case.kept and case.pending == [] and case.end_s == world.loop.now_s
    assert set(case.sessions) == {client.name for client in world.clients if not client.gone}
    orphan = {b"q" + bytes(20): b"\x98\x00\x01\x01\xc2\x90\xc0\xc4\x00\xa0"}
    case = make_case(world.history, world.swarm, world.clients, world.machine.node, orphan)
    assert "without a session" in case.pending[0]


def test_a_cluster_at_rest_and_one_that_is_not() -> None:
    world = joined().world
    for client in world.clients:
        client.gone = True
    world.loop.run_for(1)
    assert cluster_rests(world) and list(of_cluster(world)) == []
    world.network.cut("n1", "n2")
    world.network.cut("n1", "n3")
    world.loop.run_for(4)
    assert not cluster_rests(world)
    assert any("n1 is minority" in text for text in of_cluster(world))


def test_a_world_does_not_rest_before_a_client_knows_that_its_node_has_closed_the_connection() -> None:
    """The slot of its session moves, and its messages move along (3 nodes, copies, relay, seed 5500048)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.reader": reader("c")}))
    world = simulation.world
    simulation.begin()
    client = next(each for each in world.clients if each.name == "c")
    until(world, lambda: client.connected and cluster_rests(world))
    node = world.machines["n1"].node
    assert node is not None
    session = node.sessions.known("", "c")
    assert session is not None and session.connection is not None
    session.connection.moved()
    assert client.connected and not session.online and not cluster_rests(world)
    until(world, lambda: not client.connected)
    until(world, lambda: cluster_rests(world))
    assert client.connected and session.online


def test_a_world_does_not_rest_while_a_connection_is_not_read() -> None:
    """Its node has much to commit (3 nodes, copies, routes, seed 18680058)."""
    simulation = ClusterSimulation(with_script(quiet(), {"n1.reader": reader("c")}))
    world = simulation.world
    simulation.begin()
    until(world, lambda: cluster_rests(world))
    node = world.machines["n1"].node
    assert node is not None
    connection = next(each for each in node.connections.values() if each.client_id == "c")
    connection.flow.pause("disk")
    assert not cluster_rests(world)
    connection.flow.unpause("disk")
    assert cluster_rests(world)


def test_the_world_rests_only_when_all_nodes_have_joined() -> None:
    """3 nodes, seed 2797: a node alone has a complete view, but lacks the metadata of the others."""
    simulation = joined()
    world = simulation.world
    for client in world.clients:
        client.gone = True
    simulation.injector.empty(world.machines["n3"])
    simulation.injector.start(world.machines["n3"])
    assert any("n3 has not joined" in text for text in of_cluster(world))
    until(world, lambda: cluster_rests(world))
    assert whole(world, "n3") and list(of_cluster(world)) == []


def test_a_node_may_keep_or_delete_half_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 nodes, copies, seed 1401332: the primary gave the copy up when an entry had come without its shared payload."""
    world = joined().world
    for client in world.clients:
        client.gone = True
    node, member = world.machines["n2"].node, world.machines["n2"].member
    assert node is not None and member is not None
    slot = member.slots.slots_by_primary["n1"][0]
    node.slot_sessions.begin(slot)
    entry = encode(EntryRecord(QUEUED, 1, 1, False, (), None, message_id("n1", 1, 7), ""))
    node.slot_sessions.apply(queue_prefix(client_key(slot, "", "c"), 1) + bytes(8), entry)
    world.loop.run_for(1)
    assert not cluster_rests(world)
    assert list(of_cluster(world)) == [f"not at rest: n2: slot {slot} is arriving, and nobody decides about its rows"]
    node.slot_sessions.mark(slot, KEPT)
    world.loop.run_for(1)
    assert cluster_rests(world) and list(of_cluster(world)) == []
    node.slot_sessions.mark(slot, None)
    world.loop.run_for(1)
    assert any("the body" in text for text in of_cluster(world))
    clustering = world.machines["n2"].clustering
    assert clustering is not None
    node.slot_sessions.begin(slot)
    world.loop.run_for(0.1)
    monkeypatch.setattr(slot_leftovers, "STEP", 1)
    clustering.slots.opening.leftovers.start(slot)
    assert slot in node.slot_sessions.marks and cluster_rests(world) and list(of_cluster(world)) == []
    world.loop.run_for(1)
    assert not [
        key for key in world.machines["n2"].messages.disk.content() if key[:2] in (b"h%c" % slot, b"q%c" % slot)
    ]


@pytest.mark.parametrize(
    ("flag", "node", "resent_s", "excused"),
    [
        ("on", "n2", 13.0, True),
        ("on", "n2", 15.0, False),  # n2 has its lease again
        ("on", "n1", 13.0, False),
        ("on", "", 0.0, False),
        ("majority", "n2", 13.0, False),
    ],
)
def test_another_node_without_a_lease_answers_a_repetition(
    flag: str, node: str, resent_s: float, excused: bool
) -> None:
    """3 nodes, copies, seed 5400647: the slot of the publisher moved, and its next primary had no lease for a while."""
    plan = quiet()
    options = msgspec.structs.replace(plan.swarm.options, allow_publish_during_netsplit=flag)
    simulation = ClusterSimulation(replace(plan, swarm=replace(plan.swarm, options=options)))
    simulation.begin()
    history = simulation.world.history
    attempt = history.attempts["w-1"] = Attempt("w-1", "w", 1, "t/0", 2, False, 0, 1, 11.0, acked=2, acked_at=16.0)
    if node:
        attempt.resent, attempt.resent_to = 1, (node, resent_s)
    history.views.states = {
        "n1": [(1.0, ViewState.WHOLE)],
        "n2": [(1.0, ViewState.WHOLE), (10.0, ViewState.MINORITY), (14.0, ViewState.WHOLE)],
    }
    list(of_cluster(simulation.world))
    assert attempt.without_lease is excused


class Roamer:
    """A cluster with a reader that n2 serves, without durable state; n2 does not register it.

    `flag` is the policy for its operations.
    """

    def __init__(self, flag: str = "majority") -> None:
        plan = quiet()
        flags = {"allow_register_during_netsplit": flag, "allow_subscribe_during_netsplit": flag}
        options = msgspec.structs.replace(plan.swarm.options, **flags)
        simulation = ClusterSimulation(replace(plan, swarm=replace(plan.swarm, options=options)))
        self.world = world = simulation.world
        for each in world.clients:
            each.gone = True
        simulation.begin()
        until(world, self.whole)
        until(world, lambda: any(len(machine.voters()) == 3 for machine in world.machines.values()))
        spec = ClientSpec("c", 5, 0, False, False, (), (("t/0", 1),), None, 9, 0.0, 1.0, True)
        home, find = world.machines["n2"], world.machines.get
        assert server_of(world.machines.values(), "c") != "n2"
        self.client = RoamingClient(spec, home, (home,), world.history, Random(0), (0.0, 0.0), None, find)
        world.clients.append(self.client)
        self.client.connect(True)
        until(world, lambda: bool(self.client.granted))

    def whole(self) -> bool:
        return all(machine.up and whole(self.world, name) for name, machine in self.world.machines.items())

    def sees(self, name: str, state: ViewState) -> bool:
        node = self.world.machines[name].node
        return node is not None and node.policy.view_state is state

    def go_on_and_leave(self) -> None:
        """The client takes over from itself at n3, and leaves n3 for good."""
        self.client._machines = (self.world.machines["n3"],)
        self.client.host = self.world.machines["n3"]
        self.client.take_over()
        until(self.world, lambda: self.client.connected)
        self.client.abandon()
        self.world.loop.run_for(1)

    def publish(self) -> None:
        """Publish a message to the reader, at n1."""
        Peer(self.world.machines["n1"]).send(connect_packet("w"), packets.Publish("t/0", b"x", 1, packet_id=1))
        self.world.loop.run_for(2)

    def in_flight(self) -> int:
        """Messages at n2 for which the client owes an answer."""
        node = self.world.machines["n2"].node
        assert node is not None
        return sum(len(session.queue.inflight) for session in node.sessions.in_memory() if session.online)


@pytest.mark.parametrize("flag", ["majority", "on"])
def test_a_client_that_left_another_node_during_a_cut(flag: str) -> None:
    """3 nodes, copies, seed 1300706: the former node waits for its packets, and cannot know that it is gone."""
    roamer = Roamer(flag)
    world = roamer.world
    world.network.cut("n2", "n1")
    world.network.cut("n2", "n3")
    until(world, lambda: roamer.sees("n2", ViewState.MINORITY) and roamer.sees("n3", ViewState.MAJORITY))
    roamer.go_on_and_leave()
    world.network.heal("n2", "n1")
    world.network.heal("n2", "n3")
    until(world, roamer.whole)
    roamer.publish()
    assert roamer.in_flight() == 1
    until(world, lambda: cluster_rests(world))
    assert list(of_cluster(world)) == []


def test_a_former_node_that_does_not_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes with leases have told it to do so."""

    def evict(clients: LocalClients, number: int) -> None:
        clients._ended(clients._clients[number].client, number)

    monkeypatch.setattr(LocalClients, "evict", evict)
    roamer = Roamer()
    roamer.go_on_and_leave()
    roamer.publish()
    assert roamer.in_flight() == 1 and not cluster_rests(roamer.world)
    assert "not at rest: n2: queue of c: 0 waiting, 1 in flight" in list(of_cluster(roamer.world))
