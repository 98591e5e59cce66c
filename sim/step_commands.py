"""`strogoff sim --steps`: one fault behind each step of a protocol. `--pairs`: one behind each step of the repair after
another fault."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

from .processes import run_all
from .scenarios.pairs import PAIRS, Pair, pairs, run_pair
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
    parser.add_argument(
        "--pairs", choices=(ALL, *PAIRS), default="", metavar="PROTOCOL",
        help="three nodes, two copies: a fault of the primary or the follower of a slot, and a second fault behind "
        f"each step until the slot has two copies again; all, or one of {', '.join(PAIRS)}",
    )  # fmt: skip
    parser.add_argument("--every", type=int, default=1, metavar="E", help="with --steps, --pairs: only each E-th step")
    parser.add_argument(
        "--case", type=int, default=None, metavar="N", help="with --steps, --pairs: only this case; for --trace"
    )


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[int, Case | Pair]]:
    """Yield the cases with their numbers, which count from 0 for each protocol and seed."""
    make: Callable[..., Iterator[Case | Pair]] = pairs if arguments.pairs else cases
    asked = arguments.pairs or arguments.steps
    for name in (PAIRS if arguments.pairs else PROTOCOLS) if asked == ALL else (asked,):
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for number, case in enumerate(make(name, seed, arguments.every, arguments.variant or ())):
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


def _outcomes(arguments: argparse.Namespace) -> Iterator[tuple[int, Case | Pair, Outcome]]:
    chosen = list(_chosen(arguments))
    work: Callable[[Case | Pair], Outcome] = partial(run_pair if arguments.pairs else run_case, trace=arguments.trace)
    outcomes = run_all(work, [case for _, case in chosen], arguments.jobs)
    for (number, case), outcome in zip(chosen, outcomes, strict=True):
        yield number, case, outcome


def _tell(number: int, case: Case | Pair, outcome: Outcome, arguments: argparse.Namespace) -> None:
    print(f"{case}: {len(outcome.violations)} violations")
    for violation in outcome.violations[:5]:
        print(f"    {violation}")
    every = f" --every {arguments.every}" if arguments.every != 1 else ""
    variants = f" --variant {','.join(case.variants)}" if case.variants else ""
    option = "--pairs" if arguments.pairs else "--steps"
    again = f"strogoff sim {option} {case.protocol} --first {case.seed}{variants}{every} --case {number} --trace"
    print(f"    again: {again}", flush=True)
