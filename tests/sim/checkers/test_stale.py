"""Delivered messages that should have been dropped."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.case import Case
from strogoff.sim.checkers.stale import check
from tests.sim.histories import HistoryBuilder


def make_history(entered: bool = True) -> HistoryBuilder:
    """w-1 waits at n1, its publisher sends w-2 at n2, and both arrive, the newer one first."""
    builder = HistoryBuilder()
    builder.swarm = replace(builder.swarm, features=builder.swarm.features - {"lifo"})
    builder.publish("w-1", acked=False, node="n1", sent_at=1.0)
    if entered:
        builder.history.life("n1").entered.append(2.0)
    builder.publish("w-2", node="n2", node_changes=1, sent_at=3.0)
    builder.deliver("w-2")
    builder.deliver("w-1")
    return builder


def found(case: Case) -> list[str]:
    return list(check(case, lambda *_: {ViewState.WHOLE}))


def test_drained_after_a_new_entrance() -> None:
    assert found(make_history().case()) == ["stale: s got w-1 of n1 after w-2, which was acknowledged"]


def test_not_without_a_handshake_and_not_for_repeated_messages() -> None:
    assert found(make_history(entered=False).case()) == []
    again = make_history()
    again.history.attempts["w-1"].resent = 1
    assert found(again.case()) == []


def test_drained_at_heal_long_after_the_newer_one() -> None:
    builder = make_history(entered=False)
    builder.swarm = replace(builder.swarm, features=frozenset())
    newer, older = builder.history.deliveries
    builder.history.life("n1").entered.append((newer.sent_at + older.sent_at) / 2)
    assert found(builder.case()) == ["stale: s got w-1 of n1 after w-2, which was acknowledged"]
    builder.history.copied = True  # the older one may have waited for its copy
    assert found(builder.case()) == []
    builder.history.copied = False
    builder.swarm = replace(builder.swarm, features=frozenset({"slow"}))
    assert found(builder.case()) == []


def test_a_lifo_queue_is_not_judged() -> None:
    """5 nodes, seed 1743."""
    builder = make_history()
    builder.swarm = replace(builder.swarm, features=frozenset({"lifo"}))
    assert found(builder.case()) == []


def test_a_deferred_publish_is_accepted_after_the_entrance() -> None:
    """3 nodes, seed 2860."""
    case = make_history().case()
    assert list(check(case, lambda node, begin_s, end_s: {ViewState.MINORITY})) == []
    arrival = {ViewState.MINORITY, ViewState.WHOLE}
    assert list(check(case, lambda node, begin_s, end_s: arrival if begin_s == 1.0 else {ViewState.MINORITY})) == []
    assert list(check(case, lambda node, begin_s, end_s: {ViewState.MINORITY} if begin_s == 1.0 else arrival)) != []


def test_a_suspended_node_accepts_in_its_state_after_the_suspension() -> None:
    """The policy allows it without a lease: the message is kept, and delivered at the heal (3 nodes, seed 45213)."""
    builder = make_history()
    options = structs.replace(builder.swarm.options, allow_publish_during_netsplit="on")
    builder.swarm = replace(builder.swarm, options=options)

    def seen(node: str, begin_s: float, end_s: float) -> set[ViewState]:
        return {ViewState.WHOLE} if end_s < 1.5 else {ViewState.WHOLE, ViewState.MINORITY}

    assert list(check(builder.case(), seen)) != []
    assert list(check(replace(builder.case(), stood=(("n2", 0.5, 1.5),)), seen)) != []
    assert list(check(replace(builder.case(), stood=(("n1", 0.5, 1.5),)), seen)) == []
