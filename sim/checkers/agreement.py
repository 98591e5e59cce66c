"""At rest all nodes have the same metadata: keys, values and the writes that they come from (H-16, H-17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
