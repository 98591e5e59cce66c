"""The password file and its plugin `vmq_passwd`.

A line is `name:$6$SALT$HASH`: SALT is base64 of random bytes, HASH base64 of SHA-512 over the password followed by
those bytes. Empty lines and lines that begin with `#` are skipped; of several lines for one name the last one counts.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha512
from hmac import compare_digest
from typing import Any, NamedTuple

from .reloader import LineError, Reloader
from .verdicts import NEXT, Allow, Answer, Refuse

SALT_BYTES = 12
DIGEST_BYTES = 64

ALLOWED = Allow()
WRONG = Refuse("invalid_credentials")


class Entry(NamedTuple):
    """The stored hash of one user's password."""

    salt: bytes
    digest: bytes

    def fits(self, password: bytes) -> bool:
        """True for the right password; takes the same time for every wrong one."""
        return compare_digest(self.digest, sha512(password + self.salt).digest())


NOBODY = Entry(bytes(SALT_BYTES), bytes(DIGEST_BYTES))
"""The entry that is compared with the password of an unknown user."""

_KIND = re.compile(r"\d[a-z]?|argon2(?:i|d|id)")
"""The names of hashes in the files of mosquitto and crypt."""


class PasswordPlugin:
    """`vmq_passwd`: decides for the users of the file, and answers NEXT for others and for clients without a
    password."""

    def __init__(self) -> None:
        self.reloader: Reloader[Mapping[str, Entry]] = Reloader(parse_passwords, {})

    def auth_on_register(
        self, peer: Any, subscriber: Any, user: str | None, password: bytes | str | None, clean_session: bool
    ) -> Answer:
        """Allow, NEXT, or Refuse("invalid_credentials")."""
        if user is None or password is None:
            return NEXT
        entry = self.reloader.content.get(user)
        fits = (entry or NOBODY).fits(password.encode() if isinstance(password, str) else password)
        if entry is None:
            return NEXT  # takes as long as a wrong password: the time must not show which users exist
        return ALLOWED if fits else WRONG


def hashed(password: bytes, salt: bytes) -> str:
    """The form in which the file keeps a password."""
    return f"$6${b64encode(salt).decode()}${b64encode(sha512(password + salt).digest()).decode()}"


def parse_passwords(text: str) -> dict[str, Entry]:
    """The users of a password file. LineError for a line that is none."""
    users: dict[str, Entry] = {}
    for number, line in _lines(text):
        name, colon, kept = line.partition(":")
        if not colon or not name:
            raise LineError(number, "not of the form name:hash")
        users[name] = _entry(number, kept)
    return users


def _entry(number: int, kept: str) -> Entry:
    parts = kept.split("$")
    if len(parts) < 2 or parts[0]:
        raise LineError(number, "no hash after the name; `vmq-passwd -U FILE` turns plain passwords into hashes")
    if parts[1] != "6":
        # anything else may be a part of a plain password: the log must not show it
        kind = f"of kind ${parts[1]}$" if _KIND.fullmatch(parts[1]) else "of this kind"
        raise LineError(number, f"hashes {kind} are not supported, only $6$ (mosquitto_passwd -H sha512)")
    if len(parts) != 4:
        raise LineError(number, "not of the form name:$6$salt$hash")
    try:
        entry = Entry(b64decode(parts[2], validate=True), b64decode(parts[3], validate=True))
    except ValueError as error:  # also letters beyond ASCII
        raise LineError(number, f"salt or hash is not base64: {error}") from error
    if len(entry.digest) != DIGEST_BYTES:
        raise LineError(number, f"the hash has {len(entry.digest)} bytes, SHA-512 has {DIGEST_BYTES}")
    return entry


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with something in them, numbered from 1; only a line feed ends a line, names may contain the rest."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line.strip() and not line.startswith("#"):
            yield number, line


# -- changing a file; lines that are not concerned stay as they are


def check_name(name: str) -> None:
    """ValueError if the file cannot hold a user of this name."""
    if not name or name.startswith("#") or any(c in name for c in ":\r\n\0"):
        raise ValueError(
            f"{name!r} cannot be a user name: it must not be empty, begin with # or contain : or line ends"
        )


def with_user(text: str, name: str, kept: str) -> str:
    """The file with this user's password set to a hash."""
    lines, at = _without(text, name)
    lines.insert(len(lines) if at is None else at, f"{name}:{kept}")
    return _joined(lines)


def without_user(text: str, name: str) -> tuple[str, bool]:
    """The file without this user, and whether there was one."""
    lines, at = _without(text, name)
    return _joined(lines), at is not None


def upgraded(text: str, hash_of: Callable[[bytes], str]) -> tuple[str, int]:
    """The file with plain passwords turned into hashes, and how many there were; hashes stay as they are.

    LineError for a line without a colon, or with a hash that is damaged.
    """
    lines = text.removesuffix("\n").split("\n")
    changed = 0
    for number, line in _lines(text):
        name, colon, kept = line.partition(":")
        if not colon or not name:
            raise LineError(number, "not of the form name:password")
        if kept.startswith("$6$"):
            _entry(number, kept)
        else:
            lines[number - 1] = f"{name}:{hash_of(kept.encode())}"
            changed += 1
    return _joined(lines), changed


def _without(text: str, name: str) -> tuple[list[str], int | None]:
    lines = text.removesuffix("\n").split("\n") if text else []
    places = [at for at, line in enumerate(lines) if line.startswith(f"{name}:")]
    return [line for line in lines if not line.startswith(f"{name}:")], places[0] if places else None


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
