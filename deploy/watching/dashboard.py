"""Makes the Grafana dashboard from its table (panels.py): `python -m deploy.watching.dashboard` writes it.

The file is dashboard.json. `--check` only compares, and ends with status 1 if the file is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.watching.panel import Panel, Query
from deploy.watching.panels import FIRING, ROWS

FILE = Path(__file__).resolve().with_name("dashboard.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


def promql(query: Query, job: str = "$job", node: str = "$node", interval: str = "$__rate_interval") -> str:
    """The expression for these clusters and nodes, which are regular expressions, and with this interval of rates."""
    of_job = f'{{job=~"{job}"'
    text = query.text.replace("[@]", f"[{interval}]").replace("{@job", of_job)
    return text.replace("{@", f'{of_job}, node=~"{node}"')


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "__inputs": [],
        "annotations": {"list": [_firing()]},
        "description": "Nodes and clusters of Strogoff. Made by deploy/watching/dashboard.py.",
        "editable": True,
        "graphTooltip": 1,
        "id": None,
        "links": [_link("Operations", "operations.md"), _link("Metrics", "operations.md#metrics")],
        "panels": _panels(),
        "refresh": "30s",
        "schemaVersion": 38,
        "tags": ["strogoff", "mqtt"],
        "templating": {"list": _variables()},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "title": "Strogoff",
        "uid": "strogoff",
        "version": 1,
    }


def _firing() -> dict[str, Any]:
    return {
        "datasource": SOURCE,
        "enable": True,
        "expr": promql(FIRING),
        "iconColor": "red",
        "name": "Alerts",
        "step": "30s",
        "tagKeys": "severity",
        "textFormat": "{{node}} {{instance}}",
        "titleFormat": "{{alertname}}",
    }


def _link(title: str, page: str) -> dict[str, Any]:
    return {"targetBlank": True, "title": title, "type": "link", "url": f"${{docs}}/{page}"}


def _variables() -> list[dict[str, Any]]:
    return [
        {"label": "Data source", "name": "datasource", "query": "prometheus", "type": "datasource"},
        _choice("job", "Cluster (job)", "label_values(vernemq_cluster_members, job)", multi=False),
        _choice("node", "Node", 'label_values(vernemq_cluster_members{job=~"$job"}, node)', multi=True),
        {
            "current": {"text": "/docs", "value": "/docs"},
            "label": "Address of docs/",
            "name": "docs",
            "options": [{"selected": True, "text": "/docs", "value": "/docs"}],
            "query": "/docs",
            "type": "textbox",
        },
    ]


def _choice(name: str, label: str, query: str, *, multi: bool) -> dict[str, Any]:
    all_of_them: dict[str, Any] = {"allValue": ".+", "current": {"text": ["All"], "value": ["$__all"]}} if multi else {}
    return {
        **all_of_them,
        "datasource": SOURCE,
        "definition": query,
        "includeAll": multi,
        "label": label,
        "multi": multi,
        "name": name,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "type": "query",
    }


def _panels() -> list[dict[str, Any]]:
    """All panels, from left to right and from top to bottom."""
    found: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        found.append(
            {
                "collapsed": False,
                "gridPos": place,
                "id": len(found) + 1,
                "panels": [],
                "title": row.title,
                "type": "row",
            }
        )
        x, y, highest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, highest = 0, y + highest, 0
            found.append(_panel(panel, len(found) + 1, x, y))
            x, highest = x + panel.width, max(highest, panel.height)
        y += highest
    return found


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "datasource": SOURCE,
        "description": f"{panel.meaning}\n\n[docs/{panel.page}](${{docs}}/{panel.page})",
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "id": number,
        "links": [{"targetBlank": True, "title": f"docs/{panel.page}", "url": f"${{docs}}/{panel.page}"}],
        "options": _options(panel),
        "targets": [_target(panel, query, chr(ord("A") + place)) for place, query in enumerate(panel.queries)],
        "title": panel.title,
        "transformations": _transformations(panel),
        "type": panel.kind,
    }


def _target(panel: Panel, query: Query, name: str) -> dict[str, Any]:
    now = panel.kind in ("stat", "table", "bargauge")
    return {
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": promql(query),
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": now,
        "legendFormat": query.legend,
        "range": not now,
        "refId": name,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = dict(panel.steps)
    lowest = steps.pop(min(steps)) if steps else "blue" if panel.kind == "stat" else "green"
    found: dict[str, Any] = {
        "color": {"mode": "thresholds" if panel.kind in ("stat", "state-timeline", "bargauge") else "palette-classic"},
        "mappings": [],
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": lowest, "value": None}, *[{"color": steps[at], "value": at} for at in sorted(steps)]],
        },
        "unit": panel.unit,
    }
    if panel.words:
        words = {str(value): {"color": colour, "text": word} for value, (word, colour) in panel.words.items()}
        found["mappings"] = [{"options": words, "type": "value"}]
    if panel.kind == "timeseries":
        found["min"] = 0
        found["custom"] = {
            "fillOpacity": 20 if panel.stacked else 5,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
        }
    if panel.kind == "table":
        found["noValue"] = "none"
    return found


def _options(panel: Panel) -> dict[str, Any]:
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "stat":
        return {
            "colorMode": "background",
            "graphMode": "none",
            "reduceOptions": last,
            "textMode": "value" if panel.steps else "name",
        }
    if panel.kind == "bargauge":
        return {"displayMode": "lcd", "orientation": "horizontal", "reduceOptions": last}
    if panel.kind == "state-timeline":
        return {"legend": {"showLegend": False}, "mergeValues": True, "rowHeight": 0.9, "showValue": "auto"}
    if panel.kind == "table":
        return {"showHeader": True}
    legend = {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _transformations(panel: Panel) -> list[dict[str, Any]]:
    """The columns of a table: its queries joined on `key`, or the labels of its only query."""
    if panel.kind != "table":
        return []
    if not panel.key:
        shown = ["alertname", "severity", "node", "instance"]
        names = "|".join(shown)
        places = {name: place for place, name in enumerate(shown)}
        return [
            {"id": "filterFieldsByName", "options": {"include": {"pattern": f"^({names})$"}}},
            {"id": "organize", "options": {"excludeByName": {}, "indexByName": places, "renameByName": {}}},
        ]
    letters = [chr(ord("A") + place) for place in range(len(panel.queries))]
    hidden = {"Time": True, **{f"Time {number}": True for number in range(1, len(letters) + 1)}, "Value #A": True}
    named = {f"Value #{letter}": query.legend for letter, query in zip(letters, panel.queries, strict=True)}
    return [
        {"id": "joinByField", "options": {"byField": panel.key, "mode": "outer"}},
        {"id": "organize", "options": {"excludeByName": hidden, "indexByName": {}, "renameByName": named}},
    ]


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2, sort_keys=True) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or compare it. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare; status 1 if dashboard.json is stale")
    if not parser.parse_args(arguments).check:
        FILE.write_text(text(), encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text():
        return 0
    print(f"{FILE} is stale: run python -m deploy.watching.dashboard", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
