"""API keys: who may use the HTTP modules that ask who is there.

An entry is a key with one scope; the same key may have several. In a cluster they are valid on all nodes. Keys are kept
as they are, because `api-key show` shows them: what protects them is the mode of the data directories, and between
nodes `listener.vmqs`.
"""

from __future__ import annotations

import hmac
import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from ..broker.process.server import Server
from ..broker.shared_config import Shelf, move
from ..storage.keys import after

SCOPES = ("status", "mgmt", "metrics", "health", "api2", "httppub")
DEFAULT_SCOPE = "mgmt"
LENGTH = 32
"""Characters of a key that is made here, unless `min_apikey_length` asks for more."""
LONGEST = 512
_PREFIX = b"nkey."
_ALPHABET = string.ascii_letters + string.digits
_FORMAT = "%Y-%m-%dT%H:%M:%S"
_DAY_S = 86400

Verdict = Literal["ok", "unknown", "expired", "scope"]
"""`scope`: a key that is good for something else."""


class ApiKeyError(ValueError):
    """An API key cannot be added or deleted; the text says why, for the operator."""


def shelf_of(server: Server) -> Shelf:
    """Where the keys of a node are: with those of its whole cluster if there is a way to other nodes.

    What the node kept for itself before goes there, once.
    """
    if server.cluster is None:
        return server.store
    shelf = server.cluster.config
    move(server.store, shelf, _PREFIX, after(_PREFIX))
    return shelf


class ApiKey(msgspec.Struct, frozen=True):
    """One entry; `expires_s` is seconds since 1970 in UTC, None for never."""

    key: str
    scope: str
    expires_s: int | None

    @property
    def expires(self) -> str:
        """When it expires, as operators write it, in UTC."""
        if self.expires_s is None:
            return "never"
        return datetime.fromtimestamp(self.expires_s, UTC).strftime(_FORMAT)


class ApiKeys:
    """All entries of a node, or of its cluster.

    `shortest` is `min_apikey_length` in characters and `longest_days` is `max_apikey_expiry_days`, which is also the
    life of keys that are added without an end; `now_s` is the wall clock, `choose` picks one of some characters and
    must be unpredictable.
    """

    def __init__(
        self,
        shelf: Shelf,
        shortest: int,
        longest_days: int | None,
        now_s: Callable[[], float],
        choose: Callable[[str], str],
    ) -> None:
        self._shelf = shelf
        self._shortest = shortest
        self._longest_days = longest_days
        self._now_s = now_s
        self._choose = choose

    def create(self, scope: str, expires: str | None) -> str:
        """Make a key that nobody can guess, add it and return it. Raises `ApiKeyError`."""
        key = "".join(self._choose(_ALPHABET) for _ in range(max(LENGTH, self._shortest)))
        self.add(key, scope, expires)
        return key

    def add(self, key: str, scope: str, expires: str | None) -> None:
        """Add an entry; `expires` is UTC as yyyy-mm-ddThh:mm:ss. Raises `ApiKeyError`; then nothing has changed."""
        self._check_scope(scope)
        if len(key) < max(1, self._shortest):
            raise ApiKeyError(f"The key is too short: at least {max(1, self._shortest)} characters are needed.")
        if len(key) > LONGEST:
            raise ApiKeyError(f"The key is too long: at most {LONGEST} characters are possible.")
        # it travels as a user name of HTTP Basic authentication, which ends at a colon (RFC 7617, section 2)
        if not all("!" <= char <= "~" and char != ":" for char in key):
            raise ApiKeyError("A key has letters, digits and signs of ASCII, but no colon and no spaces.")
        if self._shelf.get(_place(key, scope)) is not None:
            raise ApiKeyError(f"This key has the scope {scope} already; delete it first.")
        until = self._until(expires)
        self._shelf.put(_place(key, scope), b"" if until is None else str(until).encode())

    def delete(self, key: str, scope: str | None) -> None:
        """Delete an entry, or all of a key if `scope` is None. Raises `ApiKeyError` if there is none."""
        if scope is not None:
            self._check_scope(scope)
        found = [each for each in self.rows(scope) if each.key == key]
        if not found:
            raise ApiKeyError(f"There is no such key{f' with the scope {scope}' if scope else ''}.")
        for each in found:
            self._shelf.delete(_place(key, each.scope))

    def rows(self, scope: str | None = None) -> list[ApiKey]:
        """The entries, of one scope or of all, by scope and key. Raises `ApiKeyError` for a scope that there is not."""
        if scope is not None:
            self._check_scope(scope)
        found = []
        for place, value in self._shelf.scan(_PREFIX, after(_PREFIX)):
            its, _, key = place[len(_PREFIX) :].decode(errors="replace").partition(".")
            if scope in (None, its):
                found.append(ApiKey(key, its, _expiry(value)))
        return found

    def has_expired(self, entry: ApiKey) -> bool:
        """Whether it does not count any more."""
        return entry.expires_s is not None and entry.expires_s <= self._now_s()

    def check(self, key: str, scope: str) -> Verdict:
        """Whether this key opens what needs this scope. How long it takes does not tell how much of a key was right."""
        said = key.encode(errors="surrogateescape")
        same = [each for each in self.rows() if hmac.compare_digest(each.key.encode(), said)]
        if not same:
            return "unknown"
        fitting = [each for each in same if each.scope == scope]
        if not fitting:
            return "scope"
        return "expired" if self.has_expired(fitting[0]) else "ok"

    def _until(self, expires: str | None) -> int | None:
        now = self._now_s()
        latest = None if self._longest_days is None else int(now) + self._longest_days * _DAY_S
        if expires is None:
            return latest
        try:
            until = int(datetime.strptime(expires, _FORMAT).replace(tzinfo=UTC).timestamp())
        except ValueError:
            raise ApiKeyError(f"expires={expires}: yyyy-mm-ddThh:mm:ss is expected, in UTC.") from None
        if until <= now:
            raise ApiKeyError(f"expires={expires} is in the past; times are UTC.")
        if latest is not None and until > latest:
            raise ApiKeyError(f"expires={expires} is too late: max_apikey_expiry_days = {self._longest_days}.")
        return until

    def _check_scope(self, scope: str) -> None:
        if scope not in SCOPES:
            raise ApiKeyError(f"scope={scope}: there are {', '.join(SCOPES)}.")


def _place(key: str, scope: str) -> bytes:
    return _PREFIX + f"{scope}.{key}".encode()


def _expiry(value: bytes) -> int | None:
    """What was kept; an entry that cannot be read opens nothing."""
    if not value:
        return None
    return int(value) if value.isdigit() else 0
