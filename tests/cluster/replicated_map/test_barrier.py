"""Barriers."""

from __future__ import annotations

from strogoff.cluster.replicated_map.barrier import Barriers


def test_passed_when_the_last_peer_has_it() -> None:
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1), ("c", 1)])
    barriers.wait(5, passed.append)
    barriers.acked("b", 1, 7)
    barriers.acked("c", 1, 4)
    assert passed == []
    barriers.acked("c", 1, 5)
    assert passed == [True]
    barriers.wait(5, passed.append)
    assert passed == [True, True], "at once"


def test_without_peers_at_once() -> None:
    passed: list[bool] = []
    Barriers().wait(9, passed.append)
    assert passed == [True]


def test_a_view_without_the_peer_releases() -> None:
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1), ("c", 1)])
    barriers.wait(1, passed.append)
    barriers.acked("b", 1, 1)
    barriers.set_peers([("b", 1)])
    assert passed == [True]


def test_an_earlier_boot_proves_nothing() -> None:
    """H-01: the memory of the process before the restart is lost."""
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1)])
    barriers.acked("b", 1, 9)
    barriers.set_peers([("b", 2)])
    barriers.wait(3, passed.append)
    barriers.acked("b", 1, 10)
    assert passed == []
    barriers.acked("b", 2, 3)
    assert passed == [True]


def test_a_later_boot_may_acknowledge_before_its_view_is_applied() -> None:
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1)])
    barriers.wait(3, passed.append)
    barriers.acked("b", 2, 3)
    assert passed == []
    barriers.set_peers([("b", 2)])
    assert passed == [True]


def test_cancelled() -> None:
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1)])
    handle = barriers.wait(1, passed.append)
    assert len(barriers) == 1
    assert barriers.cancel(handle)
    assert not barriers.cancel(handle)
    barriers.acked("b", 1, 1)
    assert passed == []


def test_a_callback_can_start_another_wait() -> None:
    barriers = Barriers()
    passed: list[int] = []
    barriers.set_peers([("b", 1)])
    barriers.wait(1, lambda well: passed.append(barriers.wait(2, passed.append)))
    barriers.acked("b", 1, 1)
    barriers.acked("b", 1, 2)
    assert passed == [2, True]


def test_held_barriers_wait_despite_acknowledgements() -> None:
    """An absent node may be listed as informed: no write counts as known by all."""
    barriers = Barriers()
    passed: list[bool] = []
    barriers.set_peers([("b", 1)])
    barriers.hold(True)
    barriers.wait(1, passed.append)
    barriers.acked("b", 1, 9)
    barriers.wait(2, passed.append)
    assert passed == [] and barriers.reached() == 0
    barriers.hold(False)
    assert passed == [True, True]
