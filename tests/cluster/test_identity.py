"""Slots of client ids, and numbers of messages."""

from __future__ import annotations

from collections import Counter

import pytest

from strogoff.cluster.identity import MARKED, SLOTS, Numbers, following, left_out, slot_of


def test_the_slot_of_a_client_id_never_changes() -> None:
    """Slots are stored on disk: a change would lose every session."""
    assert [slot_of("", "c1"), slot_of("", "c2"), slot_of("m", "c1"), slot_of("", "")] == [76, 246, 156, 141]


def test_slots_share_client_ids_evenly() -> None:
    counts = Counter(slot_of("", f"client-{number}") for number in range(25_600))
    assert len(counts) == SLOTS
    assert max(counts.values()) < 200


def test_mountpoint_and_client_id_are_separate_in_the_hash() -> None:
    assert slot_of("ab", "c") != slot_of("a", "bc")


def test_numbers_of_a_boot_count_from_1() -> None:
    numbers = Numbers(2)
    assert [numbers.boot, numbers.next(), numbers.next()] == [2, 1, 2]


def test_a_number_says_whether_logs_have_its_message() -> None:
    """Small numbers stay small until the first message that is left out. Numbers rise all the time."""
    numbers = Numbers(2)
    wanted = [True, True, False, False, True, True, False, True]
    made = [numbers.next(each) for each in wanted]
    assert made[:2] == [1, 2] and made == sorted(set(made))
    assert [not left_out(each) for each in made] == wanted
    assert made[-1] < MARKED + 2 * len(made)
    assert not left_out(3) and not left_out(MARKED - 1)


def test_counting_alone_marks_nothing() -> None:
    counter = MARKED - 2
    for _ in range(5):
        counter = following(counter, True)
        assert not left_out(counter)


def test_unique_numbers_stay_below_those_of_the_next_boot() -> None:
    """Also behind a message that is left out."""
    numbers = Numbers(2)
    numbers.next(False)
    assert Numbers(1).unique() < numbers.unique() < Numbers(3).unique()


def test_numbers_of_a_later_boot_are_larger() -> None:
    first, second = Numbers(1), Numbers(2)
    before = [first.unique() for _ in range(3)]
    assert sorted(set(before)) == before
    assert second.unique() > before[-1]


def test_a_boot_is_a_positive_number() -> None:
    with pytest.raises(AssertionError):
        Numbers(0)
