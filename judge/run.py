"""Judges the log of a whole run in memory: groups the rows by the keys of the judges, and collects their findings.

The time is linear in the rows. Spark groups the same way, by message, lane, queue, client and boot, and calls the same
functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import findings
from .anomalies import a14_will
from .findings import Finding, Verdict
from .judging import judge_boot, judge_client, judge_lane, judge_message, judge_queue, judge_sessions
from .lanes import Entry
from .lives import BootRows
from .message import Lane
from .rows import MessageId, Row
from .sessions import SessionKey
from .world import TYPES, Summary, World


@dataclass
class Report:
    """The result: findings by anomaly and time, and counts. `waiting`: acknowledged messages, per session, that still
    wait for their subscriber."""

    findings: list[Finding] = field(default_factory=list)
    published: int = 0
    acked: int = 0
    delivered: int = 0
    waiting: int = 0
    open: int = 0
    """Acknowledged messages, per session, that may be lost or not: the logs end too early to tell."""

    @property
    def verdict(self) -> Verdict:
        """`unknown` if rows that decide are missing, `invalid` if a promise was broken, else `valid`."""
        return findings.verdict(self.findings)


class Grouped:
    """The rows of a log by key. `others` are those that a world is built from."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.messages: defaultdict[MessageId, list[Row]] = defaultdict(list)
        self.boots: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
        self.clients: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
        self.others: list[Row] = []
        self._stored: dict[tuple[str, int, str, str, int], Row] = {}
        for row in rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        kind = row["type"]
        self.boots[row["node"], row["boot"]].append(row)
        if (mid := row.get("mid")) is not None:
            self.messages[tuple(mid)].append(row)
            if kind == "q.durable":
                self._first_stored(row)
        if kind in TYPES or (kind == "ret.deliver" and mid is None):
            self.others.append(row)
        if kind in a14_will.TYPES:
            self.clients[row.get("mountpoint") or "", row["client"]].append(row)

    def _first_stored(self, row: Row) -> None:
        key = row["node"], row["boot"], row.get("mountpoint") or "", row["client"], row.get("epoch") or 0
        known = self._stored.get(key)
        if known is None or row["hlc"] < known["hlc"]:
            self._stored[key] = row

    def world(self, complete: bool = True) -> World:
        """Returns what happened besides messages. `complete`: as in `Summary`."""
        wills = {tuple(row["mid"]) for rows in self.clients.values() for row in rows if row["type"] == "will.fire"}
        safe = {each for each in wills if any(row["type"] == "q.durable" for row in self.messages[each])}
        boots = {key: BootRows.of(rows) for key, rows in self.boots.items()}
        return World.of(self.others, Summary(boots, self._stored.values(), frozenset(safe), complete))


def judge(rows: Iterable[Row], lifo: bool = False, complete: bool = True) -> Report:
    """Judge the rows of one run, of all nodes and boots, in any order. `lifo` queues are not judged for order.

    `complete`: the log has all rows so far, as that of a test in memory. Logs in files of running nodes are not.
    """
    grouped = Grouped(rows)
    world = grouped.world(complete)
    report = Report()
    lanes: defaultdict[tuple[SessionKey, Lane], list[Entry]] = defaultdict(list)
    queued: dict[SessionKey, int] = {}
    for message_id, of_message in grouped.messages.items():
        judged = judge_message(message_id, of_message, world)
        report.findings += judged.findings
        report.published += judged.published
        report.acked += judged.acked
        report.delivered += judged.delivered
        report.open += judged.open
        for entry in judged.entries:
            lanes[entry.key].append(entry)
        for session, stamp in judged.queued.items():
            queued[session] = max(stamp, queued.get(session, stamp))
    waiting: defaultdict[SessionKey, list[Entry]] = defaultdict(list)
    for (session, _), entries in lanes.items():
        found, wait = judge_lane(entries, lifo)
        report.findings += found
        if wait:
            waiting[session] += wait
    for session, wait in waiting.items():
        gone = judge_queue(session, wait, queued.get(session, -1), world)
        report.waiting += len(wait) - len(gone)
        report.findings += gone
    for of_boot in grouped.boots.values():
        report.findings += judge_boot(of_boot, world)
    for of_client in grouped.clients.values():
        report.findings += judge_client(of_client, world)
    for owner in world.sessions:
        report.findings += judge_sessions(owner, world)
    report.findings = findings.in_order(report.findings)
    return report
