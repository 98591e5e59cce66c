"""The comparison of an event log with what clients have seen: each kind of difference, in both directions."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.ha_audit import Audit
from bench.ha_ledger import Records, differences, records_in, rows_below
from bench.ha_wills import Wills
from strogoff.analytics.event_lines import header_line, line_of
from strogoff.judge.run import judge

from ..testing.log_audit.log_builder import Log


def ledger(*, lost: bool = False, again: int = 1, writer_knows: int = 1) -> Audit:
    """A subscriber with QoS 2, and a message that its publisher knows to be acknowledged."""
    audit = Audit(12.0)
    audit.reader("rx", 2)
    audit.begin("each", "kill")
    for number in range(1, writer_knows + 1):
        message = b"2:tx-%d" % number
        audit.sent(message, 0.0)
        audit.acked(message, 0.0)
        for _ in range(0 if lost else again):
            audit.delivered("rx", message, 0.0)
    return audit


def log_of(*, arrives: bool = True) -> Log:
    """The same in an event log."""
    log = Log()
    log.subscriber(expiry_s=60)
    if arrives:
        log.whole(qos=2)
        return log
    mid = log.accept(qos=2)
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)
    return log


NO_WILLS: Records = Counter()


def lines(audit: Audit, log: Log, wills: Records = NO_WILLS) -> list[str]:
    return list(differences(audit, wills, log.rows))


def test_the_log_says_what_clients_have_seen() -> None:
    assert lines(ledger(), log_of()) == []


def test_a_loss_that_both_know_is_no_difference() -> None:
    assert lines(ledger(lost=True), log_of(arrives=False)) == []


def test_a_loss_that_one_of_both_knows() -> None:
    """The number of deliveries differs as well."""
    client_alone = lines(ledger(lost=True), log_of())
    assert client_alone[0] == "event log: lost, rx: 1 seen by clients, 0 found in the log"
    assert client_alone[1] == "event log: rx: 1 messages delivered, the client has 0 to 0"
    log_alone = lines(ledger(), log_of(arrives=False))
    assert log_alone[0].startswith("event log: lost, rx: 0 seen by clients, 1 found in the log: A1 stale-route")


def test_a_message_that_came_twice() -> None:
    assert "event log: doubled, rx: 1 seen by clients, 0 found in the log" in lines(ledger(again=2), log_of())


def test_numbers_of_acknowledgements_agree() -> None:
    """A publisher may not know of one that a node has written down; the reverse is a difference."""
    audit = ledger(writer_knows=2)
    assert "event log: tx: 1 messages acknowledged, the client knows of 2 to 2" in lines(audit, log_of())
    sent_again = ledger()
    sent_again.resent(b"2:tx-1")
    log = log_of()
    log.whole(qos=2)
    assert "event log: rx: 2 messages delivered, the client has 1 to 1" in lines(sent_again, log)
    assert not any("acknowledged" in line for line in lines(sent_again, log))


def test_wrong_wills() -> None:
    wills = Wills()
    wills.add("gone", "kill gateway")
    wills.is_gone("gone")
    assert wills.records() == {("will", "gone"): 1}
    wills.delivered("will/gone", b"gone", 2, {})
    assert wills.records() == {}
    wills.delivered("will/gone", b"gone", 2, {})
    assert wills.records() == {("will", "gone"): 1}
    wills.gave_up("gone")
    assert wills.records() == {}
    assert "event log: will, gone: 1 seen by clients, 0 found in the log" in lines(
        ledger(), log_of(), Counter({("will", "gone"): 1})
    )


def test_findings_that_clients_have_no_record_of_are_differences() -> None:
    log = log_of()
    log.connect("other", expiry_s=60)
    log.connect("other")
    assert lines(ledger(), log)[0].startswith("event log: A12, other: 0 seen by clients, 1 found in the log")


def test_unsure_findings_and_metrics_are_no_records() -> None:
    report = judge(log_of(arrives=False).rows)
    (loss,) = [each for each in report.findings if each.anomaly == "A1"]
    assert records_in([loss]) == {("lost", "rx"): 1}
    assert records_in([replace(loss, sure=False)]) == {}
    assert records_in([replace(loss, severity="metric")]) == {}


def test_rows_of_all_nodes_below_a_folder(tmp_path: Path) -> None:
    """Also of a disk that was lost. A line that is no row is an error; rows of a node before it joined are left out."""
    log = log_of()
    for number, (run, name) in enumerate((("run", "n1"), ("run", "lost-in-round-1/n2"), ("alone", "n3"))):
        place = tmp_path / name / "eventlog"
        place.mkdir(parents=True)
        rows = [{**row, "run_id": run, "node": name[-2:]} for row in log.rows[: 9 if run == "run" else 1]]
        text = header_line(run, name[-2:], 1) + b"".join(map(line_of, rows))
        (place / f"boot=1-{number}.jsonl.gz").write_bytes(gzip.compress(text))
    assert {(row["run_id"], row["node"]) for row in rows_below(tmp_path)} == {("run", "n1"), ("run", "n2")}
    (tmp_path / "n1" / "eventlog" / "boot=1-9.jsonl").write_bytes(header_line("run", "n1", 1) + b"no row\n")
    with pytest.raises(ValueError, match="1 lines of event logs are no rows"):
        rows_below(tmp_path)
