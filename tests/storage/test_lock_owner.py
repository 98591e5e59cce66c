"""The process that has a lock file, and those that only seem to have it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strogoff.storage.files import PathLock
from strogoff.storage.lock_owner import HiddenOwnerError, data_owner, open_owner


@contextmanager
def locked(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process has the lock."""
    code = (
        "import sys, pathlib; from strogoff.storage.files import PathLock\n"
        "lock = PathLock(pathlib.Path(sys.argv[1])); print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"mine\n"
        try:
            yield owner
        finally:
            owner.kill()


def owner_of(path: Path) -> int | None:
    found = open_owner(path)
    if found is None:
        return None
    os.close(found[1])
    return found[0]


def test_the_owner_until_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert owner_of(path) is None and owner_of(tmp_path / "no" / "lock") is None
    with locked(path) as owner:
        assert owner_of(path) == owner.pid
        owner.kill()
        owner.wait(10)
        assert owner_of(path) is None


@pytest.mark.parametrize("text", ["", "nonsense", "0", "-1", "1", "own", "4194999", "9" * 19])
def test_a_pid_that_another_process_has_now(tmp_path: Path, text: str) -> None:
    """Nobody may stop that one: it may be the first process of the machine."""
    path = tmp_path / "lock"
    path.write_text(str(os.getpid()) if text == "own" else text)
    assert owner_of(path) is None


def test_an_owner_that_has_another_number_here(tmp_path: Path) -> None:
    """A process of another container."""
    path = tmp_path / "lock"
    with locked(path):
        path.write_text(f"{os.getpid()}\n")
        with pytest.raises(HiddenOwnerError):
            open_owner(path)


def test_looking_leaves_the_lock_free_and_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("1\n")
    before = os.listdir("/proc/self/fd")
    assert owner_of(path) is None
    PathLock(path).close()
    with locked(path):
        owner_of(path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_the_owner_of_the_data_is_that_of_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory itself may belong to root."""
    stat = Path.stat

    def of_two_users(path: Path, **more: bool) -> os.stat_result:
        found = list(stat(path, **more))
        found[4] = {"lock": 10000, "data": 1}.get(path.name, found[4])
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", of_two_users)
    data = tmp_path / "data"
    assert data_owner(data) is None
    data.mkdir()
    owner = data_owner(data)
    assert owner is not None and owner.st_uid == 1
    (data / "lock").touch()
    owner = data_owner(data)
    assert owner is not None and owner.st_uid == 10000


def test_a_process_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"

    def refused(_place: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    with locked(path):
        monkeypatch.setattr(os, "listdir", refused)  # the tests may run as root
        with pytest.raises(PermissionError):
            open_owner(path)
    assert owner_of(path) is None
