"""The planted cases by name: anomalies, and near misses that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .scene import Actor
from .stage import Stage

Plant = Callable[[Stage], Actor]


@dataclass(frozen=True)
class Case:
    """One case: `wrong` if the log shows an anomaly then. `plant` writes its rows; its docstring says what happens."""

    name: str
    wrong: bool
    plant: Plant

    @property
    def about(self) -> str:
        """What happens."""
        return (self.plant.__doc__ or "").strip()

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The anomalies that it plants, as its docstring names them before the colon; none for a near miss."""
        return tuple(re.findall(r"A[0-9]+", self.about.partition(":")[0])) if self.wrong else ()


class Catalogue:
    """Collects cases. `anomaly` and `near_miss` decorate the function that plants a case; its name names the case."""

    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}

    def anomaly(self, plant: Plant) -> Plant:
        """Add a case with an anomaly."""
        return self._add(plant, True)

    def near_miss(self, plant: Plant) -> Plant:
        """Add a case that only looks like one."""
        return self._add(plant, False)

    def _add(self, plant: Plant, wrong: bool) -> Plant:
        name = plant.__name__.replace("_", "-")
        assert name not in self.cases, name
        self.cases[name] = Case(name, wrong, plant)
        return plant


def merged(*catalogues: Catalogue) -> dict[str, Case]:
    """Returns the cases of several catalogues, which have different names."""
    cases: dict[str, Case] = {}
    for each in catalogues:
        assert not cases.keys() & each.cases.keys()
        cases.update(each.cases)
    return cases
