"""The check of expressions finds planted errors."""

from __future__ import annotations

import pytest

from .exposed import Series, wrong


def test_a_real_page_was_read(series: Series) -> None:
    assert {each["node"] for each in series["vernemq_cluster_whole"]} != set()
    assert len(series) > 100
    assert {"process_cpu_seconds_total", "vernemq_bytes_sent", "vernemq_store_commit_seconds_bucket"} <= series.keys()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("vernemq_nodes{}", "there is no metric vernemq_nodes"),
        ("rate(vernemq_bytes_sent_total{}[5m])", "there is no metric vernemq_bytes_sent_total"),
        ("process_open_fds + up{}", "process_open_fds has no braces"),
        ('vernemq_bytes_sent{mqtt_version="4"}', "vernemq_bytes_sent has no label mqtt_version"),
        ('vernemq_connections_paused{reason=~"disk|moon"}', "no series with reason=moon"),
        ('vernemq_mqtt_connack_sent{return_code!="ok"}', "no series with return_code=ok"),
        ("vernemq_bytes_sent{node='x'}", "cannot be read"),
        ("sum by (member) (vernemq_bytes_sent{})", "no metric has the label member"),
    ],
)
def test_a_planted_error_is_found(series: Series, expression: str, reason: str) -> None:
    assert any(reason in each for each in wrong(expression, series)), wrong(expression, series)


def test_a_right_expression_is_right(series: Series) -> None:
    assert (
        wrong('sum by (node) (rate(vernemq_mqtt_publish_sent{job=~"strogoff.*", mqtt_version="5"}[5m]))', series) == []
    )
