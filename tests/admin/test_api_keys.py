"""API keys: valid keys, their lifetime, and their scopes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.admin.api_keys import MAX_KEY_LENGTH, SCOPES, ApiKey, ApiKeyError, ApiKeys, key_store_of
from strogoff.storage.sorted_keys import SortedKeys

from .fake_operator_port import FakeOperatorPort

NOW = 1_700_000_000


class Shelf:
    """Entries in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.get = self.values.get
        self.put = self.values.__setitem__

    def delete(self, key: bytes) -> None:
        self.values.pop(key, None)

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        return [(key, self.values[key]) for key in SortedKeys(self.values).between(start, stop)]


def keys(shortest: int = 0, longest_days: int | None = None, shelf: Shelf | None = None, now: int = NOW) -> ApiKeys:
    turn = itertools.count()
    return ApiKeys(shelf or Shelf(), shortest, longest_days, lambda: now, lambda some: some[next(turn) % len(some)])


def test_a_key_gives_access_to_its_scopes() -> None:
    fake = keys()
    fake.add("secret", "mgmt", None)
    fake.add("secret", "metrics", None)
    fake.add("other", "health", None)
    verdicts = {scope: fake.check("secret", scope) for scope in SCOPES}
    assert verdicts == {**dict.fromkeys(SCOPES, "scope"), "mgmt": "ok", "metrics": "ok"}
    for wrong in ("", "secre", "secret1", "mgmt.secret", "Secret", "sécret", "\udcff"):
        assert fake.check(wrong, "mgmt") == "unknown"


def test_keys_that_are_made_are_long_enough_and_differ() -> None:
    fake = keys()
    first, second = fake.create("mgmt", None), fake.create("mgmt", None)
    assert first != second and len(first) == len(second) == 32 and (first + second).isalnum()
    assert len(keys(shortest=40).create("mgmt", None)) == 40
    assert fake.check(first, "mgmt") == fake.check(second, "mgmt") == "ok"


def test_expiry() -> None:
    shelf = Shelf()
    keys(shelf=shelf).add("a", "mgmt", "2023-11-14T22:13:21")
    for now, verdict in ((NOW, "ok"), (NOW + 1, "expired")):
        fake = keys(shelf=shelf, now=now)
        (row,) = fake.rows()
        assert row == ApiKey("a", "mgmt", NOW + 1)
        assert row.expires == "2023-11-14T22:13:21"
        assert (fake.check("a", "mgmt"), fake.has_expired(row)) == (verdict, verdict == "expired")
    assert ApiKey("a", "mgmt", None).expires == "never"


def test_the_longest_life_is_also_the_usual_one() -> None:
    fake = keys(longest_days=2)
    fake.add("a", "mgmt", None)
    assert fake.rows() == [ApiKey("a", "mgmt", NOW + 2 * 86400)]
    fake.add("b", "mgmt", "2023-11-16T22:13:20")
    with pytest.raises(ApiKeyError, match="2023-11-16T22:13:21 is too late: max_apikey_expiry_days = 2"):
        fake.add("c", "mgmt", "2023-11-16T22:13:21")


@pytest.mark.parametrize("days", [2_900_000, 3_000_000, 10**9, 10**15])
def test_a_key_whose_end_is_no_date_is_shown(days: int) -> None:
    """Before, `api-key show` failed for all keys."""
    fake = keys(longest_days=days)
    key = fake.create("mgmt", None)
    (row,) = fake.rows()
    assert row.expires.startswith("9") and len(row.expires) == len("9999-12-31T23:59:59")
    assert (row.expires == "9999-12-31T23:59:59") == (days > 2_900_000)
    assert fake.check(key, "mgmt") == "ok" and not fake.has_expired(row)


