"""Runs sample tests in a separate pytest with the plugin, whether it is installed or not.

Each such pytest forgets its imports at its end. asyncio must not be imported a second time: its C part keeps the first
`CancelledError`, and `asyncio.timeout` would not recognise it.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import entry_points

import pytest

KEPT = asyncio
INSTALLED = "strogoff" in entry_points(group="pytest11").names


def run_sample(pytester: pytest.Pytester, source: str | dict[str, str], *arguments: str) -> pytest.RunResult:
    """Run one file of tests, or several by their names, in this process."""
    if isinstance(source, str):
        pytester.makepyfile(source)
    else:
        pytester.makepyfile(**source)
    own = () if INSTALLED else ("-p", "strogoff.testing.plugin")
    with pytest.MonkeyPatch.context() as patch:
        # Python takes a file of the same size and second for the one that it compiled before.
        patch.setattr(sys, "dont_write_bytecode", True)
        return pytester.runpytest_inprocess(*arguments, *own, "-p", "no:cacheprovider")
