"""Decides when to read a file of rules again, and keeps the last good content if the file is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class LineError(ValueError):
    """A line of a file cannot be parsed; `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line
        self.text = text


class Stamp(NamedTuple):
    """Attributes of a file that change with its content."""

    mtime_ns: int
    size: int
    inode: int


class Reloader(Generic[T]):
    """The content of one file as last understood.

    `content` is `initial` until the first good reading. `problem` says what is wrong with the file as it is now, empty
    if nothing is; a file with a problem never changes `content`.
    """

    def __init__(self, parse: Callable[[str], T], initial: T) -> None:
        self._parse = parse
        self._seen: Stamp | None = None
        self.content = initial
        self.problem = ""

    def wants(self, stamp: Stamp) -> bool:
        """True if the file has changed since it was last read. `stamp` must be taken before the reading, so that a
        change during it is noticed next time."""
        return stamp != self._seen

    def take(self, name: str, stamp: Stamp, text: str) -> bool:
        """Take what was read; `name` is the file's, for messages. True if there is new content."""
        self._seen = stamp
        try:
            self.content = self._parse(text)
        except LineError as error:
            self.problem = f"{name}:{error.line}: {error.text}"
            return False
        self.problem = ""
        return True

    def fail(self, problem: str) -> None:
        """The file could not be read at all. It is tried again at the next occasion."""
        self._seen = None
        self.problem = problem
