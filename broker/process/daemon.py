"""`strogoff start`: the broker as a process."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ...cluster.transport.wire import TransportError
from ...configs import ConfigError, Settings, load, usual_file
from ...configs.problems import Problem
from ...netsplit.policy import ViewState
from ...storage.engine import StorageError
from ..listeners.listeners import ListenError
from ..plugins.builtin import PluginFileError
from ..plugins.hooks import PluginError
from ..queues.records import RecordError
from .container import not_on_a_volume, prepare
from .descriptors import raise_limit
from .logs import complain, follow_files, log_line, set_up
from .node_summary import summary
from .ownership import explain, other_owner
from .process_end import run_to_the_end
from .server import Log, Server, tune_gc
from .service_manager import ServiceManager
from .stop_bound import stop_bound_s

SWITCH_INTERVAL_S = 0.0005
"""Interpreter switch interval, in seconds: how soon the thread that writes to the disk can report its completion."""

OTHERS = 0o027
"""The umask takes these permissions from all files and directories that the process makes."""


class StartError(Exception):
    """The node cannot start. The text is for the operator."""


class Extension(Protocol):
    """A part that runs in the broker's process and loop, such as the operators' interface."""

    async def start(self, server: Server) -> None:
        """Start, after the server has started. May raise the errors of `Server.start`."""
        ...

    async def reload(self) -> list[str]:
        """Read files of the configuration again, such as certificates. Returns a line for each failure."""
        ...

    async def stop(self) -> None:
        """Stop, before the server stops."""
        ...


def register(parser: argparse.ArgumentParser, extensions: Sequence[Extension] = ()) -> None:
    """Add the arguments of `strogoff start`."""
    parser.description = "Run a broker node until Ctrl-C or SIGTERM."
    parser.add_argument("-c", "--conf", type=Path, help="vernemq.conf (default: ./etc/vernemq.conf if it is there)")
    parser.add_argument("--data-dir", help="directory of the node's data; stands for platform_data_dir")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", type=_override, help="set a key; may be repeated"
    )
    parser.add_argument("--found", action="store_true", help="found a cluster if none is found; for this start alone")
    parser.add_argument("--container", action="store_true", help="begin as the container image does")
    parser.set_defaults(run=partial(run, extensions=extensions))


def _override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: KEY=VALUE is expected")
    return key.strip(), value.strip()


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The settings that the command line, the file and the environment ask for. Raises ConfigError."""
    overrides: dict[str, str] = dict(arguments.set)
    if arguments.data_dir is not None:
        overrides["platform_data_dir"] = arguments.data_dir
    if arguments.found:
        overrides["discovery.expected_nodes"] = "1"
    if arguments.container:
        try:
            conf, environ, more = prepare(os.environ, Path.cwd())
        except (OSError, ValueError) as error:
            raise ConfigError([Problem("container", 0, "", explain(error))]) from error
        settings = load(arguments.conf or conf, environ, {**more, **overrides})
        settings.notices += not_on_a_volume(Path(str(settings["platform_data_dir"])))
        return settings
    return load(arguments.conf or usual_file(), os.environ, overrides)


async def serve(settings: Settings, extensions: Sequence[Extension] = ()) -> int:
    """Run until SIGTERM or SIGINT; the exit status. Extensions start after the server and stop before it.

    SIGHUP and SIGUSR1 open moved log files again, and let the node read passwords, permissions and certificates again.
    """
    try:
        logger = set_up(settings)
    except OSError as error:
        folders = [Path(str(settings[f"log.{name}.file"])).parent for name in ("console", "error")]
        complain(f"strogoff: the node cannot start: the log cannot be written: {explain(error, *folders)}")
        return 1

    def log(level: str, text: str) -> None:
        log_line(logger, level, text)

    for notice in settings.notices:
        log("warning", notice)
    log(*raise_limit())
    loop = asyncio.get_running_loop()
    manager = ServiceManager(os.environ, loop.call_later, log)
    signals = _Signals(lambda: manager.stopping(stop_bound_s(settings)))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.received)

    def reload() -> None:
        follow_files(logger)
        signals.reload.set()

    for number in (signal.SIGHUP, signal.SIGUSR1):
        loop.add_signal_handler(number, reload)
    said = "The node has ended because of a defect; see its log."
    try:
        while not signals.stop.is_set():
            await _run(settings, extensions, log, signals, manager)
        said = "The node has stopped."
    except StartError as error:
        said = f"The node cannot start: {error}"
        log("error", f"the node cannot start: {error}")
        complain(f"strogoff: the node cannot start: {error}")
        return 1
    except Exception as error:
        log("error", f"the node has ended because of a defect: {error!r}")
        raise
    finally:
        manager.close(said)
    log("notice", "stopped")
    return 0


