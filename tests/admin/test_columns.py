"""Fields as flags: columns and filters."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.admin.columns import Query, Row, field_flags
from strogoff.admin.grammar import Call
from strogoff.admin.result import Alert, CommandError, Table

ROW: Row = {"client_id": "abc", "is_online": True, "user": None, "peer_port": 1883}


def query(*flags: tuple[str, Any]) -> Query:
    return Query(Call({}, list(flags), []), ("client_id",))


def test_columns() -> None:
    assert query().columns == ("client_id",)
    found = query(("user", None), ("client_id", "x"), ("user", "y"), ("limit", 3))
    assert (found.columns, found.limit, query().limit) == (("user", "client_id"), 3, 100)
    assert found.wants("user", "x") and not found.wants("is_online")
    assert query(("user", None), ("peer_port", None), ("topic", None)).cells(ROW) == (None, 1883, None)


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [
        ("client_id", "abc", True),
        ("client_id", "ab", False),
        ("client_id", "~^a", True),
        ("client_id", "~^b", False),
        ("client_id", "", False),
        ("is_online", "true", True),
        ("is_online", "True", False),
        ("user", "undefined", True),
        ("peer_port", "1883", True),
        ("peer_port", "~^18", True),
        ("topic", "x", True),
    ],
)
def test_filters(field: str, value: str, holds: bool) -> None:
    """A filter on a field that the row does not have yet is ignored so far."""
    assert query((field, value)).holds(ROW) is holds


def test_all_filters_must_hold() -> None:
    assert query(("client_id", "~a"), ("client_id", "~c$")).holds(ROW)
    assert not query(("client_id", "~a"), ("client_id", "~b$")).holds(ROW)


def test_no_pattern_blocks_the_node() -> None:
    """A backtracking matcher would need years for this pattern."""
    assert not query(("client_id", "~^(a+)+$")).holds({"client_id": "a" * 60 + "!"})


def test_a_table_that_is_cut_says_so() -> None:
    more = Alert("There are more rows than --limit=2 shows: --limit=20 shows more.")
    two = query(("limit", 2))
    assert two.table([("a",), ("b",)]) == [Table(("client_id",), [("a",), ("b",)])]
    assert two.table([("a",), ("b",), ("c",)]) == [Table(("client_id",), [("a",), ("b",)]), more]
    assert query(("limit", 0)).table([]) == [Table(("client_id",), [])]


def test_a_malformed_pattern_is_an_error() -> None:
    with pytest.raises(CommandError, match=r"--user: '\(' is no regular expression"):
        query(("user", "~("))


def test_flags() -> None:
    (flag,) = field_flags(["user"])
    assert (flag.name, flag.optional) == ("user", True)
