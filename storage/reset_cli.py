"""`strogoff reset DIR`: empty the data directory of a stopped node, so that it can join its cluster again."""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path

from .engine import StorageError
from .reset import reset


def register(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `strogoff reset`."""
    parser.description = "Move a stopped node's data aside, so that the node can rejoin its cluster, with no sessions."
    parser.add_argument(
        "directory", type=lambda text: Path(text).absolute(), help="the node's data directory (platform_data_dir)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Returns 0 if the directory is empty now, 1 if it cannot be emptied."""
    directory: Path = arguments.directory
    try:
        aside = reset(directory, lambda: str(uuid.uuid4()))
    except (StorageError, OSError) as error:
        print(f"strogoff reset: {error}", file=sys.stderr)
        return 1
    print(
        f"{directory}: empty. The old sessions and messages are in {aside}. Start the node. "
        "If discovery.nodes is set, it joins its cluster; otherwise run: vmq-admin cluster join discovery-node=NODE"
    )
    return 0
