"""The alerts of the chart: those of deploy/watching, for the pods of one release."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from .charts import chart, only

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "deploy" / "watching" / "alerts.yml"
LABELS = 'namespace="default", service="strogoff-metrics"'


def groups(*values: str) -> list[dict[str, Any]]:
    """The groups of rules of the chart with these values."""
    found: list[dict[str, Any]] = only(chart("prometheusRule.enabled=true", *values), "PrometheusRule")["spec"][
        "groups"
    ]
    return found


def test_the_copy_in_the_chart_is_that_of_the_folder() -> None:
    """Copy it: cp deploy/watching/alerts.yml deploy/helm/strogoff/files/"""
    assert (ROOT / "deploy" / "helm" / "strogoff" / "files" / "alerts.yml").read_text() == SHIPPED.read_text()


def test_the_alerts_are_those_of_the_folder_for_the_pods_of_the_release() -> None:
    wanted = yaml.safe_load(SHIPPED.read_text().replace('job=~"strogoff.*"', LABELS))["groups"]
    assert groups() == wanted
    assert len(re.findall("service=", str(wanted))) >= sum(len(group["rules"]) for group in wanted)


def test_the_prefix_is_that_of_the_configuration() -> None:
    said = str(groups("config.prometheus_namespace=mqtt_"))
    assert "mqtt_cluster_leased{" in said and "vernemq_" not in said


def test_more_rules_are_a_group_of_their_own() -> None:
    last = groups("prometheusRule.extraRules[0].alert=Mine", "prometheusRule.extraRules[0].expr=vector(1)")[-1]
    assert last == {"name": "strogoff-extra", "rules": [{"alert": "Mine", "expr": "vector(1)"}]}
