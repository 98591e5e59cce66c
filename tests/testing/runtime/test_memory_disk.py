"""The disk in memory keeps the contract of engines, and keeps committed writes over a kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strogoff.testing.runtime.memory_disk import MemoryDisk, MemoryDiskEngine

from ...storage.contract import EngineContract, Harness


class DiskHarness(Harness):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()

    def open(self) -> None:
        self.engine = MemoryDiskEngine(self.disk, self.loop.call_soon)


class TestMemoryDiskEngine(EngineContract):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        harness = DiskHarness()
        harness.open()
        yield harness
        harness.engine.close()


def test_a_batch_under_way_at_a_kill_never_lands() -> None:
    """A batch is stored whole or not at all; here it is not stored."""
    harness = DiskHarness()
    harness.open()
    assert harness.write({b"a": b"1"}) is None
    harness.engine.write({b"a": b"2", b"b": b"2"}, lambda error: None)
    harness.engine.close()
    harness.loop.turn()
    harness.open()
    assert harness.all() == {b"a": b"1"}
    assert harness.disk.commits == 1
