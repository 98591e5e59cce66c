"""Windows of relayed connections: base, growth, recall, and a peer that breaks the rules."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.broker.gateway.credit import BASE_BYTES, MOST_BYTES, Budget, Overrun, Window


def test_credit_comes_back_by_quarters() -> None:
    window = Window(Budget())
    window.received(BASE_BYTES)
    assert window.passed(BASE_BYTES // 4 - 1) == 0
    assert window.passed(1) == BASE_BYTES // 4 == window.left


def test_a_window_doubles_to_its_limit_and_gives_everything_back() -> None:
    budget = Budget()
    all_of_it = budget.free
    window = Window(budget)
    sizes = []
    while window.grow():
        sizes.append(window.size)
    assert sizes == [BASE_BYTES * 2**n for n in range(1, 5)] and sizes[-1] == MOST_BYTES == window.left
    assert budget.free == all_of_it - MOST_BYTES + BASE_BYTES and window.grown
    window.close()
    window.close()
    assert budget.free == all_of_it and not window.grown


def test_an_empty_budget_leaves_the_base() -> None:
    """H-31"""
    budget = Budget(1000)
    first, second = Window(budget), Window(budget)
    assert first.grow() == 1000 and first.grow() == 0 and second.grow() == 0
    second.received(BASE_BYTES)
    assert second.passed(BASE_BYTES) == BASE_BYTES
    first.close()
    assert second.grow() == 1000


def test_unused_growth_is_asked_back() -> None:
    budget = Budget()
    window = Window(budget)
    window.grow()
    assert window.recall() == 0, "it was wanted since the last call"
    window.received(100)
    assert window.passed(100) == 0
    assert window.recall() == BASE_BYTES - 100 and window.size == 2 * BASE_BYTES - 100
    window.returned(BASE_BYTES - 100)
    assert window.size == window.left == BASE_BYTES and window.recall() == 0 and not window.grown


@pytest.mark.parametrize("size", [BASE_BYTES + 1, 1 << 30])
def test_a_sender_without_credit(size: int) -> None:
    with pytest.raises(Overrun):
        Window(Budget()).received(size)
    window = Window(Budget())
    window.grow()
    with pytest.raises(Overrun):
        window.returned(BASE_BYTES + 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_walk(seed: int) -> None:
    """The sender's credit, bytes on their way, bytes that wait and credit that is due are always one window."""
    rng = Random(seed)
    budget = Budget(BASE_BYTES * 3)
    window = Window(budget)
    credit, waits = BASE_BYTES, 0
    for _ in range(2000):
        step = rng.randrange(5)
        if step == 0 and credit:
            size = rng.randint(1, credit)
            credit -= size
            window.received(size)
            waits += size
        elif step == 1 and waits:
            size = rng.randint(1, waits)
            waits -= size
            credit += window.passed(size)
        elif step == 2 and not credit:
            credit += window.grow()
        elif step == 3 and (asked := window.recall()):
            back = max(0, min(asked, credit - BASE_BYTES))
            credit -= back
            if back:
                window.returned(back)
        assert credit == window.left and credit + waits + window._passed == window.size >= BASE_BYTES
        assert budget.free + window.size == BASE_BYTES * 4
