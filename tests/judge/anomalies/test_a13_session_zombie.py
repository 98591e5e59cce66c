"""A13: sessions that come back."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log
from .found import findings, kinds, proof


def came_back(epoch: int, kind: str = "sess.expire") -> Log:
    log = Log()
    log.connect("rx", expiry_s=60)
    log.say(kind, client="rx", epoch=7, **({"reason": "clean_start"} if kind == "sess.end" else {}))
    log.say("conn.open", client="rx", present=True)
    log.say("sess.resume", client="rx", epoch=epoch)
    return log


@pytest.mark.parametrize("kind", ["sess.expire", "sess.end"])
def test_the_epoch_tells_sessions_apart(kind: str) -> None:
    log = came_back(7, kind)
    assert kinds(log) == [("A13", "resumed")] and proof(findings(log)[0], log) == [kind, "sess.resume"]
    assert kinds(came_back(8, kind)) == []


def test_a_session_without_epoch_is_not_judged() -> None:
    log = came_back(7)
    for row in log.rows:
        if row["type"] in ("sess.expire", "sess.resume"):
            row["epoch"] = 0
    assert kinds(log) == []
