"""One seed from begin to verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from strogoff.sim.workload.swarm import draw
from strogoff.sim.world import World


def test_a_seed_is_meaningful() -> None:
    """Dozens of messages, several clients and faults, on average."""
    outcomes = [World(draw(seed)).run() for seed in range(20)]
    assert all(outcome.violations == () and outcome.lines == () for outcome in outcomes)
    assert sum(outcome.messages for outcome in outcomes) > 20 * 30
    assert sum(outcome.deliveries for outcome in outcomes) > 20 * 60
    assert sum(outcome.faults for outcome in outcomes) > 20 * 2
    assert min(outcome.clients for outcome in outcomes) >= 3


def test_the_same_seed_does_the_same() -> None:
    first, second = (World(draw(5), trace=True).run() for _ in range(2))
    assert first == second and len(first.lines) > 100


def test_the_same_in_another_process_with_another_hash_seed() -> None:
    code = "from strogoff.cli import main; main(['sim', '--first', '5', '--trace', '--seconds', '8'])"
    traces = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1] and traces[0].count("\n") > 100


def test_power_loss_with_os_excuses_what_it_excuses() -> None:
    """Nothing is promised after it, but the node comes to rest and nothing else breaks."""
    lost = 0
    for seed in range(30):
        swarm = replace(draw(seed, "os"), faults=("power",), fault_count=4)
        world = World(swarm)
        assert world.run().violations == (), seed
        lost += world.history.power_lost
    assert lost > 20


def test_what_cannot_come_to_rest_is_said() -> None:
    """A disk that stays full: nobody gets an answer."""
    world = World(replace(draw(5, "sync", 3.0), faults=()))
    world.faults.heal = lambda: None  # type: ignore[method-assign]
    world.loop.call_later(2.0, lambda: setattr(world.recorder.disk, "full", True))
    assert any(text.startswith("not at rest") for text in world.run().violations)
