"""The errors of an event loop that nobody awaits, such as an exception in a callback."""

from __future__ import annotations

import asyncio
from typing import Any


def collect_loop_errors(errors: list[dict[str, Any]]) -> None:
    """From now on, append what the running loop reports to its exception handler. Leaves out what an earlier test
    caused: gRPC has one event queue for all loops of a process, so a late event for a closed loop, such as the end of
    a cancelled stream, is read in the next loop and fails there.
    """

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        of_closed_loop = str(context.get("exception")) == "Event loop is closed"
        if not (of_closed_loop and "PollerCompletionQueue._handle_events" in context["message"]):
            errors.append(context)

    asyncio.get_running_loop().set_exception_handler(report)
