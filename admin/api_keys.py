"""API keys: they authenticate HTTP requests to the modules of a node.

An entry is a key with one scope. A key may have several entries. In a cluster each key is valid on all nodes. Keys are
stored in plain text, because `api-key show` shows them. The file mode of the data directory protects them on disk, and
`listener.vmqs` protects them on their way between nodes.
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
KEY_LENGTH = 32
"""Characters of a generated key, unless `min_apikey_length` asks for more."""
MAX_KEY_LENGTH = 512
_PREFIX = b"nkey."
_ALPHABET = string.ascii_letters + string.digits
_FORMAT = "%Y-%m-%dT%H:%M:%S"
_DAY_S = 86400
_LAST_S = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
"""The last second that this form of a time can show. `max_apikey_expiry_days` may ask for more."""

Verdict = Literal["ok", "unknown", "expired", "scope"]
"""`scope`: the key has another scope."""


class ApiKeyError(ValueError):
    """An API key cannot be added or deleted; the text says why, for the operator."""


def key_store_of(server: Server) -> Shelf:
    """The store with the API keys of a node: that of its cluster if it has one, else its own.

    Keys from its own store move to the store of the cluster.
    """
    if server.cluster is None:
        return server.store
    store = server.cluster.config
    move(server.store, store, _PREFIX, after(_PREFIX))
    return store


class ApiKey(msgspec.Struct, frozen=True):
    """One entry; `expires_s` is seconds since 1970 in UTC, None for never."""

    key: str
    scope: str
    expires_s: int | None

    @property
    def expires(self) -> str:
        """The time of expiry in UTC, as `yyyy-mm-ddThh:mm:ss`, at most in the year 9999, or `never`."""
        if self.expires_s is None:
            return "never"
        return datetime.fromtimestamp(min(self.expires_s, _LAST_S), UTC).strftime(_FORMAT)


class ApiKeys:
    """All entries of a node, or of its cluster.

    `min_length` is `min_apikey_length` in characters. `max_expiry_days` is `max_apikey_expiry_days`, and also the
    lifetime of a key that is added without an expiry. `now_s` is the wall clock. `choice` picks one of some characters
    and must be unpredictable.
    """

    def __init__(
        self,
        store: Shelf,
        min_length: int,
        max_expiry_days: int | None,
        now_s: Callable[[], float],
        choice: Callable[[str], str],
    ) -> None:
        self._store = store
        self._min_length = min_length
        self._max_expiry_days = max_expiry_days
        self._now_s = now_s
        self._choice = choice

    def create(self, scope: str, expires: str | None) -> str:
        """Generate a random key, add it and return it. Raises `ApiKeyError`."""
        key = "".join(self._choice(_ALPHABET) for _ in range(max(KEY_LENGTH, self._min_length)))
        self.add(key, scope, expires)
        return key

    def add(self, key: str, scope: str, expires: str | None) -> None:
        """Add an entry; `expires` is UTC as yyyy-mm-ddThh:mm:ss. Raises `ApiKeyError` and changes nothing."""
        self._check_scope(scope)
        if len(key) < max(1, self._min_length):
            raise ApiKeyError(f"The key is too short: at least {max(1, self._min_length)} characters are needed.")
        if len(key) > MAX_KEY_LENGTH:
            raise ApiKeyError(f"The key is too long: at most {MAX_KEY_LENGTH} characters are possible.")
        # a key is sent as the user name of HTTP Basic authentication, which ends at a colon (RFC 7617, section 2)
        if not all("!" <= char <= "~" and char != ":" for char in key):
            raise ApiKeyError("A key consists of printable ASCII characters without colon and space.")
        if self._store.get(_storage_key(key, scope)) is not None:
            raise ApiKeyError(f"This key has the scope {scope} already; delete it first.")
        until = self._until(expires)
        self._store.put(_storage_key(key, scope), b"" if until is None else str(until).encode())

    def delete(self, key: str, scope: str | None) -> None:
        """Delete an entry, or all of a key if `scope` is None. Raises `ApiKeyError` if there is none."""
        if scope is not None:
            self._check_scope(scope)
        found = [each for each in self.rows(scope) if each.key == key]
        if not found:
            raise ApiKeyError(f"There is no such key{f' with the scope {scope}' if scope else ''}.")
        for each in found:
            self._store.delete(_storage_key(key, each.scope))

    def rows(self, scope: str | None = None) -> list[ApiKey]:
        """The entries, of one scope or of all, by scope and key. Raises `ApiKeyError` for an unknown scope."""
        if scope is not None:
            self._check_scope(scope)
        found = []
        for place, value in self._store.scan(_PREFIX, after(_PREFIX)):
            its, _, key = place[len(_PREFIX) :].decode(errors="replace").partition(".")
            if scope in (None, its):
                found.append(ApiKey(key, its, _expiry(value)))
        return found

    def has_expired(self, entry: ApiKey) -> bool:
        """Whether the entry has expired."""
        return entry.expires_s is not None and entry.expires_s <= self._now_s()

    def check(self, key: str, scope: str) -> Verdict:
        """Whether this key is valid for this scope. The comparison takes the same time for every wrong key."""
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
        latest = None if self._max_expiry_days is None else int(now) + self._max_expiry_days * _DAY_S
        if expires is None:
            return latest
        try:
            until = int(datetime.strptime(expires, _FORMAT).replace(tzinfo=UTC).timestamp())
        except ValueError:
            raise ApiKeyError(f"expires={expires}: yyyy-mm-ddThh:mm:ss is expected, in UTC.") from None
        if until <= now:
            raise ApiKeyError(f"expires={expires} is in the past; times are UTC.")
        if latest is not None and until > latest:
            raise ApiKeyError(f"expires={expires} is too late: max_apikey_expiry_days = {self._max_expiry_days}.")
        return until

    def _check_scope(self, scope: str) -> None:
        if scope not in SCOPES:
            raise ApiKeyError(f"scope={scope}: there are {', '.join(SCOPES)}.")


def _storage_key(key: str, scope: str) -> bytes:
    return _PREFIX + f"{scope}.{key}".encode()


def _expiry(value: bytes) -> int | None:
    """The stored time of expiry. An unreadable entry counts as expired."""
    if not value:
        return None
    return int(value) if value.isdigit() else 0
