"""Nodes that have seen the same writes have the same metadata; at rest all nodes have the same (H-16, H-17)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

Contents = Mapping[str, Mapping[bytes, object]]


def judge(contents: Contents) -> Iterator[str]:
    """Compare the metadata of all nodes. `contents`: node -> key -> value that must be equal on all nodes."""
    nodes = sorted(contents)
    if not nodes:
        return
    first, model = nodes[0], contents[nodes[0]]
    for other in nodes[1:]:
        found = contents[other]
        for key in sorted(set(model) | set(found)):
            if model.get(key) != found.get(key):
                yield f"disagree: {key!r} is {model.get(key)!r} at {first}, {found.get(key)!r} at {other}"
                break


def judge_seen(digests: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Compare nodes at one moment. `digests` has a node, the digest of the writes that it has seen, and that of its
    metadata, as `ReplicatedMap.digests` returns them. A node whose exchange is half done is not compared."""
    first: dict[str, tuple[str, str]] = {}
    for node, seen, held in digests:
        if not seen:
            continue
        other, model = first.setdefault(seen, (node, held))
        if held != model:
            yield f"disagree: {other} and {node} have seen the same writes, and have different metadata"
