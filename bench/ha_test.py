"""Kill, pause, stop and empty one node at a time while each durable session has a copy on a second one, then audit.

    python -m bench.ha_test --rounds 200 [--roles primary,sender] [--faults kill] [--qos 2] [--seed N] [--keep DIR]
    python -m bench.ha_test --rounds 4 --faults kill --qos 1 --messages 1000 --rate 100

Three nodes run with `queue_replicas = 2`. Each round has new publishers, and one fault of one node, by its role:

    primary    the primary of the subscribers' sessions
    follower   the node with the copy of these sessions
    gateway    the node to which the subscribers are connected
    sender     the node to which the publishers are connected

`kill` is kill -9 and a start, `stop` SIGTERM and a start, `pause` SIGSTOP for five seconds. `disk` is kill -9, another
start without the data, and `cluster join --replace`. The clients connect again to any node that runs, as behind a load
balancer: publishers repeat what was not answered, subscribers of QoS 2 remember the packet ids. The next round begins
when the cluster is whole and each slot has two copies.

The second command kills a node of each role once, while one publisher sends 1,000 messages of QoS 1.

The audit checks these claims: each acknowledged message reached each subscriber, QoS 2 exactly once, in order per
publisher (P1, P2, P3, P6); a QoS 1 message that its publisher has sent once comes again with DUP only; nothing stood
still for long. Exit status 1 if one is wrong: then the nodes' data, logs and
event logs are kept, with diary.tsv, which has each fault, connection, send, acknowledgement and delivery.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from strogoff.admin.client import Unreachable
from strogoff.admin.wire import TruncatedResult
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.mqtt import packets

from .cluster_nodes import Node, bad_lines, end, start_joined, start_replaced, until, whole
from .ha_audit import Audit, Round, Verdict
from .steady import SteadyClient

NODES = 3
ROLES = ("primary", "follower", "gateway", "sender")
FAULTS = ("kill", "pause", "stop", "disk")
PAUSED_S = 5.0
BALANCER_S = 2.0
"""After this time, in seconds, a load balancer takes a paused node for dead, and closes its connections."""
DOWN_S = (0.0, 0.5, 3.0)
"""How long a node is down, in seconds: also shorter than the detection time."""
CONNECT_S = 5.0
STUCK_S = 15.0
"""After this time without any acknowledgement and delivery, in seconds, what is missing counts as lost or stuck."""
LONGEST_S = 12.0
WHOLE_S = 60.0
NEW_DISK = "but the data directory of this node is new"
"""The node says so, as an error, when it has lost its disk and hears the cluster before it is told to join."""
CALM_S = 1.0
"""Time in which a duplicate of the last messages would arrive, in seconds."""


SETTINGS = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")} | {
    "max_offline_messages": "-1",
    "max_online_messages": "-1",
    "max_inflight_messages": "20",
    "queue_replicas": "2",
    "eventlog.level": "message",
}
"""The settings of each node."""


class Load(NamedTuple):
    """What each publisher sends in a round: `messages` of at least `size` bytes, `rate` per second."""

    messages: int = 60
    rate: float = 50.0
    size: int = 0

    def payload(self, qos: int, writer: str, number: int) -> bytes:
        """Returns a message in the form that `ha_audit` reads. Zeros before its number fill it up."""
        head = f"{qos}:{writer}-"
        return f"{head}{str(number).rjust(self.size - len(head), '0')}".encode()


class Walker(SteadyClient):
    """A client that connects to other nodes. `refused` gets the payload of each message that the broker refuses,
    `resent` that of each message that is sent again. `dup` is the flag of the message that is being delivered."""

    refused: Callable[[bytes], None] = staticmethod(lambda _: None)
    resent: Callable[[bytes], None] = staticmethod(lambda _: None)
    dup = False

    def _resume(self, present: bool) -> None:
        for packet in self.outgoing.values():
            if isinstance(packet, packets.Publish):
                self.resent(packet.payload)
        super()._resume(present)

    def _publish(self, packet: packets.Publish) -> None:
        self.dup = packet.dup
        super()._publish(packet)

    def _handle(self, packet: Any) -> None:
        if isinstance(packet, packets.Puback | packets.Pubrec) and packet.reason >= 0x80:
            sent = self.outgoing.get(packet.packet_id)
            if isinstance(sent, packets.Publish):
                self.refused(sent.payload)
        super()._handle(packet)
        self._room.set()

    def is_at(self, node: Node) -> bool:
        """Whether this node is the one to which it connects, or is connected."""
        return (self.host, self.port) == (node.host, node.port)

    def cut(self) -> None:
        """Reset the connection."""
        if self._writer is not None:
            self._writer.transport.abort()


class Slots:
    """The slot table as the nodes show it."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    async def holders(self, slot: int) -> list[Node]:
        """Returns the primary of a slot, and the nodes with a copy; nothing while it has no primary."""
        row = (await self.nodes[0].ask("slot", "show", f"slot={slot}")).tables[0][0]
        if row["State"] != "primary":
            return []
        held = [each.split()[0] for each in str(row["In sync"]).split(", ")]
        names = [row["Node"], *[name for name in held if name != row["Node"]]]
        return [next(node for node in self.nodes if node.name == name) for name in names]

    async def of(self, node: Node) -> list[int]:
        """Returns the slots of which a node is the primary."""
        found: list[int] = []
        for row in (await self.nodes[0].ask("slot", "show")).tables[0]:
            if row["Node"] == node.name and row["State"] == "primary":
                for part in str(row["Slots"]).split():
                    first, _, last = part.partition("-")
                    found += range(int(first), int(last or first) + 1)
        return found

    async def all_copied(self) -> bool:
        """Whether each slot has two copies, by the tables of all nodes."""
        sums: Counter[str] = Counter()
        for node in self.nodes:
            try:
                answer = await node.ask("metrics", "show", within_s=2)
            except (TimeoutError, Unreachable, TruncatedResult):
                return False
            sums.update({row["metric"]: row["value"] for row in answer.tables[0]})
        names = ("slots_primary", "slots_copied", "slots_without_copy", "slots_without_primary")
        return [sums[name] for name in names] == [SLOTS, SLOTS, 0, 0]


