"""What is wrong with a configuration, said so that it can be put right without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing that keeps the node from starting.

    `file` is the file, the name of the environment variable or "override"; `line` counts from 1 and is 0 where there
    are no lines. `suggestion` is the nearest key or value that is known, empty if none is near.
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
    """A configuration that cannot be used. Holds all of its problems, in the order of the files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = "1 problem in the configuration:" if count == 1 else f"{count} problems in the configuration:"
        return "\n".join([head, *(f"  {problem}".replace("\n", "\n  ") for problem in self.problems)])


def shortened(text: str, limit: int = 120) -> str:
    """The text in quotes, control characters made visible, cut at `limit` characters."""
    visible = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[: limit + 1])
    return f'"{visible[:limit]}..."' if len(visible) > limit else f'"{visible}"'
