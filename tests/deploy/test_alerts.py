"""The alerts of the chart: their metrics exist, and Prometheus accepts them and fires them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from strogoff.admin.metric_names import COUNTERS, GAUGES
from tests.system.brokers import require_program

from .charts import chart, only

LABELS = '{namespace="default", service="strogoff-metrics"}'
SERIES = 'namespace="default",service="strogoff-metrics",pod="strogoff-0",node="n"'


def rules(*values: str) -> list[dict[str, Any]]:
    """The rules of the chart with these values."""
    (group,) = only(chart("prometheusRule.enabled=true", *values), "PrometheusRule")["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_the_metrics_exist() -> None:
    named = {name for rule in rules() for name in re.findall(r"vernemq_(\w+)", rule["expr"])}
    assert named <= set(COUNTERS) | set(GAUGES)
    assert len(named) > 8


def test_the_prefix_is_that_of_the_configuration() -> None:
    expressions = [rule["expr"] for rule in rules("config.prometheus_namespace=mqtt_")]
    assert f"mqtt_cluster_leased{LABELS} == 0" in expressions
    assert not any("vernemq_" in each for each in expressions)


FAULTS: list[tuple[str, dict[str, str]]] = [
    ("StrogoffNodeDown", {"up": "0"}),
    ("StrogoffNodeDown", {}),
    ("StrogoffNoLease", {"up": "3", "vernemq_cluster_leased": "0"}),
    ("StrogoffMemberMissing", {"up": "3", "vernemq_cluster_members": "3", "vernemq_cluster_serving": "2"}),
    ("StrogoffSlotsWithoutPrimary", {"up": "3", "vernemq_slots_without_primary": "4"}),
    ("StrogoffSlotsWithoutCopy", {"up": "3", "vernemq_slots_without_copy": "4"}),
    ("StrogoffWrongCopy", {"up": "3", "vernemq_queue_copy_repairs": "0+1"}),
    ("StrogoffSlowDisk", {"up": "3", "vernemq_cluster_slow_disks": "1"}),
    ("StrogoffMessagesDropped", {"up": "3", "vernemq_queue_message_drop": "0+60"}),
    ("StrogoffConnectionsRefused", {"up": "3", "vernemq_connections_refused": "0+60"}),
    ("StrogoffEventLogFailing", {"up": "3", "vernemq_eventlog_failing": "1"}),
    ("", {"up": "3", "vernemq_cluster_leased": "1", "vernemq_queue_message_drop": "7"}),
]
"""Alert -> the values of series that fire it: a value, or a first value and what is added each minute."""


def test_an_alert_fires_for_its_fault_alone(tmp_path: Path) -> None:
    """After 20 minutes of a fault exactly its alert fires, and none without a fault."""
    program = require_program("promtool", "prometheus")
    cases = [
        {
            "name": f"{alert} {series}",
            "interval": "1m",
            "input_series": [
                {"series": f"{name}{{{SERIES}}}", "values": f"{text if '+' in text else text + '+0'}x30"}
                for name, text in series.items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "20m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else [],
                }
            ],
        }
        for alert, series in FAULTS
    ]
    assert {alert for alert, _ in FAULTS if alert} == {rule["alert"] for rule in rules()}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "strogoff", "rules": rules()}]}))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    command = [program, "test", "rules", str(tmp_path / "test.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
