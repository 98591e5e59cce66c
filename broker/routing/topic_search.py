"""The topics that a filter matches, found step by step in an ordered set that may change between the steps.

A search keeps no position in the set, only a text: it has looked at all topics before this text. So topics may be added
and removed between the steps. After a topic that does not match, the search continues at the next text that could
match, and skips whole branches: `+/state` takes two looks for each first level, however many topics are below it.
"""

from __future__ import annotations

from ...storage.sorted_keys import SortedKeys

_BATCH = 64
_ABOVE_DOLLAR = "%"
_ABOVE_SLASH = "0"
"""The characters after `$` and `/`: a text that ends with one sorts after all texts that have `$` or `/` there."""


class TopicSearch:
    """One search. `at` is the smallest text that it has not passed; `done` is True if no further topic can match."""

    __slots__ = ("_levels", "_plain", "at", "done", "filter")

    def __init__(self, text: str, at: str = "") -> None:
        self.filter = text
        self._levels = text.split("/")
        first_wildcard = min([at for at in (text.find("+"), text.find("#")) if at >= 0], default=-1)
        self._plain = first_wildcard < 0
        # `a/#` matches `a` too (MQTT 5.0 section 4.7.1.2)
        begin = text if self._plain else text[:first_wildcard].removesuffix("/")
        self.at = max(at, begin)
        self.done = False

    def step(self, topics: SortedKeys[str], limit: int, looks: int) -> tuple[list[str], int]:
        """Return the next matching topics, at most `limit`, and how many topics it looked at, at most `looks`."""
        found: list[str] = []
        looked = 0
        while not self.done and looked < looks and len(found) < limit:
            batch = topics.following(self.at, min(_BATCH, looks - looked, limit - len(found)))
            if not batch:
                self.done = True
                looked += 1
            for topic in batch:
                looked += 1
                following = self._following(topic)
                if following is None:
                    found.append(topic)
                    self.at = topic + "\x00"
                    self.done = self._plain
                    if self.done:
                        break
                    continue
                self.at = following
                self.done = not following
                break
        return found, looked

    def passed(self, topic: str) -> bool:
        """True if the search has passed the position of this topic in the order."""
        return self.done or topic < self.at

    def _following(self, topic: str) -> str | None:
        """Return None if the topic matches; else the smallest text after it that could match, or "" if none can."""
        wanted = self._levels
        if self._plain:
            return None if topic == self.filter else ""
        if topic[0] == "$" and wanted[0] in ("+", "#"):
            return _ABOVE_DOLLAR  # [MQTT-4.7.2-1]
        levels = topic.split("/")
        for depth, level in enumerate(wanted):
            if level == "#":
                return None
            if depth == len(levels):
                # names such as `a-` sort between `a` and the topics below it
                return topic + ("\x00" if wanted[depth - 1] == "+" else "/")
            if level != "+" and level != levels[depth]:
                return self._past_level(topic, levels, depth)
        if len(levels) == len(wanted):
            return None
        return self._next_branch(levels, len(wanted))

    def _past_level(self, topic: str, levels: list[str], depth: int) -> str:
        """Return where to continue after a topic whose level at this depth differs from the filter's."""
        candidate = "/".join([*levels[:depth], self._levels[depth]])
        if candidate > topic:
            return candidate
        if candidate + "/" > topic:  # the topic is `a-b` and the filter's level `a`: topics below `a` sort after it
            return candidate + "/"
        return self._next_branch(levels, depth)

    def _next_branch(self, levels: list[str], depth: int) -> str:
        """Return where to continue if no further topic with these first `depth` levels can match.

        That is after the branch of the last `+` among these levels; "" if there is no `+`.
        """
        for at in range(depth - 1, -1, -1):
            if self._levels[at] == "+":
                return "/".join(levels[: at + 1]) + _ABOVE_SLASH
        return ""
