"""A tree of topic levels: finds the filters that match a topic.

A branch with only one text has no nodes: the tree has the text itself at the start of the branch, and a search compares
the whole text. So a text costs one entry of a dict (about 100 bytes), however many levels it has. A dict for each level
took five times that.
"""

from __future__ import annotations

from typing import Union

from ...mqtt.topics import matches

Node = dict[str, Union["Node", str]]

_END = "/"
"""Key of the text that ends at a node with branches. No level can have this name."""


class LevelTree:
    """A set of filters. The time of a search depends on the filters that it finds, not on the number of all filters."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: Node = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, text: str) -> bool:
        """Add a text; False if the tree has it already."""
        levels = text.split("/")
        node = self._root
        moved: list[str] | None = None
        for depth, level in enumerate(levels, 1):
            child = node.get(level)
            if child is None:
                node[level] = text
                break
            if isinstance(child, str):
                if child == text:
                    return False
                if moved is None:
                    moved = child.split("/")
                child = node[level] = {moved[depth] if depth < len(moved) else _END: child}
            node = child
        else:
            if _END in node:
                return False
            node[_END] = text
        self._size += 1
        return True

    def remove(self, text: str) -> bool:
        """Remove a text; False if the tree does not have it."""
        node = self._root
        trail: list[tuple[Node, str]] = []
        for level in [*text.split("/"), _END]:
            child = node.get(level)
            if child is None:
                return False
            trail.append((node, level))
            if isinstance(child, str):
                if child != text:
                    return False
                break
            node = child
        node, level = trail.pop()
        del node[level]
        self._size -= 1
        while trail and len(node) == 1:
            # replace a branch that has one text left by that text, so that removed texts leave no nodes
            (only,) = node.values()
            if not isinstance(only, str):
                break
            node, level = trail.pop()
            node[level] = only
        return True

    def filters_for(self, topic: str) -> list[str]:
        """Return the filters that match the topic, in an order that depends only on earlier calls."""
        found: list[str] = []
        nodes = [self._root]
        # a first-level wildcard does not match topics that begin with `$` [MQTT-4.7.2-1]
        plain = not topic.startswith("$")
        for depth, level in enumerate(topic.split("/")):
            following: list[Node] = []
            keys = (level, "+", "#") if depth or plain else (level,)
            for node in nodes:
                for key in keys:
                    child = node.get(key)
                    if child is None:
                        continue
                    if not isinstance(child, str):
                        following.append(child)
                    elif matches(child, topic):
                        found.append(child)
            nodes = following
            if not nodes:
                return found
        for node in nodes:
            # `#` also stands for the level above it (MQTT 5.0 section 4.7.1.2)
            found += [child for key in (_END, "#") if isinstance(child := node.get(key), str)]
        return found
