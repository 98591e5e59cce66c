"""Kill the broker with kill -9 many times under QoS 1 and 2 load, then audit every acknowledgement.

    python -m bench.kill_test --kills 200 [--durability os|sync|both] [--seed N] [--keep DIR]

Publishers and subscribers have persistent sessions and resend as the standard says. After the last kill the broker
starts again and all queues drain. Then the audit checks these claims: each acknowledged message reached each
subscriber, QoS 2 exactly once, in order per publisher and topic. Packet ids in flight kept their messages. Messages
with an expiry interval kept their deadline. Each will with a delay was published once, at its time. Exit status 1 if a
claim is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .broker_process import BrokerProcess, free_port
from .steady import SteadyClient

SHORT_EXPIRY_S = 1
LONG_EXPIRY_S = 100_000
WILL_DELAY_S = 2
WILL_SLACK_S = 3.0
STALL_S = 15.0
"""After this time without any delivery, in seconds, a missing message counts as lost."""
PAUSE_S = 0.01
"""A publisher pauses for this time, in seconds, about every twenty messages. Otherwise the queue of the slowest
subscriber would take minutes to drain."""


class Ledger:
    """The acknowledged and the delivered messages, by the counters of their writers."""

    def __init__(self) -> None:
        self.acked: list[bytes] = []
        self.delivered: dict[str, list[bytes]] = {}
        self.faults: list[str] = []

    def reader(self, client: SteadyClient) -> None:
        """Record the deliveries to this subscriber from now on."""
        got = self.delivered.setdefault(client.client_id, [])
        client.delivered = lambda topic, payload, qos, properties: got.append(payload)

    async def drain(self, writers: Iterable[SteadyClient]) -> None:
        """Wait until all acknowledged messages have arrived, or nothing arrives for `STALL_S` seconds."""
        progress, since = -1, time.monotonic()
        while time.monotonic() - since < STALL_S:
            acked = set(self.acked)
            quiet = not any(writer.outgoing for writer in writers)
            if quiet and all(acked <= set(got) for got in self.delivered.values()):
                break
            total = sum(len(got) for got in self.delivered.values()) + len(self.acked)
            if total != progress:
                progress, since = total, time.monotonic()
            await asyncio.sleep(0.2)
        else:
            waiting = {writer.client_id: len(writer.outgoing) for writer in writers}
            self.faults.append(f"nothing arrives, with {len(self.acked)} acknowledged and unanswered {waiting}")
        # time in which a duplicate would arrive
        await asyncio.sleep(1.0)

    def audit(self) -> list[str]:
        """Returns a line for each violation."""
        wrong = list(self.faults)
        for name, got in self.delivered.items():
            counts = Counter(got)
            lost = [payload for payload in self.acked if payload not in counts]
            if lost:
                wrong.append(f"{name}: {len(lost)} acknowledged messages lost, first {lost[0]!r}")
            twice = [payload for payload, count in counts.items() if count > 1 and payload.startswith(b"2")]
            if twice:
                wrong.append(f"{name}: {len(twice)} QoS 2 messages delivered more than once, first {twice[0]!r}")
            wrong += _disorder(name, got)
        return wrong


def _disorder(name: str, got: list[bytes]) -> list[str]:
    """Returns a line for each message first delivered after a later message of the same publisher and QoS."""
    last: dict[bytes, int] = {}
    seen: set[bytes] = set()
    wrong = []
    for payload in got:
        if payload in seen:
            continue
        seen.add(payload)
        writer, _, number = payload.rpartition(b"-")
        if int(number) < last.get(writer, -1):
            wrong.append(f"{name}: {payload!r} after {last[writer]}")
        last[writer] = int(number)
    return wrong


class Wills:
    """Clients that die with a delayed will. Each will must be published once, at its time, despite kills."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.due: dict[bytes, float] = {}
        self.came: dict[bytes, list[float]] = {}
        self._count = 0

    def listen(self, client: SteadyClient) -> None:
        """Record the wills that this subscriber gets."""
        client.delivered = lambda topic, payload, qos, properties: self.came.setdefault(payload, []).append(time.time())

    async def die(self) -> None:
        """Connect another client with a will, and break its connection."""
        from strogoff.mqtt.packets import Will

        self._count += 1
        name = b"will-%d" % self._count
        will = Will(f"wills/{self._count}", name, 2, False, {"will_delay_interval": WILL_DELAY_S})
        client = SteadyClient(f"dying-{self._count}", self.port, 5, will=will)
        await client.connect()
        self.due[name] = time.time() + WILL_DELAY_S
        await client.abort()

    def audit(self, up_again_s: float) -> list[str]:
        """Returns a line for each violation. `up_again_s` is the longest time from a kill to the broker's return."""
        wrong = []
        for name, due in self.due.items():
            came = self.came.get(name, [])
            if len(came) != 1:
                wrong.append(f"{name!r} came {len(came)} times")
            elif not due - 0.1 <= came[0] <= due + up_again_s + WILL_SLACK_S:
                wrong.append(f"{name!r} came {came[0] - due:+.2f} s from its time")
        return wrong


