"""What it saves that HAProxy chooses the node by the client identifier: sticky.cfg and slots.cfg against mqtt.cfg.

    python -m bench.stickiness --mqttload ./mqttload [--rounds 3] [--seconds 3]

Three nodes with the default settings, and a HAProxy for each configuration of deploy/haproxy in front of them. 100
publishers with clean sessions and 100 durable subscribers come through one of the HAProxies; the three take turns in a
round, so the same subscribers return again and again. The nodes are pinned to core 0; HAProxy and the load generator
have core 1.

For each configuration the table has: the share of the subscribers that are connected to the primary of their slot; and
as ratios to mqtt.cfg (leastconn) the relayed connections, the bytes between the nodes for each message, the processor
time of the three nodes for each message, and the median time from publisher to subscriber. The figures decide nothing.
Exit status 1 if a log has an error.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .cluster_compare import Found, measure, medians
from .cluster_nodes import Node, bad_lines, end, start_joined, until
from .haproxy import HAProxy, Ports, proxied_node, write_slot_map
from .nodes import pin

CLIENTS = 100
KEPT = f"--persistent --keep-session --id stick --topology pair -P {CLIENTS} -S {CLIENTS}"
SCENARIOS = {
    "QoS 0": f"{KEPT} --qos 0 --e2e-window 20 --batch 4",
    "QoS 1": f"{KEPT} --qos 1 --window 20 --e2e-window 20",
    "QoS 1, 300/s": f"{KEPT} --qos 1 --rate 300",
}
"""Name -> mqttload's options. The last one leaves the nodes idle most of the time: then each passage between two nodes
is a frame of its own."""
CONFIGURATIONS = ("mqtt", "sticky", "slots")


async def _settled(node: Node) -> bool:
    status = await node.status()
    return not status.get("slots_misplaced") and str(status.get("balance", "")).startswith("balanced")


async def _counter(nodes: Sequence[Node], name: str) -> int:
    """The sum of a metric over the nodes."""
    total = 0
    for node in nodes:
        for row in (await node.ask("metrics", "show")).tables[0]:
            total += int(row["value"]) if row["metric"] == name else 0
    return total


async def _places(node: Node) -> tuple[int, int]:
    """Wait until all subscribers are connected. Returns how many of them there are, and how many at their primary."""
    found: list[bool] = []

    async def connected() -> bool:
        words = ("--client_id", "--node", "--gateway", "--is_online=true", "--clean_session=false", "--limit=1000")
        rows = (await node.ask("session", "show", *words)).tables[0]
        found[:] = [row["gateway"] in (None, row["node"]) for row in rows]
        return len(found) >= CLIENTS

    await until("all subscribers are connected", connected, look_s=0.1)
    return len(found), sum(found)


async def _turn(
    arguments: argparse.Namespace, nodes: Sequence[Node], proxy: HAProxy, options: str
) -> tuple[float, ...]:
    """One measurement: the share at the primary, relayed subscribers, bytes between nodes, and processor time, for each
    message, and the median time to the subscriber."""
    pids = [node.pid for node in nodes]
    before = await _counter(nodes, "cluster_bytes_sent")
    where = ["--target", f"127.0.0.1:{proxy.port}"]
    running = asyncio.create_task(
        asyncio.to_thread(measure, arguments.mqttload, where, pids, options, arguments.seconds)
    )
    count, at_primary = await _places(nodes[0])
    result = await running
    sent = await _counter(nodes, "cluster_bytes_sent") - before
    delivered = result["delivered"]
    late = result["e2e_us"]["p50"]
    return at_primary / count, count - at_primary, sent / delivered, result["broker_us_per_delivered"], late


async def run(arguments: argparse.Namespace) -> list[str]:
    """Run all rounds and return the lines of the table. Raises RuntimeError if a log has an error."""
    with tempfile.TemporaryDirectory(prefix="strogoff-stickiness-") as name:
        folder, ports = Path(name), Ports.free()
        nodes = [proxied_node(folder, number, ports, max_online_messages="-1") for number in (1, 2, 3)]
        slots = folder / "slots.map"
        proxies = {each: HAProxy(folder, each, nodes, ports, STROGOFF_SLOT_MAP=str(slots)) for each in CONFIGURATIONS}
        try:
            await start_joined(nodes)
            for node in nodes:
                await until("the slots are in their places", lambda node=node: _settled(node))  # type: ignore[misc]
                await pin(node.pid, 0)
            await write_slot_map(nodes, slots)
            for proxy in proxies.values():
                await proxy.start()
                assert proxy.process is not None
                await pin(proxy.process.pid, 1)
            found: Found = {scenario: {each: [] for each in proxies} for scenario in SCENARIOS}
            for _ in range(arguments.rounds):
                for scenario, options in SCENARIOS.items():
                    for each, proxy in proxies.items():
                        found[scenario][each].append(await _turn(arguments, nodes, proxy, options))
            if bad := bad_lines(nodes):
                raise RuntimeError("\n".join(bad))
        finally:
            for proxy in proxies.values():
                await proxy.stop()
            await end(nodes)
    return _table(found)


def _table(found: Found) -> list[str]:
    lines = [
        "| | configuration | at their primary | relayed | bytes between nodes | CPU of the nodes | median time |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for scenario, turns in found.items():
        base = medians(turns["mqtt"])
        for name, rounds in turns.items():
            share, *figures = medians(rounds)
            ratios = " | ".join(f"{own / of:.2f}" if of else "-" for own, of in zip(figures, base[1:], strict=True))
            lines.append(f"| {scenario} | `{name}.cfg` | {share:.0%} | {ratios} |")
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="sticky.cfg and slots.cfg against mqtt.cfg of deploy/haproxy")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    try:
        lines = asyncio.run(run(parser.parse_args()))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
