"""Files are complete after any crash; a lock has one owner."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strogoff.storage.engine import DirectoryInUse
from strogoff.storage.files import PathLock, make_directory, sync_files, write_durably


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "marker"
    write_durably(file, b"one")
    write_durably(file, b"two" * 100_000)
    assert file.read_bytes() == b"two" * 100_000
    assert list(tmp_path.iterdir()) == [file], "nothing else is left"


def test_leftovers_of_a_crash_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "marker.new").write_bytes(b"half of something longer")
    write_durably(tmp_path / "marker", b"one")
    assert (tmp_path / "marker").read_bytes() == b"one"


def test_a_full_disk_is_reported_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "marker"
    write_durably(file, b"one")

    def full(handle: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/marker.new'"):
        write_durably(file, b"two")
    assert file.read_bytes() == b"one"


def test_the_order_is_write_sync_rename_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other order leaves an empty or an old file after a power loss."""
    calls: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        calls.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_durably(tmp_path / "marker", b"one")
    assert calls == ["sync marker.new", "rename", f"sync {tmp_path.name}"]


def test_make_directory(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_lock_has_one_owner_in_this_process_and_among_processes(tmp_path: Path) -> None:
    lock = PathLock(tmp_path / "lock")
    for _ in range(2):
        with pytest.raises(DirectoryInUse) as refused:
            PathLock(tmp_path / "lock")
        assert refused.value.pid == os.getpid()
        assert refused.value.path == str(tmp_path)
    code = "import sys, pathlib; from strogoff.storage.files import PathLock; PathLock(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    other = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert f"in use by process {os.getpid()}" in other.stderr
    lock.close()
    lock.close()
    subprocess.run(command, check=True, timeout=60)
    PathLock(tmp_path / "lock").close()


def test_a_forked_process_neither_keeps_nor_releases_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same open file, as a copy of the descriptor has it here."""
    lock = PathLock(tmp_path / "lock")
    forked = PathLock.__new__(PathLock)
    vars(forked).update(vars(lock), _handle=os.dup(lock._handle))
    copy = os.dup(lock._handle)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: lock._owner + 1)
        forked.close()
    with pytest.raises(DirectoryInUse):
        PathLock(tmp_path / "lock")
    lock.close()
    PathLock(tmp_path / "lock").close()
    os.close(copy)


def test_a_killed_owner_has_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from strogoff.storage.files import PathLock\n"
        "lock = PathLock(pathlib.Path(sys.argv[1])); print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"mine\n"
        with pytest.raises(DirectoryInUse, match=str(owner.pid)):
            PathLock(tmp_path / "lock")
        owner.kill()
    PathLock(tmp_path / "lock").close()


def test_a_lock_without_pid_is_refused(tmp_path: Path) -> None:
    lock = PathLock(tmp_path / "lock")
    (tmp_path / "lock").write_text("not a pid")
    with pytest.raises(DirectoryInUse, match="another process"):
        PathLock(tmp_path / "lock")
    lock.close()


def test_all_files_of_a_folder_are_synced_and_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "lost").mkdir()
    synced: list[str] = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    sync_files(tmp_path)
    assert sorted(synced[:-1]) == ["one", "two"] and synced[-1] == tmp_path.name
