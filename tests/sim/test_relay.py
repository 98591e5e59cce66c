"""Worlds in which clients connect to any node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strogoff.broker.clustering.slot_opening import SlotOpening
from strogoff.broker.gateway import credit, outflow
from strogoff.broker.gateway.messages import GONE, ROOM
from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.machines import ClusterMachine
from strogoff.sim.relay import served, server_of, small_credit
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import ClusterSimulation

from ..broker.clustering.slot_cluster import SlotCluster
from ..harness.cluster import ON
from .clusters import quiet

SEEDS = 8


def relayed(seed: int) -> ClusterPlan:
    return replace(plan(seed, 3), relay=True, late=())


def test_clients_are_relayed_to_the_node_of_their_slot() -> None:
    simulation = ClusterSimulation(replace(quiet(720000), relay=True))
    assert simulation.run().violations == ()
    lists = simulation.world.history.connections
    assert any(each.relayed and each.present is not None for connections in lists.values() for each in connections)
    for name, connections in lists.items():
        lasting = {each.node for each in connections if each.expiry_s != 0}
        assert lasting <= {server_of(simulation.world.machines.values(), name)}


@pytest.mark.parametrize(("replicas", "judged"), [(2, ["c"]), (1, [])])
def test_with_two_copies_a_process_that_was_in_no_view_is_judged(
    monkeypatch: pytest.MonkeyPatch, replicas: int, judged: list[str]
) -> None:
    """It must serve no session, because another node may have it (H-54). With one copy it may, by an old table."""
    monkeypatch.setattr(SlotOpening, "perhaps_lost", lambda _, slot: False)
    cluster = SlotCluster(queue_replicas=replicas, **ON)
    cluster[1].kill()
    cluster.isolate(1)
    cluster[1].start()
    cluster.until(lambda: not cluster[1].node.policy.settling)
    cluster[1].client("c", clean=False, expiry_s=600)
    assert [each.client for each in served(cluster[1].host, False)] == judged


def test_the_small_credit_ends_with_the_world() -> None:
    before = credit.BASE_BYTES, outflow.__dict__["BASE_BYTES"], credit.MOST_BYTES
    bases = set()
    for seed in range(10):
        with small_credit(relayed(seed)):
            assert credit.BASE_BYTES == outflow.__dict__["BASE_BYTES"] == credit.MOST_BYTES // 4
            bases.add(credit.BASE_BYTES)
    assert len(bases) == 3
    assert (credit.BASE_BYTES, outflow.__dict__["BASE_BYTES"], credit.MOST_BYTES) == before


@pytest.mark.parametrize("seed", [720063, 720078])
def test_seeds_that_failed(seed: int) -> None:
    """A gateway asked the same node twice for one CONNECT: a session was present that the client did not know of, and
    the will of a client was published whose socket was open.
    The last bytes of a client waited for credit of a connection that the primary had closed."""
    assert run_seed(seed, RunOptions(nodes=3, relay=True, variants=None)).violations == ()


def at_peers(machine: ClusterMachine, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a method of the tunnel to each other node."""
    relay: Any = machine.node.gateways  # type: ignore[union-attr]
    make = relay._peer

    def making(node: str) -> Any:
        peer = make(node)
        if type(peer.node).__name__ != "Planted":
            peer.node.__class__ = type("Planted", (type(peer.node),), {"__slots__": (), name: change(peer.node)})
        return peer

    relay._peer = making


def serves_itself(machine: ClusterMachine) -> None:
    """The gateway serves the clients of all slots."""
    machine.node.services.relay = lambda connection: False  # type: ignore[union-attr]


def gone_not_sent(machine: ClusterMachine) -> None:
    """The gateway does not report the end of its connections."""

    def change(peer: Any) -> Any:
        send = type(peer).send
        return lambda self, kind, number, body: None if kind == GONE else send(self, kind, number, body)

    at_peers(machine, "send", change)


def credit_twice(machine: ClusterMachine) -> None:
    """The gateway gives the credit of each byte back twice."""

    def change(peer: Any) -> Any:
        say = type(peer).say
        return lambda self, kind, number, value: say(self, kind, number, value * (2 if kind == ROOM else 1))

    at_peers(machine, "say", change)


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        (serves_itself, ("primary", "two owners")),
        pytest.param(gone_not_sent, ("one end",), marks=pytest.mark.slow),
        pytest.param(credit_twice, ("relay error", "relay limit"), marks=pytest.mark.slow),
    ],
)
def test_a_bug_of_the_relay_is_found(bug: Callable[[ClusterMachine], None], found: tuple[str, ...]) -> None:
    seen: list[str] = []
    for seed in range(SEEDS):
        seen += ClusterSimulation(relayed(seed), apply_bug=bug).run().violations
        if any(text.startswith(found) for text in seen):
            return
    pytest.fail(f"found was {seen}")
