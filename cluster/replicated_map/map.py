"""The replicated map: every node has a full copy.

A write is visible here at once and goes to every node of the view at the end of the turn, on the FIFO lane. Peers
acknowledge cumulatively: they have applied the writes, and those of the durable half are on their disks
(`durable_acks.py`). A *barrier* waits for all peers. A comparison of clocks finds the writes that a peer missed while
it was away (`anti_entropy.py`): on joining, when a lane shows a gap, and every `SYNC_INTERVAL_MS` with a random peer.
Values of concurrent writes stay side by side until the next write; readers see the one that the namespace's rule picks
(`namespaces.py`).

The durable and the volatile half (`replica.py`) have separate clocks, because a restart forgets the volatile one. One
counter numbers the writes of both, so one barrier and one acknowledgement cover both.

All methods belong to the loop's thread. The owner calls `tick` every few hundred milliseconds. After a change the map
itself schedules `flush` for the end of the turn, through the port `soon`.

Measured with CPython 3.11 and 1,000,000 routes of 48 bytes with values of one byte. Memory per key beside its text: 202
bytes while the log has it, 188 after. Applying messages of 1,000 keys: 7 us of CPU per key. An exchange of two equal
maps: 3 messages, 148 bytes, 0.4 ms. Of two maps that differ in 1,000 keys: 39 messages, 29 kB, 33 ms. With an empty
map: 62 MB in 4,100 batches of about 250 keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from ..identity import Incarnation
from . import dvv
from .actors import COUNTER, SHIFT, Actors, dot_of
from .anti_entropy import AntiEntropy, Clocks
from .barrier import Barriers, Then
from .compaction import STEP, Compactor
from .delta_applier import DeltaApplier
from .delta_sender import STEP_BYTES
from .durable_acks import DurableAcks
from .dvv import Siblings
from .hlc import HybridClock
from .messages import (
    Ack,
    Batch,
    BatchAck,
    ClockReport,
    Contradiction,
    Item,
    MalformedMapMessage,
    Message,
    Part,
    PartWriter,
    SyncRequest,
    Writes,
    clock_of,
    salvage,
)
from .messages import decode as decode_message
from .messages import encode as encode_message
from .namespaces import NAMESPACES, STAMP, Namespace, Versioned
from .peer_clocks import PeerClocks
from .persistence import Persistence
from .ports import MapPorts, OnChange, Reports, Statistics
from .replica import Replica
from .unacknowledged import Unacknowledged

SYNC_INTERVAL_MS = 5_000
SYNC_LEEWAY_MS = 2_500
"""vmq_swc.sync_interval and its leeway."""

LOG_ALONE = 10_000
"""Number of dots in the log from which a standalone node removes them, even without a call of `tick`."""


class ReplicatedMap:
    """The map of one boot of a node. The owner sets `on_change` before the first call of `receive`."""

    def __init__(
        self, node: str, boot: int, ports: MapPorts, namespaces: Mapping[bytes, Namespace] = NAMESPACES
    ) -> None:
        assert boot > 0
        self.node, self.boot = node, boot
        self.on_change: OnChange = lambda key, value: None
        self.reports = Reports()
        self.sync_interval_ms, self.sync_leeway_ms = SYNC_INTERVAL_MS, SYNC_LEEWAY_MS
        self._ports = ports
        self._namespaces = dict(namespaces)
        self._actors = Actors()
        self._me = self._actors.number(node, boot)
        purged = [letter[0] for letter, space in namespaces.items() if space.purged]
        first, second = (Replica(self._actors, self._changed, purged) for _ in range(2))
        self._halves = first, second
        self._persistence = Persistence(ports.store, self._halves[0], self._actors) if ports.store is not None else None
        self._durable_acks = DurableAcks(ports.store)
        self._unsaved: dict[bytes, None] = {}
        self._barriers = Barriers()
        self._peer_clocks = PeerClocks(self._actors)
        self._applier = DeltaApplier(self._actors)
        self._anti_entropy = AntiEntropy(boot, self._halves, self._send, self._absorb, ports.applied_view, ports.now_ms)
        self._anti_entropy.on_compared = self._compared
        self._anti_entropy.unacknowledged = Unacknowledged(
            node, first, self._actors, lambda key: self._space(key).stamped, self._give_way
        )
        self._compactor = Compactor(self._halves, self._peer_clocks, self._actors, ports.soon, self._save)
        self._peers: dict[str, int] = {}
        self._acknowledged: dict[str, tuple[int, int]] = {}
        self._gaps: dict[str, None] = {}
        self._local = False
        self._hlc = HybridClock(ports.cluster_ms)
        self._next_sync_ms: float | None = None
        self.counter = 0
        self._flushed = 0
        self._awake = False
        for replica in self._halves:
            replica.clock.add(self._me, 0, 0)

    def load(self) -> None:
        """Read the durable half from the store, once, before all other calls. It does not call `on_change`: use `scan`
        after it.

        Raises `StorageError`, and `Corrupted` for a record that cannot be read.
        """
        if self._persistence is not None:
            self._persistence.load()
            self._compactor.on_disk = self._halves[0].clock.copy()

    # Reading and writing

    def wrote(self, upto: int) -> bool:
        """Whether this node may have written into the durable half in boot `upto` or an earlier one."""
        clock, names = self._halves[0].clock, self._actors.names
        early = [seen for actor, seen in clock.seen.items() if names[actor][0] == self.node and names[actor][1] <= upto]
        return any(early) or bool(upto and clock.folded.get(self.node))

    def put(self, key: bytes, value: bytes) -> int:
        """Set a value; it replaces all siblings known here. Returns the counter of this write, for `barrier`.

        Readers here see it at once; `flush` sends it to all peers.
        """
        space = self._space(key)
        return self._write(key, self._hlc.next().to_bytes(STAMP, "big") + value if space.stamped else value)

    def delete(self, key: bytes) -> int:
        """Delete a key. A concurrent put wins over the delete (H-16). Returns the counter of this write."""
        self._space(key)
        return self._write(key, None)

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key; None if it has none."""
        siblings = self._half(key).siblings(key)
        return self._resolve(key, siblings) if siblings else None

    def lost(self, key: bytes, counter: int) -> bool:
        """Whether a deletion of this node, from `counter` on, has met a concurrent value, which wins over it (H-16)."""
        siblings = self._half(key).siblings(key)
        mine = dot_of(self._me, counter)
        deleted = any(value is None and dot >> SHIFT == self._me and dot >= mine for dot, value in dvv.pairs(siblings))
        return deleted and self._resolve(key, siblings) is not None

    def is_own(self, key: bytes) -> bool:
        """Whether no other node has written the values of a key."""
        return all(self._actors.writer(dot)[0] == self.node for dot in self._half(key).siblings(key)[::2])

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields (key, value) for all keys that begin with `prefix`, in no order. A write during the scan may be
        missing."""
        for key, siblings in self._half(prefix).walk():
            if key.startswith(prefix):
                value = self._resolve(key, siblings)
                if value is not None:
                    yield key, value

    def versions(self) -> Iterator[tuple[bytes, list[tuple[tuple[str, int], int, bytes]]]]:
        """Yields each key of both halves with its concurrent values, as (writer, number of the write, value), sorted.

        A writer is (node, boot). Leaves out deletions: nodes remove tombstones at different times. For checkers.
        """
        for replica in self._halves:
            for key, siblings in replica.walk():
                found = [
                    (self._actors.writer(dot), dot & COUNTER, value)
                    for dot, value in dvv.pairs(siblings)
                    if value is not None
                ]
                if found:
                    yield key, sorted(found)

    def _space(self, key: bytes) -> Namespace:
        return self._namespaces[key[:1]]

    def _half(self, key: bytes) -> Replica:
        return self._halves[0 if self._namespaces[key[:1]].durable else 1]

    def _write(self, key: bytes, value: bytes | None) -> int:
        self.counter += 1
        for replica in self._halves:
            replica.clock.add(self._me, self.counter - 1, self.counter)
        self._local = True
        self._half(key).write(key, dot_of(self._me, self.counter), value)
        self._local = False
        self._save()
        self._wake()
        return self.counter

    def _resolve(self, key: bytes, siblings: Siblings, raw: bool = False) -> bytes | None:
        """Returns the value that readers see, without its stamp unless `raw`."""
        space = self._namespaces[key[:1]]
        value: bytes | None = siblings[1]
        if len(siblings) > 2:
            versions = [self._versioned(space, dot, each) for dot, each in dvv.pairs(siblings) if each is not None]
            value = space.resolve(versions).value if versions else None
        return value[STAMP:] if space.stamped and value is not None and not raw else value

    def _versioned(self, space: Namespace, dot: int, value: bytes) -> Versioned:
        hlc = int.from_bytes(value[:STAMP], "big") if space.stamped else 0
        return Versioned(hlc, *self._actors.writer(dot), dot & COUNTER, value)

    def _changed(self, key: bytes, before: Siblings, after: Siblings) -> None:
        if self._persistence is not None and self._namespaces[key[:1]].durable:
            self._unsaved[key] = None
        if self._local:
            return
        was = self._resolve(key, before) if before else None
        now = self._resolve(key, after) if after else None
        if now != was:
            self.on_change(key, now)

    def _save(self) -> None:
        """Write the changes to the store: the keys and the clock that covers them are in one batch."""
        if self._unsaved and self._persistence is not None:
            for key in self._unsaved:
                self._persistence.save_key(key)
            self._unsaved.clear()
            self._persistence.save_clock()
            self._durable_acks.wrote()

    # Peers and members

    def set_peers(self, peers: Iterable[Incarnation]) -> None:
        """Set the other incarnations of the applied view: writes go to them, and barriers wait for them."""
        self._peers = {peer.node: peer.boot for peer in peers}
        self._acknowledged.clear()  # a node that was out of the view may have lost an acknowledgement: send it again
        self._compactor.others = (self._compactor.others[0], tuple(self._peers))
        self._anti_entropy.only(tuple(self._peers))
        self._anti_entropy.view_applied()
        self._barriers.set_peers(self._peers.items())
        self._wake()

    def hold(self, held: bool) -> None:
        """Hold all barriers, whatever the peers have acknowledged; see `MembershipState.barriers_allowed`."""
        self._barriers.hold(held)

    def leased(self, leased: bool) -> None:
        """This node has a lease now, or has none: then it acknowledges no write that a peer lacks."""
        unacknowledged = self._anti_entropy.unacknowledged
        assert unacknowledged is not None
        if leased:
            unacknowledged.clear()
        else:
            unacknowledged.note_range(self._me, self._barriers.known, self.counter)

    def let_give_way(self, when: Callable[[str], bool]) -> None:
        """`when(peer)`: whether this node enters a view, and never acknowledged what this peer lacks. Such a write
        gives way to what others have written."""
        assert self._anti_entropy.unacknowledged is not None
        self._anti_entropy.unacknowledged.when = when

    def met(self, peer: str) -> None:
        """A stream to a peer is open, perhaps to another process of that node.

        The links cancelled the items that waited for the earlier process, perhaps also an acknowledgement for this
        process: send the acknowledgement again.
        """
        if self._acknowledged.pop(peer, None) is not None:
            self._wake()

    def set_members(self, nodes: Iterable[str] | None) -> None:
        """Set all members that are not stale: a tombstone stays until each of them has it. This node may be among them.

        None: the members are not known yet.
        """
        self._compactor.known = nodes is not None
        self._compactor.others = (tuple(node for node in nodes or () if node != self.node), self._compactor.others[1])

    def barrier(self, counter: int, then: Then) -> int:
        """Call `then(True)` once every peer has applied this node's writes up to `counter`, perhaps at once.

        Returns a handle for `cancel`. A barrier waits without a time limit; the caller gives up with `cancel`.
        """
        return self._barriers.wait(counter, then)

    def cancel(self, handle: int) -> bool:
        """Remove a barrier: its `then` is not called. Returns whether it was still waiting."""
        return self._barriers.cancel(handle)

    def exchange(self, peer: str, view: int, then: Then) -> None:
        """Start a full exchange with a peer, which answers after it has applied `view`.

        `then(True)`: both nodes have all writes that either had at the start, and this node has the durable ones on
        disk. `then(False)`: the peer left the view or did not answer for a minute.
        """

        def ended(well: bool) -> None:
            if well:
                self._durable_acks.when_durable(lambda: then(True))
            else:
                then(False)

        self._anti_entropy.ask(peer, view, ended)

    @property
    def open_barriers(self) -> int:
        """How many barriers wait."""
        return len(self._barriers)

    @property
    def exchanging(self) -> bool:
        """Whether this node waits for an exchange that it has asked for."""
        return bool(self._anti_entropy.pending())

    # Messages

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._ports.soon(self.flush)

    def flush(self) -> None:
        """End of a turn: send this node's writes to all peers, and acknowledge the received ones."""
        self._awake = False
        if self._flushed < self.counter:
            self._broadcast()
        # An acknowledgement implies that this node's earlier writes were sent: it waits until they are (H-04).
        receivers = self._peers.items() if self._flushed == self.counter else ()
        for peer, boot in receivers:
            actor = self._actors.number(peer, boot)
            done = min(replica.clock.base(actor) for replica in self._halves)
            if (boot, done) > self._acknowledged.get(peer, (boot, 0)):
                self._acknowledged[peer] = (boot, done)
                self._durable_acks.when_durable(partial(self._acknowledge, peer, boot, done))
        if self._gaps:
            pending = self._anti_entropy.pending()
            for peer in [each for each in self._gaps if each in self._peers]:
                del self._gaps[peer]
                if peer not in pending:
                    self._anti_entropy.ask(peer, 0, _nothing)
        self._anti_entropy.view_applied()

    def _acknowledge(self, peer: str, boot: int, done: int) -> None:
        if self._peers.get(peer) == boot:
            self.reports.acknowledges(peer, boot, done)
            self._send(peer, Ack(self.boot, boot, done))

    def tell(self) -> None:
        """Send this node's writes now, so that they are before later items of this turn in the lanes."""
        while self._flushed < self.counter:
            self._broadcast()

    def _broadcast(self) -> None:
        """Send at most `STEP` keys of each half, and about `STEP_BYTES`; the next turn sends the rest."""
        if not self._peers:
            self._flushed = self.counter  # a later peer fetches these writes by an exchange
            if self._compactor.alone and sum(len(replica.log) for replica in self._halves) > LOG_ALONE:
                self._compactor.collect(lambda: self._compactor.alone)
            return
        low, high = self._flushed, self.counter
        rows = [replica.log.between(self._me, low, high, STEP) for replica in self._halves]
        for row in rows:
            if len(row) == STEP:
                high = min(high, row[-1][0])
        high = self._within_bytes(rows, high)
        parts = []
        for half, replica in enumerate(self._halves):
            writer = PartWriter(half, replica.clock)
            for key in dict.fromkeys(key for counter, key in rows[half] if counter <= high):
                writer.add(key, replica.siblings(key), replica.key_context(key))
            writer.part.covered_ranges = [(writer.position(self._me), low, high)]
            parts.append(writer.part)
        data = encode_message(Writes(self.boot, parts))
        self._flushed = high
        for peer in self._peers:
            self._ports.send(peer, data)
        if high < self.counter:
            self._wake()

    def _within_bytes(self, rows: list[list[tuple[int, bytes]]], high: int) -> int:
        """Returns the counter up to which the keys of both halves make one message of about `STEP_BYTES`."""
        size = 0
        entries = [(counter, key, half) for half in (0, 1) for counter, key in rows[half]]
        for counter, key, half in sorted(entries) if rows[0] and rows[1] else entries:
            if size >= STEP_BYTES:
                return min(high, counter - 1)
            size += self._halves[half].size(key)
        return high

    def _send(self, peer: str, message: Message) -> None:
        self._ports.send(peer, encode_message(message))

    def receive(self, peer: str, data: bytes) -> None:
        """Handle a message of a peer, from the lane or as a datagram.

        Skips keys that cannot be decoded and reports them. Raises `MalformedMapMessage`, and then has applied
        nothing.
        """
        try:
            message = decode_message(data)
            if isinstance(message, Writes | Batch):
                self._check_items(peer, message.parts)
        except MalformedMapMessage:
            message, problems = salvage(data, self._item_problem)
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            self.reports.unreadable(peer, f"metadata message of {peer}: {problems[0]}{more}")
        if isinstance(message, Writes | ClockReport | SyncRequest | Batch):
            self._check(peer, message.parts)
        self._wake()
        if not self._peer_clocks.heard(peer, message.boot):
            return  # from an earlier boot: its undelivered writes are lost, or other nodes send them
        in_view = self._peers.get(peer) == message.boot
        if isinstance(message, Writes):
            if in_view:
                self._absorb(peer, message.parts)
            else:
                self._gaps[peer] = None  # what nobody has acknowledged gives way before it comes (H-16)
        elif isinstance(message, Ack):
            if message.of_boot == self.boot:
                self._barriers.acked(peer, message.boot, message.counter)
        elif isinstance(message, BatchAck):
            self._anti_entropy.more(peer, message)
        elif isinstance(message, Batch):
            theirs = self._clocks(message.parts) if message.last else None
            self._anti_entropy.batch(peer, message, theirs, in_view)
        elif isinstance(message, SyncRequest):
            self._anti_entropy.asked(peer, message, self._clocks(message.parts))
        else:
            self._peer_clocks.reported(peer, message.parts)

    def _clocks(self, parts: list[Part]) -> Clocks:
        return clock_of(parts[0], self._actors), clock_of(parts[1], self._actors)

    def _item_problem(self, part: Part, item: Item) -> str:
        space = self._namespaces.get(item.key[:1])
        if space is None or space.durable == bool(part.half):
            return f"key {item.key!r} is in no namespace of half {part.half}"
        return ""

    def _check_items(self, peer: str, parts: list[Part]) -> None:
        for part in parts:
            for item in part.items:
                if problem := self._item_problem(part, item):
                    raise MalformedMapMessage(f"metadata message of {peer}: {problem}")

    def _check(self, peer: str, parts: list[Part]) -> None:
        for part in parts:
            known = [(position, seen[-1]) for position, seen in enumerate(part.seen) if seen]
            known += [
                (at, high)
                for each in part.items
                if each.key_context is not None
                for at, _, high in each.key_context.seen
            ]
            for position, last in known:
                if last > self.counter and part.actors[position] == (self.node, self.boot):
                    raise Contradiction(
                        f"metadata message of {peer}: write {last} of this node, which is at {self.counter}"
                    )

    def _absorb(self, peer: str, parts: list[Part]) -> None:
        for part in parts:
            touched = self._applier.absorb(self._halves[part.half], part)
            if part.half == 0 and self._persistence is not None:
                self._unsaved.update(dict.fromkeys(touched))
                self._observe(part)
                self._tell_deleters(touched)
            if self._applier.gap:
                self._gaps[peer] = None
        self._save()

    def _observe(self, part: Part) -> None:
        for item in part.items:
            if self._space(item.key).stamped:
                for value in item.values:
                    if value is not None:
                        self._hlc.observe(int.from_bytes(value[:STAMP], "big"))

    def _tell_deleters(self, touched: list[bytes]) -> None:
        """Send the keys where a deletion of a peer has met a concurrent value, which the peer may not get from another
        node: before this node's confirmation of the deletion (H-16)."""
        replica, unacknowledged = self._halves[0], self._anti_entropy.unacknowledged
        assert unacknowledged is not None
        for key in touched:
            siblings = replica.siblings(key)
            if len(siblings) > 2 and self._space(key).stamped and dvv.values(siblings):
                part = PartWriter(0, replica.clock)
                part.add(key, siblings, replica.key_context(key))
                for dot, value in dvv.pairs(siblings):
                    node, boot = self._actors.writer(dot)
                    awaits = value is None and self._peers.get(node) == boot
                    if awaits and not unacknowledged.all_give_way(node, siblings):
                        self._send(node, Writes(self.boot, [part.part]))

    def digests(self, half: int = 0) -> tuple[str, str]:
        """Digests of the writes that the durable or the volatile half (1) has seen, and of what is in force.

        The first one is "" while what is in force does not follow from the writes seen: an exchange is under way.
        """
        replica = self._halves[half]
        return replica.clock.digest() if replica.settled else "", f"{replica.digest:016x}"

    def _compared(self, peer: str, exchange: int, behind: int | None) -> None:
        self.reports.compared(peer, exchange, behind, *self.digests())

    def _give_way(self, key: bytes, others: Siblings) -> None:
        """This node never acknowledged its write of a key: write what the others have again."""
        was = self.get(key)
        self._write(key, self._resolve(key, others, raw=True))
        if (now := self.get(key)) != was:
            self.on_change(key, now)

    # Compaction

    @property
    def log_limit(self) -> int:
        """Dots that the log of one half holds at most; may be set."""
        return self._compactor.log_limit

    @log_limit.setter
    def log_limit(self, dots: int) -> None:
        self._compactor.log_limit = dots

    def tick(self, now_ms: float) -> None:
        """Do the periodic work that is due: reports, the exchange with a random peer, retries, compaction.

        `now_ms` is monotonic.
        """
        self._durable_acks.look()
        self._anti_entropy.tick()
        if self._next_sync_ms is None:
            self._next_sync_ms = now_ms + self._ports.rng.uniform(0, self.sync_interval_ms)
        if now_ms < self._next_sync_ms:
            return
        self._next_sync_ms = now_ms + self.sync_interval_ms + self._ports.rng.uniform(0, self.sync_leeway_ms)
        self._compactor.snapshot(self._ports.store, self._persistence)
        report = encode_message(ClockReport(self.boot, self._compactor.report()))
        for peer in self._peers:
            self._ports.datagram(peer, report)
        self._compactor.collect(self._may_forget)
        peers = sorted(self._peers)
        if peers and not self._anti_entropy.pending():
            self._anti_entropy.ask(peers[int(self._ports.rng.uniform(0, len(peers))) % len(peers)], 0, _nothing)

    def _may_forget(self) -> bool:
        """Whether the log may be trimmed now. Unsent writes are found through the log, so send them first."""
        self.tell()
        return not self._anti_entropy.serving

    def purge(self, writer_is_gone: Callable[[str, int], bool], space: bytes) -> int:
        """Remove the values in a namespace that were written by writers (node, boot) that are gone for good.

        Leaves no tombstones. Works in steps, and calls `on_change` for each key. Returns the number of values; if it is
        0, the call costs nothing. Every node must do the same, and repeat it from time to time: an exchange may bring
        back values that this node had removed.
        """
        return self._compactor.purge(writer_is_gone, space, self._half(space))

    def statistics(self) -> Statistics:
        """Figures for operators."""
        cost = self._anti_entropy.last_cost
        halves = self._halves
        return Statistics(
            keys=sum(replica.keys for replica in halves),
            tombstones=sum(replica.tombstones for replica in halves),
            bytes=sum(replica.bytes for replica in halves),
            log=sum(len(replica.log) for replica in halves),
            actors=sum(len(replica.clock.seen) for replica in halves),
            barriers=len(self._barriers),
            clamped=self._hlc.clamped,
            exchange_messages=cost.messages,
            exchange_keys=cost.keys,
            exchange_batches=cost.batches,
        )


def _nothing(well: bool) -> None:
    """Default for `then` of a periodic exchange."""
