"""Problems of a configuration, with the details that an operator needs to correct them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One problem that prevents the start of the node.

    `file` is the file, the name of the environment variable or "override". `line` counts from 1; it is 0 for a source
    without lines. `suggestion` is the nearest known key or value, or empty.
    """

    file: str
    line: int
    key: str
    message: str
    expected: str = ""
    found: str = ""
    suggestion: str = ""

    @property
    def place(self) -> str:
        """`file:line`, or the file alone."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        said = f"{self.place}: {self.key}: {self.message}" if self.key else f"{self.place}: {self.message}"
        details = [f"expected {self.expected}"] if self.expected else []
        if self.found:
            details.append(f"found {shortened(self.found)}")
        if self.suggestion:
            details.append(f"did you mean {self.suggestion}?")
        return "\n    ".join([said, *details])


class ConfigError(Exception):
    """The configuration is invalid. The error has all problems, in the order of files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = "1 problem in the configuration:" if count == 1 else f"{count} problems in the configuration:"
        return "\n".join([head, *(f"  {problem}".replace("\n", "\n  ") for problem in self.problems)])


def shortened(text: str, limit: int = 120) -> str:
    """The text in quotes, with control characters escaped, cut at `limit` characters."""
    visible = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[: limit + 1])
    return f'"{visible[:limit]}..."' if len(visible) > limit else f'"{visible}"'
