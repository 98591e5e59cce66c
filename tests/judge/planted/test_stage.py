"""The stage of a case."""

from __future__ import annotations

from random import Random

from strogoff.judge.planted.scene import Scene
from strogoff.judge.planted.stage import Stage


def test_cases_do_not_share_names() -> None:
    scene = Scene(Random(1))
    one, two = Stage(scene, "c1", "case"), Stage(scene, "c2", "case")
    (tx, rx), (ty, ry) = one.pair(), two.pair()
    assert len({each.name for each in (tx, rx, ty, ry)}) == 4 and tx.node.name != ty.node.name
    assert one.topic != two.topic


def test_expectations_name_the_case() -> None:
    stage = Stage(Scene(Random(1)), "c1", "case")
    tx, rx = stage.pair()
    mid = stage.delivered(tx, rx)
    stage.expect_of("A1", "queue", rx, mid)
    (expected,) = stage.expected
    assert expected.case == "case" and expected.subject.message == mid and expected.subject.session == 1
    stage.end()
    assert scene_types(stage)[-1] == "node.stop"


def scene_types(stage: Stage) -> list[str]:
    return [row["type"] for row in stage.scene.written]
