"""Incidents of each node, with what happened meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..logs import START_MS
from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def detected(story: Story, ms: int, node: str, state: str, begin: int, incident: int = 7, **more: Any) -> None:
    times = {"begin_ms": START_MS + begin, "detected_ms": START_MS + ms, "window_ms": ms - begin}
    story.at(ms, "split.detect", node, incident=incident, nodes=["n9"], state=state, **times, **more)


def healed(story: Story, ms: int, node: str, begin: int, incident: int = 7, boot: int = 1, **counts: int) -> None:
    times = {"begin_ms": START_MS + begin, "healed_ms": START_MS + ms, "split_ms": 5000}
    story.at(ms, "split.heal", node, boot, incident=incident, nodes=["n9"], state="majority", **times, counts=counts)


def denied(story: Story, ms: int, node: str, operation: str, boot: int = 1, **more: Any) -> None:
    story.at(ms, "policy.deny", node, boot, client="c", operation=operation, topic="", **more)


def time(ms: int) -> str:
    return f"{DAY}11:00:{ms // 1000:02d}.{ms % 1000:03d}Z"


def test_one_incident_at_two_nodes(spark: SparkSession) -> None:
    """It has converged when the second one has healed. What is before and after it is not in it."""
    from strogoff.analytics.views.netsplits import view

    story = Story()
    flag: dict[str, Any] = {"policy": "allow_publish_during_netsplit=off", "reason": "netsplit"}
    for ms in (500, 2500, 3000, 9500):
        denied(story, ms, "n1", "publish", **flag)
        story.at(ms, "will.fire", "n1", client="w", topic="t", mid=f"n1/000001/{ms:012d}")
        if ms == 500:
            detected(story, 2000, "n1", "majority", 1000, view=8)
            detected(story, 2001, "n2", "minority", 1500)
    story.at(1900, "will.fire", "n1", client="w", topic="t", mid="n1/000001/000000000001")
    denied(story, 3000, "n2", "register", policy="fenced", reason="netsplit")
    denied(story, 3000, "n2", "register", reason="store")
    denied(story, 3000, "n2", "subscribe")  # without a reason a plugin has forbidden it
    story.at(3100, "split.change", "n1", incident=7, nodes=["n9"], state="minority")
    healed(story, 7000, "n1", 1000, publish_accepted=3, register_accepted=1, publish_refused=2, publish_parked=1)
    healed(story, 8250, "n2", 1500)
    n1, n2 = shown(view(story.events(spark)))
    counts = {"publish_accepted": 3, "register_accepted": 1, "publish_refused": 2, "publish_parked": 1}
    times = (time(1000), time(2000), time(7000), time(8250))
    rest = (1000, 5000, "minority", 4, 2, counts, {"publish allow_publish_during_netsplit=off": 2}, 3)
    assert n1 == ("incident 7", "n1", ["n9"], *times, *rest)
    times = (time(1500), time(2001), time(8250), time(8250))
    rest = (501, 5000, "minority", 0, 0, {}, {"register fenced": 1, "register store": 1}, 0)
    assert n2 == ("incident 7", "n2", ["n9"], *times, *rest)


def test_an_incident_without_a_heal_ends_with_its_boot(spark: SparkSession) -> None:
    """Another incident of the node, with the same name after a restart, is another row."""
    from strogoff.analytics.views.netsplits import view

    story = Story()
    detected(story, 1000, "n1", "minority", 1000)
    denied(story, 2000, "n1", "publish", policy="fenced")
    story.at(5000, "node.start", "n1", 2)
    denied(story, 6000, "n1", "publish", policy="fenced", boot=2)
    detected(story, 7000, "n1", "majority", 6500, incident=9, boot=2)
    healed(story, 8000, "n1", 6500, 9, boot=2)
    columns = ("incident", "healed", "converged", "split_ms", "accepted", "operations", "denied", "wills")
    assert shown(view(story.events(spark)), *columns) == [
        ("incident 7", None, None, None, None, None, {"publish fenced": 1}, 0),
        ("incident 9", time(8000), time(8000), 5000, 0, {}, {}, 0),
    ]


def test_more_rows_than_the_driver_takes_are_trouble(spark: SparkSession) -> None:
    from strogoff.analytics.trouble import Trouble
    from strogoff.analytics.views.netsplits import view

    story = Story()
    for ms in (1000, 2000):
        detected(story, ms, "n1", "majority", 500)
    assert len(shown(view(story.events(spark), 2))) == 2
    with pytest.raises(Trouble, match="more than 1 rows of incidents"):
        view(story.events(spark), 1)
