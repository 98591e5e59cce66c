"""The cost of the second copy: three nodes with `queue_replicas = 2` against three with 1. It makes the tables of
docs/performance.md.

    python -m bench.copies_cost --mqttload ./mqttload [--rounds 3] [--seconds 2] [--only saturated,one] [--no-fill]
    python -m bench.copies_cost --mqttload ./mqttload --together --no-fill

Publishers and durable subscribers connect to all nodes in turn, in both clusters in the same way, and each slot has the
same primary in both. So many messages pass a second node also with one copy. With `--together` all clients connect to
one node, which has all their sessions: then the second copy is all that the nodes have to do with each other.

The clusters take turns within a round; `message_store.durability` is first `os`, then `sync`. The result is the CPU
time of the three processes of a cluster per delivered message, and the time until PUBACK. The load generator has core
1. Saturated nodes have core 0, others both cores, and with `--together` core 0 is that of the node with the clients.

The fill: 256 durable sessions, one in each slot, have messages of 1 KiB. One node is killed, loses its data and comes
back: first while no client is connected, then with 1,500 messages of QoS 1 each second to other sessions. The rate is
that of the bytes of the copies that it gets, from its entrance into the view to its last copy.

The goals stand beside the figures and decide nothing. Exit status 1 if a message is lost or a log has an error.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.slots.replicas import wanted_followers
from strogoff.testing.log_audit.log_files import read_log

from .cluster_compare import Found, measure, medians, take_turns
from .cluster_nodes import Node, bad_lines, end, start_joined, start_replaced, until, whole
from .ha_test import NEW_DISK, Slots, name_in
from .nodes import pin
from .probe import percentile
from .steady import SteadyClient

DURABILITIES = ("os", "sync")
COPIES_S = 120.0
MOST_PAIRS = 30
PAIRS = "--persistent --topology pair --qos 1"


class Workload(NamedTuple):
    """What mqttload does, and the largest ratio that is wanted for `os` and `sync`. `saturated`: all nodes have one
    core."""

    what: str
    options: str
    saturated: bool
    goals: tuple[float, float]


WORKLOADS = {
    "saturated": Workload("30 pairs, 60 in flight", "-P 30 -S 30 --window 60 --e2e-window 60", True, (1.8, 2.0)),
    "rate": Workload("30 pairs, 1,500/s", "-P 30 -S 30 --rate 1500 --window 1000", False, (2.0, 2.0)),
    "one": Workload("one in flight", "-P 1 -S 1 --window 1 --e2e-window 1", False, (3.0, 3.0)),
    "large": Workload(
        "9 pairs, 64 KiB, 4 in flight", "-P 9 -S 9 --payload 65536 --window 4 --e2e-window 4", True, (2.2, 2.2)
    ),
}
PUBACK_GOALS_MS = {"os": 0.5, "sync": 1.0}
"""How much later than with one copy half of the PUBACKs may come, at 1,500/s."""
FILL_GOALS = (50.0, 10.0, 2.0)
"""MB/s without load, MB/s with load, and the ratio of the 99th percentiles of PUBACK."""

FILL_MESSAGE = 1024
FILL_CLIENTS = 10
FILL_RATE = 1500
BEFORE_S = 5.0
LOOK_S = 0.5
"""The interval between two looks whether a fill has ended, in seconds: each costs processor time."""


def puback_figures(result: dict[str, Any]) -> tuple[float, ...]:
    """Returns CPU microseconds per delivered message, messages/s, and p50 and p99 of PUBACK in ms."""
    acks = result["ack_us"]
    return result["broker_us_per_delivered"], result["delivered_s"], acks["p50"] / 1000, acks["p99"] / 1000


def cluster(folder: Path, copies: int, durability: str) -> list[Node]:
    """Returns three nodes, which do not run."""
    settings = {"queue_replicas": str(copies), "message_store.durability": durability}
    settings |= {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
    settings |= {"max_offline_messages": "-1", "max_online_messages": "-1"}
    return [Node(folder, f"n{number}", **settings) for number in (1, 2, 3)]


async def start_placed(nodes: list[Node], copies: int) -> None:
    """Start a cluster, and wait until each slot is where the placement wants it."""
    await start_joined(nodes)
    zones = {node.name: node.name for node in nodes}

    async def placed() -> bool:
        slots = Slots(nodes)
        if copies > 1 and not await slots.all_copied():
            return False
        await nodes[0].ask("slot", "balance")
        where = {slot: node.name for node in nodes for slot in await slots.of(node)}
        return all((where.get(slot),) == wanted(slot, zones, 1) for slot in range(SLOTS))

    await until("each slot is where it should be", placed, COPIES_S)


def id_of_pair(nodes: list[Node]) -> str:
    """Returns an id for mqttload, whose first subscriber then has its session at the second node, to which it connects,
    and the copy at the third. The first publisher connects to the first node."""
    zones = {node.name: node.name for node in nodes}
    second, third = nodes[1].name, nodes[2].name
    for number in count():
        slot = slot_of("", f"pair{number}-s0")
        if wanted(slot, zones, 1) == (second,) and wanted_followers(slot, second, zones, 2) == [third]:
            return f"pair{number}"
    raise AssertionError


async def gather(mqttload: Path, where: list[str], nodes: list[Node]) -> None:
    """Make the sessions of all pairs, and move their slots to the first node."""
    await asyncio.to_thread(measure, mqttload, where, [], f"{PAIRS} -P {MOST_PAIRS} -S {MOST_PAIRS} --rate 100", 1)
    for slot in sorted({slot_of("", f"pair-s{number}") for number in range(MOST_PAIRS)}):
        answer = await nodes[0].ask("slot", "move", f"slot={slot}", f"node={nodes[0].name}")
        if answer.status:
            raise RuntimeError(f"slot {slot} has not moved: {answer.text}")


async def compare(arguments: argparse.Namespace, names: list[str], durability: str, folder: Path) -> Found:
    """Run all rounds with one durability. Returns the figures. Raises `RuntimeError` if a message is lost, or a log has
    an error."""
    clusters = {
        who: cluster(folder / f"{durability}-{who}", copies, durability) for who, copies in (("one", 1), ("two", 2))
    }
    every = [node for nodes in clusters.values() for node in nodes]
    found: Found = {}
    try:
        for copies, nodes in enumerate(clusters.values(), 1):
            nodes[0].data.parent.mkdir()
            await start_placed(nodes, copies)
        arrangements = {}
        for who, nodes in clusters.items():
            at = [f"127.0.0.1:{node.port}" for node in nodes]
            where = ["--pub", ",".join(at), "--sub", ",".join([*at[1:], at[0]]), "--id", id_of_pair(nodes)]
            if arguments.together:
                where = ["--target", at[0], "--id", "pair", "--keep-session"]
                await gather(arguments.mqttload, where, nodes)
            arrangements[who] = (where, [node.pid for node in nodes])
        for name in names:
            for nodes in clusters.values():
                apart = ("0", "1", "1") if arguments.together else ("0,1",) * len(nodes)
                for node, cores in zip(nodes, apart, strict=True):
                    await pin(node.pid, "0" if WORKLOADS[name].saturated else cores)
            options = {name: f"{PAIRS} {WORKLOADS[name].options}"}
            found |= await take_turns(arguments, options, arrangements, puback_figures)
    finally:
        await end(every)
    if bad := bad_lines(every):
        raise RuntimeError("\n".join(bad))
    return found


def table(found: dict[str, Found]) -> list[str]:
    """Returns the lines of the table: durability -> what was found."""
    lines = [
        "| durability | workload | one us/msg | two us/msg | ratio | goal | one msg/s | two msg/s "
        "| one PUBACK p50, p99 ms | two PUBACK p50, p99 ms |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for durability, scenarios in found.items():
        for name, rounds in scenarios.items():
            one, two = medians(rounds["one"]), medians(rounds["two"])
            goal = WORKLOADS[name].goals[DURABILITIES.index(durability)]
            lines.append(
                f"| {durability} | {WORKLOADS[name].what} | {one[0]:.1f} | {two[0]:.1f} | **{two[0] / one[0]:.2f}** "
                f"| {goal:.1f} | {one[1]:.0f} | {two[1]:.0f} "
                f"| {one[2]:.2f}, {one[3]:.1f} | {two[2]:.2f}, {two[3]:.1f} |"
            )
    for durability, scenarios in found.items():
        if "rate" in scenarios:
            one, two = (medians(scenarios["rate"][who]) for who in ("one", "two"))
            more = f"{two[2] - one[2]:.2f} ms more, goal {PUBACK_GOALS_MS[durability]:.1f} ms"
            lines.append(f"PUBACK p50 at 1,500/s, {durability}: {more}")
    return lines


# -- the fill


class Pair:
    """A publisher and a durable subscriber. `took` has (due, seconds until PUBACK) of each message."""

    def __init__(self, number: int, publish_at: Node, subscribe_at: Node) -> None:
        self.topic = f"load/{number}"
        self.writer = SteadyClient(f"writer-{number}", publish_at.port, properties={"session_expiry_interval": 0})
        self.writer.window = 1000
        self.writer.acked = self._acked
        self.reader = SteadyClient(f"reader-{number}", subscribe_at.port)
        self.reader.delivered = lambda topic, payload, qos, properties: self.delivered.add(payload)
        self.took: list[tuple[float, float]] = []
        self.due: dict[bytes, float] = {}
        self.unanswered: set[bytes] = set()
        self.delivered: set[bytes] = set()

    async def connect(self) -> None:
        """Connect both clients."""
        await self.reader.connect()
        await self.reader.subscribe(self.topic, 1)
        await self.writer.connect(clean=True)

    async def publish(self, rate: float) -> None:
        """Publish at this rate until cancelled."""
        due = time.time()
        for number in count():
            await asyncio.sleep(max(0.0, due - time.time()))
            payload = str(number).rjust(100, "0").encode()
            self.due[payload] = due
            self.unanswered.add(payload)
            await self.writer.publish(self.topic, payload, 1)
            due += 1 / rate

    def _acked(self, payload: bytes) -> None:
        self.took.append((self.due[payload], time.time() - self.due[payload]))
        self.unanswered.discard(payload)

    async def all_there(self) -> bool:
        """Whether each message is acknowledged and delivered."""
        return self.delivered >= self.due.keys() and not self.unanswered


def puback_ms(pairs: Iterable[Pair], begin: float, over: float) -> tuple[float, float]:
    """Returns p50 and p99 of the PUBACKs of messages that were due in this time."""
    took = sorted(1000 * each for pair in pairs for due, each in pair.took if begin <= due < over)
    return percentile(took, 0.5), percentile(took, 0.99)


def copied(nodes: Iterable[Node], target: str, since: float) -> tuple[int, float]:
    """Returns the bytes of the copies that a node got since then, and the time of the last one. The event logs of the
    primaries have them."""
    size, last = 0, since
    for node in nodes:
        for row in read_log(node.data / "eventlog")[0]:
            if row["type"] == "slot.copied":
                at = (row["hlc"] >> 16) / 1000
                if row["target"] == target and at >= since:
                    size, last = size + row["bytes"], max(last, at)
    return size, last


async def queue_messages(nodes: list[Node], megabytes: float) -> None:
    """Make a durable session in each slot, whose client is away, and publish to all of them."""
    for slot in range(SLOTS):
        client = SteadyClient(name_in((slot,), "away-"), nodes[slot % len(nodes)].port)
        await client.connect()
        await client.subscribe("fill", 1)
        await client.disconnect()
    writer = SteadyClient("fills", nodes[0].port, properties={"session_expiry_interval": 0})
    await writer.connect(clean=True)
    for number in range(round(megabytes * 1e6 / SLOTS / FILL_MESSAGE)):
        await writer.publish("fill", str(number).rjust(FILL_MESSAGE, "0").encode(), 1)
    await until("all is queued", lambda: _answered(writer), COPIES_S)
    await writer.disconnect()


async def _answered(client: SteadyClient) -> bool:
    return not client.outgoing


async def lose(nodes: list[Node]) -> None:
    """Kill the last node and delete its data, and wait until the others have all slots, each with two copies."""
    *stay, victim = nodes
    await victim.kill()
    shutil.rmtree(victim.data)
    await until("the others have two copies", Slots(stay).all_copied, COPIES_S)


async def copies_due(nodes: list[Node]) -> int:
    """Returns how many slots of the other nodes are to have a copy at the last one."""
    *stay, victim = nodes
    zones = {node.name: node.name for node in nodes}
    due = 0
    for node in stay:
        due += sum(wanted_followers(slot, node.name, zones, 2) == [victim.name] for slot in await Slots(nodes).of(node))
    return due


async def await_copies(node: Node, due: int) -> None:
    """Wait until a node has so many copies, and its primaries have written the events of that."""

    async def all_there() -> bool:
        rows = (await node.ask("metrics", "show")).tables[0]
        return bool(next(row["value"] for row in rows if row["metric"] == "slots_copied") >= due)

    await until(f"{node.name} has {due} copies", all_there, COPIES_S, LOOK_S)
    await asyncio.sleep(LOOK_S)  # the event log has an event after 200 ms


async def fill(nodes: list[Node]) -> tuple[float, float, float]:
    """Start the last node without data. Returns the bytes of the copies that it got, and when that began and ended."""
    *stay, victim = nodes
    due = await copies_due(nodes)
    await start_replaced(victim, stay[0], COPIES_S, lambda line: None)
    await whole(stay, len(nodes), COPIES_S)
    began = time.time()
    await await_copies(victim, due)
    return (*copied(stay, victim.name, began - 1.0), began)


def filled(what: str, size: float, ended: float, began: float, goal: float) -> str:
    """Returns a fill in words."""
    took_s = ended - began
    return f"{what}: {size / 1e6:.0f} MB in {took_s:.1f} s, {size / 1e6 / took_s:.1f} MB/s, goal {goal:.0f}"


async def fills(megabytes: float, folder: Path) -> list[str]:
    """Measure both fills and print them. Returns the violations."""
    nodes = cluster(folder, 2, "os")
    wrong: list[str] = []
    try:
        await start_placed(nodes, 2)
        await queue_messages(nodes, megabytes)
        await lose(nodes)
        print(filled("fill", *await fill(nodes), goal=FILL_GOALS[0]), flush=True)
        await lose(nodes)
        pairs = [Pair(number, nodes[number % 2], nodes[(number + 1) % 2]) for number in range(FILL_CLIENTS)]
        for pair in pairs:
            await pair.connect()
        load = [asyncio.create_task(pair.publish(FILL_RATE / FILL_CLIENTS)) for pair in pairs]
        before = time.time()
        await asyncio.sleep(BEFORE_S)
        quiet_ms = puback_ms(pairs, before, time.time())
        size, ended, began = await fill(nodes)
        for task in load:
            task.cancel()
        for pair in pairs:
            try:
                await until(f"all messages of {pair.topic} are there", pair.all_there)
            except TimeoutError as error:
                wrong.append(str(error))
            wrong += pair.reader.faults
        busy_ms = puback_ms(pairs, began, ended)
        print(
            f"{filled('fill at 1,500/s', size, ended, began, FILL_GOALS[1])}; "
            f"PUBACK p50 {quiet_ms[0]:.2f} -> {busy_ms[0]:.2f} ms, p99 {quiet_ms[1]:.1f} -> {busy_ms[1]:.1f} ms, "
            f"ratio {busy_ms[1] / quiet_ms[1]:.1f}, goal {FILL_GOALS[2]:.0f}",
            flush=True,
        )
        return wrong + [line for line in bad_lines(nodes) if NEW_DISK not in line]
    finally:
        await end(nodes)


async def run(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Run the benchmark and print its figures. Returns the violations."""
    names = arguments.only.split(",") if arguments.only else list(WORKLOADS)
    wrong = []
    found: dict[str, Found] = {}
    for durability in arguments.durability.split(","):
        try:
            found[durability] = await compare(arguments, names, durability, folder)
        except RuntimeError as error:
            wrong.append(str(error))
    print("\n".join(table(found)), flush=True)
    if arguments.fill:
        wrong += await fills(arguments.megabytes, folder)
    return wrong


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="the cost of the second copy of each durable session")
    parser.add_argument("--mqttload", type=Path, required=True, help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", help="workloads, comma separated, of " + ", ".join(WORKLOADS))
    parser.add_argument("--durability", default=",".join(DURABILITIES), help="default: os,sync")
    parser.add_argument("--together", action="store_true", help="all clients and sessions at one node")
    parser.add_argument("--no-fill", dest="fill", action="store_false", help="without the fill of a node")
    parser.add_argument("--megabytes", type=float, default=200.0, help="of queued messages before the fill")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strogoff-copies-") as folder:
        wrong = asyncio.run(run(arguments, Path(folder)))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
