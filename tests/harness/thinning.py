"""Parameters of which the fast suite tries a few, and `make test-slow` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(values: Iterable[Any], every: int) -> list[Any]:
    """Give the values for `pytest.mark.parametrize`: the first and each `every`-th one are fast, the others slow."""
    return [
        value if at % every == 0 else pytest.param(value, marks=pytest.mark.slow) for at, value in enumerate(values)
    ]
