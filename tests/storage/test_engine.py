"""Disk errors name the file, the loss and the remedy."""

from __future__ import annotations

from strogoff.storage.engine import Corrupted, DirectoryInUse, DiskFull, StorageError, WrongDirectory


def test_all_errors_are_storage_errors() -> None:
    for kind in (DiskFull, Corrupted, DirectoryInUse, WrongDirectory):
        assert issubclass(kind, StorageError)


def test_a_corruption_error_has_file_loss_and_remedy() -> None:
    error = Corrupted("/data/000005.ldb", "a block is damaged", "Put it back from a backup")
    assert str(error) == "/data/000005.ldb: a block is damaged. Put it back from a backup"


def test_directory_in_use_names_the_process_if_it_is_known() -> None:
    assert "process 17" in str(DirectoryInUse("/data", 17))
    assert "another process" in str(DirectoryInUse("/data", None))
