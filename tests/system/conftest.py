"""The broker that the tests with real clients share, and names of a test's own."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest

from .brokers import Background, ServerHarness


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    """A loop beside the tests."""
    loop = Background()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def shared(background: Background, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHarness]:
    """The shared broker. That it stops cleanly, with nothing bad in its log, is checked when the tests are over."""
    harness = ServerHarness(tmp_path_factory.mktemp("shared"))
    background.run(harness.broker.start())
    yield harness
    assert background.run(harness.broker.stop()) == 0
    assert harness.broker.tracebacks() == []


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A word that no other test uses, for topics and client ids."""
    words = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
    return f"{words[:40]}-{zlib.crc32(request.node.nodeid.encode()):08x}"
