"""Planted bugs: the walks must find each."""

from __future__ import annotations

from functools import partial

from strogoff.cluster.replicated_map import intervals
from strogoff.cluster.replicated_map.dvv import NOTHING, Siblings
from strogoff.cluster.replicated_map.map import ReplicatedMap
from strogoff.cluster.replicated_map.messages import Ack, Writes, decode, encode
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.version_vector import VersionVector

from .map_harness import MapHarness


def ack_before_apply(world: MapHarness, map_: ReplicatedMap) -> None:
    """Writes are acknowledged when they arrive and applied a little later."""
    receive = map_.receive

    def eager(peer: str, data: bytes) -> None:
        message = decode(data)
        if isinstance(message, Writes):
            high = max(claim[2] for part in message.parts for claim in part.covered_ranges)
            map_._ports.send(peer, encode(Ack(map_.boot, message.boot, high)))
            world.loop.call_later(0.05, partial(receive, peer, data))
        else:
            receive(peer, data)

    map_.receive = eager  # type: ignore[method-assign]


def ack_from_memory(world: MapHarness, map_: ReplicatedMap) -> None:
    """Writes are acknowledged when they are applied, before they are on the disk."""
    map_._durable_acks._store = None


class LastArrivalWins(Replica):
    """An arriving copy replaces the local copy as a whole."""

    __slots__ = ()

    def merge(self, key: bytes, theirs: Siblings, context: VersionVector) -> bool:
        mine = self.siblings(key)
        if mine == theirs:
            return False
        self._set(key, mine, theirs)
        return True


class NoTombstones(Replica):
    """A deletion leaves neither a tombstone nor a log entry."""

    __slots__ = ()

    def write(self, key: bytes, dot: int, value: bytes | None) -> None:
        if value is not None:
            super().write(key, dot, value)
        else:
            self._set(key, self.siblings(key), NOTHING)


class PastGaps(VersionVector):
    """A write after a gap counts as all writes before it as well."""

    __slots__ = ()

    def add(self, actor: int, low: int, high: int) -> bool:
        return super().add(actor, 0, max(high, intervals.base(self.seen.get(actor, []))))


class OneBootForAll(VersionVector):
    """A peer that has the writes of a folded boot counts as one that has those of the earlier boots too."""

    __slots__ = ()

    @property
    def forgotten(self) -> dict[str, int]:  # type: ignore[override]
        true: dict[str, int] = vars(VersionVector)["forgotten"].__get__(self)
        for actor in self.final:
            true.pop(self.actors.names[actor][0], None)
        return true


class NoFloor(Replica):
    """The log is trimmed as if all nodes had everything, and no node gets a walk through all keys."""

    __slots__ = ()

    def collect(self, actor: int, high: int, limit: int) -> bool:
        more = super().collect(actor, self.clock.base(actor), limit)
        self.log.floor.pop(actor, None)
        return more


def whole_values(world: MapHarness, map_: ReplicatedMap) -> None:
    """The last arrival wins."""
    _become(map_, LastArrivalWins)


def no_tombstones(world: MapHarness, map_: ReplicatedMap) -> None:
    """Deletions are not sent to nodes that were away."""
    _become(map_, NoTombstones)


def past_gaps(world: MapHarness, map_: ReplicatedMap) -> None:
    """The clock goes past a gap."""
    for replica in map_._halves:
        replica.clock.__class__ = PastGaps


def one_boot_for_all(world: MapHarness, map_: ReplicatedMap) -> None:
    """An emptied node does not get the writes of folded boots, if a later boot that wrote nothing is folded too."""
    for replica in map_._halves:
        replica.clock.__class__ = OneBootForAll


def early_trim(world: MapHarness, map_: ReplicatedMap) -> None:
    """Deletions are collected before all members have them, and the floor does not tell."""
    _become(map_, NoFloor)


def _become(map_: ReplicatedMap, kind: type[Replica]) -> None:
    for replica in map_._halves:
        replica.__class__ = kind


PLANTS = {
    "ack before apply": ack_before_apply,
    "ack from memory": ack_from_memory,
    "whole values": whole_values,
    "no tombstones": no_tombstones,
    "past gaps": past_gaps,
    "early trim": early_trim,
}

CALM_PLANTS = {"one boot for all": one_boot_for_all}
"""Bugs that only calm walks find."""
