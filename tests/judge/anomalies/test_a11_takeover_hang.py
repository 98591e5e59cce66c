"""A11: takeovers that do not end."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log
from .found import findings


@pytest.mark.parametrize(("ms", "wrong"), [(4900, False), (5100, True)])
@pytest.mark.parametrize("ends", [True, False])
def test_a_takeover_has_five_seconds(ms: int, wrong: bool, ends: bool) -> None:
    log = Log()
    log.connect("rx")
    log.say("sess.takeover.start", client="rx")
    for _ in range(ms):
        next(log._now)
    if ends:
        log.say("sess.takeover.end", client="rx")
    else:
        log.say("lease.get", view=1)
    found = findings(log)
    assert [each.kind for each in found] == ["hang"] * wrong
    assert not ends or all(each.value > 5000 for each in found)
