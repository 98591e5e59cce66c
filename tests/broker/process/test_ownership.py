"""The texts about files of other users: whose they are, and what to do."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from strogoff.broker.process import ownership
from strogoff.broker.process.ownership import explain, other_owner

OTHER = 12345


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of the user of this test. The node runs as another user."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o750)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    return folder


def refused(path: Path) -> PermissionError:
    return PermissionError(errno.EACCES, "Permission denied", str(path))


def close(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Hide what is in a folder from this process, as its mode does for a user who may not enter it."""
    stat = Path.stat

    def hidden(path: Path, **more: bool) -> os.stat_result:
        if folder in path.parents:
            raise refused(path)
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", hidden)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != folder)


@pytest.mark.parametrize("mine", [True, False])
def test_a_data_directory_that_the_node_may_not_enter(data: Path, monkeypatch: pytest.MonkeyPatch, mine: bool) -> None:
    """Root has made it, and the node runs as a user of its own: it does not even see whether the lock exists."""
    uid = data.stat().st_uid
    close(monkeypatch, data)
    if mine:
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        said = f"look at the mode of {data}, which is 0750"
    else:
        said = (
            f"{data} belongs to user {uid} and has the mode 0750, and the node runs as user {OTHER}: "
            f"run `chown -R {OTHER}` on {data}; if a container has it mounted, on what the host has mounted there"
        )
    assert explain(refused(data / "lock"), data) == f"[Errno 13] Permission denied: '{data}/lock': {said}"


def test_a_file_in_the_data_directory_is_not_the_only_one(data: Path) -> None:
    (data / "lock").touch()
    said = explain(refused(data / "lock"), data)
    assert f"{data}/lock belongs to user " in said and f"run `chown -R {OTHER}` on {data};" in said


def test_a_relative_path_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    said = explain(refused(Path("data/lock")), Path("data"))
    assert f"{data} belongs to user " in said and f"run `chown -R {OTHER}` on {data};" in said


def test_no_remedy_changes_the_owner_of_what_is_above(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder above may be /home/alice, or /var/lib."""
    above = data.parent
    assert explain(refused(above / "new"), above / "new").endswith(
        f": make {above}/new, and run `chown -R {OTHER}` on it"
    )
    close(monkeypatch, above)
    said = explain(refused(data / "lock"), data)
    assert f"{above} belongs to user " in said
    assert said.endswith(
        f": let user {OTHER} enter {above} (`chmod o+x`, or its group), and run `chown -R {OTHER}` on {data}"
    )


def test_a_file_elsewhere(data: Path) -> None:
    """For example a file of the configuration: it, or the folder in which it could not be made."""
    conf = data.parent / "conf"
    conf.touch()
    assert f"run `chown -R {OTHER}` on {conf};" in explain(refused(conf), data)
    assert f"run `chown -R {OTHER}` on {data.parent};" in explain(refused(data.parent / "new"), data)


def test_other_errors_stay_as_they_are() -> None:
    for error in (
        OSError(28, "No space left on device", "/data"),
        PermissionError(1, "not permitted"),
        ValueError("x"),
    ):
        assert explain(error) == str(error)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process be one of root, outside of containers, with another number than 1."""
    ids = tmp_path / "uid_map"
    ids.write_text("         0          0 4294967295\n")
    monkeypatch.setattr(ownership, "UID_MAP", ids)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getpid", lambda: 77)


def belongs_to(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """The data belongs to this user."""
    monkeypatch.setattr(ownership, "data_owner", lambda _: os.stat_result((0, 0, 0, 0, uid, uid, 0, 0, 0, 0)))


@pytest.mark.usefixtures("root")
def test_root_learns_whose_data_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, name in ((pwd.getpwnam("nobody").pw_uid, "nobody"), (4_000_000, "'#4000000'")):
        belongs_to(monkeypatch, uid)
        said = other_owner(Path("/srv/my data"))
        assert said.startswith(f"/srv/my data belongs to user {name}, ") and f"`sudo -u {name} strogoff start" in said
        assert said.endswith("`chown -R root '/srv/my data'`")


@pytest.mark.usefixtures("root")
def test_root_may_start_on_its_own_data_and_on_new_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert other_owner(tmp_path / "new") == ""
    belongs_to(monkeypatch, 0)
    assert other_owner(tmp_path) == ""


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("sign", ["process 1", "mapped ids", "no root"])
def test_root_of_a_container_may_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str) -> None:
    """The files may belong to the user of the host who has started the container."""
    belongs_to(monkeypatch, 1000)
    assert other_owner(tmp_path) != ""
    if sign == "process 1":
        monkeypatch.setattr(os, "getpid", lambda: 1)
    elif sign == "mapped ids":
        (tmp_path / "uid_map").write_text("         0       1000          1\n")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert other_owner(tmp_path) == ""
