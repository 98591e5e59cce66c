"""The stream without Spark: rows in batches, held until they are due, and judged as the job does."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from strogoff.analytics.decoding import mid_of
from strogoff.analytics.stream import items
from strogoff.analytics.stream.held import KEPT_MS, Held
from strogoff.analytics.stream.items import ReadBoots, items_of
from strogoff.analytics.stream.world_rows import RunRows, WorldRows
from strogoff.judge.alerts import MINUTE_MS, Alert, Limits, judge_message, judge_minute, judge_splits
from strogoff.judge.building import Summary, world_of_ordered
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.presence import Presence, known_up_to
from strogoff.judge.rows import LOGICAL_BITS, Row, ms_of

SOON = Limits(late_ms=200, slow_ms=100)
DELAY_MS = 50
OF_CASES = "192.0.2.9"
"""The end of the names of the nodes of planted cases."""


class Stream:
    """One run, in one part. `save` writes after each batch what the next one needs."""

    def __init__(self, place: Path, limits: Limits = SOON, number: int = 0, state: bytes = b"", watermark: int = 0):
        self.limits = limits
        self.number = number
        self.state = state
        self.watermark = watermark
        self.world_rows = WorldRows(place)
        self.alerts: list[Alert] = []

    def batch(self, rows: Iterable[Row]) -> None:
        """Read rows."""
        held, boots, latest = Held(self.state), ReadBoots(), self.watermark
        for row in rows:
            boots.note(row)
            held.add(each for each in items_of(dict(row), self.limits, 1) if each.ms >= self.watermark)
            latest = max(latest, ms_of(row["hlc"]) - DELAY_MS)
        held.add(boots.items())
        self._judge([*held.take(self.watermark)])
        self.state = held.state
        self.number += 1
        self.watermark = latest

    def _judge(self, due: Sequence[Any]) -> None:
        mark = self.watermark
        new = RunRows()
        of_world = [items.row_of(each.rows[0]) for each in due if each.kind == items.WORLD]
        of_boots = [items.boot_of(text) for each in due if each.kind == items.BOOT for text in each.rows]
        new.add(of_world, of_boots)
        runs, minutes = self.world_rows.add(self.number, {"planted": new})
        here = runs["planted"]
        world = world_of_ordered(here.rows, Summary(known_up_to(here.boots, mark << LOGICAL_BITS)))
        presence = Presence(here.rows, world)
        for each in due:
            if each.kind == items.MINUTE:
                hit = items.hit_of(each.rows[0])
                self.alerts += judge_minute(items.minute_of(each.key), each.number, *hit, self.limits)
            elif each.kind == items.MESSAGE:
                rows = [items.row_of(text) for text in each.rows]
                for found in judge_message("planted", mid_of(each.key), rows, world, presence, self.limits):
                    if isinstance(found, Alert):
                        self.alerts.append(found)
                    else:
                        minutes[found.minute] = items.counted(minutes.get(found.minute), (1, found.at, found.row))
        for minute in [each for each in minutes if each.begin_ms + MINUTE_MS <= mark]:
            self.alerts += judge_minute(minute, *minutes.pop(minute), self.limits)
        self.alerts += judge_splits(world, new.rows, "planted")
        self.world_rows.save(self.number, {"planted": new}, mark - self.limits.late_ms - KEPT_MS)


def planted(seed: int, messages: int, cases: Iterable[str] = ()) -> tuple[PlantedLog, list[Row]]:
    """A planted log, whose cases go on: their nodes are not stopped, and write nothing any more."""
    log = PlantedLog(seed, messages, cases)
    ends = [row for row in log.rows() if row["type"] != "node.stop" or not row["node"].endswith(OF_CASES)]
    return log, ends


def streamed(place: Path, rows: Sequence[Row], seed: int, limits: Limits = SOON) -> list[Alert]:
    """All alerts of rows that come in random batches. At the end it is much later."""
    rng = random.Random(seed)
    stream, at = Stream(place, limits), 0
    while at < len(rows):
        some = rows[at : at + rng.randrange(1, 800)]
        at += len(some)
        stream.batch(some)
    stream.watermark += KEPT_MS
    stream.batch([])
    return sorted(stream.alerts, key=lambda each: (each.at, each.id))
