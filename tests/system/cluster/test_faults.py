"""A node that is killed, paused or cut off: how soon the others detect it, and how soon the cluster is whole again."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from bench.cluster_nodes import Node, leader_of, until, whole

from .conftest import Apart
from .probe import Probe

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

DETECTION_S = 3.0
"""Whoever it is: a follower by its silence; a leader by an election, and then the end of the leases that it gave."""
HEALED_S = 1.0


async def sees_without(node: Node, lost: Node) -> bool:
    """Whether a node's operator sees that the lost one does not run."""
    rows = (await node.status()).get("nodes", [])
    return any(row["Node"] == lost.name and not row["Running"] for row in rows)


async def serves_without(node: Node, lost: Node) -> bool:
    """Whether a node has a lease in a view without the lost one."""
    status = await node.status()
    away = [row["Node"] for row in status.get("nodes", []) if row["State"] == "absent"]
    return (status.get("sees"), away) == ("majority", [lost.name])


async def sees(node: Node, what: str) -> bool:
    """Whether a node sees this part of the cluster."""
    return await node.sees() == what


class Watch:
    """Times of one fault, and the limits that they exceeded."""

    def __init__(self) -> None:
        self.late: list[str] = []

    async def within(self, limit_s: float, what: str, condition: Callable[[], Awaitable[object]]) -> None:
        """Wait for the condition, and note it if it is true later than the limit."""
        self.note(limit_s, what, await until(what, condition))

    def note(self, limit_s: float, what: str, took_s: float) -> None:
        """Note the time of a step."""
        print(f"{what}: {took_s:.2f} s")
        if took_s >= limit_s:
            self.late.append(f"{what}: {took_s:.2f} s, not {limit_s} s")


async def in_time(attempt: Callable[[Watch], Awaitable[None]]) -> None:
    """Other work on this machine may delay everything: one of three attempts must keep all limits."""
    late: list[list[str]] = []
    for _ in range(3):
        watch = Watch()
        await attempt(watch)
        if not watch.late:
            return
        late.append(watch.late)
    raise AssertionError(late)


async def detected(watch: Watch, survivors: list[Node], lost: Node) -> None:
    """Wait until each of them reports the lost node as not running, and serves without it."""
    waits = [watch.within(DETECTION_S, f"{node.name} tells", partial(sees_without, node, lost)) for node in survivors]
    waits += [
        watch.within(DETECTION_S, f"{node.name} serves", partial(serves_without, node, lost)) for node in survivors
    ]
    await asyncio.gather(*waits)


async def accepted(node: Node) -> float:
    """Returns when a publish is accepted at this node, in seconds from now."""
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


async def healed(watch: Watch, nodes: list[Node], victim: Node) -> None:
    """Wait until the victim accepts a publish, and all nodes are whole."""
    first, all_of_them = await asyncio.gather(accepted(victim), whole(nodes))
    watch.note(HEALED_S, "a publish was accepted after the heal", first)
    watch.note(HEALED_S, "all were whole after the heal", all_of_them)


async def choose(nodes: list[Node], leads: bool) -> tuple[Node, list[Node]]:
    """Choose a node that leads, or one that does not, and the other nodes."""
    await whole(nodes)
    leader = await leader_of(nodes)
    victim = next(node for node in nodes if (node.name == leader) == leads)
    return victim, [node for node in nodes if node is not victim]


Deed = Callable[[], Awaitable[None]]


async def suffer(nodes: list[Node], leads: bool, hurt: Callable[[Node], Deed], mend: Callable[[Node], Deed]) -> None:
    """Run one fault and its end, and measure all times."""

    async def attempt(watch: Watch) -> None:
        victim, others = await choose(nodes, leads)
        await hurt(victim)()
        try:
            await detected(watch, others, victim)
        finally:
            await mend(victim)()
        await healed(watch, nodes, victim)

    await in_time(attempt)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_killed(apart: Apart, leads: bool) -> None:
    """kill -9; the node rejoins without help as soon as it is started again."""
    apart.background.run(suffer(apart.nodes, leads, lambda victim: victim.kill, lambda victim: victim.start), 100)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_paused(apart: Apart, leads: bool) -> None:
    """SIGSTOP: the sockets stay open, and the process does not answer."""

    def send(number: signal.Signals) -> Callable[[Node], Deed]:
        async def sent(victim: Node) -> None:
            victim.signal(number)

        return lambda victim: lambda: sent(victim)

    apart.background.run(suffer(apart.nodes, leads, send(signal.SIGSTOP), send(signal.SIGCONT)), 100)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_cut_off(apart: Apart, leads: bool) -> None:
    """Packets between the node and the others are dropped; clients reach all of them."""
    space, nodes, background = apart

    async def attempt(watch: Watch) -> None:
        victim, others = await choose(nodes, leads)
        await space.soon(space.isolate, nodes.index(victim) + 1)
        try:
            alone = watch.within(DETECTION_S, "the one that is cut off knows", partial(sees, victim, "minority"))
            await asyncio.gather(alone, detected(watch, others, victim))
        finally:
            await space.soon(space.heal)
        await healed(watch, nodes, victim)

    background.run(in_time(attempt), 100)
