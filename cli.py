"""The `strogoff` command: one tree of argparse parsers.

Each package registers the parser of its own subcommand. A package is imported only if the command line names it, so
`strogoff --help` and `strogoff version` start fast.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import __version__

USAGE = """usage: strogoff COMMAND ...

  start      [-c|--conf FILE] [--data-dir DIR]   run a broker node until Ctrl-C or SIGTERM
             [--found]                           found a cluster if none is found, instead of waiting for others
  ping       [-c|--conf FILE] [--data-dir DIR]   print pong if the node of this configuration answers
  stop       [-c|--conf FILE] [--data-dir DIR]   stop the node of this configuration in order, and wait for its end
  config     check FILE | reference              check a vernemq.conf; list every key
  sim        [--seeds N] [...]                   simulate nodes under faults and check their guarantees
  analytics  JOB [...]                           jobs on event logs: summary, follow, ingest, audit, report,
                                                 view, stream, generate, pack
  reset      DIR                                 empty the data directory of a node that its cluster refuses
  repair     DIR                                 repair the damaged databases of a node, and report the loss
  version

`strogoff COMMAND --help` explains a command. `vmq-admin` administers a running node, `vmq-passwd` edits password files.
"""

Register = Callable[[argparse.ArgumentParser], None]
"""Adds the arguments of a subcommand to its parser, and the default `run`: a function from the parsed arguments to the
exit status."""


class _RootParser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return USAGE


class _CommandParser(argparse.ArgumentParser):
    """Refuses unknown arguments itself, so that the usage of the subcommand is shown."""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As argparse, without unknown arguments."""
        arguments, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments, unknown


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status: 2 if the command line is wrong, 141 if nobody reads the output."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        print(USAGE, end="")
        return 2
    if os.getpid() == 1:
        _end_at_sigterm()
    try:
        arguments = _tree(words[0]).parse_args(words)
        run: Callable[[argparse.Namespace], int] = arguments.run
        status = run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as stopped:  # argparse has printed the help or the error
        return int(stopped.code or 0)
    except BrokenPipeError:
        if words[0] == "start":
            raise
        # the reader has closed the pipe, as `| head` does; without this Python would report an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _end_at_sigterm() -> None:
    """The first process of a container gets SIGTERM only if it has a handler; else a container that is stopped while it
    starts would wait for SIGKILL. `start` replaces this handler by its own one."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def _tree(command: str) -> argparse.ArgumentParser:
    """All parsers. Only the subcommand `command` has its arguments, because the others need not be imported."""
    root = _RootParser(prog="strogoff", usage="strogoff COMMAND ...")
    root.add_argument("--version", action="version", version=f"strogoff {__version__}")
    commands = root.add_subparsers(prog="strogoff", metavar="COMMAND", required=True, parser_class=_CommandParser)
    for name, register in COMMANDS.items():
        parser = commands.add_parser(name)
        if name == command:
            register(parser)
    return root


def _register_start(parser: argparse.ArgumentParser) -> None:
    from .admin.server import AdminServer
    from .broker.process.daemon import register

    register(parser, [AdminServer()])


def _register_ping(parser: argparse.ArgumentParser) -> None:
    from .admin.local_commands import register_ping

    register_ping(parser)


def _register_stop(parser: argparse.ArgumentParser) -> None:
    from .admin.local_commands import register_stop

    register_stop(parser)


def _register_config(parser: argparse.ArgumentParser) -> None:
    from .broker.process.start_checks import what_stops
    from .configs.commands import register

    register(parser, what_stops)


def _register_sim(parser: argparse.ArgumentParser) -> None:
    from .sim.commands import register

    register(parser)


def _register_analytics(parser: argparse.ArgumentParser) -> None:
    from .analytics.commands import register

    register(parser)


def _register_reset(parser: argparse.ArgumentParser) -> None:
    from .storage.reset_cli import register

    register(parser)
    _run_as_owner(parser)


def _register_repair(parser: argparse.ArgumentParser) -> None:
    from .storage.repair_cli import register

    register(parser)
    _run_as_owner(parser)


def _run_as_owner(parser: argparse.ArgumentParser) -> None:
    """Let root run the command as the owner of the data: the node, which runs as this user, could not read and write
    files that belong to root."""
    from .storage.lock_owner import data_owner

    run: Callable[[argparse.Namespace], int] = parser.get_default("run")

    def run_as_owner(arguments: argparse.Namespace) -> int:
        directory: Path = arguments.directory
        owner = data_owner(directory)
        if os.geteuid() == 0 and owner is not None and owner.st_uid != 0:
            print(f"{parser.prog}: runs as user {owner.st_uid}, the owner of the data in {directory}", file=sys.stderr)
            os.setgroups([owner.st_gid])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)
        return run(arguments)

    parser.set_defaults(run=run_as_owner)


def _register_version(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the version."
    parser.set_defaults(run=_print_version)


def _register_help(parser: argparse.ArgumentParser) -> None:
    parser.description = "List the commands."
    parser.set_defaults(run=_print_help)


def _print_version(_arguments: argparse.Namespace) -> int:
    print(f"strogoff {__version__}")
    return 0


def _print_help(_arguments: argparse.Namespace) -> int:
    print(USAGE, end="")
    return 0


COMMANDS: dict[str, Register] = {
    "start": _register_start,
    "ping": _register_ping,
    "stop": _register_stop,
    "config": _register_config,
    "sim": _register_sim,
    "analytics": _register_analytics,
    "reset": _register_reset,
    "repair": _register_repair,
    "version": _register_version,
    "help": _register_help,
}
