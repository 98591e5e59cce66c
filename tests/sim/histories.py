"""Histories and hosts that tests build by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from strogoff.sim.checkers.case import Case
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.history import FIRST, NEVER, Attempt, Connection, Delivery, Dropped, Fault, History, Subscribed, Will
from strogoff.sim.workload.swarm import Swarm, draw


class HistoryBuilder:
    """A history built entry by entry. Each entry takes the next number and one second."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.history = History(lambda: self.now)
        swarm = draw(0, "sync")
        self.swarm: Swarm = replace(
            swarm, faults=(), latency_s=(0.0, 0.01), options=type(swarm.options)(allow_anonymous=True, **options)
        )
        self.sessions: dict[str, int] = {}
        self.kept = True

    def tick(self) -> int:
        self.now += 1.0
        return self.history.next()

    def connect(self, client: str, **fields: Any) -> Connection:
        known = self.history.connections.setdefault(client, [])
        given: dict[str, Any] = {"clean": False, "expiry_s": None, "present": bool(known), "epoch": 1, **fields}
        asked = self.tick()
        connection = Connection(client, len(known) + 1, 5, given.pop("clean"), given.pop("expiry_s"), asked, self.now)
        for name, value in given.items():
            setattr(connection, name, value)
        if connection.opened == NEVER:
            connection.opened = self.tick()
            connection.opened_at = self.now
        known.append(connection)
        self.sessions[client] = connection.epoch
        return connection

    def connect_to_old_copy(self, client: str) -> Connection:
        """Connect to a node that entered a view, and then got an old copy of its disk and entered none with it."""
        life = self.history.life()
        life.entered.append(0.5)
        life.emptied.append(self.now)
        return self.connect(client)

    def close(self, connection: Connection, came_back_s: float | None = None) -> None:
        connection.closed = self.tick()
        connection.closed_at = self.now
        connection.came_back_at = self.now if came_back_s is None else came_back_s
        self.sessions.pop(connection.client, None)

    def subscribe(self, client: str, pattern: str, qos: int = 2, epoch: int = 1) -> Subscribed:
        found = Subscribed(client, epoch, pattern, qos, self.tick())
        found.granted = self.tick()
        found.granted_at = self.now
        self.history.subscriptions.append(found)
        return found

    def publish(self, key: str, topic: str = "t/0", qos: int = 1, acked: bool = True, **fields: Any) -> Attempt:
        writer, _, counter = key.rpartition("-")
        attempt = Attempt(key, writer, int(counter), topic, qos, False, 0, self.tick(), self.now)
        for name, value in fields.items():
            setattr(attempt, name, value)
        self.history.attempts[key] = attempt
        if acked:
            self.ack(attempt)
        return attempt

    def ack(self, attempt: Attempt) -> None:
        attempt.acked = self.tick()
        attempt.acked_at = self.now

    def deliver(self, key: str, client: str = "s", **fields: Any) -> Delivery:
        attempt = self.history.attempts.get(key)
        number = self.tick()
        topic = attempt.topic if attempt else "w/c"
        given: dict[str, Any] = {
            "epoch": 1, "connection": 1, "qos": attempt.qos if attempt else 2, "dup": False, "retained": False,
            "packet_id": number, "first": True, "topic": topic, "sent_at": self.now, **fields,
        }  # fmt: skip
        delivery = Delivery(key=key, client=client, number=number, **given)
        self.history.deliveries.append(delivery)
        return delivery

    def give(self, key: str, client: str, group: str) -> None:
        """A node assigned the message to a member of the group."""
        self.history.assigned.add((group, client, key))

    def drop(self, key: str, client: str = "s", reason: str = "queue_full") -> None:
        self.history.drops.append(Dropped(client, key, reason, self.tick(), self.now))

    def fault(self, kind: str) -> None:
        self.history.faults.append(Fault(kind, self.tick(), self.now))
        self.history.life().ends.append(self.now)

    def start(self) -> None:
        self.tick()
        self.history.life().starts.append(self.now)

    def event(self, type_: str, client: str, origin: str = FIRST, node: str = FIRST) -> None:
        row = {"type": type_, "client": client, "node": node, "mid": (origin, 1, 1)}
        self.history.events.append((self.now, row))

    def case(self) -> Case:
        return Case(self.history, self.swarm, self.sessions, self.kept, self.now)


def will(key: str = "c!1", qos: int = 2, delay_s: int = 0) -> Will:
    return Will(key, "w/c", qos, delay_s)


def make_host(latency_s: tuple[float, float] = (0.001, 0.001)) -> tuple[VirtualLoop, Host, list[SimDisk]]:
    """A host whose disk survives a kill; the list has the present disk."""
    loop = VirtualLoop()
    disks = [SimDisk(Random(1), loop.call_later, lambda: loop.now_s, "sync", latency_s)]
    return loop, Host(loop, lambda host: disks[0]), disks
