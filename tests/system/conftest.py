"""The broker that the tests with real clients share, and unique names for each test."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest

from .brokers import Background, EveryListener


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    """An event loop in a thread for the tests."""
    loop = Background()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def shared(background: Background, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryListener]:
    """The shared broker. After the tests it must stop cleanly, without an error in its log."""
    harness = EveryListener(tmp_path_factory.mktemp("shared"))
    background.run(harness.broker.start())
    yield harness
    assert background.run(harness.broker.stop()) == 0
    assert harness.broker.tracebacks() == []


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Returns a word that no other test uses, for topics and client ids."""
    words = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
    return f"{words[:40]}-{zlib.crc32(request.node.nodeid.encode()):08x}"
