"""Run the seeds that a release needs: 20,000 of three nodes and 4,000 of five, of all kinds, on one code.

    .venv/bin/python dev/count_seeds.py DIRECTORY FIRST [--jobs J] [--before N]

FIRST is the first seed of the first kind, and each further kind begins `APART` seeds later. The seeds run in parts,
always in the same order, so that every kind has got the same share of its seeds at any time. `DIRECTORY/parts.jsonl`
says which parts are done: the same command goes on where an earlier one was interrupted. On another machine,
`--before N` leaves out N parts that ran before. A file `DIRECTORY/stop` ends it after the parts that run. Each part
prints one line; what `strogoff sim` printed about failed seeds stands in `DIRECTORY/failed.txt`. Status 1: some have
failed, or some have not run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PART = 25
"""Seeds that one process runs, one after the other."""
APART = 100_000
"""From the first seed of one kind to the first of the next one."""
AUDITED = 0.13
"""The share of each kind, its first seeds, whose event logs are judged too."""


class Kind(NamedTuple):
    """Seeds of one kind: how many, and the options of `strogoff sim` that make the kind."""

    seeds: int
    options: str


KINDS = (
    Kind(4000, "--nodes 3 --variant copies"),
    Kind(3000, "--nodes 3 --variant copies,sparse"),
    Kind(2500, "--nodes 3 --variant copies,small"),
    Kind(2500, "--nodes 3 --variant copies,moves"),
    Kind(2000, "--nodes 3 --variant copies,moves,small,sparse"),
    Kind(500, "--nodes 3 --variant copies,rate"),
    Kind(500, "--nodes 3 --variant copies --faults all,rare"),
    Kind(500, "--nodes 3 --variant copies --workload groups --faults all,rare"),
    Kind(500, "--nodes 3 --variant copies --workload routes"),
    Kind(500, "--nodes 3 --relay"),
    Kind(3500, "--nodes 3"),
    Kind(1500, "--nodes 5 --variant copies"),
    Kind(1000, "--nodes 5 --variant copies,moves,small,sparse"),
    Kind(1500, "--nodes 5"),
)


class Part(NamedTuple):
    """Seeds that one process runs. `progress`: the share of its kind that is done with it."""

    progress: float
    first: int
    options: str


def parts(first: int) -> list[Part]:
    """Returns all parts in the order in which they run."""
    return sorted(part for number, kind in enumerate(KINDS) for part in _of_kind(kind, first + number * APART))


def _of_kind(kind: Kind, first: int) -> Iterator[Part]:
    for done in range(0, kind.seeds, PART):
        audit = " --audit" if done < AUDITED * kind.seeds else ""
        yield Part((done + PART) / kind.seeds, first + done, f"{kind.options}{audit}")


def run(part: Part, directory: Path) -> None:
    """Run one part, and note that it is done; after a stop, do nothing. A part that ends otherwise than with the status
    of its seeds, because of a signal or of an error in a simulation, stops the others, and says why."""
    if (directory / "stop").exists():
        return
    command = [sys.executable, "-m", "strogoff", "sim", "--first", str(part.first), "--seeds", str(PART)]
    ended = subprocess.run([*command, *part.options.split()], capture_output=True, text=True, check=False)
    said = [line for line in ended.stdout.splitlines() if f"{PART} seeds, " in line]
    if not said:
        (directory / "stop").write_text(f"{part}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return
    if ended.returncode:
        with (directory / "failed.txt").open("a") as out:
            out.write(f"{part.options}\n{ended.stdout}\n")
    with (directory / "parts.jsonl").open("a") as out:
        out.write(json.dumps({"first": part.first, "options": part.options, "status": ended.returncode}) + "\n")
    print(part.first, part.options, said[0], flush=True)


def done(directory: Path) -> dict[int, int]:
    """Returns the first seed of each part that is done, and its status: 1 if seeds of it failed, else 0."""
    log = directory / "parts.jsonl"
    lines = map(json.loads, log.read_text().splitlines() if log.exists() else ())
    return {line["first"]: line["status"] for line in lines}


def main(arguments: list[str]) -> int:
    """Run all parts that are not done. Returns 1 if a seed failed or the run was stopped, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--before", type=int, default=0)
    asked = parser.parse_args(arguments)
    directory: Path = asked.directory
    directory.mkdir(parents=True, exist_ok=True)
    known, all_parts = done(directory), parts(asked.first)[asked.before :]
    with ThreadPoolExecutor(asked.jobs) as threads:
        for part in all_parts:
            if part.first not in known:
                threads.submit(run, part, directory)
    ended = done(directory)
    failed = sum(ended.values())
    print(f"{len(ended)} of {len(all_parts)} parts are done; seeds of {failed} failed")
    return int(failed > 0 or len(ended) < len(all_parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