class Run:
    """One run of kills with one durability."""

    def __init__(self, kills: int, durability: str, seed: int, folder: Path) -> None:
        self.kills = kills
        self.rng = random.Random(seed)
        self.port = free_port()
        self.broker = BrokerProcess(
            folder / f"data-{durability}",
            self.port,
            message_store__durability=durability,
            max_offline_messages="-1",
            max_online_messages="-1",
            max_inflight_messages="20",
        )
        self.ledger = Ledger()
        self.wills = Wills(self.port)
        self.counters: Counter[str] = Counter()
        self.longest_down_s = 0.0
        self.publishers = [SteadyClient(f"pub-{n}", self.port, 5 if n % 2 else 4) for n in range(3)]
        self.subscribers = [
            SteadyClient("sub-4", self.port, 4),
            SteadyClient("sub-5", self.port, 5, properties={"receive_maximum": 15}),
            SteadyClient("sub-rare", self.port, 5),
        ]
        self.will_reader = SteadyClient("will-reader", self.port, 5)
        self.short = SteadyClient("expiry-reader", self.port, 5)
        self.expiry_faults: list[str] = []
        self.expiring_acked: dict[bytes, float] = {}

    async def run(self) -> list[str]:
        """Run all kills and the audit. Returns the violations."""
        await self.broker.start()
        await self._prepare()
        for _ in range(self.kills):
            await self._load()
            killed = time.time()
            await self.broker.kill()
            await asyncio.gather(*[client.gone.wait() for client in self._everybody()])
            await self.broker.start()
            self.longest_down_s = max(self.longest_down_s, time.time() - killed)
            await self._reconnect(rare=self.rng.random() < 0.3)
        await self._drain()
        await self.broker.stop()
        wrong = self.ledger.audit() + self.wills.audit(self.longest_down_s) + self.expiry_faults
        for client in self._everybody():
            wrong += client.faults
        return wrong + [f"log: {line}" for line in self.broker.tracebacks()]

    def _everybody(self) -> list[SteadyClient]:
        return [*self.publishers, *self.subscribers, self.will_reader, self.short]

    async def _prepare(self) -> None:
        for client in self.publishers:
            client.acked = self._acked
            await client.connect()
        for client in self.subscribers:
            self.ledger.reader(client)
            await client.connect()
            await client.subscribe("load/+/q1", 1)
            await client.subscribe("load/+/q2", 2)
        self.wills.listen(self.will_reader)
        await self.will_reader.connect()
        await self.will_reader.subscribe("wills/#", 2)
        self.short.delivered = self._expiring
        await self.short.connect()
        await self.short.subscribe("expiring/#", 1)
        await self.short.disconnect()

    def _acked(self, payload: bytes) -> None:
        if payload[1:2] == b":":
            self.ledger.acked.append(payload)
        else:
            self.expiring_acked[payload] = time.time()

    def _expiring(self, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> None:
        """Check the expiry of a message. Its interval begins when the broker accepts it: after the sending, and before
        the acknowledgement."""
        now, sent = time.time(), float(payload[1:])
        acked = self.expiring_acked.get(payload, now)
        left = properties.get("message_expiry_interval")
        if topic == "expiring/short":
            if now - acked > SHORT_EXPIRY_S + 1:
                self.expiry_faults.append(f"a message came {now - acked - SHORT_EXPIRY_S:.1f} s after its expiry")
        elif left is None or not LONG_EXPIRY_S - (now - sent) - 2 <= left <= LONG_EXPIRY_S - (now - acked) + 2:
            told = f"sent {now - sent:.1f} s and acknowledged {now - acked:.1f} s ago"
            self.expiry_faults.append(f"{left} s left of a message {told}")

    async def _load(self) -> None:
        """Publish with all publishers for a random time, at most 0.4 s."""
        tasks = [asyncio.create_task(self._publish(client)) for client in self.publishers]
        if self.rng.random() < 0.3:
            tasks.append(asyncio.create_task(self.wills.die()))
        await asyncio.sleep(self.rng.uniform(0.02, 0.4))
        for task in tasks[:3]:
            task.cancel()
        await asyncio.wait(tasks, timeout=5)

    async def _publish(self, client: SteadyClient) -> None:
        if self.rng.random() < 0.2:
            now = b"%.3f" % time.time()
            v5 = self.publishers[1]
            await v5.publish("expiring/short", b"s" + now, 1, {"message_expiry_interval": SHORT_EXPIRY_S})
            await v5.publish("expiring/long", b"l" + now, 1, {"message_expiry_interval": LONG_EXPIRY_S})
        while True:
            qos = self.rng.choice((1, 2))
            key = f"{qos}:{client.client_id}"
            self.counters[key] += 1
            payload = f"{key}-{self.counters[key]}".encode()
            await client.publish(f"load/{client.client_id}/q{qos}", payload, qos)
            if self.rng.random() < 0.05:
                await asyncio.sleep(PAUSE_S)

    async def _reconnect(self, rare: bool) -> None:
        for client in [*self.publishers, *self.subscribers[:2], self.will_reader]:
            await client.connect()
        if rare:
            await self.subscribers[2].connect()
            await self.short.connect()

    async def _drain(self) -> None:
        """Reconnect all clients, and wait until every acknowledged message and every will has arrived.

        Gives up after `STALL_S` seconds without a delivery.
        """
        for client in self._everybody():
            if not client.online:
                await client.connect()
        wanted = set(self.ledger.acked)
        progress, since = -1, time.time()
        while time.time() - since < STALL_S:
            quiet = not any(client.outgoing for client in self.publishers)
            complete = all(wanted <= set(got) for got in self.ledger.delivered.values())
            wills = all(name in self.wills.came for name in self.wills.due)
            if quiet and complete and wills:
                break
            total = sum(len(got) for got in self.ledger.delivered.values())
            if total != progress:
                progress, since = total, time.time()
            await asyncio.sleep(0.2)
        # time in which a duplicate would arrive
        await asyncio.sleep(1.0)
        for client in self._everybody():
            await client.disconnect()


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="kill -9 the broker under load and audit the acknowledged messages")
    parser.add_argument("--kills", type=int, default=200, help="for each durability")
    parser.add_argument("--durability", choices=("os", "sync", "both"), default="both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep data directories, logs and event logs in this folder")
    arguments = parser.parse_args()
    status = 0
    for durability in ("os", "sync") if arguments.durability == "both" else (arguments.durability,):
        with tempfile.TemporaryDirectory(prefix="strogoff-kill-") as folder:
            run = Run(arguments.kills, durability, arguments.seed, arguments.keep or Path(folder))
            began = time.time()
            wrong = asyncio.run(run.run())
            print(
                f"{durability}: {arguments.kills} kills in {time.time() - began:.0f} s, "
                f"{len(run.ledger.acked)} messages acknowledged, {len(run.wills.due)} wills, "
                f"longest down {run.longest_down_s:.1f} s: {'INVALID' if wrong else 'valid'}",
                flush=True,
            )
            for line in wrong[:20]:
                print(f"  {line}")
            if wrong:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
