"""From rows about nodes to what the time axis shows: lives, times without a lease, incidents, faults, settings.

What an incident is, when a boot has died, and when a node had no lease, `judge` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...judge.incidents import Incidents
from ...judge.lives import BootRows, Lives
from ...judge.partitions import Partitions
from ...judge.rows import NEVER, Row, in_order, ms_of, settings_of
from .report_data import Ending, Fault, Life, Setting, Span, Split


@dataclass(frozen=True, slots=True)
class Facts:
    """What happened to the nodes of one run."""

    lives: tuple[Life, ...] = ()
    minorities: tuple[Span, ...] = ()
    splits: tuple[Split, ...] = ()
    faults: tuple[Fault, ...] = ()
    settings: tuple[Setting, ...] = ()


@dataclass(slots=True)
class _Read:
    lives: Lives
    partitions: Partitions = field(default_factory=Partitions)
    incidents: Incidents = field(default_factory=Incidents)
    faults: list[Fault] = field(default_factory=list)
    settings: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def note(self, row: Row) -> None:
        kind = row["type"]
        if kind.startswith("split."):
            self.incidents.note(row)
            self.partitions.note(row)
        elif kind.startswith("fault."):
            self.faults.append(Fault(ms_of(row["hlc"]), kind, tuple(row["nodes"] or ())))
            if kind == "fault.kill":
                self.lives.killed(row)
        elif kind == "config.change":
            self._setting(row["key"], row.get("new") or "", row["node"])
        elif kind in ("node.start", "node.join"):
            self.partitions.note(row)
            for key, value in settings_of(row):
                self._setting(key, value, row["node"])

    def _setting(self, key: str, value: str, node: str) -> None:
        self.settings.setdefault((key, value), set()).add(node)


def facts_of(rows: Iterable[Row], boots: Mapping[tuple[str, int], BootRows]) -> Facts:
    """Returns what the rows of one run tell, which may come in any order; `boots` are all boots of the run."""
    read = _Read(Lives(boots))
    for row in in_order(rows):
        read.note(row)
    lives = _lives(read.lives)
    return Facts(
        lives=lives,
        minorities=tuple(part for life in lives for part in _without_lease(life, read.partitions)),
        splits=tuple(
            Split(
                node=each.node,
                name=each.name,
                state=each.state,
                begin_ms=ms_of(each.detected) - each.window_ms,
                detected_ms=ms_of(each.detected),
                healed_ms=None if each.healed == NEVER else ms_of(each.healed),
            )
            for each in read.incidents.all
        ),
        faults=tuple(read.faults),
        settings=tuple(Setting(*key, tuple(sorted(nodes))) for key, nodes in sorted(read.settings.items())),
    )


def _lives(boots: Lives) -> tuple[Life, ...]:
    """Returns all boots by node and number. A node that starts has the time of its disk until it hears from others, so
    its first rows may have older stamps than the last ones of the boot before."""
    lives: list[Life] = []
    for (node, boot), rows in sorted(boots.boots.items()):
        ending: Ending = "stopped" if rows.stopped else "open"
        if boots.death(node, boot) != NEVER:
            ending = "killed"
        begin, end = ms_of(rows.first_hlc), ms_of(rows.last_hlc)
        if lives and lives[-1].node == node:
            begin = max(begin, lives[-1].end_ms)
        lives.append(Life(node, boot, begin, max(begin, end), ending))
    return tuple(lives)


def _without_lease(life: Life, partitions: Partitions) -> Iterable[Span]:
    """Returns the parts of a life without a lease: a node that is down has none, and its lane shows that."""
    for begin, end in partitions.spans_without_lease(life.node):
        first = max(ms_of(begin), life.begin_ms)
        last = life.end_ms if end == NEVER else min(ms_of(end), life.end_ms)
        if first < last:
            yield Span(life.node, first, last)
