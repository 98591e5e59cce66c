"""Generates a log: the load, with planted cases at several positions, and what must be found.

The same seed, number of messages and cases give the same rows. `expected` is complete when all rows are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import Final

from ...cluster.identity import SLOTS
from ..rows import Row
from .background import Background, Size
from .catalogue import Case, merged
from .client_cases import CASES as OF_CLIENTS
from .cluster_cases import CASES as OF_CLUSTERS
from .expected import Expected
from .failover_cases import CASES as OF_FAILOVERS
from .lag_cases import CASES as OF_LAGS
from .lane_cases import CASES as OF_LANES
from .map_cases import CASES as OF_MAPS
from .message_cases import CASES as OF_MESSAGES
from .scene import Actor, Scene
from .stage import Stage, subscriber_slot
from .stall_cases import CASES as OF_STALLS
from .stranded_cases import CASES as OF_STRANDED
from .writing_cases import CASES as OF_WRITING

CASES: Final[dict[str, Case]] = merged(
    OF_MESSAGES,
    OF_LANES,
    OF_CLIENTS,
    OF_CLUSTERS,
    OF_FAILOVERS,
    OF_STALLS,
    OF_LAGS,
    OF_MAPS,
    OF_STRANDED,
    OF_WRITING,
)
"""All planted cases by name."""
_LETTERS: Final = ("", *map("".join, product("abcdefghijklmnopqrstuvwxyz", repeat=2)))
FIRST, LAST = 0.05, 0.97
"""The shares of the messages at which the first and the last position of a case are."""


class PlantedLog:
    """A log of so many messages. Each of the cases is planted at `positions` places, spread over the log."""

    def __init__(self, seed: int, size: int | Size, cases: Iterable[str] = (), positions: int = 1) -> None:
        size = Size(size) if isinstance(size, int) else size
        self._scene = Scene(Random(seed))
        self._background = Background(self._scene, size)
        self._planted: list[Expected] = []
        self._slots: set[int] = set()
        """The slots of the subscribers of the cases so far."""
        for at, name in enumerate(cases):
            for position in range(positions):
                part = position / (positions - 1) if positions > 1 else self._scene.random.random()
                self._background.at(
                    FIRST + (LAST - FIRST) * part, self._plant(CASES[name], self._name(f"c{at}-{position}"))
                )

    @property
    def expected(self) -> list[Expected]:
        """What must be found in the rows so far, and nothing else."""
        return [*self._background.expected, *self._planted]

    def rows(self) -> Iterator[Row]:
        """Returns the rows in the order of their stamps, once."""
        yield from self._scene.play(self._background.run())
        yield from self._scene.play(self._background.stop())

    def _name(self, name: str) -> str:
        """Returns the name with a letter, so that no two cases have subscribers in one slot: one of them may say that
        the slot has moved. More cases than slots share them."""
        if len(self._slots) == SLOTS:
            self._slots.clear()
        names = (f"{name}{letters}" for letters in _LETTERS)
        free = next((each for each in names if subscriber_slot(each) not in self._slots), name)
        self._slots.add(subscriber_slot(free))
        return free

    def _plant(self, case: Case, name: str) -> Actor:
        stage = Stage(self._scene, name, case.name)
        yield from case.plant(stage)
        stage.end()
        self._planted += stage.expected
