"""Peers, their disks and the messages between them: tests decide the events and their order."""

from __future__ import annotations

from random import Random

import msgspec

from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.interface import Ready, Settings
from strogoff.cluster.raft.messages import (
    Change,
    Configuration,
    Entry,
    HardState,
    Kind,
    Message,
    Saved,
    Snapshot,
    decode_message,
    empty,
    encode_change,
    encode_message,
)

Applied = tuple[int, int, int, bytes]  # index, term, kind, data


def saved_voters(*voters: str, learners: tuple[str, ...] = ()) -> Saved:
    """The state of each peer of a cluster with these voters from the beginning, as its snapshot 1 of term 1."""
    return Saved(HardState(1, "", 1), Snapshot(1, 1, Configuration(voters, learners), b""), [])


def entry(index: int, term: int, data: bytes = b"") -> Entry:
    return Entry(index, term, Kind.COMMAND if data else Kind.EMPTY, data)


def change_entry(index: int, term: int, change: Change) -> Entry:
    return Entry(index, term, Kind.CHANGE, encode_change(change))


class Disk:
    """The durable state of a peer: the durable half of each batch."""

    def __init__(self, saved: Saved) -> None:
        self.hard = saved.hard
        self.snapshot = saved.snapshot
        self.entries = {entry.index: entry for entry in saved.entries}

    def save(self, ready: Ready) -> None:
        if ready.hard is not None:
            self.hard = ready.hard
        if ready.snapshot is not None:
            self.snapshot = ready.snapshot
            self.entries = {}
        elif ready.compacted is not None:
            self.snapshot = ready.compacted
            self.entries = {index: kept for index, kept in self.entries.items() if index > ready.compacted.index}
        if ready.entries:
            replaced = ready.entries[0].index
            while replaced in self.entries:
                del self.entries[replaced]
                replaced += 1
            self.entries |= {entry.index: entry for entry in ready.entries}

    def saved(self) -> Saved:
        return Saved(self.hard, self.snapshot, [self.entries[index] for index in sorted(self.entries)])


class Machine:
    """A state machine that remembers all applied entries; they are its snapshot."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.applied: list[Applied] = []
        if snapshot is not None:
            self.restore(snapshot.data)

    def restore(self, data: bytes) -> None:
        self.applied = msgspec.msgpack.decode(data, type=list[Applied]) if data else []

    def apply(self, entry: Entry) -> None:
        self.applied.append((entry.index, entry.term, entry.kind, entry.data))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.applied)

    @property
    def commands(self) -> list[bytes]:
        return [data for _, _, kind, data in self.applied if kind == Kind.COMMAND]


class Peer:
    """One peer with its disk and machine; after `crash` and `restart` only the disk is left."""

    def __init__(self, world: RaftHarness, name: str, saved: Saved) -> None:
        self.world = world
        self.name = name
        self.disk = Disk(saved)
        self.up = False
        self.taken: Ready | None = None
        self.confirmed: list[int] = []
        self.restart()

    def restart(self) -> None:
        saved = self.disk.saved()
        self.raft = self.world.core(self.name, saved, self.world.settings, self.world.rng, self.world.now_ms)
        self.machine = Machine(saved.snapshot)
        self.taken = None
        self.up = True

    def crash(self) -> None:
        self.up = False
        self.taken = None

    def take(self) -> bool:
        """Take a batch, if there is one."""
        if self.taken is None:
            self.taken = self.raft.ready()
            if self.taken is not None and self.world.eager:
                self.world.send(self.taken)
        return self.taken is not None

    def finish(self) -> Ready:
        """Carry out a batch."""
        ready, self.taken = self.taken, None
        assert ready is not None
        self.disk.save(ready)
        if not self.world.eager:
            self.world.send(ready)
        if ready.snapshot is not None:
            self.machine.restore(ready.snapshot.data)
        for committed in ready.committed:
            self.machine.apply(committed)
        self.confirmed += ready.confirmed
        self.world.done(self, ready)
        self.raft.advance(ready)
        return ready

    def work(self) -> list[Ready]:
        """Carry out all batches."""
        done = []
        while self.take():
            done.append(self.finish())
        return done


class RaftHarness:
    """Peers by name, the messages under way, one clock."""

    def __init__(self, seed: int = 0, settings: Settings | None = None, core: type[Raft] = Raft) -> None:
        self.rng = Random(seed)
        self.settings = settings or Settings()
        self.core = core
        self.now_ms = 0.0
        self.peers: dict[str, Peer] = {}
        self.flying: list[Message] = []
        self.cut: list[tuple[str, str]] = []  # (from, to): lost
        self.eager = False  # a mistake: messages leave before the writes of their batch

    @classmethod
    def of(cls, *voters: str, settings: Settings | None = None, core: type[Raft] = Raft) -> RaftHarness:
        world = cls(settings=settings, core=core)
        for voter in voters:
            world.add(voter, saved_voters(*voters))
        return world

    def add(self, name: str, saved: Saved | None = None) -> Peer:
        self.peers[name] = Peer(self, name, saved or empty())
        return self.peers[name]

    def __getitem__(self, name: str) -> Raft:
        return self.peers[name].raft

    def send(self, ready: Ready) -> None:
        self.flying += [decode_message(encode_message(message)) for message in ready.messages]

    def done(self, peer: Peer, ready: Ready) -> None:
        """For walks: called after each batch."""

    def isolate(self, *names: str) -> None:
        """Cut these peers off from all others, in both directions; they still reach each other."""
        others = [other for other in self.peers if other not in names]
        self.cut += [pair for name in names for other in others for pair in ((name, other), (other, name))]

    def heal(self) -> None:
        self.cut = []

    def deliver(self, message: Message) -> None:
        peer = self.peers.get(message.to)
        if peer is not None and peer.up and (message.sender, message.to) not in self.cut:
            peer.raft.step(message, self.now_ms)

    def settle(self) -> None:
        """Carry out all batches and deliver all messages in order until no message is left. No time passes."""
        for _ in range(10_000):
            for peer in self.peers.values():
                if peer.up:
                    peer.work()
            if not self.flying:
                return
            flying, self.flying = self.flying, []
            for message in flying:
                self.deliver(message)
        raise AssertionError("no end of messages")

    def elect(self, name: str) -> Raft:
        """Let this peer's election timeout end first."""
        self.peers[name].raft._election_at_ms = self.now_ms
        self.peers[name].raft.tick(self.now_ms)
        self.settle()
        return self[name]

    def run(self, duration_ms: float, step_ms: float = 50) -> None:
        """Let time pass for all peers; messages arrive at once."""
        end = self.now_ms + duration_ms
        while self.now_ms < end:
            self.now_ms += step_ms
            for peer in self.peers.values():
                if peer.up and peer.raft.next_deadline_ms <= self.now_ms:
                    peer.raft.tick(self.now_ms)
            self.settle()

    def leaders(self) -> list[str]:
        return [name for name, peer in self.peers.items() if peer.up and peer.raft.role == "leader"]

    def log(self, name: str) -> list[tuple[int, int]]:
        """(index, term) of each entry that a peer has in memory."""
        log = self[name]._log
        return [(entry.index, entry.term) for entry in log.slice(log.base + 1, log.last_index)]
