"""A message: its identity, and that only its cached encoding changes."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.message import Message, Origin

from ...harness.broker import BrokerHarness, option


def test_mid() -> None:
    """Node, boot and counter: the same in the whole cluster and for all time."""
    origin = Origin("n1", 7)
    message = Message("", "t", b"", 0, False, None, 0, "p", origin, 42)
    assert message.mid == ("n1", 7, 42)
    assert message.frame_key == -1 and not message.shared_slots


def test_an_origin_does_not_change() -> None:
    """Messages share it."""
    with pytest.raises(AttributeError):
        Origin("n1", 7).boot = 8  # type: ignore[misc]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mids_are_unique(qos: int) -> None:
    """Each accepted message has its own, over restarts too; a repeated QoS 2 PUBLISH keeps the first one's."""
    broker = BrokerHarness(level=2)
    broker.persistent("s").subscribe(("#", 2))
    for _ in range(3):
        publisher = broker.client("p")
        for number in range(1, 6):
            publisher.publish("t", b"", qos, number)
        broker.restart()
    mids = [event["mid"] for event in broker.events("pub.route")]
    assert len(mids) == len(set(mids)) == 15
    assert {mid[:2] for mid in mids} == {("n1", 1), ("n1", 2), ("n1", 3)}


def test_copies_do_not_change_the_message() -> None:
    """It is delivered with a lower QoS, retained and merged for others: the message itself does not change."""
    broker = BrokerHarness()
    low, high = broker.client("low", 5), broker.persistent("high", 5)
    low.subscribe(option("t", 0, retain_as_published=True), subscription_identifier=9)
    high.subscribe(("t", 2))
    broker.client("p", 5).publish("t", b"x", 2, 1, retain=True)
    (a,), (b,) = low.messages(), high.messages()
    assert (a.qos, a.retain, a.properties) == (0, True, {"subscription_identifier": [9]})
    assert (b.qos, b.retain, b.properties) == (2, False, None)
    _, retained = broker.client("late", 5).subscribe(("t", 2))
    assert (retained.qos, retained.retain, retained.payload) == (2, True, b"x")
