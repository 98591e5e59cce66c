"""Two nodes against one: the cost of a message to another node. It makes the tables of docs/performance.md.

    python -m bench.cluster_compare --mqttload ./mqttload [--rounds 3] [--seconds 5] [--only S3,S4]

Publishers are at node 1 of two, subscribers at node 2; the single node has both. All three processes are pinned to core
0, the load generator to core 1, and the two setups alternate within a round. The result is the CPU time of all
processes of a setup per delivered message, which is comparable on a shared machine. Two nodes share one core here, so
their throughput is not that of two machines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .broker_process import BrokerProcess, free_port
from .nodes import ClusterNode, pin, start_cluster

SCENARIOS = {
    "S3": ("QoS 0 pairs 100 x 100", "--topology pair -P 100 -S 100 --qos 0 --e2e-window 20 --batch 4"),
    "S4": ("QoS 1 pairs 100 x 100", "--topology pair -P 100 -S 100 --qos 1 --window 20"),
    "S5": ("QoS 1 fan-in 50 -> 1, 1500/s", "--topology fanin -P 50 -S 1 --qos 1 --rate 1500 --window 1000"),
    "S4d": ("S4, subscribers persistent", "--topology pair -P 100 -S 100 --qos 1 --window 20 --persistent"),
    "L4": ("QoS 1, one in flight", "--topology pair -P 1 -S 1 --qos 1 --window 1"),
}
"""Name -> description of the scenario, and mqttload's options for it."""


Found = dict[str, dict[str, list[tuple[float, ...]]]]


def measure(mqttload: Path, where: list[str], pids: list[int], options: str, seconds: float) -> dict[str, Any]:
    """Run the load generator once and return its JSON result. Raises RuntimeError if it fails."""
    command = ["taskset", "-c", "1", str(mqttload), *where]
    command += ["--broker-pid", ",".join(map(str, pids))] if pids else []
    command += ["--duration", str(seconds), *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()} {done.stdout}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def figures(result: dict[str, Any]) -> tuple[float, float, float, float]:
    """Returns CPU microseconds per delivered message, messages/s, end-to-end p50 and p99 in microseconds."""
    late = result["e2e_us"]
    return result["broker_us_per_delivered"], result["delivered_s"], late["p50"], late["p99"]


async def take_turns(
    arguments: argparse.Namespace,
    scenarios: Mapping[str, str],
    arrangements: Mapping[str, tuple[list[str], list[int]]],
    read: Callable[[dict[str, Any]], tuple[float, ...]] = figures,
) -> Found:
    """Measure each scenario (name -> options) with each arrangement (name -> where, and the processes) once in every
    round. Returns scenario -> arrangement -> what `read` takes from the result, once for each round."""
    found: Found = {name: {who: [] for who in arrangements} for name in scenarios}
    for _ in range(arguments.rounds):
        for name, options in scenarios.items():
            for who, (where, pids) in arrangements.items():
                result = await asyncio.to_thread(measure, arguments.mqttload, where, pids, options, arguments.seconds)
                found[name][who].append(read(result))
    return found


def medians(rounds: list[tuple[float, ...]]) -> list[float]:
    """Returns the median of each figure."""
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


async def run(arguments: argparse.Namespace) -> list[str]:
    """Run all rounds and return the lines of the table."""
    names = arguments.only.split(",") if arguments.only else ["S3", "S4", "S5"]
    with tempfile.TemporaryDirectory(prefix="strogoff-cluster-") as folder:
        settings = {"max_online_messages": "-1", **dict(text.split("=") for text in arguments.set)}
        single = BrokerProcess(Path(folder) / "single", free_port(), **settings)
        nodes = [ClusterNode(Path(folder), f"n{number}", **settings) for number in (1, 2)]
        try:
            await single.start()
            await start_cluster(nodes)
            assert single.process is not None
            arrangements = {
                "one": (["--target", f"127.0.0.1:{single.port}"], [single.process.pid]),
                "two": (
                    ["--pub", f"127.0.0.1:{nodes[0].port}", "--sub", f"127.0.0.1:{nodes[1].port}"],
                    [node.pid for node in nodes],
                ),
            }
            for _, pids in arrangements.values():
                for pid in pids:
                    await pin(pid, 0)
            found = await take_turns(arguments, {name: SCENARIOS[name][1] for name in names}, arrangements)
            for broker in (single, *nodes):
                for line in broker.tracebacks():
                    print(f"{broker.data.name}: {line}", file=sys.stderr)
        finally:
            for broker in (single, *nodes):
                await broker.stop()
    return _table(names, found)


def _table(names: list[str], found: Found) -> list[str]:
    lines = [
        "| | workload | one us/msg | two us/msg | ratio | one msg/s | two msg/s "
        "| one p50 us | two p50 us | one p99 us | two p99 us |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        one, two = (medians(found[name][who]) for who in ("one", "two"))
        beside = " | ".join(f"{mine:.0f} | {its:.0f}" for mine, its in zip(one[1:], two[1:], strict=True))
        what = SCENARIOS[name][0]
        lines.append(f"| {name} | {what} | {one[0]:.2f} | {two[0]:.2f} | **{two[0] / one[0]:.2f}** | {beside} |")
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="CPU per message of two nodes against one, in one interleaved run")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="scenarios, comma separated, of " + ", ".join(SCENARIOS))
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="for all nodes; may be repeated"
    )
    for line in asyncio.run(run(parser.parse_args())):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
