"""Compare the event log of a run with what its clients have seen: the log alone must tell the same.

The judges read the log of all nodes and know nothing of the clients. Their findings of severity fatal and error must be
the clients' records, for each client and kind of violation: a message lost, one that came twice, one out of order, a
will too many or too few. A finding that no client has seen is a difference, and a record without a finding is one, too.

The numbers of messages must agree as well. A publisher may miss an acknowledgement that a node has written down, and a
subscriber sees a message once for each of its sendings, so these are bounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from strogoff.judge.findings import Finding
from strogoff.judge.rows import MessageId, Row, message_id_of
from strogoff.judge.run import judge
from strogoff.testing.log_audit.log_files import read_log

from .ha_audit import Audit

KINDS: Final = {"A1": "lost", "A4": "doubled", "A5": "doubled", "A6": "reordered", "A14": "will"}
"""Anomaly -> the kind of record that a client has of it. Clients have no records of other anomalies."""
SEVERE: Final = frozenset(("fatal", "error"))

Records = Counter[tuple[str, str]]
"""Kind and client id -> how often."""


def rows_below(folder: Path) -> list[Row]:
    """Returns the rows of all event logs below a folder. A node that joins has written a few rows of its own run
    before, which are left out. Raises ValueError if a file has a line that is no row."""
    rows, rejects = read_log(folder)
    if rejects:
        raise ValueError(f"{folder}: {len(rejects)} lines of event logs are no rows: {rejects[0].reason}")
    runs = Counter(row["run_id"] for row in rows)
    (main, _), *_ = runs.most_common(1)
    return [row for row in rows if row["run_id"] == main]


def records_in(findings: Iterable[Finding]) -> Records:
    """Returns the records that clients must have, by the findings that are sure."""
    return Counter(map(_record, filter(_counts, findings)))


def differences(audit: Audit, wills: Records, rows: Sequence[Row]) -> Iterator[str]:
    """Yields a line for each difference between the records of clients and the log. `wills`: clients with a wrong
    number of wills."""
    report = judge(rows, complete=False)
    seen, told = audit.records() + wills, records_in(report.findings)
    severe = list(filter(_counts, report.findings))
    for kind, client in sorted(seen.keys() | told.keys()):
        count, said = seen[kind, client], told[kind, client]
        if count != said:
            proof = next((f": {each}" for each in severe if _record(each) == (kind, client)), "")
            yield f"event log: {kind}, {client or 'no client'}: {count} seen by clients, {said} found in the log{proof}"
    acked, answered = numbers_of(rows)
    for name, (least, most) in sorted(audit.published().items()):
        if not least <= len(acked[name]) <= most:
            yield f"event log: {name}: {len(acked[name])} messages acknowledged, the client knows of {least} to {most}"
    for name, (least, most) in sorted(audit.received().items()):
        if not least <= len(answered[name]) <= most:
            yield f"event log: {name}: {len(answered[name])} messages delivered, the client has {least} to {most}"


def numbers_of(rows: Iterable[Row]) -> tuple[Mapping[str, set[MessageId]], Mapping[str, set[MessageId]]]:
    """Returns client -> the messages that a node acknowledged to it, and client -> those that it answered itself."""
    acked: defaultdict[str, set[MessageId]] = defaultdict(set)
    answered: defaultdict[str, set[MessageId]] = defaultdict(set)
    for row in rows:
        if row["type"] == "pub.ack" and (row.get("code") or 0) < 0x80:
            acked[row["client"]].add(message_id_of(row))
        elif row["type"] == "dlv.ack":
            answered[row["client"]].add(message_id_of(row))
    return acked, answered


def _counts(finding: Finding) -> bool:
    return finding.sure and finding.severity in SEVERE


def _record(finding: Finding) -> tuple[str, str]:
    return KINDS.get(finding.anomaly, finding.anomaly), finding.subject.client
