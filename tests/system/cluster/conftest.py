"""Clusters that the tests of one module share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .nodes import Node, bad_lines, end, start_joined
from .space import Space, space_or_skip


class Apart(NamedTuple):
    """Three nodes that can be cut off from each other."""

    space: Space
    nodes: list[Node]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """Three joined nodes, each in a network namespace. Their logs have nothing bad when the tests are over."""
    space = space_or_skip(3)
    nodes = space.nodes(tmp_path_factory.mktemp("apart"))
    try:
        space.background.run(start_joined(nodes))
        yield Apart(space, nodes)
        assert bad_lines(nodes) == []
    finally:
        space.background.run(end(nodes))
        space.close()
