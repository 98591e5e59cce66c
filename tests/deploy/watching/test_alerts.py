"""The alerts use metrics that a node has, fire when they should, and name a section that says what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_citations import ROOT, anchors
from tests.system.brokers import require_program

from .exposed import Series, wrong

FOLDER = ROOT / "deploy" / "watching"
TEXT = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
RULES: list[dict[str, Any]] = [rule for group in yaml.safe_load(TEXT)["groups"] for rule in group["rules"]]
CASES = sorted(Path(__file__).parent.glob("alerts_*_test.yml"))
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def promtool(*words: str | Path) -> str:
    """The output of promtool, which must succeed."""
    program = require_program("promtool", "prometheus")
    ran = subprocess.run([program, *words], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@each_rule
def test_its_metrics_exist(rule: dict[str, Any], series: Series) -> None:
    assert wrong(rule["expr"], series) == []


@each_rule
def test_it_takes_each_cluster_by_itself(rule: dict[str, Any]) -> None:
    """Only jobs of Strogoff count, and a sum is never over two clusters."""
    selectors = re.findall(r"\w\{([^}]*)\}", rule["expr"])
    assert selectors and all('job=~"strogoff.*"' in each for each in selectors)
    sums = re.findall(r"\b(?:sum|max|min|count)\b[^(]*\(([^)]*)\)", rule["expr"])
    assert all(each.startswith("job") for each in sums)


@each_rule
def test_it_says_what_happened_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Strogoff[A-Z][A-Za-z]+", rule["alert"])
    assert rule["labels"].keys() == {"severity"} and rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert all(rule["annotations"].values())
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page == "docs/operations.md" and anchor in anchors(ROOT / page)


@each_rule
def test_its_threshold_has_a_reason(rule: dict[str, Any]) -> None:
    comment = re.search(rf"((?:^ +# .*\n)+) +- alert: {rule['alert']}$", TEXT, re.MULTILINE)
    assert comment and len(comment[1].split()) > 8


def test_the_page_lists_exactly_these_alerts() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(Strogoff\w+)` \| (\w+) \| \[.*\]\(#(.*)\) \|$", page, re.MULTILINE)
    wanted = [
        (rule["alert"], rule["labels"]["severity"], rule["annotations"]["runbook_url"].partition("#")[2])
        for rule in RULES
    ]
    assert listed == wanted


def test_prometheus_takes_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yml")


@pytest.mark.slow
def test_the_alerts_fire_when_they_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", *CASES)


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = [test for path in CASES for test in yaml.safe_load(path.read_text())["tests"]]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in cases if case.get("exp_alerts")}
    quiet = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    names = {rule["alert"] for rule in RULES}
    assert (names - fires, names - quiet) == (set(), set())


@pytest.mark.parametrize("with_key", [False, True])
def test_the_example_for_prometheus_is_right(with_key: bool, tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yml").read_text()
    if with_key:
        text = re.sub(r"# (basic_auth: \{.*\})", r"\1", text)
        text = re.sub(r"^# ?(alerting:|  .*)$", r"\1", text, flags=re.MULTILINE)
        assert {"alerting"} <= yaml.safe_load(text).keys() and "basic_auth" in yaml.safe_load(text)["scrape_configs"][0]
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_text(TEXT)
    assert f"{len(RULES)} rules found" in promtool("check", "config", tmp_path / "prometheus.yml")
