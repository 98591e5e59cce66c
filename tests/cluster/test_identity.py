"""Slots of client ids, and numbers of messages."""

from __future__ import annotations

from collections import Counter

import pytest

from strogoff.cluster.identity import SLOTS, Numbers, slot_of


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


def test_numbers_of_a_later_boot_are_larger() -> None:
    first, second = Numbers(1), Numbers(2)
    before = [first.unique() for _ in range(3)]
    assert sorted(set(before)) == before
    assert second.unique() > before[-1]


def test_a_boot_is_a_positive_number() -> None:
    with pytest.raises(AssertionError):
        Numbers(0)
