"""The cost of a relay: subscribers at the node that has their sessions, against subscribers at another node.

    python -m bench.relay_cost --mqttload ./mqttload [--rounds 3] [--seconds 3]

The publishers are at node 2 of two, and `vmq-admin slot move` brings all sessions of the subscribers there. Then the
subscribers connect to node 2 (direct) and to node 1 (relayed), in turn within a round. Both nodes are pinned to core 0,
the load generator to core 1. The result is the CPU time of both nodes per delivered message. With QoS 0 a relayed
message makes one passage, with QoS 1 its PUBACK comes back: two passages.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from .cluster_compare import Found, measure, medians, take_turns
from .nodes import ClusterNode, pin, start_cluster

KEPT = "--persistent --keep-session --id relay --topology pair"
SCENARIOS = {
    "QoS 0": f"{KEPT} -P 100 -S 100 --qos 0 --e2e-window 20 --batch 4",
    "QoS 1": f"{KEPT} -P 100 -S 100 --qos 1 --window 20 --e2e-window 20",
    "QoS 1, one in flight": f"{KEPT} -P 1 -S 1 --qos 1 --window 1 --e2e-window 1",
}
"""Name -> mqttload's options. A publisher waits while too many of its messages are not delivered (`--e2e-window`), so
slow subscribers do not get long queues."""


async def gather_sessions(nodes: list[ClusterNode]) -> int:
    """Move every slot that has sessions to the second node. Returns the number of these slots. Raises RuntimeError if a
    slot is not there afterwards."""
    rows = await nodes[0].admin("session", "show", "--slot", "--limit=1000")
    slots = sorted({int(slot) for (slot,) in rows})
    for slot in slots:
        await nodes[0].admin("slot", "move", f"slot={slot}", f"node={nodes[1].name}")
        row = await nodes[0].admin("slot", "show", f"slot={slot}")
        if nodes[1].name not in [str(cell) for cell in row[0]]:
            raise RuntimeError(f"slot {slot} has not moved: {row}")
    return len(slots)


async def run(arguments: argparse.Namespace) -> list[str]:
    """Run all rounds and return the lines of the table."""
    with tempfile.TemporaryDirectory(prefix="strogoff-relay-") as folder:
        nodes = [ClusterNode(Path(folder), f"n{number}", max_online_messages="-1") for number in (1, 2)]
        try:
            await start_cluster(nodes)
            pids = [node.pid for node in nodes]
            at = [f"127.0.0.1:{node.port}" for node in nodes]
            publishers = ["--pub", at[1]]
            places = {"direct": [*publishers, "--sub", at[1]], "relayed": [*publishers, "--sub", at[0]]}
            await asyncio.to_thread(measure, arguments.mqttload, places["direct"], pids, SCENARIOS["QoS 1"], 1)
            print(f"{await gather_sessions(nodes)} slots with sessions are at {nodes[1].name}", file=sys.stderr)
            for pid in pids:
                await pin(pid, 0)
            found = await take_turns(arguments, SCENARIOS, {who: (where, pids) for who, where in places.items()})
            for node in nodes:
                for line in node.tracebacks():
                    print(f"{node.data.name}: {line}", file=sys.stderr)
        finally:
            for node in nodes:
                await node.stop()
    return _table(found)


def _table(found: Found) -> list[str]:
    lines = [
        "| | direct us/msg | relayed us/msg | difference | direct p50 us | relayed p50 us |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, places in found.items():
        direct, relayed = (medians(places[who]) for who in ("direct", "relayed"))
        lines.append(
            f"| {name} | {direct[0]:.2f} | {relayed[0]:.2f} | **{relayed[0] - direct[0]:.2f}** "
            f"| {direct[2]:.0f} | {relayed[2]:.0f} |"
        )
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="CPU per message of relayed subscribers against direct ones")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    for line in asyncio.run(run(parser.parse_args())):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
