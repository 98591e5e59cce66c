"""Writes the rows of several nodes on one virtual clock.

Everything that happens is an *actor*: a generator that writes rows and yields for how many milliseconds it waits. Rows
come out in the order of time. The memory depends on what is under way, not on the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from ..rows import LOGICAL_BITS, MessageId, Row

VERSION: Final = 10
"""The version of the event log's schema that the rows have."""
BEGIN_MS: Final = 1_772_366_400_000
"""When a log begins: 2026-03-01, 12:00 UTC."""
RUN: Final = "planted"

Actor = Iterator[int]


@dataclass
class Node:
    """A node: its present boot, the last numbers that it gave, and whether it is up."""

    name: str
    boot: int = 0
    seq: int = 0
    mids: int = 0
    conns: int = 0
    lsn: int = 0
    up: bool = False


@dataclass
class Scene:
    """The clock, the actors and the rows that they have written and nobody has taken yet."""

    random: Random
    now: int = BEGIN_MS
    written: list[Row] = field(default_factory=list)
    _stamp: int = 0
    _actors: list[tuple[int, int, Actor]] = field(default_factory=list)
    _started: int = 0

    def play(self, *actors: Actor) -> Iterator[Row]:
        """Let the actors act, and those that they start, until all are done. Returns the rows as they come."""
        for actor in actors:
            self.start(actor)
        while self._actors:
            when, number, actor = heappop(self._actors)
            self.now = max(self.now, when)
            wait = next(actor, None)
            yield from self.written
            self.written.clear()
            if wait is not None:
                heappush(self._actors, (self.now + wait, number, actor))

    def start(self, actor: Actor, after: int = 0) -> None:
        """Start another actor, now or some milliseconds later."""
        self._started += 1
        heappush(self._actors, (self.now + after, self._started, actor))

    def say(self, node: Node, kind: str, **fields: Any) -> Row:
        """Write a row. All rows have rising stamps, on all nodes."""
        self._stamp = max(self._stamp + 1, self.now << LOGICAL_BITS)
        node.seq += 1
        row = {
            "v": VERSION,
            "run_id": RUN,
            "node": node.name,
            "boot": node.boot,
            "seq": node.seq,
            "hlc": self._stamp,
            "mono_ns": (self.now - BEGIN_MS) * 1_000_000,
            "type": kind,
            **fields,
        }
        self.written.append(row)
        return row

    def boot(self, node: Node) -> Row:
        """Start a node, perhaps after a kill."""
        before = {"known_seq": node.seq, "tail_lost": False} if node.boot else {}
        node.boot += 1
        node.seq = node.mids = node.conns = 0
        node.up = True
        return self.say(node, "node.start", retained=0, level="message", **before)

    def stop(self, node: Node) -> None:
        """Stop a node in order."""
        self.say(node, "node.stop")
        node.up = False

    def mid(self, node: Node) -> MessageId:
        """Returns the id of the next message that a node accepts."""
        node.mids += 1
        return node.name, node.boot, node.mids
