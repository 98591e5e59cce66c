"""`strogoff sim`: simulate one node or several under faults, seed by seed, and report broken promises."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf

from . import step_commands
from .audit import Audit, summary
from .planted_bugs.cluster_bugs import CLUSTER_BUGS
from .planted_bugs.node_bugs import NODE_BUGS
from .processes import run_all, spare_collector
from .runner import SECONDS, WORKLOADS, RunOptions, kinds_of, run_seed, variants_of
from .scenarios.catalogue import SCENARIOS
from .simulation import Outcome


def register(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `strogoff sim`."""
    parser.description = (
        "Simulate one node or a cluster with model clients on virtual time, under kills, power loss, full and slow "
        "disks, wrong clocks, cuts and bad networks, and check the promises. The same seed always runs the same."
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds (default: 1)")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the first seed (default: 0)")
    parser.add_argument("--nodes", type=int, choices=range(1, 8), default=1, metavar="N", help="nodes (default: 1)")
    _add_kinds(
        parser, "--faults", kinds_of,
        "kinds of faults in every seed, such as kill,cut; none; all: the seed draws them (default); rare: kinds that "
        "no seed draws; all,rare: both",
    )  # fmt: skip
    parser.add_argument(
        "--workload", choices=sorted(WORKLOADS), default="",
        help="clients instead of those that the seed draws, for several nodes; groups: shared subscriptions with "
        "changing members; routes: subscribers of topics in use that connect and disconnect at other nodes",
    )  # fmt: skip
    _add_kinds(
        parser, "--variant", variants_of,
        "for several nodes: variants in every seed, of sparse,small,narrow,leaves,twin,slow-data,moves,copies,rate; "
        "usual: none of them; drawn: the seed decides (default)",
    )  # fmt: skip
    parser.add_argument(
        "--scenario", choices=sorted(SCENARIOS), default="", metavar="NAME",
        help="hand-written faults and clients, for several nodes: those of a planted bug, without the bug, "
        f"or one of {', '.join(name for name in SCENARIOS if name not in CLUSTER_BUGS)}",
    )  # fmt: skip
    parser.add_argument(
        "--relay", action="store_true",
        help="for several nodes: clients connect to any node, which relays them to the node of their slot",
    )  # fmt: skip
    step_commands.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="virtual time under faults")
    parser.add_argument("--durability", choices=("os", "sync"), help="default: the seed decides")
    parser.add_argument(
        "--bug", choices=sorted({**NODE_BUGS, **CLUSTER_BUGS}), metavar="NAME", help="plant a bug; see --bugs"
    )
    parser.add_argument("--bugs", action="store_true", help="list the bugs that can be planted")
    parser.add_argument("--trace", action="store_true", help="print everything that happens in one seed")
    parser.add_argument(
        "--audit", action="store_true",
        help="judge the event log of each seed, and compare the findings with the violations",
    )  # fmt: skip
    parser.add_argument(
        "--apart", type=int, default=0, metavar="MS",
        help="set the clocks of the event logs up to MS milliseconds apart, and look for rows with smaller stamps than "
        "rows that led to them",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes to use (default: 1)")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that breaks a promise")
    parser.add_argument(
        "--limit", type=float, default=inf, metavar="S", help="start no seed after S seconds of real time"
    )
    parser.set_defaults(run=partial(run, parser))


def _add_kinds(parser: argparse.ArgumentParser, name: str, kinds: Callable[[str], object], text: str) -> None:
    """Add an option that takes several kinds. Without it the seed decides."""
    parser.add_argument(name, type=kinds, default=None, metavar="KINDS", help=text)


def run_seeds(seeds: Iterable[int], jobs: int = 1, options: RunOptions | None = None) -> Iterator[Outcome]:
    """Run many seeds, in order, on `jobs` processes."""
    work = partial(run_seed, options=options or RunOptions())
    yield from run_all(work, seeds, jobs)


