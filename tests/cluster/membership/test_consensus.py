"""Raft on disks that stall, crash and lose power: all nodes apply the same entries, and no applied entry is undone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

import msgspec
import pytest

from strogoff.cluster.membership.commands import Boot, Join, Leave, Settle, SetView
from strogoff.cluster.membership.consensus import Consensus, node_of
from strogoff.cluster.membership.events import (
    BarriersAllowed,
    Booted,
    Joined,
    Left,
    MembershipEvent,
    SlotsChanged,
    ViewChanged,
)
from strogoff.cluster.membership.state_machine import UNLOGGED_MAX
from strogoff.cluster.raft.interface import ChangePending, Rejected, Settings
from strogoff.cluster.raft.messages import Change, Configuration, MalformedMessage, Saved, Snapshot, bootstrap, empty
from strogoff.cluster.raft.stable import RaftStable
from strogoff.cluster.slots.table import SlotTable
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import Scheduled, VirtualLoop
from strogoff.storage.engine import Corrupted
from strogoff.storage.store import Store

SETTINGS = Settings(tail=16)


class Peer:
    """One peer with its disk; `happened` has the entries applied since its last start."""

    def __init__(self, world: ConsensusHarness, name: str, saved: Saved) -> None:
        self.world = world
        self.name = name
        loop = world.loop
        self.disk = SimDisk(Random(name), loop.call_later, lambda: loop.now_s, "sync", (0.0, 0.002))
        self.life = 0
        self.consensus: Consensus
        self.start(saved)

    def start(self, saved: Saved | None = None) -> None:
        self.life += 1
        life, loop = self.life, self.world.loop
        self.happened: list[MembershipEvent] = []
        self.confirmed: list[int] = []

        def soon(function: Callable[[], None]) -> None:
            loop.call_soon(lambda: function() if life == self.life else None)

        def later(delay_s: float, function: Callable[[], None]) -> Scheduled:
            return loop.call_later(delay_s, lambda: function() if life == self.life else None)

        stable = RaftStable(Store(self.disk, soon, later))
        if saved is not None:
            stable.begin(saved, lambda: None)
        self.consensus = Consensus(
            f"{self.name}/{self.name}-disk",
            stable,
            SETTINGS,
            Random(f"{self.name}/{life}"),
            lambda: loop.now_s * 1000,
            lambda node, data: self.world.carry(self.name, node, data),
        )
        self.consensus.on_applied = self.happened.extend
        self.consensus.on_confirmed = self.confirmed.extend
        later(0.01, self._tick)

    def _tick(self) -> None:
        life = self.life
        self.consensus.tick()
        self.world.loop.call_later(0.02, lambda: self._tick() if life == self.life else None)

    def crash(self, power: bool = True) -> None:
        self.consensus.closed = True
        self.life += 1
        self.disk.crash(power)
        self.disk = self.disk.reopen()

    @property
    def members(self) -> list[str]:
        return sorted(self.consensus.membership.members)


class ConsensusHarness:
    """Peers n1, n2, ...: n1 founds the cluster, the others are added as voters."""

    def __init__(self, size: int) -> None:
        self.loop = VirtualLoop()
        self.cut: set[str] = set()
        self.peers: dict[str, Peer] = {}
        self.peers["n1"] = Peer(self, "n1", bootstrap("n1/n1-disk"))
        self.until(lambda: self.peers["n1"].consensus.leads)
        self.propose(Settle("c", "n1", "n1-disk", 1, "p", "n1:1"))
        for number in range(2, size + 1):
            name = f"n{number}"
            self.peers[name] = Peer(self, name, empty())
            self.propose(Join(name, f"{name}-disk", 1, "p", f"{name}:1"))
            leader = self.leader().consensus
            leader.change(Change("learner", f"{name}/{name}-disk"))
            self.until(partial(self._is_up_to_date, name))
            self.until(partial(self._promote, f"{name}/{name}-disk"))

    def _is_up_to_date(self, name: str) -> bool:
        return self.peers[name].members == self.peers["n1"].members

    def _promote(self, peer: str) -> bool:
        leader = self.leader().consensus
        if peer in leader.raft.configuration.voters:
            return True
        with suppress(ChangePending, Rejected):  # it lacks entries, or the last change is uncommitted
            leader.change(Change("voter", peer))
        return False

    def carry(self, sender: str, node: str, data: bytes) -> None:
        if sender in self.cut or node in self.cut:
            return
        self.loop.call_later(0.001, lambda: self._arrive(node, data))

    def _arrive(self, node: str, data: bytes) -> None:
        peer = self.peers.get(node)
        if peer is not None and not peer.consensus.closed and node not in self.cut:
            peer.consensus.receive(data)

    def leader(self) -> Peer:
        leading = [each for each in self.peers.values() if each.consensus.leads and each.name not in self.cut]
        return max(leading, key=lambda each: each.consensus.raft.term)

    def propose(self, command: Settle | Join | Boot | Leave | SetView) -> None:
        leader = self.leader().consensus
        index = leader.propose(command)
        self.until(lambda: leader.raft.applied_index >= index)

    def until(self, true: Callable[[], object], patience_s: float = 20.0) -> None:
        end = self.loop.now_s + patience_s
        while not true():
            assert self.loop.now_s < end, "the condition did not become true in time"
            self.loop.run_for(0.01)

    def alike(self) -> bool:
        states = [each.consensus.membership.snapshot() for each in self.peers.values() if not each.consensus.closed]
        return all(each == states[0] for each in states)


def test_proposals_are_applied_on_all_nodes() -> None:
    world = ConsensusHarness(3)
    world.propose(Join("x", "dx", 1, "p", "x:1"))
    world.until(world.alike)
    assert all("x" in each.members for each in world.peers.values())


@pytest.mark.parametrize("seed", range(3))
def test_repeated_power_losses_undo_no_entry(seed: int) -> None:
    world, rng = ConsensusHarness(3), Random(seed)
    names = sorted(world.peers)
    for round_number in range(6):
        world.propose(Join(f"x{round_number}", "d", 1, "p", "a"))
        victim = world.peers[rng.choice(names)]
        victim.crash(power=rng.random() < 0.7)
        world.until(lambda: any(each.consensus.leads for each in world.peers.values() if not each.consensus.closed))
        victim.start()
        world.until(world.alike)
        world.until(lambda: len([each for each in world.peers.values() if each.consensus.leads]) == 1)
    expected = [*names, *[f"x{number}" for number in range(6)]]
    assert all(each.members == expected for each in world.peers.values())


def test_nothing_is_sent_or_applied_before_the_disk_has_it() -> None:
    world = ConsensusHarness(3)
    leader = world.leader()
    others = [each for each in world.peers.values() if each is not leader]
    for each in others:
        each.disk.stall_until = world.loop.now_s + 0.5
    leader.consensus.propose(Join("x", "d", 1, "p", "a"))
    world.loop.run_for(0.3)
    assert "x" not in leader.members
    world.until(lambda: "x" in leader.members)


def test_a_snapshot_reports_the_events_that_it_skips() -> None:
    """A peer that lacks more than the log keeps still learns which nodes left, got a new disk, or restarted."""
    world = ConsensusHarness(3)
    for name in ("x", "y", "z"):
        world.propose(Join(name, f"{name}-disk", 1, "p", "a"))
    away = next(each for each in world.peers.values() if each is not world.leader())
    world.until(lambda: "z" in away.members)
    world.cut.add(away.name)
    world.propose(Leave("x"))
    world.propose(Join("y", "y-second", 2 + UNLOGGED_MAX, "p", "a"))
    world.propose(Boot("z", "z-disk", 2, "p2", "a"))
    view = away.consensus.membership.view
    world.propose(SetView(view.id, view.rows, slots=True))  # the slot table begins
    leader = world.leader().consensus
    for number in range(SETTINGS.snapshot_every + 50):
        leader.propose(Boot("z", "z-disk", 2, "p2", f"a{number}"))
    index = leader.propose(Join("w", "w-disk", 1, "p", "a"))
    world.until(lambda: leader.raft.applied_index >= index)
    away.happened.clear()
    world.cut.clear()
    world.until(lambda: "w" in away.members)
    told = [each for each in away.happened if not isinstance(each, BarriersAllowed | ViewChanged)]
    slots = SlotsChanged(SlotTable(), leader.membership.slots)
    assert told == [Left("x"), Joined("w", False), Joined("y", True), Booted("z", 2), slots]
    assert len(leader.membership.slots.slots_by_primary["n1"]) == 256
    assert world.alike()


def test_the_log_continues_after_a_restart() -> None:
    world = ConsensusHarness(1)
    peer = world.peers["n1"]
    for number in range(SETTINGS.snapshot_every + 20):
        peer.consensus.propose(Boot("n1", "n1-disk", 1, "p", f"a{number}"))
    world.loop.run_for(1.0)
    before = peer.consensus.membership.snapshot()
    peer.crash()
    peer.start()
    assert peer.consensus.membership.members["n1"].boot == 1  # from the snapshot, before any entry is applied
    world.until(lambda: peer.consensus.leads)
    world.until(lambda: peer.consensus.membership.snapshot()[:100] == before[:100])


def test_an_undecodable_command_changes_nothing_on_any_node() -> None:
    world = ConsensusHarness(3)
    leader = world.leader().consensus
    before = set(leader.membership.members)
    leader.raft.propose(b"\xc1 not a command")
    leader.pump()
    world.propose(Join("x", "d", 1, "p", "a"))
    world.until(world.alike)
    assert all(set(each.consensus.membership.members) == {*before, "x"} for each in world.peers.values())


def test_an_error_while_an_entry_is_applied_stops_the_peer_and_is_reported() -> None:
    """Before, the peer did nothing for ever, and nobody was told."""
    world = ConsensusHarness(3)
    leader = world.leader()
    broken, failures = leader.consensus, list[Exception]()

    def raises(_: object) -> None:
        raise ZeroDivisionError("a defect")

    broken.on_applied, broken.on_broken = raises, failures.append
    broken.propose(Join("x", "d", 1, "p", "a"))
    with pytest.raises(ZeroDivisionError):
        world.loop.run_for(1.0)
    assert list(map(str, failures)) == ["a defect"] and broken.closed
    world.until(lambda: any(each.consensus.leads for each in world.peers.values()))
    world.propose(Join("y", "d", 1, "p", "a"))
    world.until(world.alike)
    leader.crash(power=False)
    leader.start()
    world.until(world.alike)
    assert {"x", "y"} <= set(leader.members) and len(failures) == 1


def test_confirmation_needs_a_majority_now() -> None:
    world = ConsensusHarness(3)
    leader = world.leader()
    leader.consensus.confirm(7)
    world.until(lambda: leader.confirmed == [7])
    world.cut.add(leader.name)
    leader.consensus.confirm(8)
    world.loop.run_for(3.0)
    assert leader.confirmed == [7]
    assert not leader.consensus.leads


def test_messages_for_another_disk_are_ignored() -> None:
    world = ConsensusHarness(2)
    sent: list[tuple[str, bytes]] = []
    world.peers["n1"].consensus._send = lambda node, data: sent.append((node, data))
    world.until(lambda: bool(sent))
    stranger = Consensus(
        "n2/other-disk",
        RaftStable(Store(SimDisk(Random(0), world.loop.call_later, lambda: 0.0), world.loop.call_soon,
                         world.loop.call_later)),
        Settings(),
        Random(0),
        lambda: world.loop.now_s * 1000,
        lambda node, data: None,
    )  # fmt: skip
    stranger.receive(sent[0][1])
    assert stranger.raft.term == 0


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({b"Rh": b"\xff"}, "the saved Raft state at b'Rh' cannot be read"),
        (
            {b"Rs": msgspec.msgpack.encode(Snapshot(3, 1, Configuration(), b"\xc1"))},
            "snapshot of a membership, 1 bytes",
        ),
    ],
)
def test_a_log_that_cannot_be_read_is_damage(row: dict[bytes, bytes], says: str) -> None:
    """The start of the node reports it in one line, with the remedy, and does not begin without its log."""
    loop = VirtualLoop()
    store = Store(SimDisk(Random(0), loop.call_later, lambda: 0.0), loop.call_soon, loop.call_later)
    for key, value in row.items():
        store.put(key, value)
    with pytest.raises(Corrupted, match=f"the log of the membership: it cannot be read .*{says}.*strogoff reset"):
        Consensus("n1/d", RaftStable(store), Settings(), Random(0), lambda: 0.0, lambda node, data: None)


def test_noise_is_an_error() -> None:
    world = ConsensusHarness(1)
    with pytest.raises(MalformedMessage):
        world.peers["n1"].consensus.receive(b"\xc1")


@pytest.mark.parametrize(("peer", "node"), [("n1/uuid", "n1"), ("a/b/uuid", "a/b"), ("n@h/1-2", "n@h")])
def test_the_node_of_a_peer(peer: str, node: str) -> None:
    assert node_of(peer) == node


def test_the_own_row_has_boot_and_process() -> None:
    world = ConsensusHarness(1)
    consensus = world.peers["n1"].consensus
    assert consensus.own_row_is(1, "p")
    assert not consensus.own_row_is(2, "p")
    assert not consensus.own_row_is(1, "q")