class _Signals:
    """The operator's signals. The first one stops the node in order. After the second one the node no longer waits for
    copies. `reload` is set when the running node must read files again.

    Calls `stopping` when the stop begins.
    """

    def __init__(self, stopping: Callable[[], None]) -> None:
        self.stop = asyncio.Event()
        self.at_once = asyncio.Event()
        self.reload = asyncio.Event()
        self._stopping = stopping

    def received(self) -> None:
        """The process got SIGTERM or SIGINT."""
        if self.stop.is_set():
            self.at_once.set()
        else:
            self.begin()

    def begin(self) -> None:
        """Begin the stop."""
        self._stopping()
        self.stop.set()


async def _run(
    settings: Settings, extensions: Sequence[Extension], log: Log, signals: _Signals, manager: ServiceManager
) -> None:
    """Run the node once, until it must stop or start again. Raises `StartError` if it cannot start."""
    manager.starting()
    anew = asyncio.Event()
    server = Server(settings, log)
    server.when_renumbered = anew.set
    tune_gc()
    gc.disable()  # a collection would stop the loop while the node loads its subscriptions
    try:
        started = await _unless(signals.stop, _start(server, extensions))
    except (StorageError, RecordError, ListenError, TransportError, PluginError, PluginFileError, OSError) as error:
        raise StartError(explain(error, server.data_dir)) from error
    finally:
        gc.freeze()
        gc.enable()
    if not started:
        log("notice", "stopped before the start was complete")
        return
    node = server.node
    log("notice", f"node {node.name}, boot {node.env.numbers.boot}, data in {server.data_dir.absolute()}")
    waits = server.cluster is not None and node.policy.view_state is ViewState.MINORITY
    hint = ", and takes clients when it is in its cluster: vmq-admin cluster status" if waits else ""
    with suppress(OSError):  # nobody reads it, or the disk is full
        print(f"strogoff: node {node.name} is ready{hint}{_log_place(settings)}", flush=True)
    if not signals.stop.is_set():
        manager.ready(lambda: summary(server))
    if server.cluster is not None:
        server.cluster.when_left = signals.begin
    reloading = asyncio.ensure_future(_reload(signals.reload, server, extensions, log))
    stays = await _either(signals.stop, anew)
    reloading.cancel()
    if stays:
        manager.starting()
        log("notice", "starting again: the cluster knows later starts of this node than its data directory does")
    else:
        log("notice", "stopping")
        await server.await_copies(signals.at_once)
    await _stop(server, extensions)


async def _reload(wanted: asyncio.Event, server: Server, extensions: Sequence[Extension], log: Log) -> None:
    """Read files again whenever it is wanted, until cancelled."""
    while await wanted.wait():
        wanted.clear()
        log("notice", "a signal asks for it: reading changed files of passwords and permissions, and certificates")
        problems = await server.reload()
        for extension in extensions:
            problems += await extension.reload()
        for problem in problems:
            log("error", f"{problem}; the earlier certificate stays")


def _log_place(settings: Settings) -> str:
    """Where the log is, unless it comes to the standard output, too."""
    if settings["log.console"] != "file":
        return ""
    return f"; its log is {Path(str(settings['log.console.file'])).absolute()}"


async def _either(stopping: asyncio.Event, anew: asyncio.Event) -> bool:
    """Wait for one of the two events. Returns whether only `anew` is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stopping, anew)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()
    return not stopping.is_set()


async def _unless(stopping: asyncio.Event, start: Coroutine[Any, Any, None]) -> bool:
    """Run `start` until a signal cancels it. Returns whether it completed."""
    starting, signalled = asyncio.ensure_future(start), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
    if starting.cancelled():
        return False
    starting.result()
    return True


async def _start(server: Server, extensions: Sequence[Extension]) -> None:
    """Start all, or leave nothing running."""
    await server.start()
    for number, extension in enumerate(extensions):
        try:
            await extension.start(server)
        except BaseException:
            await _stop(server, extensions[:number])
            raise


async def _stop(server: Server, extensions: Sequence[Extension]) -> None:
    try:
        for extension in reversed(extensions):
            await extension.stop()
    finally:
        await server.stop()


def run(arguments: argparse.Namespace, extensions: Sequence[Extension] = ()) -> int:
    """Run the node until it is stopped. Returns the exit status: 1 if the node cannot start."""
    os.umask(os.umask(OTHERS) | OTHERS)
    try:
        settings = read_settings(arguments)
    except ConfigError as error:
        complain(str(error))
        return 1
    refusal = "" if arguments.container else other_owner(Path(str(settings["platform_data_dir"])).absolute())
    if refusal:
        complain(f"strogoff: the node cannot start: {refusal}")
        return 1
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run_to_the_end(serve(settings, extensions))
