"""The parts of the table of the dashboard: rows, panels and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RED, ORANGE, GREEN = "red", "orange", "green"


@dataclass(frozen=True)
class Query:
    """An expression of PromQL; `legend` names its series, with labels as `{{node}}`.

    In the text `{@}` stands for the filters of the dashboard, `{@, more}` for these and more labels, `{@job}` for the
    filter of the cluster alone, and `[@]` for the interval of a rate, which Grafana chooses. Each name of a metric has
    braces, so that a test finds it.
    """

    text: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """A panel. `kind` is a panel type of Grafana; `page` is below docs/.

    `steps` are the colours of values from a bound on, `words` those values that are shown as a word in a colour. A
    `table` has a column for each query, which joins on the label `key`.
    """

    title: str
    unit: str
    meaning: str
    page: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    steps: Mapping[float, str] = field(default_factory=dict)
    words: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    stacked: bool = False
    key: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the dashboard with its panels."""

    title: str
    panels: tuple[Panel, ...]
