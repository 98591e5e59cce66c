"""Heat, fan-out and skew of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def story() -> Story:
    """Topic `hot`: 3 messages of two clients, 7 deliveries to three. `warm`: 2 and 1. `cold`: 1 and none. A message
    whose topic the log lacks: 1 delivery."""
    told = Story()
    for number, client in ((1, "p"), (2, "p"), (3, "q")):
        mid = told.message(number, number, "hot", client=client)
        for each in ("a", "b"):
            told.at(number, "dlv.send", "n2", mid=mid, client=each, conn=1, qos=1)
    told.at(9, "dlv.send", "n2", mid="n1/000001/000000000003", client="c", conn=1, qos=1)
    for number in (4, 5):
        mid = told.message(number, number, "warm", client="p")
    told.at(9, "dlv.send", mid=mid, client="p", conn=1, qos=1)
    told.message(6, 6, "cold")
    told.at(9, "dlv.send", mid="n1/000001/000000000099", client="z", conn=1, qos=1)
    return told


def test_topics_by_heat(spark: SparkSession) -> None:
    from strogoff.analytics.views.topics import view

    assert shown(view(story().events(spark))) == [
        ("hot", 1, 3, 30, 7, 70, 2.3333, 0.6667, 2, 0.6667, 3, 0.4286),
        ("warm", 1, 2, 20, 1, 10, 0.5, 0.2, 1, 1.0, 1, 1.0),
        ("cold", 1, 1, 10, 0, 0, 0.0, 0.0667, 1, 1.0, 0, None),
        (None, 1, 0, 0, 1, 0, None, 0.0667, 0, None, 1, 1.0),
    ]


def test_the_topics_behind_the_first_ones_are_one_row(spark: SparkSession) -> None:
    from strogoff.analytics.views.topics import view

    assert shown(view(story().events(spark), 1)) == [
        ("hot", 1, 3, 30, 7, 70, 2.3333, 0.6667, 2, 0.6667, 3, 0.4286),
        (None, 3, 3, 30, 2, 10, 0.6667, 0.3333, None, None, None, None),
    ]


def test_wills_and_retained_messages_have_their_topics(spark: SparkSession) -> None:
    """No row pub.recv is in the log for them."""
    from strogoff.analytics.views.topics import view

    told = Story()
    for number, kind in ((1, "will.fire"), (2, "ret.deliver"), (3, "q.enq")):
        mid = f"n1/000001/{number:012d}"
        told.at(number, kind, mid=mid, client="w", topic=kind, qos=1)
        told.at(number, "dlv.send", mid=mid, client="a", conn=1, qos=1)
    found = shown(view(told.events(spark)), "topic", "publishes", "deliveries", "fan_out", "subscribers")
    assert found == [(kind, 0, 1, None, 1) for kind in ("q.enq", "ret.deliver", "will.fire")]
