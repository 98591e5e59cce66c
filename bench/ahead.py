"""`strogoff` with a clock of the event log that is ahead: `STROGOFF_LOG_AHEAD_MS` says by how much.

Everything else keeps the clock of the machine. So all nodes of a test run on one machine, and their logs are written
by clocks that differ.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from strogoff import cli
from strogoff.broker.process import server
from strogoff.broker.reporting.events import Events

AHEAD = "STROGOFF_LOG_AHEAD_MS"
"""The environment variable."""


def ahead(now_ms: Callable[[], int], by_ms: int) -> Callable[[], int]:
    """Returns the clock that is ahead."""
    return lambda: now_ms() + by_ms


def events(node: str, boot: int, run_id: str, now_ms: Callable[[], int], *rest: Any) -> Events:
    """As `Events`."""
    return Events(node, boot, run_id, ahead(now_ms, int(os.environ[AHEAD])), *rest)


if __name__ == "__main__":
    vars(server)["Events"] = events
    sys.exit(cli.main(sys.argv[1:]))
