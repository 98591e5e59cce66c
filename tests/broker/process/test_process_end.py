"""The end of a process, in which something may still run. tests/system/test_stop.py does it with nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from strogoff.broker.process.process_end import run_to_the_end

pytestmark = pytest.mark.timeout(30)
BEGIN = """
import asyncio, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from strogoff.broker.process.process_end import run_to_the_end
started = threading.Event()

def hang():
    started.set()
    threading.Event().wait()

async def deaf():
    while True:
        try:
            started.set()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

async def work():
"""
THREAD = "threading.Thread(target=hang, name='of a plugin').start()"
EXECUTOR = "asyncio.get_running_loop().run_in_executor(None, hang)"
END = """
sys.exit(run_to_the_end(work()))
"""


def run(work: str) -> tuple[int, str, str]:
    """A process with this work. Returns its exit status and what it printed."""
    program = BEGIN + "".join(f"    {line}\n" for line in work.splitlines()) + END
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("begin", "named"),
    [
        (THREAD, "thread of a plugin ("),
        (EXECUTOR, "thread uvloop_0 ("),
        ("pool = ThreadPoolExecutor(1, 'pool'); pool.submit(hang)", "thread pool_0 ("),
        ("task = asyncio.create_task(deaf())", "task <coroutine object deaf "),
    ],
    ids=["thread", "executor", "pool", "task"],
)
@pytest.mark.parametrize("status", [0, 1])
def test_what_still_runs_is_named_and_ends_with_the_process(begin: str, named: str, status: int) -> None:
    """The status is that of the node, and what it printed arrives."""
    said = run(f"{begin}\nwhile not started.is_set():\n    await asyncio.sleep(0)\nprint('done')\nreturn {status}")
    assert said[:2] == (status, "done\n")
    assert said[2].startswith("strogoff: the process ends, although this has not ended: ") and named in said[2]
    assert said[2].count("\n") == 1


@pytest.mark.parametrize("begin", [THREAD, EXECUTOR, ""])
def test_a_defect_is_shown_although_something_still_runs(begin: str) -> None:
    """Status 1, and the traceback, once."""
    status, _out, err = run(f"{begin}\nraise ValueError('a defect')")
    assert status == 1 and err.count("ValueError: a defect") == 1
    assert ("the process ends, although" in err) == bool(begin)


@pytest.mark.parametrize(
    "begin",
    [
        "pool = ThreadPoolExecutor(1); pool.submit(print, end='').result()",
        "threading.Thread(target=hang, daemon=True).start()",
        "threading.Thread(target=time.sleep, args=(0.1,)).start()",
        "task = asyncio.create_task(asyncio.sleep(600))",
    ],
    ids=["idle pool", "daemon", "short", "task"],
)
def test_what_ends_by_itself_needs_no_word(begin: str) -> None:
    assert run(f"{begin}\nprint('done')\nreturn 3") == (3, "done\n", "")


@pytest.mark.parametrize("where", ["full", "closed"])
def test_output_that_nobody_takes_does_not_change_the_status(where: str) -> None:
    """Python alone would end with status 120."""
    gone, pipe = os.pipe()
    os.close(gone)
    program = f"{BEGIN}    print('kept in memory')\n    return 3\n{END}"
    with open(pipe, "w") as closed, open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full if where == "full" else closed,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            timeout=20,
        )
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_it_waits_no_longer_than_that_for_a_task_that_ends() -> None:
    """Another process, such as the runner of tests, is not ended later."""

    async def work() -> int:
        return 7

    before = set(threading.enumerate())
    begun = time.monotonic()
    assert run_to_the_end(work()) == 7
    assert time.monotonic() - begun < 0.9
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
