"""Nodes as processes that are members of one cluster while a test runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.cluster_nodes import Node, bad_lines, end, start_joined

from ..brokers import Background


@contextmanager
def joined(nodes: Sequence[Node]) -> Iterator[Background]:
    """Start the nodes, and end them afterwards. Their logs must have no error. Yields the loop that runs them."""
    background = Background()
    try:
        background.run(start_joined(nodes))
        yield background
        assert bad_lines(nodes) == []
    finally:
        background.run(end(nodes))
        background.close()
