"""Random walks of several maps under faults; at the end all faults are over, and every map must equal the model."""

from __future__ import annotations

from .map_harness import Dot, MapHarness, Plant, covers, siblings, state

KEYS = [b"t%d" % number for number in range(4)] + [b"c%d" % number for number in range(2)]


def walk(seed: int, steps: int = 120, plant: Plant | None = None) -> list[str]:
    """Run one walk; returns the problems found."""
    world = drawn(seed, plant)
    rng, names = world.rng, world.names
    faults = rng.sample(["cut", "kill", "power", "disk"], rng.randint(0, 4))
    for step in range(steps):
        name = rng.choice(names)
        roll = rng.random()
        if roll < 0.55:
            world.barrier(name, write(world, name, step))
        elif roll < 0.62 and "cut" in faults and len(world.view) > 1 and name in world.view:
            world.isolate(name)
        elif roll < 0.68 and ("kill" in faults or "power" in faults):
            world.restart(name, "power" in faults and rng.random() < 0.5)
        elif roll < 0.7 and "disk" in faults:
            world.restart(name, True, lost=True)
        elif roll < 0.76 and world.cut:
            world.heal()
        world.loop.run_for(rng.choice([0.0, 0.001, 0.02, 0.3, 2.0]))
        world.look()
        if world.errors:
            return world.errors
    heal(world)
    return world.errors + judge(world)


def calm_walk(seed: int, steps: int = 60, plant: Plant | None = None) -> list[str]:
    """Run one walk with few writes and many restarts; returns the problems found.

    Between two restarts the nodes often have the time to fold early boots. Some of these boots have written nothing. No
    node is killed within two seconds of a write. A node loses its disk only when the others have all that it has.
    """
    world = drawn(seed, plant)
    rng, names = world.rng, world.names
    for step in range(steps):
        name, roll = rng.choice(names), rng.random()
        if roll < 0.1:
            write(world, name, step)
            world.loop.run_for(2)
        elif roll < 0.4:
            world.restart(name, power=False)
        elif roll < 0.5 and same(world):
            world.restart(name, power=True, lost=True)
        world.loop.run_for(rng.choice([0.02, 2.0, 8.0, 16.0]))
        world.look()
        if world.errors:
            return world.errors
    heal(world)
    return world.errors + judge(world)


def drawn(seed: int, plant: Plant | None) -> MapHarness:
    """Returns a harness whose seed draws two to five nodes, and the durability and speed of their disks."""
    rng = MapHarness(seed, plant=plant).rng
    names = "ABCDE"[: rng.randint(2, 5)]
    return MapHarness(seed, names, plant, rng.choice(["os", "sync"]), rng.choice([0.005, 0.5]))


def write(world: MapHarness, name: str, step: int) -> int:
    """Let a node write or delete a key, sometimes one of its own; returns the counter of the write."""
    rng = world.rng
    key = rng.choice(KEYS) if rng.random() < 0.6 else b"f%s%d" % (name.encode(), rng.randint(0, 2))
    return world.put(name, key, None if rng.random() < 0.3 else b"%d" % step)


def same(world: MapHarness) -> bool:
    """Whether all nodes have seen the same writes, no exchange is half done, and durable writes are on the disks."""
    maps = [node.map for node in world.nodes.values()]
    seen = {(each.digests(0)[0], each.digests(1)[0]) for each in maps}
    return len(seen) == 1 and all(seen.pop()) and all(each._compactor.on_disk == each._halves[0].clock for each in maps)


def heal(world: MapHarness) -> None:
    """No more faults; several intervals of anti-entropy."""
    world.loss = 0.0
    world.heal()
    for _ in range(40):
        world.loop.run_for(2)
        world.look()
    for _ in range(100):  # an exchange may run at any time: find a moment without one
        if not any(node.map._anti_entropy.pending() for node in world.nodes.values()):
            return
        world.loop.run_for(0.1)


def judge(world: MapHarness) -> list[str]:
    """All maps have equal values and contexts; no write is lost, none is resurrected, no tombstone is left, nothing is
    pending.
    """
    wrong = []
    states = {name: state(node.map) for name, node in world.nodes.items()}
    first = next(iter(states))
    for name, each in states.items():
        if each != states[first]:
            wrong.append(f"{name} and {first} differ:\n{each}\n{states[first]}")
    for name, node in world.nodes.items():
        wrong += [f"{name}: {text}" for text in unexpected(world, name)]
        figures = node.map.statistics()
        if figures.tombstones or figures.barriers or node.map._anti_entropy.pending():
            wrong.append(f"{name}: {figures} pending {node.map._anti_entropy.pending()}")
        for replica in node.map._halves:
            if len(replica.key_contexts) or len(replica.log):
                wrong.append(f"{name}: {len(replica.key_contexts)} contexts ahead, {len(replica.log)} dots in the log")
            if len(replica.clock.seen) > len(world.nodes) or replica.clock.final:
                wrong.append(
                    f"{name}: {len(replica.clock.seen)} actors in the clock, {len(replica.clock.final)} kept aside"
                )
    return wrong


def unexpected(world: MapHarness, name: str) -> list[str]:
    """Returns the keys where a map disagrees with its clock: it must have the writes seen and not replaced."""
    map_ = world.nodes[name].map
    wrong = []
    by_key: dict[bytes, list[Dot]] = {}
    for dot, (key, _, _) in world.history.items():
        clock = map_._half(key).clock
        volatile = key.startswith(b"f")
        if volatile and dot[1] != world.nodes[dot[0]].boot:
            continue
        lost = clock.is_folded(map_._actors.number(dot[0], dot[1])) and dot not in world.alive
        if covers(world.nodes[name], key, dot) and not lost:
            by_key.setdefault(key, []).append(dot)
    for key in {key for key, _, _ in world.history.values()}:
        dots = by_key.get(key, [])
        replaced = set().union(*(world.history[dot][2] for dot in dots)) if dots else set()
        expected = {dot for dot in dots if dot not in replaced and world.history[dot][1] is not None}
        found = {dot for dot, value in siblings(map_, key).items() if value is not None}
        if found != expected:
            wrong.append(f"{key!r} holds {sorted(found)}, of {sorted(dots)} should hold {sorted(expected)}")
    return wrong