class Plan:
    """The faults of a run, and its client ids, by the seed."""

    def __init__(self, roles: Iterable[str], faults: Iterable[str], qos: Iterable[int], seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.qos = sorted(qos)
        self._cases = [(role, fault) for fault in faults for role in roles]
        self._left: list[tuple[str, str]] = []

    def next_case(self) -> tuple[str, str]:
        """Returns a role and a fault: all of them in random order, then again."""
        if not self._left:
            self._left = self.rng.sample(self._cases, len(self._cases))
        return self._left.pop()

    def places(self, role: str, primary: Node, follower: Node, third: Node) -> tuple[Node, Node, Node]:
        """Returns the nodes of the subscribers, of the publishers, and the one that suffers.

        The one that suffers has one role alone, as far as three nodes permit.
        """
        choose = self.rng.choice
        if role == "primary":
            return third, choose((follower, third)), primary
        if role == "follower":
            return third, choose((primary, third)), follower
        if role == "gateway":
            return third, choose((primary, follower)), third
        return choose((primary, follower)), third, third


def name_in(slots: Iterable[int], prefix: str) -> str:
    """Returns a client id with this prefix whose slot is one of these. Raises ValueError if there are no slots."""
    wanted = set(slots)
    if not wanted:
        raise ValueError(f"no slot for {prefix}")
    number = 0
    while slot_of("", f"{prefix}{number}") not in wanted:
        number += 1
    return f"{prefix}{number}"


class Run:
    """One run of `rounds` with a load. Each publisher speaks one of the versions `writer_versions`."""

    writer_versions: tuple[int, ...] = (4, 5)

    def __init__(self, plan: Plan, rounds: int, load: Load, folder: Path) -> None:
        self.plan = plan
        self.rounds = rounds
        self.load = load
        self.folder = folder
        self.nodes = self._nodes()
        self.slots = Slots(self.nodes)
        self.audit = Audit(LONGEST_S)
        self.readers: list[Walker] = []
        self.diary: list[tuple[float, str, str]] = []
        self.wrong: list[str] = []
        self._live = list(self.nodes)
        """The nodes to which a load balancer would send clients."""
        self._placed: dict[str, Node] = {}
        """Client id -> the node to which it connects next."""
        self._staying: dict[Walker, asyncio.Task[None]] = {}
        self._chance = random.Random()

    def _nodes(self) -> list[Node]:
        """Make the nodes of the run, which do not run yet."""
        return [Node(self.folder, f"n{number}", **SETTINGS) for number in range(1, NODES + 1)]

    def note(self, what: str, about: str) -> None:
        """Add a line to the diary."""
        self.diary.append((time.time(), what, about))

    async def run(self, tell: Callable[[str], None] = lambda line: None) -> list[str]:
        """Run all rounds and the audit. Returns the violations. `tell` gets a line for each round."""
        try:
            await start_joined(self.nodes)
            await self._whole()
            await self._prepare()
            await self._rounds(tell)
            await self._finish()
        except (TimeoutError, RuntimeError, OSError) as error:
            last = f"round {self.audit.rounds[-1].number}" if self.audit.rounds else "the beginning"
            self.wrong.append(f"{last} did not end: {error or type(error).__name__}")
        finally:
            for task in self._staying.values():
                task.cancel()
            await end(self.nodes)
            (self.folder / "diary.tsv").write_text("".join(f"{at:.3f}\t{a}\t{b}\n" for at, a, b in self.diary))
        for part in self.audit.rounds:
            self.wrong += self.audit.violations(part)
        for reader in self.readers:
            self.wrong += reader.faults
        return self.wrong + [line for line in bad_lines(self.nodes) if NEW_DISK not in line]

    async def _prepare(self) -> None:
        """Connect the subscribers. Their sessions are in one slot, and last for the whole run."""
        slot = self.plan.rng.randrange(SLOTS)
        for qos in self.plan.qos:
            for version in (4, 5):
                reader = self._client(name_in((slot,), f"sub-{qos}-{version}-"), version)
                self.readers.append(reader)
                self.audit.reader(reader.client_id, qos)
                reader.delivered = self._delivery(reader)
                await self._subscribe(reader, f"ha/q{qos}/#", qos)

    async def _subscribe(self, client: Walker, text: str, qos: int) -> None:
        """Connect a subscriber. It stays connected."""
        self._stay(client)

        async def connected() -> bool:
            return client.online

        await until(f"{client.client_id} is connected", connected)
        await client.subscribe(text, qos)

    async def _finish(self) -> None:
        await asyncio.sleep(CALM_S)
        for client in list(self._staying):
            await self._leave(client)
        for node in self.nodes:
            await node.stop()

    # -- clients

    def _client(self, client_id: str, version: int) -> Walker:
        return Walker(client_id, self.nodes[0].port, version, self.nodes[0].host)

    def _delivery(self, reader: Walker) -> Callable[[str, bytes, int, dict[str, Any]], None]:
        def delivered(topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> None:  # noqa: ARG001
            self.audit.delivered(reader.client_id, payload, time.time(), reader.dup)
            self.note(reader.client_id, payload.decode())

        return delivered

    def _stay(self, client: Walker) -> None:
        self._staying[client] = asyncio.create_task(self._keep_connected(client))

    async def _leave(self, client: Walker) -> None:
        self._staying.pop(client).cancel()
        await client.disconnect()

    async def _keep_connected(self, client: Walker) -> None:
        while True:
            await client.gone.wait()
            node = self._placed.pop(client.client_id, None) or self._chance.choice(self._live)
            client.host, client.port = node.host, node.port
            try:
                async with asyncio.timeout(CONNECT_S):  # `wait_for` of Python 3.11 may lose a cancellation here
                    await client.connect()
            except (OSError, TimeoutError) as error:
                self.note(f"{client.client_id} at {node.name}", f"{type(error).__name__} {error}")
                client.cut()
                if isinstance(error, TimeoutError):
                    self._gave_up(client)
                await asyncio.sleep(0.05)
            else:
                self.note(f"{client.client_id} at {node.name}", "connected")
                self._connected(client)

    def _connected(self, client: Walker) -> None:
        """A client has connected, for the first time or again."""

    def _gave_up(self, client: Walker) -> None:
        """A client has ended a connection that was not answered."""

    async def _place(self, client: Walker, node: Node) -> None:
        """Bring a client to this node."""

        async def is_there() -> bool:
            if client.online and client.is_at(node):
                return True
            self._placed[client.client_id] = node
            if client.online:
                client.cut()
            return False

        await until(f"{client.client_id} is at {node.name}", is_there)
        self._placed.pop(client.client_id, None)

    async def _publish(self, writer: Walker, qos: int) -> None:
        """Publish all messages. Each counts as sent when it is due, also if the publisher has to wait."""
        due = time.time()
        for number in range(1, self.load.messages + 1):
            await asyncio.sleep(max(0.0, due - time.time()))
            payload = self.load.payload(qos, writer.client_id, number)
            self.audit.sent(payload, due)
            self.note("sent", payload.decode())
            await writer.publish(f"ha/q{qos}/{writer.client_id}", payload, qos)
            due += 1 / self.load.rate

    def _acked(self, message: bytes) -> None:
        self.audit.acked(message, time.time())
        self.note("acknowledged", message.decode())

    def _refused(self, message: bytes) -> None:
        self.audit.refused(message)
        self.note("refused", message.decode())

    # -- rounds

    async def _rounds(self, tell: Callable[[str], None]) -> None:
        for _ in range(self.rounds):
            part = self.audit.begin(*self.plan.next_case())
            await self._round(part)
            tell(round_line(part, self.audit))

    async def _round(self, part: Round) -> None:
        primary, follower = await self._holders()
        third = next(node for node in self.nodes if node not in (primary, follower))
        gateway, sender, victim = self.plan.places(part.role, primary, follower, third)
        self.note("round", f"{part.number} {part.fault} {part.role}, which is {victim.name}")
        self.note(
            "roles", f"primary {primary.name} follower {follower.name} gateway {gateway.name} sender {sender.name}"
        )
        writers = await self._writers(part, sender)
        for client in (*self.readers, *writers):
            await self._place(client, sender if client in writers else gateway)
        load = [asyncio.create_task(self._publish(client, qos)) for client, qos in writers.items()]
        try:
            await asyncio.sleep(self.plan.rng.uniform(0.1, 0.8) * self.load.messages / self.load.rate)
            await getattr(self, f"_{part.fault}")(victim)
            self.note("round", "fault over")
            part.whole_s, _ = await asyncio.gather(self._whole(), self._arrived(part, writers, load))
            await self._whole()  # the cluster may have noticed only now that the node was away
        finally:
            for task in load:
                task.cancel()
        for client in writers:
            await self._leave(client)
            part.wrong += client.faults
        self.note("round", f"whole after {part.whole_s:.1f} s")

    async def _holders(self) -> tuple[Node, Node]:
        """Wait until the slot of the subscribers has two copies. Returns its primary and its follower."""
        slot, found = slot_of("", self.readers[0].client_id), list[Node]()

        async def two() -> bool:
            found[:] = await self.slots.holders(slot)
            return len(found) == 2

        await until(f"slot {slot} has two copies", two, WHOLE_S)
        return found[0], found[1]

    async def _writers(self, part: Round, sender: Node, prefix: str = "pub") -> dict[Walker, int]:
        """Connect a publisher for each QoS. Half of them have their sessions at the sender, if it is a primary."""
        found: dict[Walker, int] = {}
        own = set(await self.slots.of(sender))
        for qos in self.plan.qos:
            slots = own if own and self.plan.rng.random() < 0.5 else set(range(SLOTS)) - own
            name = name_in(slots or own, f"{prefix}-{part.number}-{qos}-")
            holders = [node.name for node in await self.slots.holders(slot_of("", name))]
            self.note("roles", f"{name} has its session at {' '.join(holders)}")
            writer = self._client(name, self.plan.rng.choice(self.writer_versions))
            writer.acked = self._acked
            writer.refused = self._refused
            writer.resent = self.audit.resent
            self._stay(writer)
            found[writer] = qos
        return found

    async def _arrived(self, part: Round, writers: Iterable[Walker], load: list[asyncio.Task[None]]) -> None:
        """Wait until all messages are sent, answered and delivered. Nothing may stand still for `STUCK_S`."""
        progress, since = -1, time.monotonic()
        while (
            not all(task.done() for task in load) or any(each.outgoing for each in writers) or self.audit.missing(part)
        ):
            if self.audit.progress != progress:
                progress, since = self.audit.progress, time.monotonic()
            elif time.monotonic() - since > STUCK_S:
                at = {each: node.name for each in writers for node in self.nodes if each.is_at(node)}
                waiting = {each.client_id: (at.get(each), len(each.outgoing)) for each in writers}
                part.wrong.append(f"nothing arrives for {STUCK_S:g} s; node and unanswered: {waiting}")
                self.note("round", "stuck")
                return
            await asyncio.sleep(0.05)
        for task in load:
            task.result()

    async def _whole(self) -> float:
        """Wait until the cluster is whole and each slot has two copies. Returns the seconds taken."""
        took_s = await whole(self.nodes, within_s=WHOLE_S)
        return took_s + await until("each slot has two copies", self.slots.all_copied, WHOLE_S)

    # -- faults

    async def _down(self, victim: Node, end_it: Callable[[], Any]) -> None:
        self._live.remove(victim)
        self.note("fault", f"{victim.name} ends")
        await end_it()
        down_s = self.plan.rng.choice(DOWN_S)
        self.note("fault", f"{victim.name} has ended, for {down_s:g} s")
        await asyncio.sleep(down_s)

    async def _kill(self, victim: Node) -> None:
        await self._down(victim, victim.kill)
        await victim.start()
        self._live.append(victim)

    async def _stop(self, victim: Node) -> None:
        await self._down(victim, victim.stop)
        await victim.start()
        self._live.append(victim)

    async def _pause(self, victim: Node) -> None:
        """Pause the node. Its clients wait for it, or a load balancer closes their connections."""
        patient = self.plan.rng.random() < 0.5
        self.note("fault", f"{victim.name} is paused; its clients wait: {patient}")
        victim.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(BALANCER_S)
            self._live.remove(victim)
            for client in self._staying:
                if not patient and client.is_at(victim):
                    client.cut()
            await asyncio.sleep(PAUSED_S - BALANCER_S)
        finally:
            victim.signal(signal.SIGCONT)
        self.note("fault", f"{victim.name} runs again")
        self._live.append(victim)

    async def _disk(self, victim: Node) -> None:
        """The node loses its disk. A load balancer waits until it is in the cluster again."""
        await self._down(victim, victim.kill)
        self._lose_disk(victim)
        other = next(node for node in self.nodes if node is not victim)
        await start_replaced(victim, other, WHOLE_S, lambda line: self.note("fault", line))
        self._live.append(victim)

    def _lose_disk(self, victim: Node) -> None:
        """Remove the data, but for the event log: the audit of a failure needs it."""
        lost = self.folder / f"lost-in-round-{len(self.audit.rounds)}" / victim.data.name
        lost.mkdir(parents=True)
        (victim.data / "eventlog").rename(lost / "eventlog")
        shutil.rmtree(victim.data)


def round_line(part: Round, audit: Audit) -> str:
    """Returns a line about a round."""
    wrong = "".join(f"\n  {line}" for line in audit.violations(part))
    return f"round {part.number}: {part.fault} {part.role}: {figures(audit.verdict(part))}{wrong}"


def figures(verdict: Verdict) -> str:
    """Returns a verdict in words."""
    return (
        f"{verdict.acked} acknowledged, {verdict.refused} refused, {verdict.lost} lost, "
        f"{verdict.doubled} doubled, {verdict.reordered} reordered, "
        f"{verdict.repeated} repeated at QoS 1, stall {verdict.stall_s:.1f} s, gap {verdict.gap_s:.1f} s, "
        f"latest delivery after {verdict.late_s:.1f} s, whole after {verdict.whole_s:.1f} s"
    )


def some_of(known: tuple[Any, ...]) -> Callable[[str], list[Any]]:
    """Returns a parser of words with commas between them."""

    def parse(text: str) -> list[Any]:
        by_name = {str(each): each for each in known}
        words = text.split(",")
        if not set(words) <= set(by_name):
            raise argparse.ArgumentTypeError(f"{text!r}: some of {','.join(by_name)} are expected")
        return [by_name[word] for word in words]

    return parse


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="faults of single nodes while each session has two copies")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--roles", type=some_of(ROLES), default=list(ROLES), help=f"default: {','.join(ROLES)}")
    parser.add_argument("--faults", type=some_of(FAULTS), default=list(FAULTS), help=f"default: {','.join(FAULTS)}")
    parser.add_argument("--qos", type=some_of((1, 2)), default=[1, 2], help="default: 1,2 at the same time")
    parser.add_argument("--messages", type=int, default=Load().messages, help="of each publisher in a round")
    parser.add_argument("--rate", type=float, default=Load().rate, help="messages per second of each publisher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep data directories and logs in this folder, which must be new")
    arguments = parser.parse_args()
    plan = Plan(arguments.roles, arguments.faults, arguments.qos, arguments.seed)
    load = Load(arguments.messages, arguments.rate)
    return judged(lambda folder: Run(plan, arguments.rounds, load, folder), arguments.keep)


def judged(make: Callable[[Path], Run], keep: Path | None) -> int:
    """Make a run in the folder `keep`, or in one that is removed if nothing is wrong, and print its results.

    Returns the exit status.
    """
    if keep:
        keep.mkdir(parents=True)
    folder = keep or Path(tempfile.mkdtemp(prefix="strogoff-ha-"))
    run = make(folder)
    began = time.time()
    wrong = asyncio.run(run.run(lambda line: print(line, flush=True)))
    for (role, fault), verdict in run.audit.by_case().items():
        print(f"{fault} {role}, {verdict.rounds} rounds: {figures(verdict)}")
    said = f"{len(run.audit.rounds)} rounds in {time.time() - began:.0f} s, seed {run.plan.seed}"
    print(f"{said}: {'INVALID' if wrong else 'valid'}", flush=True)
    for line in wrong[:40]:
        print(f"  {line}")
    if wrong:
        print(f"data, logs, event logs and diary.tsv: {folder}")
    elif not keep:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
