"""The `strogoff` command: the root of the package, where all rooms meet. Each word loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import __version__

USAGE = """usage: strogoff COMMAND ...

  start      [-c|--conf FILE] [--data-dir DIR]   run a broker node until Ctrl-C or SIGTERM
             [--found]                           found a cluster if none is found, instead of waiting for others
  config     check FILE | reference              check a vernemq.conf; list every key
  sim        [--seeds N] [...]                   simulate a node under faults and check its promises
  analytics  summary LOGDIR [...]                PySpark jobs on event logs
  reset      DIR                                 empty a data directory, for a node that its cluster takes no more
  repair     DIR                                 repair a damaged message database, and say what it cost
  version

`strogoff COMMAND --help` tells more. `vmq-admin` talks to a running node, `vmq-passwd` keeps password files.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if words else 2
    command, rest = words[0], words[1:]
    if command in ("version", "--version"):
        print(f"strogoff {__version__}")
        return 0
    if command == "start":
        from .admin.server import AdminServer
        from .broker.process.daemon import main as start

        return start(rest, [AdminServer()])
    if command == "config":
        return _config(rest)
    if command == "sim":
        from .sim.commands import main as sim

        return sim(rest)
    if command == "analytics":
        from .analytics.commands import main as analytics

        return analytics(rest)
    if command == "reset":
        from .storage.reset_cli import main as reset

        return reset(rest)
    if command == "repair":
        from .storage.repair_cli import main as repair

        return repair(rest)
    print(f"strogoff: unknown command {command!r}\n\n{USAGE}", end="", file=sys.stderr)
    return 2


def _config(words: list[str]) -> int:
    from .configs import commands

    if words[:1] == ["check"]:
        return commands.check_main(words[1:])
    if words[:1] == ["reference"]:
        return commands.reference_main(words[1:])
    print("usage: strogoff config check FILE | strogoff config reference [--text | --conf] [WORD]", file=sys.stderr)
    return 2
