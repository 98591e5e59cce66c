"""Starts, crashes, stops and lost disks in a world."""

from __future__ import annotations

from functools import partial
from math import inf

from .clusters import joined, until


def test_clients_forget_their_qos_2_ids_with_the_disk_of_their_node() -> None:
    """The new disk never releases the ids, and the CONNACK that says so may be lost (3 nodes, seed 110977)."""
    world = joined().world
    mine, other = world.clients[:2]
    other.host, other._stays = world.machines["n3"], True  # its session is at its gateway
    assert mine.server is world.machines["n1"]
    for client in (mine, other):
        client.receiver.held[7] = "w-1"
    machine = world.machines[mine.server.name]
    world.crash(machine, True)
    world.lose_disk(machine)
    assert (mine.receiver.held, other.receiver.held) == ({}, {7: "w-1"})


def test_a_stop_that_cannot_write_is_a_kill() -> None:
    """Checkers excuse effects that a kill may undo (3 nodes, seed 112226)."""
    world = joined().world
    first, last = world.machines["n1"], world.machines["n3"]
    last.messages.disk.stall_until = inf
    for machine in (first, last):
        assert machine.node is not None
        machine.node.env.store.put(b"x", b"1")
        machine.stop(partial(world.stopped, machine))
    until(world, lambda: all(world.history.life(name).ends for name in ("n1", "n3")))
    assert [(each.kind, each.node) for each in world.history.faults if each.kind == "kill"] == [("kill", "n3")]


def test_a_stop_closes_both_stores_in_one_turn() -> None:
    """The real process does the same: a late answer of a disk afterwards has no receiver (5 nodes, seed 113602)."""
    world = joined().world
    machine = world.machines["n3"]
    assert machine.node is not None
    machine.meta_store.put(b"x", b"1")
    machine.meta.stall_until = world.loop.now_s + 0.1
    world.loop.run_for(0.01)
    machine.meta_store.put(b"x", b"2")
    machine.node.env.store.put(b"x", b"1")
    machine.stop(partial(world.stopped, machine))
    world.loop.settle()
    machine.suspend(False)
    world.loop.run_for(0.2)
    machine.resume()
    until(world, lambda: bool(world.history.life("n3").ends))
