"""What keeps the map small: reports of clocks, tombstones and early boots that nobody needs any more, keys of the gone.

All of it is done in steps of `STEP` keys, a turn of the loop each.
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
"""Dots that the log of one half holds at most, if `Compactor.log_limit` is not set to another number. Beyond it dots go
although a member lacks them: that member is led through all keys when it comes back (H-16)."""


class Compactor:
    """Trims, folds and purges both halves. `settle` is called after each step: the disk is told what changed."""

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
        """Whom each half waits for: all other members; the other nodes of the view."""
        self.known = True
        """Whether the members are known; else nothing is forgotten."""
        self.on_disk = VersionVector(actors)

    @property
    def alone(self) -> bool:
        """Whether there is nobody to wait for."""
        return self.known and not any(self.others)

    # Reports

    def snapshot(self, store: Store | None, durable: Persistence | None) -> None:
        """See to it that the durable clock is on the disk; from then on it may be reported."""
        clock = self._halves[0].clock
        if clock == self.on_disk:
            return
        copy = clock.copy()
        if store is None or durable is None:
            self.on_disk = copy
            return
        durable.save_clock()
        store.when_committed(store.open_commit, lambda: self._committed(copy))

    def _committed(self, copy: VersionVector) -> None:
        self.on_disk = copy

    def report(self) -> list[Part]:
        """The clocks that others may rely on: of the durable half what is on the disk."""
        return [PartWriter(0, self.on_disk).part, PartWriter(1, self._halves[1].clock).part]

    # Tombstones and early boots

    def collect(self, may: Callable[[], bool]) -> None:
        """Forget what nobody needs, unless that is going on already. `may` is asked before each step."""
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
        """Forget the siblings of a space that were made by actors that are gone; how many there are, at most."""
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
