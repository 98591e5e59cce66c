"""The clock and the actors."""

from __future__ import annotations

from random import Random

from strogoff.judge.planted.scene import Actor, Node, Scene


def test_actors_act_in_the_order_of_time() -> None:
    """Rows have rising stamps, and each boot its own numbers from 1."""
    scene, node = Scene(Random(1)), Node("n")
    scene.boot(node)

    def actor(name: str, *waits: int) -> Actor:
        for wait in waits:
            scene.say(node, "x", name=name)
            yield wait

    scene.start(actor("late", 1), after=30)
    rows = list(scene.play(actor("a", 10, 40), actor("b", 20, 1)))
    assert [row.get("name") for row in rows] == [None, "a", "b", "a", "b", "late"]
    assert [row["seq"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["hlc"] for row in rows] == sorted({row["hlc"] for row in rows})
    assert scene.boot(node)["seq"] == 1 and scene.mid(node) == ("n", 2, 1)
    scene.stop(node)
    assert not node.up
