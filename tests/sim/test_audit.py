"""The event log of a simulated run must say what the checkers say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.broker.queues.records import SessionRecord
from strogoff.broker.sessions.registry import SessionRegistry
from strogoff.broker.sessions.session import Session
from strogoff.cli import main
from strogoff.judge.findings import Finding
from strogoff.judge.run import judge
from strogoff.sim import commands
from strogoff.sim.audit import Audit, audit, explains, is_shown, summary
from strogoff.sim.causes import Causes
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import JUDGED_S, ClusterSimulation, Outcome

from ..testing.log_audit.log_builder import Log

LOST = "lost: rx never got tx-1 on t/1, acknowledged after its SUBACK to t/#"


def lost() -> Log:
    """A message that rx never gets."""
    log = Log()
    log.subscriber("rx", expiry_s=60)
    mid = log.accept()
    log.route(mid)
    log.ack(mid)
    return log


def differences(log: Log, *violations: str) -> list[str]:
    return [text.partition(":")[0] for text in audit(log.rows, violations, Causes()).differences]


def test_log_and_checkers_agree() -> None:
    log = Log()
    log.subscriber("rx", expiry_s=60)
    log.whole()
    assert differences(log) == [] and differences(lost(), LOST) == []
    assert audit(lost().rows, [LOST], Causes()).findings == {"A1 stale-route": 1}


def test_a_finding_without_a_violation_is_told_with_its_rows() -> None:
    (text,) = audit(lost().rows, (), Causes()).differences
    first, *rows = text.splitlines()
    assert first.startswith("finding without a violation: A1 stale-route: message 1 ")
    assert [row.split(": ")[1].split(" ")[0] for row in rows] == ["pub.recv", "pub.ack"]


def test_a_violation_without_a_finding_is_told() -> None:
    assert differences(Log(), LOST) == ["violation without a finding"]


def test_they_must_be_about_the_same_client() -> None:
    other = LOST.replace("rx", "ry")
    assert differences(lost(), other) == ["finding without a violation", "violation without a finding"]


def test_a_publisher_is_named_by_its_message() -> None:
    policy = "policy: tx-7 was accepted at n1 in state minority; publish = off"
    finding = audit_of(lost())
    assert explains(policy, replace(finding, anomaly="A19", subject=replace(finding.subject, client="tx")))
    assert not explains(policy, replace(finding, anomaly="A19", subject=replace(finding.subject, client="t")))


def test_a_duplicate_of_a_group_names_no_member() -> None:
    """What the judge finds is of one member. Loss is of the group, and both name it."""
    twice = replace(audit_of(lost()), anomaly="A5")
    assert explains("duplicate: $share/g/t/# got tx-1 2 times with QoS 2", twice)
    assert not explains("duplicate: ry, session 1 got tx-1 2 times with QoS 2", twice)
    assert not explains("lost: no member of $share/g/t/# got tx-1, acknowledged after a SUBACK", audit_of(lost()))


def audit_of(log: Log) -> Finding:
    return next(each for each in judge(log.rows).findings if each.anomaly == "A1")


def test_what_a_log_cannot_show_needs_no_finding() -> None:
    assert differences(Log(), "not at rest: a client waits", "expired early: k after 1 s of 2 s, for rx") == []
    assert is_shown(LOST) and not is_shown("side: n1 holds a lease, and could reach no majority of the voters for 1 s")


def test_what_waits_for_ever_is_not_lost_in_the_log() -> None:
    log = Log()
    log.subscriber("rx", expiry_s=60)
    mid = log.accept()
    log.route(mid, "rx")
    log.ack(mid)
    assert differences(log, LOST) == []


def test_what_rests_on_lost_rows_needs_no_violation() -> None:
    log = Log()
    log.subscriber("rx", expiry_s=60)
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.boot()
    assert differences(log) == ["finding without a violation"]
    log.rows[-1] = {**log.rows[-1], "tail_lost": True}
    assert differences(log) == [] and differences(log, LOST) == []


def test_runs_are_judged_one_by_one() -> None:
    """A node that is in no cluster yet has a run of its own."""
    log = lost()
    early = [{**row, "run_id": "own"} for row in log.rows[:5]]
    assert audit(early + log.rows[5:], (), Causes()).findings == {}


def test_a_log_with_two_processes_of_one_boot_is_not_judged() -> None:
    found = audit([*lost().rows, *lost().rows], (), Causes())
    assert found.differences == () and found.unjudged == "two processes of n@127.0.0.1 have written rows as boot 1"


def test_a_log_with_a_clock_a_year_ahead_is_not_judged() -> None:
    """The loss would be a difference: `other` had the message for nobody."""
    log, other = lost(), Log("other")
    other.pass_s(365 * 24 * 3600)
    rows = [*log.rows, *other.rows]
    found = audit(rows, (), Causes())
    assert found.differences == () and found.unjudged.startswith("other, boot 1: its clock jumped ahead by 365 days")
    found = audit(rows, (LOST,), Causes())
    assert found.findings["A1 stale-route"] == 1 and not found.unjudged


def test_stamps_alone() -> None:
    causes = Causes()
    causes.problems.append("stamps: wrong")
    assert audit(lost().rows, (LOST,), causes, judged=False) == Audit({}, ("stamps: wrong",))


def test_pairs_that_rows_name_are_compared() -> None:
    sent = {"type": "fwd.send", "node": "a", "boot": 1, "seq": 3, "hlc": 9, "mid": ("a", 1, 1), "target": "b"}
    arrived = {"type": "fwd.recv", "node": "b", "boot": 1, "seq": 4, "hlc": 9, "mid": ("a", 1, 1), "source": "a"}
    found = audit([sent, arrived], (), Causes(), judged=False)
    assert found.pairs == 1 and len(found.differences) == 1
    assert audit([sent, {**arrived, "hlc": 10}], (), Causes(), judged=False) == Audit(pairs=1)


@pytest.mark.slow
def test_the_audit_changes_nothing() -> None:
    """The same seed runs the same history with and without it."""
    for options in (RunOptions(6.0), RunOptions(4.0, nodes=3, variants=())):
        audited = run_seed(2420003, replace(options, audit=True))
        assert audited.audit is not None and audited.audit.differences == ()
        assert replace(audited, audit=None) == run_seed(2420003, options)


def test_differences_fail_a_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = Outcome(7, (), 1, 1, 1, 1, (), Audit({"A1 queue": 2}, ("finding without a violation: A1",), 5))
    monkeypatch.setattr(commands, "run_seeds", lambda seeds, jobs, options: iter((found,)))
    assert main(["sim", "--first", "7", "--audit"]) == 1
    told = capsys.readouterr().out
    assert "seed 7: 0 violations, 1 differences\n    finding without a violation: A1\n" in told
    assert "again: strogoff sim --first 7 --trace --audit" in told
    assert "event logs: 5 hops, 0 pairs in rows; findings: A1 queue: 2; 1 logs differ" in told


def test_a_clean_seed_says_what_was_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seconds", "3", "--first", "2420001", "--audit"]) == 0
    assert capsys.readouterr().out.endswith("event logs: 0 hops, 0 pairs in rows; findings: none; 0 logs differ\n")


def test_logs_that_are_not_judged_are_counted() -> None:
    assert list(summary([])) == []
    *_, last = summary([Audit(unjudged="why"), Audit(unjudged="why"), Audit()])
    assert last == "not judged, 2 logs: why"


def test_a_run_goes_on_until_a_will_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes forget the wills of the sessions that they read from the disk, and the audit finds that."""
    restore = SessionRegistry._restore

    def forget(registry: SessionRegistry, record: SessionRecord, in_slot: bool) -> Session:
        session = restore(registry, record, in_slot)
        session.will, session.absence.will_at = None, 0
        return session

    monkeypatch.setattr(SessionRegistry, "_restore", forget)
    rest_s, rest = list[float](), ClusterSimulation._rest

    def timed(simulation: ClusterSimulation) -> None:
        begin_s = simulation.world.loop.now_s
        rest(simulation)
        rest_s.append(simulation.world.loop.now_s - begin_s)

    monkeypatch.setattr(ClusterSimulation, "_rest", timed)
    outcome = run_seed(14100003, RunOptions(nodes=3, variants=("copies",), audit=True))
    assert outcome.audit is not None and "A14 lost" in outcome.audit.findings
    assert rest_s[0] >= JUDGED_S


def test_audit_and_apart_exclude_each_other() -> None:
    for words in (["--audit", "--apart", "500"], ["--audit", "--steps", "takeover"]):
        assert main(["sim", "--nodes", "3", *words]) == 2
