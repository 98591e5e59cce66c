"""Swarms of seeds."""

from __future__ import annotations

from strogoff.sim.workload.swarm import FAULTS, FEATURES, WATCHER, draw


def test_the_same_seed_is_the_same_swarm() -> None:
    assert draw(7) == draw(7) and draw(7) != draw(8)


def test_every_kind_is_on_in_some_and_off_in_others() -> None:
    swarms = [draw(seed) for seed in range(200)]
    for feature in FEATURES:
        assert 0 < sum(feature in swarm.features for swarm in swarms) < 200, feature
    for fault in FAULTS:
        assert 0 < sum(fault in swarm.faults for swarm in swarms) < 200, fault
    assert {swarm.durability for swarm in swarms} == {"os", "sync"}


def test_clients_fit_the_bounds() -> None:
    for seed in range(200):
        swarm = draw(seed)
        assert 3 <= len(swarm.clients) <= 9 and 2 <= swarm.fault_count <= 6
        assert swarm.clients[0].name == WATCHER and swarm.clients[0].steady
        assert any(client.writes for client in swarm.clients)
        for client in swarm.clients:
            assert client.version in (3, 4, 5) and not (client.steady and client.expiry_s is not None)
            assert client.will is None or client.will[1] == 0 or client.version == 5


def test_durability_and_length_are_as_asked_for() -> None:
    assert {draw(seed, "sync", 5.0).durability for seed in range(20)} == {"sync"} and draw(0, "os", 5.0).seconds == 5.0


def test_power_loss_is_rare_where_it_excuses_everything() -> None:
    shares = [sum("power" in draw(seed, kind).faults for seed in range(200)) for kind in ("sync", "os")]
    assert shares[1] < shares[0] / 2
