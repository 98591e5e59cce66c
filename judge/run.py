"""Judges the log of a whole run in memory: groups the rows by the keys of the judges, and collects their findings.

The time is linear in the rows. Spark groups the same way, by message, lane, queue, client and boot, and calls the same
functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter

from . import findings
from .anomalies import a08_stall, a17_sub_lag, a22_non_convergence
from .anomalies.a00_log_hole import stretches
from .anomalies.a16_retained_stale import Retained
from .building import TYPES, Summary, world_of
from .findings import Finding, Verdict
from .judging import (
    CLIENT_TYPES,
    COMPARISON_TYPES,
    CONNECTION_TYPES,
    RETAINED_TYPES,
    WRITE_TYPES,
    judge_boot,
    judge_client,
    judge_cluster,
    judge_comparisons,
    judge_connection,
    judge_lane,
    judge_message,
    judge_queue,
    judge_refusals,
    judge_retained,
    judge_sendings,
    judge_sessions,
    judge_topic,
    judge_writes,
)
from .lanes import Entry, lane_order, queue_order, sending_order
from .lives import BootRows
from .message import Lane
from .rows import MessageId, Row, message_id_of
from .sessions import SessionKey
from .tally import Tally
from .world import World


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

    def take(self, judged: Iterable[Finding | Entry]) -> list[Entry]:
        """Add the findings among what was judged. Returns the entries."""
        entries = []
        for each in judged:
            if isinstance(each, Entry):
                entries.append(each)
            else:
                self.findings.append(each)
        return entries

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
        self.retained: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
        self.refusals: list[Row] = []
        self.comparisons: defaultdict[str, list[Row]] = defaultdict(list)
        self.writes: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
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
        if kind in CLIENT_TYPES:
            self.clients[row.get("mountpoint") or "", row["client"]].append(row)
        elif kind in RETAINED_TYPES:
            self.retained[row.get("mountpoint") or "", row["topic"]].append(row)
        elif kind == "policy.deny":
            self.refusals.append(row)
        elif kind in COMPARISON_TYPES:
            self.comparisons[a22_non_convergence.asker(row)].append(row)
        elif kind in WRITE_TYPES and row.get("write") is not None:
            self.writes[a17_sub_lag.writer(row)].append(row)

    def _first_stored(self, row: Row) -> None:
        key = row["node"], row["boot"], row.get("mountpoint") or "", row["client"], row.get("epoch") or 0
        known = self._stored.get(key)
        if known is None or row["hlc"] < known["hlc"]:
            self._stored[key] = row

    def of_connections(self, places: Collection[a08_stall.Place]) -> dict[a08_stall.Place, list[Row]]:
        """Returns the rows of these connections that are judged by connection, in the order of `seq`."""
        found: dict[a08_stall.Place, list[Row]] = {place: [] for place in places}
        for node, boot in dict.fromkeys(place[:2] for place in places):
            for row in self.boots[node, boot]:
                if row["type"] in CONNECTION_TYPES and (node, boot, row.get("conn")) in found:
                    found[node, boot, row["conn"]].append(row)
        return {place: sorted(rows, key=itemgetter("seq")) for place, rows in found.items()}

    def _is_safe(self, fired: Row) -> bool:
        """Whether a will was safe in a queue of the node that published it."""
        place = "q.durable", fired["node"]
        return any((row["type"], row["node"]) == place for row in self.messages[message_id_of(fired)])

    def world(self, complete: bool = True) -> World:
        """Returns what happened besides messages. `complete`: as in `Summary`."""
        fired = [row for rows in self.clients.values() for row in rows if row["type"] == "will.fire"]
        safe = {message_id_of(row) for row in fired if self._is_safe(row)}
        boots = {key: BootRows.of(rows) for key, rows in self.boots.items()}
        return world_of(self.others, Summary(boots, self._stored.values(), frozenset(safe), complete))


def _without_messages(grouped: Grouped, world: World) -> Iterator[Finding]:
    for of_topic in grouped.retained.values():
        yield from judge_retained(of_topic, world)
    for of_writer in grouped.writes.values():
        yield from judge_writes(sorted(of_writer, key=a17_sub_lag.order), world)
    for of_asker in grouped.comparisons.values():
        yield from judge_comparisons(sorted(of_asker, key=a22_non_convergence.order), world)
    for of_boot in grouped.boots.values():
        yield from judge_boot(stretches(of_boot), world)
    for of_client in grouped.clients.values():
        yield from judge_client(of_client, world)
    for owner in world.sessions:
        yield from judge_sessions(owner, world)
    yield from judge_refusals(grouped.refusals, world)


def judge(rows: Iterable[Row], lifo: bool = False, complete: bool = True) -> Report:
    """Judge the rows of one run, of all nodes and boots, in any order. `lifo` queues are not judged for order.

    `complete`: the log has all rows so far, as that of a test in memory. Logs in files of running nodes are not.
    """
    grouped = Grouped(rows)
    world = grouped.world(complete)
    tally = Tally()
    report = Report()
    lanes: defaultdict[tuple[SessionKey, Lane], list[Entry]] = defaultdict(list)
    topics: defaultdict[tuple[str, str], list[Retained]] = defaultdict(list)
    waits: defaultdict[a08_stall.Place, list[a08_stall.Wait]] = defaultdict(list)
    for message_id, of_message in grouped.messages.items():
        judged = judge_message(message_id, of_message, world)
        tally.take(judged)
        report.findings += judged.findings
        for entry in judged.entries:
            lanes[entry.key].append(entry)
        for step in judged.retained:
            topics[step.key].append(step)
        for wait in judged.waits:
            waits[wait.place].append(wait)
    waiting: defaultdict[SessionKey, list[Entry]] = defaultdict(list)
    sent: defaultdict[SessionKey, list[Entry]] = defaultdict(list)
    for (session, _), entries in lanes.items():
        sent[session] += (each for each in entries if each.first_sent >= 0)
        waiting[session] += report.take(judge_lane(lane_order(entries), lifo))
    for session, entries in waiting.items():
        still = judge_queue(session, queue_order(entries), tally.queued.get(session, -1), world)
        report.waiting += len(report.take(still))
    for entries in sent.values():
        report.findings += judge_sendings(sending_order(entries), world)
    for retained in topics.values():
        report.findings += judge_topic(sorted(retained, key=attrgetter("due")), world)
    for place, of_connection in grouped.of_connections(waits).items():
        long = sorted(waits[place], key=attrgetter("begin"))
        report.findings += judge_connection(chain(long, of_connection), world)
    report.findings += _without_messages(grouped, world)
    report.findings += judge_cluster(tally.without_lease, tally.exposed, world)
    report.findings = findings.in_order(report.findings)
    report.published, report.acked = tally.published, tally.acked
    report.delivered, report.open = tally.delivered, tally.open
    return report
