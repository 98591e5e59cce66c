"""Event logs of a random cluster, made from one seed, and the totals planted in them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from strogoff.analytics.event_lines import header_line
from strogoff.analytics.schema import MESSAGE, OFF, SESSION
from strogoff.broker.process.eventlog_files import HOUR_MS
from strogoff.broker.reporting.events import Events, Row
from strogoff.testing.log_audit.log_files import write_log

MINUTE_MS = 60_000
START_MS = 1_772_362_800_000  # 2026-03-01 11:00 UTC
REASONS = ("queue_full", "max_packet_size_exceeded", "no_member", "absent", "retained_limit")


class LoggedNode:
    """One node that writes the events of a random run. `totals` has the sums of its log, by (hour, kind, reason)."""

    def __init__(self, name: str, rng: random.Random, run: str = "run") -> None:
        self.name = name
        self.run = run
        self.rng = rng
        self.now_ms = START_MS + rng.randrange(HOUR_MS)
        self.boot = 0
        self.totals: Counter[tuple[int, str, str]] = Counter()
        self.rows: list[Row] = []

    def live(self, minutes: int, level: int, crash: bool, rate: int = 6, joins: bool = False) -> None:
        """One boot: random events for this number of minutes. A crash loses the counters of the last minute. A node
        that joins has its first rows under a run of its own.
        """
        self.boot += 1
        self._counted: Counter[tuple[str, str]] = Counter()
        self._pending: list[tuple[int, str, str, bool]] = []
        run = f"{self.name} alone" if joins else self.run
        self.events = Events(self.name, self.boot, run, lambda: self.now_ms, lambda: self.now_ms * 10**6, level)
        self.events.add(self.rows.append)
        self.events.emit("node.start", retained=0)
        for minute in range(minutes):
            if joins and minute == minutes // 2:
                self._join()
            self._pass_until(self.now_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS, rate)
            self._snapshot()
        self._pass_until(self.now_ms + 30_000, rate)
        if crash:
            self._forget_what_only_counters_knew()
        else:
            self._snapshot()
            self.events.emit("node.stop")
        self.now_ms += self.rng.randrange(1, HOUR_MS)

    def _join(self) -> None:
        self._snapshot()
        self.events.emit("node.stop", reason="joined")
        self.events.belong_to(self.run)
        self.events.emit("node.join", old=f"{self.name} alone")
        self._snapshot()

    def write(self, directory: Path, size: int = 8_000) -> None:
        """All rows so far into the files of their boots."""
        write_log(self.rows, directory, len(header_line(self.run, self.name, 1)) + size)

    def _pass_until(self, end_ms: int, rate: int) -> None:
        moments = sorted(self.rng.randrange(self.now_ms + 1, end_ms) for _ in range(self.rng.randrange(rate)))
        for moment in moments:
            self.now_ms = moment
            self._happen()
        self.now_ms = end_ms

    def _happen(self) -> None:
        what = self.rng.choice(
            ["connect", "publish", "publish", "deliver", "deliver", "deliver", "drop", "expire", "close"]
        )
        mid = (self.name, self.boot, self.events.seq)
        emit, messages = self.events.emit, self.events.messages
        if what == "connect":
            emit("conn.open", client="c", peer="127.0.0.1:5", version=4)
            self._count("connects", "", True)
        elif what == "publish":
            if messages:
                emit("pub.recv", mid=mid, client="c", topic="a/ü", qos=1)
            self._count("publishes", "", messages)
        elif what == "deliver":
            seen = messages and self.rng.random() < 0.7  # QoS 0 deliveries are no events
            if seen:
                emit("dlv.send", mid=mid, client="d", dup=False, packet_id=7)
            self._count("deliveries", "", seen)
        elif what == "drop":
            reason = self.rng.choice(REASONS)
            if reason == "absent":
                emit("fwd.drop", target="other", topic="t", reason=reason, mid=mid, qos=0)
            elif reason == "retained_limit":
                emit("ret.refuse", client="c", topic="t", reason=reason)
            else:
                emit("q.drop", client="d", topic="t", reason=reason, mid=mid)
            self._count("drops", reason, True)
        elif what == "expire":
            emit("q.expire", client="d", topic="t", mid=mid)
            self.totals[self.now_ms // HOUR_MS, "drops", "expired"] += 1  # not among the counters' reasons
        else:
            emit("conn.close", client="c", reason="disconnect")

    def _count(self, kind: str, reason: str, logged: bool) -> None:
        self._counted[kind, reason] += 1
        self.totals[self.now_ms // HOUR_MS, kind, reason] += 1
        self._pending.append((self.now_ms // HOUR_MS, kind, reason, logged))

    def _snapshot(self) -> None:
        drops = {reason: n for (kind, reason), n in self._counted.items() if kind == "drops"}
        totals = {kind: self._counted[kind, ""] for kind in ("connects", "publishes", "deliveries")}
        totals["connects"] += self.boot  # refused ones: where all events are there, the counter is not asked
        self.events.emit("node.stats", **totals, drops=drops)
        self._pending.clear()

    def _forget_what_only_counters_knew(self) -> None:
        for hour, kind, reason, logged in self._pending:
            if not logged:
                self.totals[hour, kind, reason] -= 1


def cluster(seed: int, minutes: int = 90, levels: tuple[int, ...] = (SESSION, MESSAGE)) -> list[LoggedNode]:
    """Three nodes with one to three boots each, at random levels, some crashed."""
    assert OFF not in levels
    rng = random.Random(seed)
    made = [LoggedNode(f"n{seed}.{number} @[{number}]", rng, f"run{seed}") for number in (1, 2, 3)]
    for node in made:
        for boot in range(rng.randrange(1, 4)):
            joins = boot == 0 and rng.random() < 0.5
            node.live(rng.randrange(minutes), rng.choice(levels), rng.random() < 0.5, joins=joins)
    return made
