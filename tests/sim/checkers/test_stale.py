"""What should have been dropped and came."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.case import Case
from strogoff.sim.checkers.stale import check
from tests.sim.scene import Story


def scene(entered: bool = True) -> Story:
    """w-1 is stuck at n1, its writer says w-2 at n2, and both come, the newer one first."""
    scene = Story()
    scene.swarm = replace(scene.swarm, features=scene.swarm.features - {"lifo"})
    scene.publish("w-1", acked=False, node="n1", sent_at=1.0)
    if entered:
        scene.history.life("n1").entered.append(2.0)
    scene.publish("w-2", node="n2", stint=1, sent_at=3.0)
    scene.deliver("w-2")
    scene.deliver("w-1")
    return scene


def found(case: Case) -> list[str]:
    return list(check(case, lambda *_: {ViewState.WHOLE}))


def test_drained_after_a_new_entrance() -> None:
    assert found(scene().case()) == ["stale: s got w-1 of n1 after w-2, which was acknowledged"]


def test_not_without_one_nor_what_was_sent_again() -> None:
    assert found(scene(entered=False).case()) == []
    again = scene()
    again.history.attempts["w-1"].resent = 1
    assert found(again.case()) == []


def test_drained_at_heal_long_after_the_newer_one() -> None:
    story = scene(entered=False)
    story.swarm = replace(story.swarm, features=frozenset())
    newer, older = story.history.deliveries
    story.history.life("n1").entered.append((newer.sent_at + older.sent_at) / 2)
    assert found(story.case()) == ["stale: s got w-1 of n1 after w-2, which was acknowledged"]
    story.swarm = replace(story.swarm, features=frozenset({"slow"}))
    assert found(story.case()) == []


def test_the_order_of_a_queue_that_gives_the_newest_first_says_nothing() -> None:
    """5 nodes, seed 1743."""
    story = scene()
    story.swarm = replace(story.swarm, features=frozenset({"lifo"}))
    assert found(story.case()) == []


def test_what_was_parked_is_accepted_after_the_entrance() -> None:
    """3 nodes, seed 2860."""
    case = scene().case()
    assert list(check(case, lambda node, begin_s, end_s: {ViewState.MINORITY})) == []
    arrival = {ViewState.MINORITY, ViewState.WHOLE}
    assert list(check(case, lambda node, begin_s, end_s: arrival if begin_s == 1.0 else {ViewState.MINORITY})) == []
    assert list(check(case, lambda node, begin_s, end_s: {ViewState.MINORITY} if begin_s == 1.0 else arrival)) != []


def test_who_stood_still_when_it_came_accepted_it_as_what_it_was_then() -> None:
    """Without a lease, where that is allowed: that is kept, and comes at heal (3 nodes, seed 45213)."""
    story = scene()
    options = structs.replace(story.swarm.options, allow_publish_during_netsplit="on")
    story.swarm = replace(story.swarm, options=options)

    def seen(node: str, begin_s: float, end_s: float) -> set[ViewState]:
        return {ViewState.WHOLE} if end_s < 1.5 else {ViewState.WHOLE, ViewState.MINORITY}

    assert list(check(story.case(), seen)) != []
    assert list(check(replace(story.case(), stood=(("n2", 0.5, 1.5),)), seen)) != []
    assert list(check(replace(story.case(), stood=(("n1", 0.5, 1.5),)), seen)) == []
