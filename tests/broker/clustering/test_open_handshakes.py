"""The mids that may be sent again: the lowest one, and the list that a node gets while a handshake stays open."""

from __future__ import annotations

from types import SimpleNamespace

from strogoff.broker.clustering.forward_codec import decode_open_mids
from strogoff.broker.clustering.open_handshakes import TELL_OPEN_EVERY, OpenHandshakes


def test_a_mid_is_over_when_it_was_closed_as_often_as_opened() -> None:
    numbers = SimpleNamespace(boot=3, counter=10)
    made = OpenHandshakes(numbers)
    assert made.stable() == (3, 10)
    made.opened(3, 7)
    made.opened(3, 7)
    made.opened(2, 9)
    assert made.stable() == (2, 9)
    assert made.closed(2, 9) and made.stable() == (3, 7)
    assert not made.closed(3, 7) and made.stable() == (3, 7)
    assert made.closed(3, 7) and made.stable() == (3, 10)
    assert made.closed(3, 7), "one that is not open is over"


def test_a_node_gets_the_list_of_open_mids_only_if_one_stays_open() -> None:
    numbers = SimpleNamespace(boot=1, counter=0)
    made = OpenHandshakes(numbers)
    lists = []
    for number in range(1, 4 * TELL_OPEN_EVERY):
        numbers.counter = number
        if number == 5:
            made.opened(1, 5)
        lists.append((number, made.list_for("n2", "")))
    told = [(number, found) for number, found in lists if found is not None]
    assert len(told) == 2, "the first time nothing is older than the list would be"
    number, (end, items) = told[0]
    assert end == (1, number) and [decode_open_mids(item).mids for item in items] == [[(1, 5)]]
    made.closed(1, 5)
    for number in range(4 * TELL_OPEN_EVERY, 8 * TELL_OPEN_EVERY):
        numbers.counter = number
        assert made.list_for("n2", "") is None
