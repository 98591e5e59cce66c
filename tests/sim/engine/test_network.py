"""The network between machines: streams stay in order, faults end."""

from __future__ import annotations

from math import inf
from random import Random

from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.network import SimNetwork
from strogoff.sim.engine.process_gate import ProcessGate


def make_network(bytes_per_s: float = inf) -> tuple[VirtualLoop, SimNetwork]:
    loop = VirtualLoop()
    found = SimNetwork(loop.call_soon, loop.call_later, lambda: loop.now_s, Random(1), (0.001, 0.002), bytes_per_s)
    for name in "ab":
        found.gates[name] = ProcessGate(loop.call_soon)
    return loop, found


def test_delays() -> None:
    loop, network = make_network()
    came: list[float] = []
    network.slow("a", "b", 0.5)
    assert network.slowed
    network.send(("a", "b"), lambda: came.append(loop.now_s))
    loop.run_for(1)
    network.slow("a", "b", 0)
    assert not network.slowed
    network.slow_data("a", "b", 0.5)
    assert network.slowed
    network.mend()
    assert not network.slowed
    network.send(("b", "a"), lambda: came.append(loop.now_s - 1))
    loop.run_for(1)
    assert 0.5 < came[0] < 0.51 and 0.001 <= came[1] <= 0.002


def test_only_a_network_that_loses_half_of_its_packets_is_lossy() -> None:
    network = make_network()[1]
    network.lose("a", "b", 0.1)
    assert not network.lossy
    network.lose("a", "b", 0.5)
    assert network.lossy
    network.mend()
    assert not network.lossy


def test_urgent_messages_overtake_slow_data() -> None:
    loop, network = make_network()
    came: list[str] = []
    network.slow_data("a", "b", 0.5)
    network.send(("a", "b"), lambda: came.append("data"), data=True)
    network.send(("a", "b"), lambda: came.append("urgent"))
    loop.run_for(0.4)
    assert came == ["urgent"]
    loop.run_for(0.2)
    assert came == ["urgent", "data"]
    network.mend()
    network.send(("b", "a"), lambda: came.append("mended"), data=True)
    loop.run_for(0.1)
    assert came[-1] == "mended"


def test_lost_packets_are_late_and_a_cut_holds_messages() -> None:
    loop, network = make_network()
    came: list[int] = []
    network.lose("a", "b", 0.9)
    for number in range(50):
        network.send(("a", "b"), lambda number=number: came.append(number))
    loop.run_for(0.1)
    assert len(came) < 40
    loop.run_for(20)
    assert sorted(came) == list(range(50))
    network.cut("a", "b")
    network.send(("a", "b"), lambda: came.append(99))
    loop.run_for(0.5)
    assert 99 not in came
    network.mend()
    loop.run_for(0.5)
    assert 99 in came


def test_a_message_beyond_the_bandwidth_waits_for_those_before() -> None:
    loop, network = make_network(1000.0)
    came: list[float] = []
    for size in (500, 500, 0):
        network.send(("a", "b"), lambda: came.append(loop.now_s), size)
    network.send(("b", "a"), lambda: came.append(loop.now_s), 100)
    loop.run_for(3)
    assert 0.1 < came[0] < 0.11 and 0.5 < came[1] < 0.51 and all(1.0 < each < 1.01 for each in came[2:])
    network.mend()
    network.send(("a", "b"), lambda: came.append(loop.now_s - 3), 5000)
    loop.run_for(1)
    assert came[-1] < 0.01
