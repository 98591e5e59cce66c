"""CPU per message against mosquitto, in one interleaved run: the table of docs/performance.md.

    python -m bench.compare --mqttload ./mqttload [--rounds 3] [--seconds 5] [--only S1,S4]

Each broker is pinned to core 0, the load generator `mqttload` to core 1. The brokers alternate within a round, so that
other load of the machine affects both. The result compares the medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .broker_process import BrokerProcess, free_port

SCENARIOS = {
    "S1": ("QoS 0 fan-in 50 -> 1", "--topology fanin -P 50 -S 1 --qos 0 --e2e-window 20 --batch 4"),
    "S2": ("QoS 0 fan-out 1 -> 200", "--topology fanout -P 1 -S 200 --qos 0 --e2e-window 20 --batch 4"),
    "S3": ("QoS 0 pairs 100 x 100", "--topology pair -P 100 -S 100 --qos 0 --e2e-window 20 --batch 4"),
    "S4": ("QoS 1 pairs 100 x 100", "--topology pair -P 100 -S 100 --qos 1 --window 20"),
    "S6": ("QoS 2 pairs 50 x 50", "--topology pair -P 50 -S 50 --qos 2 --window 20"),
    "S8": ("QoS 1 1 -> 1, 64 KiB", "--topology pair -P 1 -S 1 --qos 1 --payload 65536 --window 16"),
    "L4": ("QoS 1, one in flight", "--topology pair -P 1 -S 1 --qos 1 --window 1"),
    "S4d": ("QoS 1 pairs, subscribers persistent", "--topology pair -P 100 -S 100 --qos 1 --window 20 --persistent"),
}
"""Name -> description of the scenario, and mqttload's options for it."""


def measure(mqttload: Path, port: int, pid: int, options: str, seconds: float) -> dict[str, Any]:
    """Run the load generator once and return its JSON result. Raises RuntimeError if it fails."""
    command = ["taskset", "-c", "1", str(mqttload), "--target", f"127.0.0.1:{port}", "--broker-pid", str(pid)]
    command += ["--duration", str(seconds), *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def cost(result: dict[str, Any]) -> float:
    """Returns CPU microseconds of the broker per delivered message."""
    return float(result["broker_us_per_delivered"])


async def run(arguments: argparse.Namespace) -> list[str]:
    """Run all rounds and return the lines of the table."""
    mosquitto = shutil.which("mosquitto")
    if mosquitto is None:
        raise SystemExit("mosquitto is not installed (Debian package mosquitto)")
    names = arguments.only.split(",") if arguments.only else list(SCENARIOS)
    costs: dict[str, dict[str, list[float]]] = {name: {"strogoff": [], "mosquitto": []} for name in names}
    p50: dict[str, dict[str, list[float]]] = {name: {"strogoff": [], "mosquitto": []} for name in names}
    with tempfile.TemporaryDirectory(prefix="strogoff-compare-") as folder:
        settings = {"max_online_messages": "-1", **dict(text.split("=") for text in arguments.set)}
        broker = BrokerProcess(Path(folder) / "data", free_port(), **settings)
        await broker.start()
        other_port = free_port()
        quiet = asyncio.subprocess.DEVNULL
        other = await asyncio.create_subprocess_exec(mosquitto, "-p", str(other_port), stdout=quiet, stderr=quiet)
        assert broker.process is not None
        targets = {"strogoff": (broker.port, broker.process.pid), "mosquitto": (other_port, other.pid)}
        for _, pid in targets.values():
            pin = await asyncio.create_subprocess_exec("taskset", "-a", "-p", "-c", "0", str(pid), stdout=quiet)
            assert await pin.wait() == 0
        try:
            for _ in range(arguments.rounds):
                for name in names:
                    for who, (port, pid) in targets.items():
                        result = await asyncio.to_thread(
                            measure, arguments.mqttload, port, pid, SCENARIOS[name][1], arguments.seconds
                        )
                        costs[name][who].append(cost(result))
                        p50[name][who].append(float(result["e2e_us"]["p50"]))
        finally:
            other.terminate()
            await other.wait()
            await broker.stop()
    lines = [
        "| | workload | strogoff us/msg | mosquitto us/msg | ratio | strogoff p50 us | mosquitto p50 us |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        ours, theirs = (statistics.median(costs[name][who]) for who in ("strogoff", "mosquitto"))
        mine, its = (statistics.median(p50[name][who]) for who in ("strogoff", "mosquitto"))
        what = SCENARIOS[name][0]
        lines.append(
            f"| {name} | {what} | {ours:.2f} | {theirs:.2f} | **{ours / theirs:.2f}** | {mine:.0f} | {its:.0f} |"
        )
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="CPU per message against mosquitto, in one interleaved run")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="scenarios, comma separated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for strogoff; may be repeated")
    for line in asyncio.run(run(parser.parse_args())):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
