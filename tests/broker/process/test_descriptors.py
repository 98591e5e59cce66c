"""The limit of descriptors is raised at the start, and connections leave some of them for files."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from strogoff.broker.process.descriptors import FEWEST_TABLES, MOST_TABLES, OTHERS, Descriptors


@pytest.mark.parametrize("limit", [256, 1024, 4096, 65536, 1 << 20])
def test_files_have_their_share(limit: int) -> None:
    """Both databases can keep all their tables open, whatever the number of connections."""
    shares = Descriptors.out_of(limit)
    assert FEWEST_TABLES <= shares.per_database <= MOST_TABLES
    assert shares.for_connections + 2 * shares.per_database + OTHERS <= limit
    assert shares.for_connections > 0


def test_a_tiny_limit_leaves_at_least_one() -> None:
    assert Descriptors.out_of(20) == Descriptors(FEWEST_TABLES, 1)


def raised(soft: int, hard: int) -> list[str]:
    """Returns level, line and the resulting limit of a process that begins with these limits."""
    code = (
        "import resource; from strogoff.broker.process.descriptors import *; print(*raise_limit(), sep='|', end='|');"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], Descriptors.of_this_process().for_connections)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )
    return done.stdout.strip().split("|")


def test_the_soft_limit_becomes_the_hard_one() -> None:
    level, line, after = raised(256, 4096)
    assert (level, line) == ("info", "4096 file descriptors, about 3520 of them for connections")
    assert after == "4096 3520"


def test_a_low_hard_limit_is_logged() -> None:
    level, line, after = raised(200, 1024)
    assert level == "warning" and "raise the hard limit" in line
    assert after == "1024 812"