@pytest.mark.parametrize(
    ("key", "scope", "expires", "said"),
    [
        ("abc", "mgmt", None, "The key is too short: at least 4 characters are needed."),
        (
            "x" * (MAX_KEY_LENGTH + 1),
            "mgmt",
            None,
            f"The key is too long: at most {MAX_KEY_LENGTH} characters are possible.",
        ),
        ("ab:cd", "mgmt", None, "A key consists of printable ASCII characters without colon and space."),
        ("ab cd", "mgmt", None, "A key consists of"),
        ("abcdé", "mgmt", None, "A key consists of"),
        ("abcd\n", "mgmt", None, "A key consists of"),
        ("taken", "mgmt", None, "This key has the scope mgmt already; delete it first."),
        ("abcd", "all", None, "scope=all: there are status, mgmt, metrics, health, api2, httppub."),
        ("abcd", "mgmt", "tomorrow", "expires=tomorrow: yyyy-mm-ddThh:mm:ss is expected, in UTC."),
        ("abcd", "mgmt", "2023-13-01T00:00:00", "expires=2023-13-01T00:00:00: yyyy-mm-dd"),
        ("abcd", "mgmt", "2023-11-14T22:13:20", "expires=2023-11-14T22:13:20 is in the past; times are UTC."),
    ],
)
def test_invalid_keys_are_refused(key: str, scope: str, expires: str | None, said: str) -> None:
    shelf = Shelf()
    fake = keys(4, shelf=shelf)
    fake.add("taken", "mgmt", None)
    before = dict(shelf.values)
    with pytest.raises(ApiKeyError) as error:
        fake.add(key, scope, expires)
    assert str(error.value).startswith(said)
    assert shelf.values == before


def test_an_empty_key_is_refused_at_any_minimum_length() -> None:
    with pytest.raises(ApiKeyError, match="at least 1 char"):
        keys().add("", "mgmt", None)


def test_delete() -> None:
    fake = keys()
    for key, scope in (("a", "mgmt"), ("a", "status"), ("a", "health"), ("ab", "mgmt")):
        fake.add(key, scope, None)
    fake.delete("a", "mgmt")
    assert [(row.key, row.scope) for row in fake.rows()] == [("a", "health"), ("ab", "mgmt"), ("a", "status")]
    assert [row.key for row in fake.rows("mgmt")] == ["ab"]
    with pytest.raises(ApiKeyError, match=r"There is no such key with the scope mgmt\."):
        fake.delete("a", "mgmt")
    fake.delete("a", None)
    assert [row.key for row in fake.rows()] == ["ab"]
    with pytest.raises(ApiKeyError, match=r"There is no such key\."):
        fake.delete("a", None)
    for wrong in (lambda: fake.delete("ab", "x"), lambda: fake.rows("x")):
        with pytest.raises(ApiKeyError, match="scope=x: there are"):
            wrong()


def test_a_damaged_entry_gives_no_access() -> None:
    shelf = Shelf()
    shelf.put(b"nkey.mgmt.a", b"what?")
    fake = keys(shelf=shelf)
    assert fake.check("a", "mgmt") == "expired"
    fake.delete("a", "mgmt")
    assert fake.rows() == []


def test_keys_of_a_node_move_to_its_cluster_once() -> None:
    store = Shelf()
    server: Any = SimpleNamespace(store=store, cluster=None)
    assert key_store_of(server) is store
    keys(shelf=store).add("mine", "mgmt", None)
    store.put(b"nother", b"1")
    fake = FakeOperatorPort()
    server.cluster = fake
    ApiKeys(fake.config, 0, None, lambda: NOW, lambda some: some[0]).add("theirs", "health", None)
    shelf = key_store_of(server)
    assert shelf is fake.config
    found = ApiKeys(shelf, 0, None, lambda: NOW, lambda some: some[0])
    assert [(row.key, row.scope) for row in found.rows()] == [("theirs", "health"), ("mine", "mgmt")]
    assert store.values == {b"nother": b"1"}
    found.delete("mine", None)
    assert [row.key for row in found.rows()] == ["theirs"]
    assert key_store_of(server).scan(b"nkey.mgmt", b"nkey.mgmu") == []


def test_an_entry_that_is_no_text_gives_no_access_and_no_error() -> None:
    shelf = Shelf()
    shelf.put(b"nkey.mgmt.\xff", b"\xff")
    fake = keys(shelf=shelf)
    fake.add("good", "mgmt", None)
    assert fake.check("good", "mgmt") == "ok"
    assert fake.check("\ufffd", "mgmt") == "expired"
