"""The page: it says everything, in order, as HTML that is right, and nothing of a client is markup."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from strogoff.analytics.report.page import BADGES, page
from strogoff.analytics.report.report_data import Count, NotRead, RunReport, Setting
from strogoff.judge.findings import Finding, Subject
from strogoff.judge.planted.generate import CASES
from tests.harness.thinning import thinned

from .reports import BEGIN_MS, Parsed, planted, report_of, run_of

NASTY = "<script>alert('x')</script>"


@pytest.mark.parametrize("name", thinned(sorted(CASES), 3))
def test_the_page_of_a_planted_log_has_its_verdict_and_all_findings(name: str) -> None:
    run = planted([name], positions=2)
    parsed = Parsed(page(report_of(run)))
    said = parsed.texts["strong"][0]
    assert said == BADGES[run.audit.verdict]
    assert (run.audit.verdict == "valid") == (not any(each.severity == "fatal" for each in run.audit.findings))
    assert run.other_findings == 0 and {each.finding.id for each in run.findings} == {
        each.id for each in run.audit.findings
    }
    for each in run.findings:
        assert f"run-1-{each.finding.id}" in parsed.ids
        assert each.finding.text in parsed.texts["h5"]
        assert all(row.type in parsed.texts["code"] and row.text in parsed.text for row in each.rows)
        assert len(each.rows) == min(len(each.finding.rows), 8)


def test_ids_are_unique_and_links_lead_to_them() -> None:
    """Two runs may have the same finding. Findings of one interval share a sign."""
    run = planted(["overtaken", "two-owners"], positions=3)
    parsed = Parsed(page(report_of(run, run)))
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {each.removeprefix("#") for each in parsed.links} <= set(parsed.ids)
    for place in ("#run-1-", "#run-2-"):
        assert len([each for each in parsed.links if each.startswith(place)]) == 3


def test_headings_descend_one_level_at_a_time() -> None:
    made = page(report_of(planted(["overtaken"])))
    levels = [int(made[at + 2]) for at in range(len(made)) if made[at : at + 2] == "<h" and made[at + 2].isdigit()]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_tables_and_pictures_can_be_heard() -> None:
    made = page(report_of(planted(["overtaken"])))
    parsed = Parsed(made)
    assert len(parsed.texts["caption"]) == len(parsed.texts["table"])
    assert {value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")} == {"col", "row"}
    pictures = [name for tag, name, _ in parsed.attributes if tag == "svg" and name in ("role", "aria-hidden")]
    assert len(pictures) == made.count("<svg")
    assert 'lang="en"' in made and '<meta name="viewport"' in made


def test_nothing_comes_from_the_network() -> None:
    made = page(report_of(planted(["overtaken"])))
    assert "<script" not in made and "<link" not in made and "@import" not in made
    assert "http://" not in made and "https://" not in made and "url(//" not in made


def nasty() -> RunReport:
    """Everything that a client or a log can choose is markup."""
    subject = Subject(NASTY, NASTY, NASTY, 1, (NASTY, 1, 2), NASTY, NASTY)
    found = [Finding("A1", NASTY, "fatal", subject, BEGIN_MS << 16, NASTY)]
    run = run_of(found, run_id=NASTY, nodes=(NASTY,), levels=(NASTY, "message"))
    return replace(
        run,
        counts=(Count("q.drop", NASTY, 1, BEGIN_MS, BEGIN_MS, (NASTY,)),),
        settings=(Setting(NASTY, NASTY, (NASTY,)),),
    )


def test_a_client_id_is_never_markup() -> None:
    lost = NotRead(NASTY, NASTY, 1, NASTY)
    made = page(replace(report_of(nasty(), nasty(), not_read=(lost,)), title=NASTY, source=NASTY))
    assert NASTY not in made and "<script" not in made
    parsed = Parsed(made)
    assert parsed.text.count(NASTY) > 15
    assert "script" not in parsed.texts


def test_findings_beyond_the_first_ones_are_counted_with_the_command_that_shows_them() -> None:
    found = [Finding("A6", "k", "fatal", Subject("n1", detail=str(at)), at, "t") for at in range(60)]
    run = run_of(found, run_id="run 1")
    parsed = Parsed(page(replace(report_of(run), source="my log")))
    assert len(parsed.texts["article"]) == 25
    assert "35 more findings not shown" in parsed.text
    assert "strogoff analytics audit 'my log' --run 'run 1' --limit 60" in parsed.texts["code"]


def test_rows_beyond_the_first_ones_are_counted_with_the_command_that_shows_them() -> None:
    rows = tuple(("n1", 1, seq) for seq in range(10))
    finding = Finding("A6", "k", "fatal", Subject("n1"), 0, "t", rows)
    parsed = Parsed(page(report_of(run_of([finding]))))
    assert "10 more rows not shown" in parsed.text
    assert f"strogoff analytics audit eventlog --explain {finding.id}" in parsed.texts["code"]


def test_what_is_not_sure_says_so() -> None:
    finding = Finding("A1", "queue", "fatal", Subject("n1"), 0, "t", sure=False)
    assert "rows that decide may have been lost" in Parsed(page(report_of(run_of([finding])))).text


def test_a_log_that_was_not_understood_is_said_on_top() -> None:
    torn, wrong = NotRead("torn", "a/boot=1.jsonl", 1, '["x'), NotRead("not_json", "b.jsonl", 3, "no json")
    said = Parsed(page(report_of(run_of(), not_read=(torn, wrong), other_not_read=4)))
    assert "A part of the log was not understood" in said.texts["header"][0]
    assert "b.jsonl" in said.text and "no json" in said.texts["code"] and "4 more not shown" in said.text
    crashed = Parsed(page(report_of(run_of(), not_read=(torn,))))
    assert "not understood" not in crashed.texts["header"][0] and "a/boot=1.jsonl" in crashed.text
    assert "every file and every line was read" in Parsed(page(report_of(run_of()))).text


def test_drops_and_refusals_have_their_reasons() -> None:
    dropped = Count("q.drop", "queue_full", 1234, BEGIN_MS, BEGIN_MS + 900, ("n1", "n2"))
    said = Parsed(page(report_of(replace(run_of(), counts=(dropped,), other_counts=2))))
    assert "dropped from a queue" in said.texts["th"]
    assert {"queue_full", "1,234", "12:00:00.000", "12:00:00.900", "n1, n2"} <= set(said.texts["td"])
    assert "2 rarer reasons not shown" in said.text


def test_settings_name_the_nodes_that_differ() -> None:
    settings = (
        Setting("queue_replicas", "2", ("n1", "n2")),
        Setting("queue_type", "fifo", ("n1",)),
        Setting("queue_type", "lifo", ("n2",)),
    )
    said = Parsed(page(report_of(replace(run_of(), settings=settings)))).texts["td"]
    assert said[said.index("2") + 1] == "all nodes"
    assert (said[said.index("fifo") + 1], said[said.index("lifo") + 1]) == ("n1", "n2")


def test_several_runs_have_a_table_of_verdicts_and_empty_ones_a_line() -> None:
    wrong = run_of([Finding("A6", "k", "fatal", Subject("n1"), 0, "t")], run_id="wrong")
    right = replace(run_of([Finding("A9", "k", "info", Subject("n1"), 0, "t")], run_id="right"))
    said = Parsed(page(report_of(wrong, right, run_of(run_id="alone", published=0), other_runs=(("valid", 7),))))
    assert said.texts["header"][0].count("✕ invalid") == 1 and said.texts["header"][0].count("✓ valid") == 1
    assert "alone" in said.texts["header"][0] and len(said.texts["h2"]) == 3
    assert "Runs that are not shown: 7 valid." in said.text
    alone = Parsed(page(report_of(wrong, run_of(run_id="alone", published=0))))
    assert "Runs in this log" not in alone.texts["caption"] and "alone" in alone.texts["header"][0]


def test_a_log_without_events_is_no_valid_one() -> None:
    said = Parsed(page(report_of()))
    assert "nothing to judge" in said.text and "valid" not in said.text


def test_boots_without_messages_among_others_are_a_warning() -> None:
    warning = "what they did with messages is not in the log"
    assert warning in Parsed(page(report_of(run_of(levels=("message", "session"))))).text
    assert warning not in Parsed(page(report_of(run_of(levels=("message",))))).text


def test_the_same_report_gives_the_same_page() -> None:
    assert page(report_of(planted(["overtaken"]))) == page(report_of(planted(["overtaken"])))
