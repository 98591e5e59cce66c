"""The cluster shared by all tests that cut nodes off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from bench.cluster_nodes import Node, bad_lines, end, start_joined
from bench.space import Space, SpaceError

from ..brokers import Background, require_program


class Apart(NamedTuple):
    """Three nodes that can be cut off from each other, and the loop from which clients reach them all."""

    space: Space
    nodes: list[Node]
    background: Background


def space_or_skip(count: int) -> Space:
    """A space, or a skip that says what is missing; nothing is skipped where STROGOFF_NO_SKIP is set."""
    require_program("ip", "iproute2")
    require_program("nft", "nftables")
    try:
        return Space(count)
    except SpaceError as error:
        assert not os.environ.get("STROGOFF_NO_SKIP"), f"network namespaces are needed: {error}"
        pytest.skip(f"no network namespaces: {error} (be root)")


@pytest.fixture(scope="session")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """Three joined nodes, each in a network namespace, whole between tests. Their logs must have no
    error at the end.
    """
    space = space_or_skip(3)
    nodes = space.nodes(tmp_path_factory.mktemp("apart"))
    background = Background()
    try:
        background.run(entered(space))
        background.run(start_joined(nodes))
        yield Apart(space, nodes, background)
        assert bad_lines(nodes) == []
    finally:
        background.run(end(nodes))
        background.close()
        space.close()


async def entered(space: Space) -> None:
    """Bring the thread of this loop into the space."""
    space.enter()
