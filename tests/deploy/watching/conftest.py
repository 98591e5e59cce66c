"""The series of a running cluster, for all tests of this folder."""

from __future__ import annotations

import pytest

from .exposed import Series, exposed


@pytest.fixture(scope="session")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """What a member of a cluster has at `/metrics`."""
    return exposed(tmp_path_factory.mktemp("exposed"))
