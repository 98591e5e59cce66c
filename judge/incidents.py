"""Incidents: how long a node did not see the whole cluster, as its own rows say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .rows import NEVER, Row, RowId, row_id


@dataclass(slots=True)
class Incident:
    """One incident of one node, from its detection to its heal, or to the next start of the node.

    `name`: the number of the incident, the same at all nodes, or in older logs its begin. `occurrence`: 1 for the
    first time that the node is in this incident; it may heal there and begin again before the next view.
    `window_ms`: how long the node went on before it knew. `state`: minority if the node ever was without a lease.
    """

    node: str
    name: str
    window_ms: int
    detected: int
    state: str
    occurrence: int = 1
    healed: int = NEVER
    rows: list[RowId] = field(default_factory=list)


class Incidents:
    """The incidents of all nodes. `note` takes rows of split.detect, split.change and split.heal, in order."""

    def __init__(self) -> None:
        self.all: list[Incident] = []
        self._open: dict[str, Incident] = {}
        self._times: Counter[tuple[str, str]] = Counter()

    def note(self, row: Row) -> None:
        """Read a row."""
        node = row["node"]
        if row["type"] == "split.detect":
            number = row.get("incident")
            name = f"begin {row.get('begin_ms') or 0}" if number is None else f"incident {number}"
            self._times[node, name] += 1
            window_ms, occurrence = row.get("window_ms") or 0, self._times[node, name]
            self._open[node] = Incident(node, name, window_ms, row["hlc"], row.get("state") or "", occurrence)
            self.all.append(self._open[node])
        incident = self._open.get(node)
        if incident is None:
            return
        incident.rows.append(row_id(row))
        if row.get("state") == "minority":
            incident.state = "minority"
        if row["type"] == "split.heal":
            incident.healed = row["hlc"]
            del self._open[node]

    def started(self, row: Row) -> None:
        """Read a `node.start`: what the node saw before has ended."""
        incident = self._open.pop(row["node"], None)
        if incident is not None:
            incident.healed = row["hlc"]

    def last_heal(self, nodes: Iterable[str]) -> int:
        """Returns the stamp at which the last incident of these nodes ended: `NEVER` if one goes on, -1 without any."""
        return max((each.healed for node in nodes for each in self.of(node)), default=-1)

    def of(self, node: str) -> Iterator[Incident]:
        """Returns the incidents of a node."""
        return (each for each in self.all if each.node == node)

    def contains(self, node: str, stamp: int) -> bool:
        """Whether a node was in an incident at a stamp."""
        return any(each.node == node and each.detected <= stamp < each.healed for each in self.all)
