"""A kill keeps what was written, and a loss of power may not: the note of a process tells both apart."""

from __future__ import annotations

import pytest

from strogoff.storage.unsynced import IN_MEMORY, SYNCED, UNKNOWN, left_unsynced, may_lack_writes


@pytest.mark.parametrize(
    ("former", "machine", "lacks"),
    [
        (SYNCED, "k1", False),
        (SYNCED, "", False),
        ("k1", "k1", False),
        ("k1", "k2", True),
        ("k1", "", True),
        (UNKNOWN, "", True),
        (IN_MEMORY, "k1", True),
    ],
)
def test_a_disk_lacks_writes_if_the_kernel_is_another_one(former: str, machine: str, lacks: bool) -> None:
    assert may_lack_writes(former, machine) is lacks


def test_the_note_of_a_process() -> None:
    assert left_unsynced("os", "k1", SYNCED) == "k1"
    assert left_unsynced("os", "", SYNCED) == UNKNOWN
    assert left_unsynced("sync", "k1", SYNCED) == SYNCED
    assert left_unsynced(None, "k1", SYNCED) == IN_MEMORY


def test_a_synced_process_keeps_the_note_of_an_unsynced_one_under_the_same_kernel() -> None:
    assert left_unsynced("sync", "k1", "k1") == "k1"
    assert left_unsynced("sync", "k2", "k1") == SYNCED
