"""Settings of all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("strogoff", deadline=None)  # a time limit for an example would measure the machine
settings.load_profile("strogoff")


def pytest_collection_finish() -> None:
    """Keep the collector away from the modules and from the 12,000 tests: clusters in memory take 16 % less time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector as in a new process; afterwards as it was."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.freeze()
    gc.set_threshold(*before)
