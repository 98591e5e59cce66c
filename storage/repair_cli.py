"""`strogoff repair DIR`: repair the databases of a data directory that no node uses, and say what it cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .directory import DATABASES
from .engine import StorageError
from .repair import repair


def main(argv: Sequence[str]) -> int:
    """Run the command: 0 if nothing was lost, 3 if something was, 1 if it cannot be done."""
    parser = argparse.ArgumentParser(prog="strogoff repair", description="Repair a stopped node's databases.")
    parser.add_argument("directory", type=Path, help="the node's data directory (platform_data_dir)")
    directory: Path = parser.parse_args(argv).directory
    folders = [directory / name for name in DATABASES if (directory / name).is_dir()]
    if not folders:
        print(f"strogoff repair: {directory} holds no database of a node", file=sys.stderr)
        return 1
    lossless = True
    for folder in folders:
        try:
            report = repair(folder)
        except StorageError as error:
            print(f"strogoff repair: {error}", file=sys.stderr)
            return 1
        print(f"{folder}: {report}")
        lossless = lossless and report.lossless
    return 0 if lossless else 3
