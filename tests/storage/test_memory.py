"""The engine in memory keeps the contract, and loses its content at the end."""

from __future__ import annotations

import pytest

from strogoff.storage.memory import Table, VolatileMemoryEngine

from .contract import EngineContract


@pytest.mark.parametrize("kind", ["memory"])
class TestVolatileMemoryEngine(EngineContract):
    pass


def test_it_declares_itself_volatile() -> None:
    assert VolatileMemoryEngine.durability == "none"
    assert "VOLATILE" in (VolatileMemoryEngine.__doc__ or "")


def test_a_table_can_be_put_back() -> None:
    table = Table({b"a": b"1", b"b": b"2"})
    undo = table.put_all([(b"a", None), (b"b", b"3"), (b"c", b"4"), (b"b", b"5"), (b"d", None)])
    assert table.values == {b"b": b"5", b"c": b"4"}
    table.put_all(reversed(undo))
    assert table.scan(b"", b"z") == [(b"a", b"1"), (b"b", b"2")]
