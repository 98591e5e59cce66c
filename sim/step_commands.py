"""`strogoff sim --steps`: one fault behind each step of a protocol."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

from .processes import run_all
from .scenarios.steps import PROTOCOLS, Case, cases, run_case
from .simulation import Outcome

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for steps."""
    parser.add_argument(
        "--steps", choices=(ALL, *PROTOCOLS), default="", metavar="PROTOCOL",
        help="three nodes: kill, pause or cut off each node behind each step of a protocol, for each seed; "
        f"all, or one of {', '.join(PROTOCOLS)}",
    )  # fmt: skip
    parser.add_argument("--every", type=int, default=1, metavar="E", help="with --steps: only each E-th step")
    parser.add_argument("--case", type=int, default=None, metavar="N", help="with --steps: only this case; for --trace")


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[int, Case]]:
    """Yield the cases with their numbers, which count from 0 for each protocol and seed."""
    for name in PROTOCOLS if arguments.steps == ALL else (arguments.steps,):
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for number, case in enumerate(cases(name, seed, arguments.every)):
                if arguments.case in (None, number):
                    yield number, case


def run_steps(arguments: argparse.Namespace) -> int:
    """Run all cases, or those until Ctrl-C. Returns 1 if a promise is broken, 130 after Ctrl-C, else 0."""
    began = time.monotonic()
    done = failed = 0
    stopped = False
    try:
        for number, case, outcome in _outcomes(arguments):
            done += 1
            for line in outcome.lines:
                print(line)
            if outcome.violations:
                failed += 1
                _tell(number, case, outcome, arguments)
            if (failed and arguments.stop) or time.monotonic() - began > arguments.limit:
                break
    except KeyboardInterrupt:
        stopped = True
    took = time.monotonic() - began
    print(f"{done} cases, {failed} failed; {took:.1f} s{'; stopped' if stopped else ''}")
    return 130 if stopped else min(failed, 1)


def _outcomes(arguments: argparse.Namespace) -> Iterator[tuple[int, Case, Outcome]]:
    chosen = list(_chosen(arguments))
    work = partial(run_case, trace=arguments.trace)
    outcomes = run_all(work, [case for _, case in chosen], arguments.jobs)
    for (number, case), outcome in zip(chosen, outcomes, strict=True):
        yield number, case, outcome


def _tell(number: int, case: Case, outcome: Outcome, arguments: argparse.Namespace) -> None:
    print(f"{case}: {len(outcome.violations)} violations")
    for violation in outcome.violations[:5]:
        print(f"    {violation}")
    every = f" --every {arguments.every}" if arguments.every != 1 else ""
    again = f"strogoff sim --steps {case.protocol} --first {case.seed}{every} --case {number} --trace"
    print(f"    again: {again}", flush=True)
