"""Counters with VerneMQ's names."""

from __future__ import annotations

from strogoff.broker.reporting.metrics import Counters


def test_names_and_labels_are_vernemqs() -> None:
    counters = Counters()
    counters.publish_received[0] = 3
    counters.publish_received[1] = 4
    counters.keepalive_expired[1] = 1
    counters.queue_message_unhandled = 5
    rows = {(name, tuple(labels.items())): value for name, labels, value in counters.rows()}
    assert rows["mqtt_publish_received", (("mqtt_version", "4"),)] == 3
    assert rows["mqtt_publish_received", (("mqtt_version", "5"),)] == 4
    assert rows["client_keepalive_expired", (("mqtt_version", "5"),)] == 1
    assert rows["queue_message_unhandled", ()] == 5


def test_reason_codes_are_named_and_return_codes_numbered() -> None:
    counters = Counters()
    counters.connack_sent(5, 0x86)
    counters.connack_sent(3, 5)
    counters.connack_sent(4, 5)
    counters.disconnect_sent(0x8E)
    rows = [(name, labels, value) for name, labels, value in counters.rows() if "code" in " ".join(labels)]
    assert ("mqtt_connack_sent", {"mqtt_version": "5", "reason_code": "bad_user_name_or_password"}, 1) in rows
    assert ("mqtt_connack_sent", {"mqtt_version": "4", "return_code": "5"}, 2) in rows
    assert ("mqtt_disconnect_sent", {"mqtt_version": "5", "reason_code": "session_taken_over"}, 1) in rows


def test_drops_are_counted_by_reason() -> None:
    counters = Counters()
    for reason in ("queue_full", "queue_full", "max_packet_size_exceeded"):
        counters.drop(reason)
    assert counters.queue_message_drop == 3
    rows = [(labels["reason"], value) for name, labels, value in counters.rows() if "reason" in labels]
    assert rows == [("max_packet_size_exceeded", 1), ("queue_full", 2)]


def test_rows_are_unique_and_in_a_fixed_order() -> None:
    names = [(name, tuple(labels.items())) for name, labels, _ in Counters().rows()]
    assert len(set(names)) == len(names)
    assert names == [(name, tuple(labels.items())) for name, labels, _ in Counters().rows()]
