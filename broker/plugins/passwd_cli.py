"""The command `vmq-passwd`: keeps the password file of the plugin `vmq_passwd`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from tempfile import mkstemp

from .passwords import SALT_BYTES, check_name, hashed, upgraded, with_user, without_user
from .reloader import LineError

NEW_FILE_MODE = 0o600
"""Only the owner reads a new file; hashes of weak passwords can be guessed."""


class Failure(Exception):
    """What went wrong, for the user of the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. 0 if all went well, 1 if not, 2 for wrong usage; the reason is on stderr."""
    options = _options(argv)
    try:
        _run(options)
    except Failure as failure:
        print(f"Error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nAborted, nothing was changed.", file=sys.stderr)
        return 130
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="vmq-passwd",
        usage="vmq-passwd [-c | -cf | -D] FILE USER\n       vmq-passwd -U FILE",
        description="Set a user's password in a password file. It is asked for twice, or read from standard input.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-c", dest="create", action="store_true", help="create a new file; with -f (-cf) replace an old one"
    )
    what.add_argument("-D", dest="delete", action="store_true", help="delete the user")
    what.add_argument("-U", dest="upgrade", action="store_true", help="turn the plain passwords of a file into hashes")
    parser.add_argument("-f", dest="force", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("user", metavar="USER", nargs="?")
    options = parser.parse_args(argv)
    if options.force and not options.create:
        parser.error("-f goes with -c only")
    if (options.user is None) != options.upgrade:
        parser.error("-U takes no USER" if options.upgrade else "the following arguments are required: USER")
    return options


def _run(options: argparse.Namespace) -> None:
    path: Path = options.file
    if options.upgrade:
        _upgrade(path)
        return
    try:
        check_name(options.user)
    except ValueError as error:
        raise Failure(str(error)) from error
    if options.create:
        if path.exists() and not options.force:
            raise Failure(f"{path} exists already. Use -cf to replace it, or leave -c out to change it.")
        _replace(path, with_user("", options.user, _new_hash(_asked_password())))
        return
    text = _text_of(path)
    if options.delete:
        text, found = without_user(text, options.user)
        if not found:
            print(f"Warning: user {options.user} is not in {path}.", file=sys.stderr)
            return
    else:
        text = with_user(text, options.user, _new_hash(_asked_password()))
    _replace(path, text)


def _upgrade(path: Path) -> None:
    try:
        text, changed = upgraded(_text_of(path), _new_hash)
    except LineError as error:
        raise Failure(f"{path}:{error.line}: {error.text}") from error
    if changed:
        _replace(path, text)


def _new_hash(password: bytes) -> str:
    return hashed(password, os.urandom(SALT_BYTES))


def _asked_password() -> bytes:
    if sys.stdin.isatty():
        try:
            first, second = (getpass(prompt).encode() for prompt in ("Password: ", "Reenter password: "))
        except EOFError as error:
            raise Failure("Empty password.") from error
    else:
        # one line is the password, two are the password and its repetition, as scripts do it
        lines = [line.removesuffix(b"\r") for line in sys.stdin.buffer.read().removesuffix(b"\n").split(b"\n")]
        if len(lines) > 2:
            raise Failure("Standard input has more than the password and its repetition.")
        first, second = lines[0], lines[-1]
    if not first:
        raise Failure("Empty password.")
    if first != second:
        raise Failure("Passwords do not match.")
    return first


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise Failure(f"{path} does not exist. Use -c to create it.") from error
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not UTF-8 at byte {error.start}.") from error


def _replace(path: Path, text: str) -> None:
    try:
        replace_file(path, text)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}.") from error


def replace_file(path: Path, text: str) -> None:
    """Write a new file beside the old one and put it in its place: a reader sees one or the other, never half.

    A link stays a link; mode and, where allowed, owner of the old file are kept. Raises OSError.
    """
    target = path.resolve()
    temporary = ""
    try:
        handle, temporary = mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with open(handle, "wb") as file:
            _copy_rights(target, handle)
            file.write(text.encode())
            file.flush()
            os.fsync(handle)
        os.replace(temporary, target)
    except OSError:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        raise


def _copy_rights(target: Path, handle: int) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        os.fchmod(handle, NEW_FILE_MODE)
        return
    with contextlib.suppress(PermissionError):  # only root gives files away
        os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, old.st_mode & 0o777)


if __name__ == "__main__":
    sys.exit(main())
