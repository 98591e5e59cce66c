"""A packed table has what the dict has, also in another process, and remembers a bounded part of it as objects."""

from __future__ import annotations

import pickle

import pytest

from strogoff.judge import packed
from strogoff.judge.packed import Packed
from strogoff.judge.rows import Owner
from strogoff.judge.sessions import Home, Session

OWNERS = [(f"n{number % 3}", "" if number % 2 else "m", f"c\n{number}") for number in range(40)]


def sessions() -> dict[Owner, list[Session]]:
    return {
        owner: [
            Session(owner, number + 1, at, 5, [Home(5, "a", 1)], resumed=[at], rows=[("a", 1, at)], depth=(at, 2))
            for number in range(1 + at % 2)
        ]
        for at, owner in enumerate(OWNERS)
    }


def test_it_has_what_the_dict_has() -> None:
    plain = sessions()
    plain[OWNERS[0]][0].revived = ("a", 1, 2), ("b", 1, 3)
    made = Packed(plain, Owner, list[Session])
    for table in (made, pickle.loads(pickle.dumps(made))):
        assert table == plain and len(table) == len(OWNERS) and sorted(table) == sorted(OWNERS)
        for _ in range(2):
            assert table.get(("n0", "", "nobody")) is None and ("z", "z", "z") not in table
            assert table.get(("z", "z", "z"), []) == [] and table.get(OWNERS[1]) == plain[OWNERS[1]]
        with pytest.raises(KeyError):
            table["", "", ""]


def test_keys_may_have_numbers() -> None:
    made = Packed({("n", 2, 10): "m", ("n", 10, 2): "k"}, tuple[str, int, int], str)
    assert made == {("n", 2, 10): "m", ("n", 10, 2): "k"}


def test_it_remembers_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "REMEMBERED", 200)
    made = Packed(sessions(), Owner, list[Session])
    assert made[OWNERS[0]] is made[OWNERS[0]]
    for owner in OWNERS * 2:
        assert made[owner][0].owner == owner and made.get(("", *owner[1:])) is None
        assert len(made._made) < 10


def test_an_empty_table() -> None:
    assert not Packed({}, Owner, list[int])
