"""Compare the coverage of each package with its floor, and fail where it has dropped.

    python dev/coverage_floors.py REPORT             # a report of `coverage json`; status 1 below a floor
    python dev/coverage_floors.py REPORT --write     # raise the floors in dev/coverage_floors.toml to the report

A floor is a percentage of executed lines, a whole number. This script never lowers a floor.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

FLOORS = Path(__file__).with_name("coverage_floors.toml")

TOP = "strogoff"
"""The name in the table for modules outside of packages, such as cli.py."""

SLACK = 0.25
"""A floor is at least this number of percentage points below the report, because two runs differ by a few lines."""

HEAD = "# The least percentage of lines that the fast tests execute, for each package: see dev/coverage_floors.py.\n"


def percentages(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the percentage of executed lines of each package, by name."""
    lines: Counter[str] = Counter()
    executed: Counter[str] = Counter()
    for file, found in report["files"].items():
        parts = Path(file).parts
        package = parts[0] if len(parts) > 1 else TOP
        lines[package] += found["summary"]["num_statements"]
        executed[package] += found["summary"]["covered_lines"]
    return {package: 100 * executed[package] / number for package, number in sorted(lines.items()) if number}


def complaints(found: Mapping[str, float], floors: Mapping[str, int]) -> list[str]:
    """Return a line for each package below its floor or without a floor, and for each floor without a package."""
    said = []
    for package in sorted({*found, *floors}):
        if package not in floors:
            said.append(f"{package} has no floor in {FLOORS.name}: its coverage is {found[package]:.1f} %")
        elif package not in found:
            said.append(f"{package} has a floor in {FLOORS.name}, and no lines in the report")
        elif found[package] < floors[package]:
            said.append(
                f"{package}: {found[package]:.1f} % of its lines are executed, the floor is {floors[package]} %"
            )
    return said


def raised(found: Mapping[str, float], floors: Mapping[str, int]) -> dict[str, int]:
    """Return the floors of the packages of the report, each as high as the report allows and no lower than before."""
    return {package: max(floors.get(package, 0), floor(value - SLACK)) for package, value in sorted(found.items())}


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Compare a report of `coverage json` with the floors of each package.")
    parser.add_argument("report", type=Path)
    parser.add_argument("--write", action="store_true", help="raise the floors to the report")
    options = parser.parse_args(arguments)
    found = percentages(json.loads(options.report.read_text(encoding="utf-8")))
    floors: dict[str, int] = tomllib.loads(FLOORS.read_text(encoding="utf-8")) if FLOORS.exists() else {}
    for package, value in found.items():
        print(f"{package:12}{value:6.1f} %   floor {floors.get(package, 0):3} %")
    if options.write:
        lines = [f"{package} = {value}\n" for package, value in raised(found, floors).items()]
        FLOORS.write_text(HEAD + "".join(lines), encoding="utf-8")
        return 0
    said = complaints(found, floors)
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
