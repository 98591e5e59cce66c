"""`strogoff ping` and `strogoff stop`: whether the node on this machine answers, and its orderly stop."""

from __future__ import annotations

import argparse
import math
import os
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..broker.process.stop_bound import stop_bound_s
from ..configs import ConfigError, Settings
from ..storage.lock_owner import HiddenOwnerError, open_owner
from .client import Unreachable
from .local_node import local_client, local_settings, lock_of
from .wire import TruncatedResult, from_lines

PING_S = 10.0
"""How long `strogoff ping` waits for the answer, in seconds."""
DONE, FAILED, NOT_RUNNING = 0, 1, 3
"""Exit statuses; 3 is that of init scripts for a program that does not run."""


def register_ping(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `strogoff ping`."""
    parser.description = "Print pong if the node of this configuration answers. Else status 1, and the reason."
    _register(parser, f"seconds to wait for the answer (default: {PING_S:.0f})", _ping)


def register_stop(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `strogoff stop`."""
    parser.description = (
        "Stop the node of this configuration as SIGTERM does, and wait for its end. Status 1 if it still runs, 3 if no "
        "node runs. A second `strogoff stop` does not let the node wait for other nodes."
    )
    _register(parser, "seconds to wait for the end (default: queue_stop_wait and 40 more)", _stop)


def _register(parser: argparse.ArgumentParser, wait: str, work: Callable[[argparse.Namespace, Settings], int]) -> None:
    parser.add_argument("-c", "--conf", type=Path, help="the node's vernemq.conf (default: ./etc/vernemq.conf)")
    parser.add_argument("--data-dir", help="the node's data directory (default: that of the configuration)")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help=wait)
    parser.set_defaults(run=partial(_run, work))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text}: seconds are expected, more than 0, at most 86400")
    return value


def _run(work: Callable[[argparse.Namespace, Settings], int], arguments: argparse.Namespace) -> int:
    try:
        return work(arguments, local_settings(arguments.conf, arguments.data_dir))
    except ConfigError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return FAILED


def _ping(arguments: argparse.Namespace, settings: Settings) -> int:
    client = local_client(settings, arguments.timeout or PING_S)
    try:
        from_lines(client.run(["node", "status"]))
    except Unreachable as error:
        print(error, file=sys.stderr)
        return FAILED
    except TruncatedResult:
        print(f"{client.name} stopped before its answer was complete.", file=sys.stderr)
        return FAILED
    print("pong")
    return DONE


def _stop(arguments: argparse.Namespace, settings: Settings) -> int:
    name, lock = f"node '{settings['nodename']}'", lock_of(settings)
    try:
        found = open_owner(lock)
    except PermissionError:
        return _failed(f"You may not look for the process of {name}: be the user that runs it, or root.")
    except HiddenOwnerError:
        return _failed(f"A process that is not visible here has {lock}: stop {name} in its container.")
    except OSError as error:
        return _failed(f"{lock}: {error.strerror}.")
    if found is None:
        print(f"No process has {lock}: {name} does not run, or it has another data directory.", file=sys.stderr)
        return NOT_RUNNING
    pid, process = found
    limit_s = arguments.timeout or stop_bound_s(settings)
    try:
        if not _end(process, limit_s):
            return _failed(
                f"Process {pid} of {name} still runs after {limit_s:g} s. Its log says what it waits for. "
                "A second `strogoff stop` does not let it wait for other nodes."
            )
    except PermissionError:
        return _failed(f"You may not stop process {pid} of {name}: be the user that runs it, or root.")
    finally:
        os.close(process)
    print(f"Process {pid} of {name} has stopped.")
    return DONE


def _end(process: int, limit_s: float) -> bool:
    """Send SIGTERM, and wait for the end of the process. Returns whether it has ended in time."""
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return True
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(limit_s * 1000))


def _failed(text: str) -> int:
    print(text, file=sys.stderr)
    return FAILED
