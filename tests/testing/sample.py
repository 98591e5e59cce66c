"""Runs sample tests in a pytest of their own, with the plugin, whether it is installed or not."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

INSTALLED = "strogoff" in entry_points(group="pytest11").names


def run_sample(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Run one file of tests in this process."""
    pytester.makepyfile(source)
    own = () if INSTALLED else ("-p", "strogoff.testing.plugin")
    return pytester.runpytest_inprocess(*arguments, *own, "-p", "no:cacheprovider")
