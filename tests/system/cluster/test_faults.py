"""A node that is killed, paused or cut off: how soon the others know, and how soon all is well again."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from .conftest import Apart
from .nodes import Node, leader_of, until, whole
from .probe import Probe

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

DETECTION_S = 3.0
SETTLED_S = 5.0
"""When the leader is lost: an election, and the end of the leases that it gave."""
HEALED_S = 1.0


async def not_whole(node: Node) -> bool:
    """It has noticed, as its operator sees it."""
    return await node.sees() in ("majority", "minority")


async def detected(survivors: list[Node]) -> list[float]:
    """When each of them knew, in seconds from now; then wait until they serve without the lost one."""
    times = await asyncio.gather(
        *[until(f"{node.name} has noticed", lambda node=node: not_whole(node), 10) for node in survivors]  # type: ignore[misc]
    )

    async def settled() -> bool:
        return all([await node.sees() == "majority" for node in survivors])

    await until("the survivors have leases and a view of their own", settled, SETTLED_S)
    return times


async def accepted(node: Node) -> float:
    """When a publish is accepted there, in seconds from now."""
    began = time.monotonic()
    while True:
        probe = Probe(node, "returning")
        try:
            if (await probe.connect()).reason == 0:
                assert await probe.publish("faults/returning", b"here") < 0x80
                return time.monotonic() - began
        except (OSError, TimeoutError):
            assert time.monotonic() - began < 10, f"{node.name} accepts nothing"
        finally:
            if hasattr(probe, "_writer"):
                await probe.close()


async def healed(nodes: list[Node], victim: Node) -> tuple[float, float]:
    """When the victim accepts a publish, and when all are whole, in seconds from now."""
    first, all_of_them = await asyncio.gather(accepted(victim), whole(nodes, within_s=15))
    return first, all_of_them


async def choose(nodes: list[Node], leads: bool) -> tuple[Node, list[Node]]:
    """A node that leads, or one that does not, and the others."""
    await whole(nodes)
    leader = await leader_of(nodes)
    victim = next(node for node in nodes if (node.name == leader) == leads)
    return victim, [node for node in nodes if node is not victim]


Deed = Callable[[], Awaitable[None]]


async def suffer(nodes: list[Node], leads: bool, hurt: Callable[[Node], Deed], mend: Callable[[Node], Deed]) -> None:
    """One fault and its end, with both times measured."""
    victim, others = await choose(nodes, leads)
    await hurt(victim)()
    times = await detected(others)
    assert max(times) < DETECTION_S, times
    await mend(victim)()
    first, all_of_them = await healed(nodes, victim)
    print(f"detected {times}, accepted after {first:.2f} s, whole after {all_of_them:.2f} s")
    assert first < HEALED_S and all_of_them < HEALED_S, (first, all_of_them)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_killed(apart: Apart, leads: bool) -> None:
    """kill -9; it comes back by itself as soon as it is started again."""
    apart.space.background.run(
        suffer(apart.nodes, leads, lambda victim: victim.kill, lambda victim: victim.start), 100
    )


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_paused(apart: Apart, leads: bool) -> None:
    """SIGSTOP: the sockets stay open, and nothing answers."""

    def send(number: signal.Signals) -> Callable[[Node], Deed]:
        async def sent(victim: Node) -> None:
            victim.signal(number)

        return lambda victim: lambda: sent(victim)

    apart.space.background.run(suffer(apart.nodes, leads, send(signal.SIGSTOP), send(signal.SIGCONT)), 100)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_cut_off(apart: Apart, leads: bool) -> None:
    """Packets between it and the others vanish; clients reach all of them."""
    space, nodes = apart

    async def scenario() -> None:
        victim, others = await choose(nodes, leads)
        await space.soon(space.isolate, nodes.index(victim) + 1)
        alone, *times = await asyncio.gather(
            until("the one cut off has noticed", lambda: not_whole(victim), 10), detected(others)
        )
        assert max(alone, *times[0]) < DETECTION_S, (alone, times)
        assert await victim.sees() == "minority"
        await space.soon(space.heal)
        first, all_of_them = await healed(nodes, victim)
        print(f"alone {alone}, detected {times}, accepted after {first:.2f} s, whole after {all_of_them:.2f} s")
        assert first < HEALED_S and all_of_them < HEALED_S, (first, all_of_them)

    space.background.run(scenario(), 100)
