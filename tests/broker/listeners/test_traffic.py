"""The counters of the listeners."""

from __future__ import annotations

from strogoff.broker.listeners.traffic import Traffic


def test_every_counter_begins_at_zero_and_is_shown() -> None:
    traffic = Traffic()
    traffic.bytes_sent += 7
    rows = dict(traffic.rows())
    assert rows.pop("bytes_sent") == 7
    assert set(rows) == set(Traffic.__slots__) - {"bytes_sent"}
    assert set(rows.values()) == {0}