def replay(outcome: Outcome, arguments: argparse.Namespace) -> str:
    """Returns the command that repeats this seed."""
    words = [f"strogoff sim --first {outcome.seed} --trace"]
    if arguments.seconds != SECONDS:
        words.append(f"--seconds {arguments.seconds:g}")
    if arguments.durability:
        words.append(f"--durability {arguments.durability}")
    if arguments.bug:
        words.append(f"--bug {arguments.bug}")
    if arguments.nodes > 1:
        words.insert(1, f"--nodes {arguments.nodes}")
    if arguments.faults is not None:
        words.append(f"--faults {','.join(arguments.faults) or 'none'}")
    if arguments.variant is not None:
        words.append(f"--variant {','.join(arguments.variant) or 'usual'}")
    words += [f"--{name} {value}" for name in ("scenario", "workload", "apart") if (value := getattr(arguments, name))]
    words += [f"--{name}" for name in ("relay", "audit") if getattr(arguments, name)]
    return " ".join(words)


def _print_trace(arguments: argparse.Namespace) -> int:
    outcome = run_seed(arguments.first, _options(arguments), trace=True)
    for line in outcome.lines:
        print(line)
    for violation in outcome.violations:
        print(f"VIOLATION  {violation}")
    for difference in _differences(outcome):
        print(f"DIFFERENCE  {difference}")
    return int(outcome.failed)


def _differences(outcome: Outcome) -> tuple[str, ...]:
    return () if outcome.audit is None else outcome.audit.differences


def _options(arguments: argparse.Namespace) -> RunOptions:
    return RunOptions(
        arguments.seconds, arguments.durability, arguments.bug, arguments.nodes, arguments.faults, arguments.workload,
        arguments.variant, arguments.scenario, arguments.relay, arguments.audit, arguments.apart,
    )  # fmt: skip


def _print_bugs() -> int:
    for bug in NODE_BUGS.values():
        print(f"{bug.name:<27} {bug.about} (found within {bug.seeds} seeds)")
    for found in CLUSTER_BUGS.values():
        print(f"{found.name:<27} {found.about} ({found.nodes} nodes, found within {found.seeds} seeds)")
    return 0


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a promise is broken, 130 after Ctrl-C, else 0. `SystemExit` for bad options."""
    if arguments.workload and (arguments.nodes == 1 or arguments.bug or arguments.scenario):
        parser.error("--workload is for several nodes, without --bug and --scenario")
    if arguments.scenario and (arguments.nodes == 1 or arguments.bug):
        parser.error("--scenario is for several nodes, without --bug")
    if arguments.relay and arguments.nodes == 1:
        parser.error("--relay is for several nodes")
    if arguments.bugs:
        return _print_bugs()
    if (arguments.audit or arguments.apart) and (arguments.steps or arguments.pairs):
        parser.error("--audit and --apart are for seeds, without --steps and --pairs")
    if arguments.audit and arguments.apart:
        parser.error("--audit or --apart: a client may be the cause of a row, and carries no stamp")
    if arguments.steps and arguments.pairs:
        parser.error("--steps or --pairs")
    if arguments.steps or arguments.pairs:
        spare_collector()
        return step_commands.run_steps(arguments)
    if arguments.trace:
        return _print_trace(arguments)
    spare_collector()
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    """Run all seeds, or those until Ctrl-C. Print violations at once, and a summary at the end."""
    began = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    done = messages = faults = failed = 0
    audits: list[Audit] = []
    stopped = False
    try:
        for outcome in run_seeds(seeds, arguments.jobs, _options(arguments)):
            done += 1
            messages += outcome.messages
            faults += outcome.faults
            if outcome.audit is not None:
                audits.append(outcome.audit)
            if outcome.failed:
                failed += 1
                _tell(outcome, arguments)
            if (failed and arguments.stop) or time.monotonic() - began > arguments.limit:
                break
    except KeyboardInterrupt:
        stopped = True
    took = max(time.monotonic() - began, 1e-9)
    print(
        f"{done} seeds, {failed} failed; {messages} messages, {faults} faults; "
        f"{took:.1f} s, {done / took:.1f} seeds/s{'; stopped' if stopped else ''}"
    )
    for line in summary(audits):
        print(line)
    return 130 if stopped else min(failed, 1)


def _tell(outcome: Outcome, arguments: argparse.Namespace) -> None:
    differences = _differences(outcome)
    differing = "" if outcome.audit is None else f", {len(differences)} differences"
    print(f"seed {outcome.seed}: {len(outcome.violations)} violations{differing}")
    for text in (*outcome.violations[:5], *differences[:5]):
        print(f"    {text}")
    print(f"    again: {replay(outcome, arguments)}", flush=True)
