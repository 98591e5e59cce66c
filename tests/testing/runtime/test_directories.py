"""Temporary directories."""

from __future__ import annotations

from pathlib import Path

from strogoff.testing.runtime.directories import temporary_directory


def test_each_is_new() -> None:
    """In memory if the system has such a file system; the real engine gets a real disk."""
    made = [temporary_directory("memory"), temporary_directory("leveldb")]
    assert all(each.name.startswith("strogoff-") and each.is_dir() for each in made)
    assert made[0] != made[1] and made[1].parent != Path("/dev/shm")
    for each in made:
        each.rmdir()
