"""`vmq-passwd` in a pipe, at a terminal, and with malformed files."""

from __future__ import annotations

import os
import pty
import select
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from strogoff.broker.plugins.passwd_cli import main
from strogoff.broker.plugins.passwords import parse_passwords

COMMAND = [sys.executable, "-m", "strogoff.broker.plugins.passwd_cli"]


def run(*args: str | Path, stdin: str = "") -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *args], input=stdin.encode(), capture_output=True, timeout=30, check=False)
    assert done.stdout == b"" or args == ("-h",)
    return done.returncode, done.stderr.decode()


def knows(path: Path, user: str, password: str) -> bool:
    return parse_passwords(path.read_text())[user].fits(password.encode())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vmq.passwd"


def test_create_add_change_and_delete(path: Path) -> None:
    assert run("-c", path, "ann", stdin="secret\n") == (0, "")
    assert run(path, "bob", stdin="pässword\r\npässword\r\n") == (0, "")
    assert knows(path, "ann", "secret")
    assert knows(path, "bob", "pässword")
    assert run(path, "ann", stdin="other") == (0, "")
    assert knows(path, "ann", "other")
    assert run("-D", path, "ann") == (0, "")
    assert list(parse_passwords(path.read_text())) == ["bob"]


def test_create_does_not_destroy_a_file_unless_forced(path: Path) -> None:
    path.write_text("old\n")
    code, error = run("-c", path, "ann", stdin="secret")
    assert code == 1
    assert f"{path} exists already. Use -cf" in error
    assert path.read_text() == "old\n"
    assert run("-cf", path, "ann", stdin="secret") == (0, "")
    assert knows(path, "ann", "secret")


def test_each_hash_has_a_salt_of_its_own(path: Path) -> None:
    run("-c", path, "ann", stdin="secret")
    first = path.read_text()
    run(path, "ann", stdin="secret")
    assert path.read_text() != first


def test_upgrade(path: Path) -> None:
    run("-c", path, "ann", stdin="secret")
    path.write_text(path.read_text() + "bob:plain\n")
    assert run("-U", path) == (0, "")
    before = path.read_text()
    assert knows(path, "ann", "secret")
    assert knows(path, "bob", "plain")
    assert run("-U", path) == (0, "")
    assert path.read_text() == before
    path.write_text("bob:plain\nnothing\n")
    assert run("-U", path) == (1, f"Error: {path}:2: not of the form name:password\n")
    assert path.read_text() == "bob:plain\nnothing\n"


@pytest.mark.parametrize(
    ("stdin", "text"),
    [
        ("", "Empty password."),
        ("\n", "Empty password."),
        ("one\ntwo\n", "Passwords do not match."),
        ("one\n\n", "Passwords do not match."),
        ("a\na\na\n", "more than the password and its repetition"),
    ],
)
def test_refused_passwords(path: Path, stdin: str, text: str) -> None:
    path.write_text("")
    code, error = run(path, "ann", stdin=stdin)
    assert code == 1
    assert text in error
    assert path.read_text() == ""


def test_malformed_files(path: Path, tmp_path: Path) -> None:
    assert run(path, "ann", stdin="x") == (1, f"Error: {path} does not exist. Use -c to create it.\n")
    assert run("-D", path, "ann")[0] == 1
    assert run("-U", path)[0] == 1
    code, error = run("-c", tmp_path / "no" / "dir", "ann", stdin="x")
    assert code == 1
    assert "cannot be written: No such file or directory" in error
    assert run(tmp_path, "ann", stdin="x") == (1, f"Error: {tmp_path} cannot be read: Is a directory.\n")
    path.write_bytes(b"ann\xff:x\n")
    assert run(path, "bob", stdin="x") == (1, f"Error: {path} is not UTF-8 at byte 3.\n")
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_user_is_a_warning(path: Path) -> None:
    path.write_text("bob:x\n")
    assert run("-D", path, "ann") == (0, f"Warning: user ann is not in {path}.\n")
    assert path.read_text() == "bob:x\n"


def test_names_that_the_file_cannot_contain(path: Path) -> None:
    code, error = run("-c", path, "a:b", stdin="x")
    assert code == 1
    assert "'a:b' cannot be a user name" in error
    assert not path.exists()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "required: FILE"),
        (("file",), "required: USER"),
        (("-U", "file", "ann"), "-U takes no USER"),
        (("-c", "-D", "file", "ann"), "not allowed with argument"),
        (("-f", "file", "ann"), "-f goes with -c only"),
        (("file", "ann", "more"), "unrecognized arguments: more"),
    ],
)
def test_wrong_usage(args: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "vmq-passwd [-c | -cf | -D] FILE USER" in error
    assert text in error


def test_the_mode_is_kept_a_new_file_is_private_and_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    run("-c", path, "ann", stdin="x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    inode = path.stat().st_ino
    assert run(link, "bob", stdin="y") == (0, "")
    assert link.is_symlink()
    assert knows(path, "bob", "y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_ino != inode
    assert sorted(tmp_path.iterdir()) == [link, path]


def at_a_terminal(path: Path, answers: list[bytes]) -> tuple[int, str]:
    """Run the command at a pseudo terminal; each answer is typed at a prompt."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "-c", path, "ann"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        seen = b""
        while select.select([master], [], [], 30)[0]:
            try:
                chunk = os.read(master, 1000)
            except OSError:  # the other end is closed
                break
            seen += chunk
            if chunk.endswith(b"assword: ") and answers:
                os.write(master, answers.pop(0) + b"\n")
        os.close(master)
        return process.wait(30), seen.decode().replace("\r\n", "\n")


def test_at_a_terminal_the_password_is_asked_twice_and_not_shown(path: Path) -> None:
    assert at_a_terminal(path, [b"secret", b"secret"]) == (0, "Password: \nReenter password: \n")
    assert knows(path, "ann", "secret")


def test_two_different_passwords_at_a_terminal_change_nothing(path: Path) -> None:
    code, seen = at_a_terminal(path, [b"secret", b"secert"])
    assert code == 1
    assert "Error: Passwords do not match." in seen
    assert not path.exists()
