"""Each panel of the table shows metrics that a node has, in units that fit, and names an existing page."""

from __future__ import annotations

import re

import pytest

from deploy.watching.dashboard import promql
from deploy.watching.panel import Panel
from deploy.watching.panels import ROWS
from strogoff.admin.metric_names import COUNTERS
from tests.docs.test_citations import ROOT, anchors

from .exposed import Series, wrong

PANELS = [panel for row in ROWS for panel in row.panels]
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)


@each_panel
def test_its_metrics_exist(panel: Panel, series: Series) -> None:
    asked = [promql(query, ".+", ".+", "1m") for query in panel.queries]
    assert [reason for expression in asked for reason in wrong(expression, series)] == []


@each_panel
def test_the_labels_of_its_legends_exist(panel: Panel, series: Series) -> None:
    for query in panel.queries:
        by = re.findall(r"\bby \(([^)]*)\)", query.text)
        names = re.findall(r"([A-Za-z_:][\w:]*)\{", query.text.replace("{{", ""))
        having = set(re.split(r",\s*", by[0])) if by else {label for name in names for label in series[name][0]}
        assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= having, query


@each_panel
def test_a_counter_is_shown_as_a_rate(panel: Panel) -> None:
    """A counter begins at 0 with each start of a node, so its value says little."""
    for query in panel.queries:
        for before, name in re.findall(r"(\w*)\(vernemq_(\w+)\{", query.text):
            assert (name in COUNTERS) <= (before in ("rate", "increase")), query
        assert not any(f" vernemq_{name}{{" in f" {query.text}" for name in COUNTERS), query


@each_panel
def test_its_page_exists(panel: Panel) -> None:
    page, _, anchor = panel.page.partition("#")
    assert (ROOT / "docs" / page).exists()
    assert not anchor or anchor in anchors(ROOT / "docs" / page)


def test_titles_are_unique_and_panels_fit() -> None:
    titles = [panel.title for panel in PANELS]
    assert len(titles) == len(set(titles))
    assert all(0 < panel.width <= 24 and panel.meaning.endswith(".") for panel in PANELS)
