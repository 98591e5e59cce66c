"""A cast at its places, and what a script has it do."""

from __future__ import annotations

from strogoff.netsplit.scenarios import Scenario
from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.plan import plan
from strogoff.sim.fleet.plants import FleetPlant
from strogoff.sim.fleet.stage import TOPIC, client, leaves_topic, moves, publishes, reader, staged, wants_topic, writer


def test_only_the_cast_is_there() -> None:
    found = staged(plan(1, 3), {"n2": reader(), "n3.first": writer(), "n3.second": writer("w1")}, "off")
    assert found.homes == {"watch": "n1", "c0": "n2", "w0": "n3", "w1": "n3"}
    assert [client.name for client in found.swarm.clients] == ["watch", "c0", "w0", "w1"]
    assert found.swarm.options.allow_publish_during_netsplit == "off"
    assert not found.roaming and not found.late


def test_the_script_is_followed() -> None:
    acts = (
        leaves_topic(1.5), publishes(2.0), wants_topic(2.5), publishes(3.5), moves(4.0, "n2"), publishes(5.0),
    )  # fmt: skip
    cast = {"n1": reader(), "n3": client("w0", topics=(TOPIC,), clean=True)}
    plant = FleetPlant("none", 0, "no bug", 0, 1, (), lambda _: None, kinds=(), cast=cast, acts=acts)
    fleet = Fleet(plant.plan(3, 3, "sync", 7.0), plant=plant)
    assert fleet.plan.scenario == Scenario()
    assert fleet.run().violations == ()
    assert [each.key for each in fleet.history.deliveries if each.client == "c0"] == ["w0-2", "w0-3"]
    assert [each.node for each in fleet.history.attempts.values()] == ["n3", "n3", "n2"]
