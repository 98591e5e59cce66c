"""The story of `bench/demo.py`: a cluster of three under load, a kill, a pause, a netsplit; told while it happens."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from strogoff.mqtt.packets import Connack

from .cluster_nodes import bad_lines, end, start_joined, whole
from .kill_test import Ledger
from .relays import RelayedNode, Relays
from .steady import SteadyClient

OPERATIONS = ("register", "publish", "subscribe", "unsubscribe")
SPLIT_S = 6.0
"""How long the split lasts: longer than the detection, which takes about 2.5 seconds."""
PAUSE_S = 4.0
"""How long a node is stopped: its lease of 1.7 seconds is over then."""
EACH_S = 0.02
"""The pause of a publisher between two messages."""
AGAIN_S = 0.2
CONNECT_S = 5.0
WHOLE_S = 60.0


class Sensor(SteadyClient):
    """A publisher without durable state, on a topic of its own. It sends no message a second time."""

    async def connect(self, clean: bool = True) -> Connack:
        """Connect, and forget what was not acknowledged."""
        self.outgoing.clear()
        return await super().connect(clean)


class LateReader(SteadyClient):
    """A durable subscriber that comes during the split. `owed`: what the sensor got acknowledged after its SUBACK."""

    def __init__(self, name: str, port: int, host: str) -> None:
        super().__init__(name, port, 5, host)
        self.since: int | None = None
        self.owed: list[bytes] = []
        self.got: set[bytes] = set()
        self.delivered = lambda topic, payload, qos, properties: self.got.add(payload)

    def note(self, payload: bytes) -> None:
        """A message of the sensor was acknowledged."""
        if self.since is not None and int(payload.rpartition(b"-")[2]) > self.since:
            self.owed.append(payload)


class Story:
    """One cluster with one netsplit policy. `log` is the directory of its event logs, `tell` says what happens."""

    def __init__(self, policy: str, folder: Path, seconds: float, tell: Callable[[str], None]) -> None:
        self.log = folder / "log" / policy
        self.ledger = Ledger()
        self._seconds = seconds
        self._tell = tell
        settings = {f"allow_{what}_during_netsplit": policy for what in OPERATIONS}
        self._nodes = [
            RelayedNode(
                folder / "data" / policy,
                number,
                **settings,
                eventlog__level="message",
                eventlog__dir=str(self.log.absolute()),
                max_offline_messages="-1",
                max_online_messages="-1",
                queue_stop_wait="0",
            )
            for number in (1, 2, 3)
        ]
        self._relays = Relays(self._nodes)
        one, two, three = self._nodes
        self._readers = [
            SteadyClient("reader-4", one.port, 4, one.host),
            SteadyClient("reader-5", three.port, 5, three.host),
        ]
        self._sensor = Sensor("sensor", three.port, 5, three.host, properties={"session_expiry_interval": 0})
        self._writers = [
            SteadyClient("writer-4", two.port, 4, two.host),
            SteadyClient("writer-5", three.port, 5, three.host),
        ]
        self._late = LateReader("late-reader", one.port, one.host)
        self._sent: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._load: list[asyncio.Task[None]] = []

    @property
    def _clients(self) -> list[SteadyClient]:
        return [*self._readers, *self._writers, self._sensor]

    async def run(self) -> None:
        """Let everything happen. Raises TimeoutError if the cluster does not recover."""
        self._nodes[0].data.parent.mkdir(parents=True)
        await self._relays.start()
        try:
            self._tell("three brokers start and form a cluster")
            await start_joined(self._nodes)
            await self._begin()
            await self._kill()
            await self._pause()
            await self._split()
            await self._stop()
        finally:
            await _cancelled([*self._load, *self._tasks])
            await end(self._nodes)
            await self._relays.close()

    def lost_for_the_late_reader(self) -> int:
        """How many acknowledged messages of the sensor the late reader has not got."""
        return len(set(self._late.owed) - self._late.got)

    def wrong(self) -> list[str]:
        """What the clients' own records and the brokers' logs for operators show, beside the event log. The late reader
        is not among them."""
        wrong = self.ledger.audit() + bad_lines(self._nodes)
        for client in self._clients:
            wrong += client.faults
        return wrong

    async def _begin(self) -> None:
        for client in self._readers:
            self.ledger.reader(client)
            await client.connect()
            for qos in (1, 2):
                await client.subscribe(f"load/+/q{qos}", qos)
        for client in self._writers:
            client.acked = self.ledger.acked.append
        self._sensor.acked = self._late.note
        self._tasks = [asyncio.create_task(self._stay(client)) for client in self._clients]
        self._load = [asyncio.create_task(self._publish(client, (1, 2))) for client in self._writers]
        self._load.append(asyncio.create_task(self._publish(self._sensor, (1,))))
        self._tell("two durable subscribers, at n1 and n3, and their publishers, at n2 and n3, with QoS 1 and 2")
        self._tell("a sensor without durable session publishes at n3; nobody has subscribed to it yet")
        await asyncio.sleep(self._seconds)

    async def _kill(self) -> None:
        node = self._nodes[1]
        self._tell("kill -9 of n2; its publisher loses its connection")
        await node.kill()
        await asyncio.sleep(1)
        await node.start()
        taken = await whole(self._nodes, within_s=WHOLE_S)
        self._tell(f"n2 is back; {taken:.1f} s later the cluster is whole again")
        await asyncio.sleep(self._seconds)

    async def _pause(self) -> None:
        node = self._nodes[0]
        self._tell(f"n1 is stopped for {PAUSE_S:g} s (SIGSTOP); its sessions continue at the other nodes")
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(PAUSE_S)
        node.signal(signal.SIGCONT)
        taken = await whole(self._nodes, within_s=WHOLE_S)
        self._tell(f"n1 goes on; {taken:.1f} s later the cluster is whole again")
        await asyncio.sleep(self._seconds)

    async def _split(self) -> None:
        before = len(self.ledger.acked)
        self._tell(f"netsplit: n3 is cut off from n1 and n2 for {SPLIT_S:g} s; clients still reach all nodes")
        self._relays.isolate(3)
        await asyncio.sleep(SPLIT_S / 2)
        await self._subscribe_late()
        await asyncio.sleep(SPLIT_S / 2)
        acked, alone = len(self.ledger.acked) - before, len(self._late.owed)
        self._relays.heal()
        taken = await whole(self._nodes, within_s=WHOLE_S)
        self._tell(f"the network is back; {taken:.1f} s later the cluster is whole again")
        self._tell(f"during the split {acked} messages were acknowledged, and {alone} of the sensor by n3 alone")
        await asyncio.sleep(self._seconds)

    async def _subscribe_late(self) -> None:
        """n3 cannot know this subscriber."""
        accepted = False
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._late.connect(), CONNECT_S)
            answer = await self._late.subscribe("alone/sensor/q1", 1)
            accepted = all(code < 0x80 for code in answer.reasons)
        if accepted:
            self._late.since = self._sent["1:sensor"]
        self._tell(f"a durable subscriber for the sensor, at n1, is {'accepted' if accepted else 'refused'}")

    async def _stop(self) -> None:
        await _cancelled(self._load)
        await self.ledger.drain(self._writers)
        await _cancelled(self._tasks)
        for client in [*self._clients, self._late]:
            await client.disconnect()
        await asyncio.gather(*[node.stop() for node in self._nodes])
        self._tell("the publishers have stopped, all queues are empty, the brokers are stopped")

    async def _stay(self, client: SteadyClient) -> None:
        """Connect again whenever the connection ends."""
        while True:
            await client.gone.wait()
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(client.connect(), CONNECT_S)
            await asyncio.sleep(AGAIN_S)

    async def _publish(self, client: SteadyClient, levels: tuple[int, ...]) -> None:
        """Publish without end, with one QoS after the other."""
        place = "alone" if client is self._sensor else "load"
        for qos in cycle(levels):
            key = f"{qos}:{client.client_id}"
            self._sent[key] += 1
            await client.publish(f"{place}/{client.client_id}/q{qos}", f"{key}-{self._sent[key]}".encode(), qos)
            await asyncio.sleep(EACH_S)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
