"""The end of a node's process: it does not wait without limit for what a plugin, or a disk that hangs, left running.

Python ends a process when all tasks have ended, and all threads that are not daemons, such as those of
`asyncio.to_thread`. The node has written and closed everything before that, as far as its disk let it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Coroutine
from typing import Any

import uvloop

from .logs import complain

END_S = 1.0
"""How long the process waits, in seconds, for what still runs."""


def run_to_the_end(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` in an event loop. Returns its result, with which the caller must end the process now; 1 for a defect.

    `END_S` seconds after the end of `work` the process ends by itself, with the same status, if anything still runs.
    """
    before = set(threading.enumerate())
    bounds: list[threading.Timer] = []

    async def bounded() -> int:
        status = 1
        try:
            status = await work
        except Exception:
            traceback.print_exc()
        finally:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            bound = threading.Timer(END_S, _end_now, (status, tasks, _threads_since(before)))
            bound.daemon = True
            bound.start()
            bounds.append(bound)
        return status

    try:
        return uvloop.run(bounded())
    finally:
        if not _threads_since(before):
            for bound in bounds:
                bound.cancel()
        _settle_output()


def _settle_output() -> None:
    """Drop the rest of the output if nobody takes it: at its end Python would change the exit status to 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _threads_since(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that began since then and are not daemons. Python ends an idle pool of threads by itself."""
    return [each for each in threading.enumerate() if each not in before and not each.daemon]


def _end_now(status: int, tasks: list[asyncio.Task[Any]], threads: list[threading.Thread]) -> None:
    """End the process, although some of these have not ended. Name them."""
    try:
        left = [f"task {task.get_coro()}" for task in tasks if not task.done()]
        left += [_place(thread) for thread in threads if thread.is_alive()]
        complain(f"strogoff: the process ends, although this has not ended: {', '.join(left)}")
        _settle_output()
    finally:
        os._exit(status)


def _place(thread: threading.Thread) -> str:
    """The thread, and the line of the program where it is."""
    frame = sys._current_frames().get(thread.ident or 0)
    where = "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"
    return f"thread {thread.name}{where}"
