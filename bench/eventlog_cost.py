"""What the event log costs: CPU of a broker for a delivered message at each level, and holes and long turns under load.

    python -m bench.eventlog_cost --mqttload ./mqttload [--rounds 7] [--seconds 4] [--rate 20000]

Brokers with the levels `off`, `session` and `message`, and a second one with `off`, run side by side and take turns
within a round. All are pinned to core 0, the load generator to core 1. CPU is that of the broker's process with all its
threads, so other load of the machine lengthens a run more than it changes the result. The second `off` shows how exact
the ratios are.

Then a broker with level `message`, free to use both cores, gets `--rate` QoS 0 messages a second. Its log tells whether
rows are missing (`log.gap`), and which messages were left out (`log.sample`). `bench.turns` reports turns of its event
loop that took more than 20 ms of CPU, next to those of a broker with level `off`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from .broker_process import BrokerProcess, free_port
from .compare import cost, measure

LEVELS = {"off": "off", "off again": "off", "session": "session", "message": "message"}
"""Name of a broker -> its level."""
SCENARIOS = {
    "QoS 0": "--topology pair -P 50 -S 50 --qos 0 --e2e-window 20 --batch 4",
    "QoS 1": "--topology pair -P 50 -S 50 --qos 1 --window 20",
}
PAUSE_MS = 20.0
_TURN = re.compile(r"long turn: .*?cpu_ms=([0-9.]+)")


def rows_of(directory: Path) -> tuple[int, int, int]:
    """Returns how many rows the log below a directory has, how many rows it says are missing, and how many times of
    sampling it names."""
    rows = missing = sampled = 0
    for path in directory.rglob("boot=*.jsonl*"):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                rows += line.startswith(b"[")
                if line.startswith(b'["log.gap"'):
                    missing += json.loads(line)[6]
                sampled += line.startswith(b'["log.sample"')
    return rows, missing, sampled


def turns_of(log: str) -> list[float]:
    """Returns the CPU of the long turns that a log of `bench.turns` reports, in ms."""
    return [ms for each in _TURN.findall(log) if (ms := float(each)) > PAUSE_MS]


def table(costs: dict[str, dict[str, list[float]]]) -> list[str]:
    """Returns the lines of the table of costs: scenario -> broker -> the costs of all rounds."""
    lines = [f"| us CPU per message | {' | '.join(LEVELS)} | session/off | message/off |", "|---" * 7 + "|"]
    for name, by_level in costs.items():
        medians = {level: statistics.median(values) for level, values in by_level.items()}
        of_off = statistics.median([*by_level["off"], *by_level["off again"]])
        ratios = [f"**{medians[level] / of_off:.2f}**" for level in ("session", "message")]
        lines.append(f"| {name} | {' | '.join(f'{each:.2f}' for each in medians.values())} | {' | '.join(ratios)} |")
    return lines


async def costs_of_levels(mqttload: Path, folder: Path, rounds: int, seconds: float) -> list[str]:
    """Let the brokers take turns. Returns the lines of the table."""
    brokers = {
        name: BrokerProcess(folder / name, free_port(), eventlog__level=level, max_online_messages="-1")
        for name, level in LEVELS.items()
    }
    costs: dict[str, dict[str, list[float]]] = {name: {level: [] for level in LEVELS} for name in SCENARIOS}
    for broker in brokers.values():
        await broker.start()
        assert broker.process is not None
        pid, quiet = str(broker.process.pid), asyncio.subprocess.DEVNULL
        pin = await asyncio.create_subprocess_exec("taskset", "-a", "-p", "-c", "0", pid, stdout=quiet)
        assert await pin.wait() == 0
    try:
        for number in range(rounds):
            order = list(brokers.items())
            order = order[number % len(order) :] + order[: number % len(order)]
            for name, options in SCENARIOS.items():
                for level, broker in order:
                    assert broker.process is not None
                    where = broker.port, broker.process.pid
                    result = await asyncio.to_thread(measure, mqttload, *where, options, seconds)
                    costs[name][level].append(cost(result))
    finally:
        for broker in brokers.values():
            await broker.stop()
    return table(costs)


async def under_load(mqttload: Path, folder: Path, level: str, rate: int, seconds: float) -> str:
    """Load a broker with so many messages a second. Returns what became of its log and its turns, in one line."""
    broker = BrokerProcess(folder / f"load-{level}", free_port(), eventlog__level=level, max_online_messages="-1")
    broker.module = "bench.turns"
    await broker.start()
    assert broker.process is not None
    options = f"--topology pair -P 50 -S 50 --qos 0 --rate {rate}"
    result = await asyncio.to_thread(measure, mqttload, broker.port, broker.process.pid, options, seconds)
    await broker.stop()
    rows, missing, sampled = rows_of(broker.data / "eventlog")
    long = turns_of(broker.log.read_text(errors="replace"))
    return (
        f"level {level}: {result['published_s']:.0f} messages/s published, {result['delivered_s']:.0f} delivered, "
        f"{cost(result):.2f} us; {rows} rows, {missing} missing, {sampled} rows about sampling; "
        f"{len(long)} turns above {PAUSE_MS:g} ms, the longest {max(long, default=0.0):.1f} ms"
    )


async def run(arguments: argparse.Namespace) -> list[str]:
    """Measure everything. Returns the lines to print."""
    lines = [f"load of the machine before: {os.getloadavg()[0]:.1f}"]
    with tempfile.TemporaryDirectory(prefix="strogoff-eventlog-") as folder:
        lines += await costs_of_levels(arguments.mqttload, Path(folder), arguments.rounds, arguments.seconds)
        for level in ("off", "message"):
            lines.append(
                await under_load(arguments.mqttload, Path(folder), level, arguments.rate, arguments.load_seconds)
            )
    return [*lines, f"load of the machine after: {os.getloadavg()[0]:.1f}"]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="CPU of the levels of the event log")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--load-seconds", type=float, default=20.0)
    for line in asyncio.run(run(parser.parse_args())):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
