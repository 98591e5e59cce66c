"""dashboard.json is what the table gives, and Grafana and Prometheus can read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.watching import dashboard
from deploy.watching.panels import ROWS
from tests.docs.test_citations import ROOT
from tests.system.brokers import require_program

SHOWN: dict[str, Any] = json.loads(dashboard.FILE.read_text(encoding="utf-8"))
PANELS = [panel for panel in SHOWN["panels"] if panel["type"] != "row"]


def test_the_file_is_up_to_date() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.text(), "python -m deploy.watching.dashboard"


def test_the_script_writes_and_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dashboard.json"
    monkeypatch.setattr(dashboard, "FILE", file)
    assert dashboard.main(["--check"]) == 1
    assert dashboard.main([]) == 0
    assert dashboard.main(["--check"]) == 0
    file.write_text(file.read_text().replace("Strogoff", "Other", 1))
    capsys.readouterr()
    assert dashboard.main(["--check"]) == 1
    assert "is stale: run python -m deploy.watching.dashboard" in capsys.readouterr().err


def test_it_runs_as_the_page_says() -> None:
    said = "python -m deploy.watching.dashboard"
    assert f"`{said}`" in (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    command = [sys.executable, *said.split()[1:], "--check"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_all_panels_are_there_and_do_not_overlap() -> None:
    assert [each["title"] for each in SHOWN["panels"] if each["type"] == "row"] == [row.title for row in ROWS]
    assert [each["title"] for each in PANELS] == [panel.title for row in ROWS for panel in row.panels]
    assert [each["id"] for each in SHOWN["panels"]] == list(range(1, len(SHOWN["panels"]) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in SHOWN["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


def test_every_panel_follows_the_variables_and_has_a_page() -> None:
    variables = {each["name"]: each for each in SHOWN["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "node", "docs"]
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"] and panel["links"][0]["url"].startswith("${docs}/")
        for target in panel["targets"]:
            assert 'job=~"$job"' in target["expr"]
            assert "@" not in target["expr"]
            per_node = not target["expr"].startswith(("count(up", "ALERTS"))
            assert ('node=~"$node"' in target["expr"]) == per_node
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))


def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    require_program("promtool", "prometheus")
    expressions = {
        dashboard.promql(query, "a", ".+", "1m") for row in ROWS for panel in row.panels for query in panel.queries
    }
    rules = [{"record": f"r{number}", "expr": text} for number, text in enumerate(sorted(expressions))]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout
