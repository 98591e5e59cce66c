"""`python -m strogoff.mutants`: try every mutant of the list, and print which test and which seed find it.

Exit status 0 if each mutant is found, 1 if one survives, 2 if the list is wrong. A run of the whole list tries unit
tests and seeds for each mutant, and writes the table to docs/simulation.md. A sample tries seeds only if the unit tests
find nothing, and does not write the table.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from queue import SimpleQueue

from .catalogue import ListError, Mutant, read
from .page import PAGE, Row, table, with_some, with_table
from .trial import NOT_RUN, Checkout, Verdict, confirm, try_seeds, try_tests

ROOT = Path(__file__).resolve().parent.parent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m strogoff.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants; writes no table without --add")
    parser.add_argument("--add", action="store_true", help="write the rows of the named mutants into the table")
    parser.add_argument("--check", action="store_true", help="try all of them, but do not write the table")
    parser.add_argument("--sample", type=int, metavar="N", help="try N mutants, chosen by the date")
    parser.add_argument("--within", type=float, metavar="S", help="start no mutant after S seconds of wall clock")
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="seeds for each mutant (default: 200)")
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for the seeds of one mutant")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="mutants tried in parallel (default: 2)")
    parser.add_argument("--no-tests", action="store_true", help="only seeds")
    parser.add_argument("--no-seeds", action="store_true", help="only unit tests")
    return parser


def chosen(mutants: tuple[Mutant, ...], names: Sequence[str], sample: int | None, day: date) -> list[Mutant]:
    """Returns the mutants to try. Raises `ListError` for a name that is not in the list."""
    known = {mutant.name: mutant for mutant in mutants}
    if missing := [name for name in names if name not in known]:
        raise ListError(f"no mutant is called {', '.join(missing)}; there are {', '.join(known)}")
    if names:
        return [known[name] for name in names]
    if sample is None:
        return list(mutants)
    return random.Random(day.toordinal()).sample(mutants, min(sample, len(mutants)))


def one(checkout: Checkout, mutant: Mutant, arguments: argparse.Namespace) -> Row:
    """Try one mutant in the checkout."""
    source = checkout.put(mutant)
    try:
        tests = NOT_RUN if arguments.no_tests else try_tests(checkout, mutant)
        enough = arguments.sample is not None and bool(tests.found)
        seeds = NOT_RUN
        if not enough and not arguments.no_seeds:
            seeds = try_seeds(checkout, mutant, arguments.seeds, arguments.limit)
    finally:
        checkout.restore(mutant, source)
    if arguments.add:
        confirm(checkout, mutant, tests)
    return mutant, tests, seeds


def _told(what: str, verdict: Verdict) -> str:
    if not verdict.ran:
        return f"{what}: not run"
    return f"{what}: {verdict.found or 'nothing'} {verdict.why} ({verdict.seconds:.1f} s)"


def run(mutants: list[Mutant], arguments: argparse.Namespace) -> list[Row]:
    """Try mutants in parallel, and print each result. Mutants not started within the time limit are left out."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strogoff-mutants-") as place, ThreadPoolExecutor(arguments.jobs) as pool:
        free: SimpleQueue[Checkout] = SimpleQueue()
        for number in range(arguments.jobs):
            free.put(Checkout(ROOT, Path(place) / str(number)))

        def work(mutant: Mutant) -> Row | None:
            if arguments.within is not None and time.monotonic() - began > arguments.within:
                return None
            checkout = free.get()
            try:
                row = one(checkout, mutant, arguments)
            finally:
                free.put(checkout)
            state = "killed  " if row[1].found or row[2].found else "SURVIVES"
            print(f"{state} {mutant.name}: {_told('tests', row[1])}; {_told('seed', row[2])}", flush=True)
            return row

        return [row for row in pool.map(work, mutants) if row is not None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        mutants = read()
        for mutant in mutants:
            mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8"))
        wanted = chosen(mutants, arguments.names, arguments.sample, date.today())
        rows = run(wanted, arguments)
        alive = [mutant.name for mutant, tests, seeds in rows if not tests.found and not seeds.found]
        print(f"{len(rows)} of {len(wanted)} mutants tried, {len(alive)} survive{': ' * bool(alive)}{', '.join(alive)}")
        if arguments.add and arguments.names and not alive:
            page = PAGE.read_text(encoding="utf-8")
            names = [mutant.name for mutant in mutants]
            PAGE.write_text(with_some(page, rows, names), encoding="utf-8")
        part = arguments.names or arguments.sample is not None or arguments.no_tests or arguments.no_seeds
        if not part and not arguments.check and len(rows) == len(mutants):
            commit = subprocess.run(
                ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, check=True, text=True
            ).stdout.strip()
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_table(page, table(rows, f"At {commit}")), encoding="utf-8")
        return 1 if alive else 0
    except (ListError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
