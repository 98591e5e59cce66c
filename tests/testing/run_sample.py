"""Runs sample tests in a pytest of their own, with the plugin, whether it is installed or not.

Each such pytest forgets at its end what it has imported. asyncio must not be imported a second time: the part of it
that is written in C knows the first one's `CancelledError`, and no `asyncio.timeout` would know that for its own.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import entry_points

import pytest

KEPT = asyncio
INSTALLED = "strogoff" in entry_points(group="pytest11").names


def run_sample(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Run one file of tests in this process."""
    pytester.makepyfile(source)
    own = () if INSTALLED else ("-p", "strogoff.testing.plugin")
    return pytester.runpytest_inprocess(*arguments, *own, "-p", "no:cacheprovider")
