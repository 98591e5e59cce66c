"""VerneMQ's names of metrics, their labels, and their descriptions."""

from __future__ import annotations

import pytest

from strogoff.admin.metric_names import COUNTERS, GAUGES, HISTOGRAMS, REASONS, described, reason_label
from strogoff.mqtt.reasons import ReasonCode


@pytest.mark.parametrize("metric", REASONS)
def test_every_label_of_verne_mq_is_the_name_of_a_reason_code(metric: str) -> None:
    ours = {reason_label(metric, code.name.lower()) for code in ReasonCode}
    assert set(REASONS[metric]) <= ours


def test_zero_of_a_disconnect_has_a_name_of_its_own() -> None:
    assert reason_label("mqtt_disconnect_sent", "success") == "normal_disconnect"
    assert reason_label("mqtt_connack_sent", "success") == "success"
    assert reason_label("mqtt_connack_sent", "bad_user_name_or_password") == "bad_username_or_password"


def test_no_metric_has_two_types() -> None:
    names = [*COUNTERS, *GAUGES, *HISTOGRAMS]
    assert len(names) == len(set(names))
    assert described("store_commit_seconds")[0] == "histogram"
    assert described("retain_messages") == ("gauge", "Retained messages.")
    assert described("bytes_sent") == ("counter", "Bytes sent to clients.")
