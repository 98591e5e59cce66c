"""Seeded walks: overlapping faults of all kinds. Then all faults end, and the cluster must become whole."""

from __future__ import annotations

from .membership import MembershipHarness, Parts, Violation

KINDS = (
    "kill",
    "fast restart",
    "pause",
    "freeze",
    "stall",
    "isolate",
    "one way in",
    "one way out",
    "pair cut",
    "half cut",
    "wall clock",
    "transfer",
)


def walk(seed: int, parts: type[Parts] = Parts, ms: float = 25_000) -> MembershipHarness:
    """Run one walk. The seed determines the size of the cluster and all faults. Raises `Violation`."""
    world = MembershipHarness(seed, 2 + seed % 4, parts)
    rng = world.rng
    kinds = [kind for kind in parts.kinds or KINDS if parts.kinds or rng.random() < 0.5] or list(KINDS)
    world.run(2000)
    while world.now < ms:
        inject(world, rng.choice(kinds), rng.choice(world.names), rng.uniform(100, 6000))
        world.run(rng.uniform(50, 3000))
    world.run(5000)
    heal(world)
    world.run_until(world.is_whole, 8000)
    views = len(world.views)
    world.run(3000)
    if not world.is_whole() or len(world.views) != views:
        raise Violation(f"seed {seed}: not stable after everything was healed: {world.views[views:]}")
    return world


def inject(world: MembershipHarness, kind: str, name: str, ms: float) -> None:
    """Inject a fault at one host, and end it after `ms`."""
    host = world.hosts[name]
    others = [other for other in world.names if other != name]
    if not host.running:
        return
    if kind in ("kill", "fast restart"):
        host.kill()
        world.later(ms if kind == "kill" else min(ms, 800), lambda: None if host.up else host.start())
    elif kind == "pause":
        host.pause()
        world.later(ms, lambda: host.resume() if host.up else None)
    elif kind == "freeze":
        host.freeze()
        world.later(ms, lambda: host.resume() if host.up else None)
    elif kind == "stall":
        host.stalled = True
        world.later(ms, host.unstall)
    elif kind == "wall clock":
        host.step_wall(world.rng.choice((-1, 1)) * world.rng.choice((100, 1000, 1e9)))
    elif kind == "transfer" and name in world.voters and world.has_quorum(name, True) and not host.stalled:
        if world.hosts[world.leader].running:
            world.elect(name)
    else:
        other = world.rng.choice(others)
        pairs = {
            "isolate": [(name, o) for o in others] + [(o, name) for o in others],
            "one way in": [(o, name) for o in others],
            "one way out": [(name, o) for o in others],
            "pair cut": [(name, other), (other, name)],
            "half cut": [(name, other)],
        }.get(kind, [])
        world.cuts.update(pairs)
        world.later(ms, lambda: world.cuts.difference_update(pairs))


def heal(world: MembershipHarness) -> None:
    """End all faults and slow messages."""
    world.cuts.clear()
    world.slow = 0
    for host in world.hosts.values():
        host.unstall()
        if not host.up:
            host.start()
        elif not host.running:
            host.resume()


def first_seed_that_fails(parts: type[Parts], seeds: int, ms: float = 25_000) -> int | None:
    """Returns the first seed whose walk breaks a promise, or None."""
    for seed in range(seeds):
        try:
            walk(seed, parts, ms)
        except Violation:
            return seed
    return None
