"""Keeps the map small: trims the log, removes tombstones, folds early boots, purges keys of nodes that have left.

The work is done in steps of `STEP` keys, one step in a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...storage.store import Store
from .actors import SHIFT, Actors
from .dvv import Siblings
from .messages import Part, PartWriter
from .peer_clocks import PeerClocks
from .persistence import Persistence
from .replica import Replica
from .version_vector import VersionVector

STEP = 250
LOG_LIMIT = 2_000_000
"""Default of `Compactor.log_limit`: the largest number of dots in the log of one half. Further dots are removed
although a member lacks them; that member is then compared key by key when it comes back (H-16)."""


class Compactor:
    """Trims, folds and purges both halves. `settle` is called after each step to write the changes to disk."""

    def __init__(
        self,
        halves: tuple[Replica, Replica],
        known: PeerClocks,
        actors: Actors,
        soon: Callable[[Callable[[], None]], object],
        settle: Callable[[], None],
    ) -> None:
        self._halves = halves
        self._peer_clocks = known
        self._actors = actors
        self._soon = soon
        self._settle = settle
        self.log_limit = LOG_LIMIT
        self._busy = False
        self._purging: set[tuple[bytes, int]] = set()
        self.others: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        """The nodes each half waits for: all other members (durable), the other nodes of the view (volatile)."""
        self.known = True
        """Whether the members are known; if not, nothing is removed."""
        self.on_disk = VersionVector(actors)

    @property
    def alone(self) -> bool:
        """Whether there is no other node to wait for."""
        return self.known and not any(self.others)

    # Reports

    def snapshot(self, store: Store | None, durable: Persistence | None) -> None:
        """Take a copy of the durable clock. Once the store has committed it, `report` uses it."""
        clock = self._halves[0].clock
        if clock == self.on_disk:
            return
        copy = clock.copy()
        if store is None or durable is None:
            self.on_disk = copy
            return
        durable.save_clock()
        store.when_landed(store.open_commit, lambda: self._committed(copy))

    def _committed(self, copy: VersionVector) -> None:
        self.on_disk = copy

    def report(self) -> list[Part]:
        """Returns the clocks that other nodes may rely on: for the durable half, the clock that is on disk."""
        return [PartWriter(0, self.on_disk).part, PartWriter(1, self._halves[1].clock).part]

    # Tombstones and early boots

    def collect(self, may: Callable[[], bool]) -> None:
        """Start a compaction, unless one is running already. `may` is called before each step."""
        if not self._busy:
            self._busy = True
            self._run(self._collecting(), lambda: self.known and may())

    def _run(self, steps: Iterator[None], may: Callable[[], bool]) -> None:
        if may() and next(steps, steps) is None:
            self._settle()
            self._soon(lambda: self._run(steps, may))
        else:
            self._busy = False
            self._settle()

    def _collecting(self) -> Iterator[None]:
        for half, replica in enumerate(self._halves):
            others = self._peer_clocks.of(self.others[half], half)
            own = self.on_disk if half == 0 and others else replica.clock
            for actor in replica.log.actors:
                high = min((clock.base(actor) for clock in [own, *others] if not clock.is_folded(actor)), default=0)
                while replica.collect(actor, high, STEP):
                    yield
            for actor in replica.log.actors:
                while len(replica.log) > self.log_limit and self._shorten(replica, actor):
                    yield
            for node, boot in replica.clock.foldable(others):
                replica.fold(node, boot)
            replica.clock.forget_final(others)

    def _shorten(self, replica: Replica, actor: int) -> bool:
        entries = replica.log.between(actor, 0, replica.clock.base(actor), STEP)
        return bool(entries) and replica.collect(actor, entries[-1][0], STEP)

    # Keys of writers that are gone

    def purge(self, gone: Callable[[str, int], bool], space: bytes, replica: Replica) -> int:
        """Remove the siblings in a namespace whose writers are gone. Returns an upper bound of their number."""
        made = replica.made(space)
        actors = {actor for actor in made if gone(*self._actors.names[actor]) and (space, actor) not in self._purging}
        count = sum(made[actor] for actor in actors)
        if actors:
            self._purging |= {(space, actor) for actor in actors}
            self._purge_step(replica, replica.walk(), actors, space)
        return count

    def _purge_step(
        self, replica: Replica, walk: Iterator[tuple[bytes, Siblings]], actors: set[int], space: bytes
    ) -> None:
        for _ in range(STEP):
            key, siblings = next(walk, (b"", ()))
            if not key:
                self._purging -= {(space, actor) for actor in actors}
                self._settle()
                return
            if key.startswith(space):
                for dot in siblings[::2]:
                    if dot >> SHIFT in actors:
                        replica.forget(key, dot)
        self._settle()
        self._soon(lambda: self._purge_step(replica, walk, actors, space))
