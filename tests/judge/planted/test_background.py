"""The load of a planted log."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from strogoff.judge.planted.background import Background, Size
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.planted.scene import Scene
from strogoff.judge.run import judge


def types_of(messages: int) -> tuple[Counter[str], Background]:
    scene = Scene(Random(3))
    background = Background(scene, Size(messages))
    rows = [*scene.play(background.run()), *scene.play(background.stop())]
    return Counter(row["type"] for row in rows), background


def test_everything_happens() -> None:
    """Restarts, a kill, a split, a move, wills, retained messages, groups, QoS 0 to 2, messages that come late."""
    found, background = types_of(3000)
    assert found["node.start"] == 5 and found["node.stop"] == 4
    assert found["split.detect"] == found["split.heal"] == 3 and found["slot.arrive"] == 1
    assert found["will.fire"] == found["will.cancel"] == 1 and found["ret.deliver"] > 2
    assert found["dlv.comp"] > 100 and found["fwd.ack"] > 500 and found["q.depth"] > 3
    assert len(background.nodes) == 3 and background.busy == set()


@pytest.mark.parametrize("messages", [1, 50])
def test_small_logs_are_complete(messages: int) -> None:
    found, _ = types_of(messages)
    assert found["node.stop"] == 4


def test_more_nodes_have_more_clients_and_a_pace_makes_pauses_longer() -> None:
    scene = Scene(Random(3))
    background = Background(scene, Size(500, nodes=5, pace=20))
    rows = [*scene.play(background.run()), *scene.play(background.stop())]
    assert len({row["client"] for row in rows if row["type"] == "pub.recv"}) == 10
    assert len({row["node"] for row in rows if row["type"] == "dlv.ack"}) == 5
    lasted = (rows[-1]["hlc"] - rows[0]["hlc"]) >> 16
    assert 0.7 < lasted / (500 * 3 * 20 / 10) < 1.5


def test_one_topic_and_sessions_of_absent_clients() -> None:
    """The log stays right, and says what the judges must find."""
    log = PlantedLog(3, Size(1000, one_topic=0.9, absent=20))
    rows = list(log.rows())
    topics = Counter(row["topic"] for row in rows if row["type"] == "pub.recv")
    assert 0.85 < topics.most_common(1)[0][1] / topics.total() < 0.95
    created = {row["client"] for row in rows if row["type"] == "sess.create"}
    assert {f"absent{number}" for number in range(20)} <= created
    assert {each.id for each in judge(rows).findings} == {each.id for each in log.expected}
