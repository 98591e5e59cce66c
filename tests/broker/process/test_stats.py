"""`node.stats`: totals for the event log, each minute and at the stop."""

from __future__ import annotations

from strogoff.broker.process.stats import StatsReporter

from ...harness.broker import BrokerHarness


def test_totals_each_minute_and_at_the_stop() -> None:
    broker = BrokerHarness(max_offline_messages=1)
    StatsReporter(broker.node).start()
    sleeper = broker.persistent("sleeper")
    sleeper.subscribe(("t", 1))
    sleeper.vanish()
    writer = broker.client("writer")
    for number in range(3):
        writer.publish("t", qos=1, packet_id=number + 1)
    broker.pass_s(61)
    broker.host.stop(lambda: None)
    broker.pass_s(1)
    first, last = broker.events("node.stats")
    for row in (first, last):
        assert row["connects"] == 2
        assert row["publishes"] == 3
        assert row["deliveries"] == 0
        assert row["drops"] == {"queue_full": 2}
    assert broker.events("node.stop")[0]["seq"] == last["seq"] + 1
