"""File descriptors: raises the limit of the process, and reserves some of them for files.

A database that cannot open its next file takes no more writes, so connections never get the last descriptors.
"""

from __future__ import annotations

import resource
from typing import Self

import msgspec

FEWEST_TABLES = 74
"""The fewest files that LevelDB keeps open; it ignores smaller settings."""
MOST_TABLES = 500
OTHERS = 64
"""Descriptors for logs, the event log, links to other nodes, operators' connections, and the files of a repair."""
ENOUGH = 4096
_UNLIMITED = 1 << 20


class Descriptors(msgspec.Struct, frozen=True):
    """How a process divides its file descriptors.

    `per_database` is how many tables each of the two databases keeps open; `for_connections` is the highest descriptor
    that a connection may have.
    """

    per_database: int
    for_connections: int

    @classmethod
    def out_of(cls, limit: int) -> Self:
        """The shares of a process that may have `limit` descriptors."""
        tables = max(FEWEST_TABLES, min(MOST_TABLES, limit // 16))
        return cls(tables, max(1, limit - 2 * tables - OTHERS))

    @classmethod
    def of_this_process(cls) -> Self:
        """The shares by the limit that is in force now."""
        return cls.out_of(_number(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def raise_limit() -> tuple[str, str]:
    """Raise the soft limit as far as the system lets us. Level and line for the log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_number(soft), _number(hard))
    if _number(soft) < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a lower bound of its own
            wanted = _number(soft)
    connections = Descriptors.out_of(wanted).for_connections
    line = f"{wanted} file descriptors, about {connections} of them for connections"
    if wanted < ENOUGH:
        return "warning", f"{line}: raise the hard limit for more (`ulimit -Hn`, LimitNOFILE)"
    return "info", line


def _number(limit: int) -> int:
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit
