"""Tests of one group run in one worker of pytest-xdist: so the slow tests start Java once, not once for each worker."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.xdist_group("one")
def test_xdist_keeps_groups_together(request: pytest.FixtureRequest) -> None:
    # It does so by the ends of ids. With pytest 9.2, pytest-xdist 3.8 does not change them, and says nothing.
    keeps_groups = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@one") == keeps_groups
