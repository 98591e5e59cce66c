"""Parameters of which a suite tries a few, and another suite, with more time, the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(values: Iterable[Any], every: int, mark: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """Give the values for `pytest.mark.parametrize`: all but the first and each `every`-th one have the mark."""
    return [value if n % every == 0 else pytest.param(value, marks=mark) for n, value in enumerate(values)]
