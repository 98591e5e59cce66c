"""The cost of idle nodes: processor time and wake-ups of a cluster without clients.

    python -m bench.idle [--nodes 3] [--seconds 20] [--rounds 3] [--python OTHER/.venv/bin/python ...]

Each `--python` is an interpreter with another version of Strogoff to compare. The versions alternate, one cluster at a
time, so that other load of the machine affects all of them. Processor time is user and system time of /proc/PID/stat,
in percent of one core. Switches are context switches of all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path

from .nodes import ClusterNode, start_cluster

SETTLE_S = 5.0
"""Seconds between the start of the cluster and the measurement: the first exchange of metadata ends in this time."""
TICKS = os.sysconf("SC_CLK_TCK")


class OtherNode(ClusterNode):
    """A node that runs with the interpreter `python`."""

    python = sys.executable

    def command(self) -> list[str]:
        """Returns the command line."""
        return [self.python, *super().command()[1:]]


def spent(pid: int) -> tuple[float, int]:
    """Returns the seconds of processor time of a process so far, and the context switches of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        switches += sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)
    return (int(fields[11]) + int(fields[12])) / TICKS, switches


async def measure(python: str, nodes: int, seconds: float) -> list[tuple[float, float]]:
    """Returns percent of a core and context switches per second for each node of an idle cluster, the leader first."""
    with tempfile.TemporaryDirectory(prefix="strogoff-idle-") as folder:
        members = [OtherNode(Path(folder), f"n{number}") for number in range(1, nodes + 1)]
        for member in members:
            member.python = python
        try:
            await start_cluster(members)
            await asyncio.sleep(SETTLE_S)
            leader = str((await members[0].status())["leader"])
            before = [spent(member.pid) for member in members]
            await asyncio.sleep(seconds)
            after = [spent(member.pid) for member in members]
        finally:
            for member in members:
                await member.stop()
    found = {
        member.name: (100 * (now[0] - then[0]) / seconds, (now[1] - then[1]) / seconds)
        for member, then, now in zip(members, before, after, strict=True)
    }
    return [found.pop(leader), *found.values()]


async def run(arguments: argparse.Namespace) -> None:
    """Run all rounds, then print the table of medians."""
    pythons = [*arguments.python, sys.executable]
    rounds: dict[str, list[list[tuple[float, float]]]] = {python: [] for python in pythons}
    for number in range(arguments.rounds):
        for python in pythons:
            found = await measure(python, arguments.nodes, arguments.seconds)
            rounds[python].append(found)
            shown = ", ".join(f"{percent:.2f} % {switches:.0f}/s" for percent, switches in found)
            print(f"round {number + 1}: {python}: {shown}", flush=True)
    print("| version | leader, % of a core | others, % of a core | switches/s, leader | switches/s, others |")
    print("|---|---:|---:|---:|---:|")
    for python, each in rounds.items():
        leaders = [found[0] for found in each]
        others = [other for found in each for other in found[1:]]
        figures = [statistics.median(column) for rows in (leaders, others) for column in zip(*rows, strict=True)]
        print(f"| {python} | {figures[0]:.2f} | {figures[2]:.2f} | {figures[1]:.0f} | {figures[3]:.0f} |")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Processor time of an idle cluster")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", action="append", default=[], help="another version; may be repeated")
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
