"""Generates a log: the load, with planted cases at several positions, and what must be found.

The same seed, number of messages and cases give the same rows. `expected` is complete when all rows are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

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
from .stage import Stage
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
FIRST, LAST = 0.05, 0.97
"""The shares of the messages at which the first and the last position of a case are."""


class PlantedLog:
    """A log of so many messages. Each of the cases is planted at `positions` places, spread over the log."""

    def __init__(self, seed: int, size: int | Size, cases: Iterable[str] = (), positions: int = 1) -> None:
        size = Size(size) if isinstance(size, int) else size
        self._scene = Scene(Random(seed))
        self._background = Background(self._scene, size)
        self._planted: list[Expected] = []
        for at, name in enumerate(cases):
            for position in range(positions):
                part = position / (positions - 1) if positions > 1 else self._scene.random.random()
                self._background.at(FIRST + (LAST - FIRST) * part, self._plant(CASES[name], f"c{at}-{position}"))

    @property
    def expected(self) -> list[Expected]:
        """What must be found in the rows so far, and nothing else."""
        return [*self._background.expected, *self._planted]

    def rows(self) -> Iterator[Row]:
        """Returns the rows in the order of their stamps, once."""
        yield from self._scene.play(self._background.run())
        yield from self._scene.play(self._background.stop())

    def _plant(self, case: Case, name: str) -> Actor:
        stage = Stage(self._scene, name, case.name)
        yield from case.plant(stage)
        stage.end()
        self._planted += stage.expected
