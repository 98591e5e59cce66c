"""Cuts of a cluster: which nodes reach each other."""

from __future__ import annotations

from strogoff.testing.faults.network_faults import NetworkFaults

from ..run_loop import run


def test_cuts() -> None:
    """One way or both; a suspended node answers no other, and its own dials pass."""

    async def test() -> None:
        network_faults = NetworkFaults(pace=10)
        assert (network_faults.notice_s, network_faults.dial_s) == (0.2, 0.2)
        network_faults.cut(0, 1)
        network_faults.cut(0, 1)
        assert network_faults.is_cut(0, 1) and not network_faults.is_cut(1, 0) and not network_faults.is_cut(0, None)
        assert network_faults.severed(1, 0) and not network_faults.answers(1, 0)
        network_faults.paused[2] = None
        assert network_faults.reached(0, range(4)) == [3] and network_faults.reached(1, range(4)) == [3]
        assert network_faults.answers(0, None)
        assert network_faults.heal() == [(0, 1)] and network_faults.heal() == []
        assert network_faults.reached(0, range(4)) == [1, 3]

    run(test())
