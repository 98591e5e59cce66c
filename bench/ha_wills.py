"""Clients with wills in the rounds of `ha_roles`: some never come back after the fault, others do.

    gateway, gone    connected to the node that suffers; it never comes back
    gateway, back    connected to the node that suffers; it connects to another node
    primary, gone    its session is at the node that suffers, and it is connected to another one; it stays away once its
                     connection was closed
    primary, back    the same, but it connects again

A will has QoS 2, and one subscriber of QoS 2 counts: one will for each client that is gone, within `DUE_S`, and none
for the others. A client whose connection was not closed is not gone. A client that comes back when the grace may be
over is one of both: its node stood still for so long that the others took the client for gone.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from strogoff.mqtt import packets

DUE_S = 10.0
"""The longest time from the end of a client to its will: detection, takeover and grace, in seconds."""
GRACE_S = 5.4
"""The shortest time from the begin of a fault to the end of the grace: detection and grace, in seconds."""
TOPIC = "will/"


class Wills:
    """The wills of all rounds."""

    def __init__(self) -> None:
        self._came: Counter[str] = Counter()
        self._at: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._roles: dict[str, str] = {}
        self._excused: Counter[str] = Counter()
        """Client id -> how many wills may have come besides the one that is due."""

    @property
    def gone(self) -> int:
        """The number of clients that are gone."""
        return len(self._gone)

    @property
    def back(self) -> int:
        """The number of clients that are not gone."""
        return len(self._roles) - len(self._gone)

    @property
    def latest_s(self) -> float:
        """The longest time from the end of a client to its will, in seconds."""
        return max([self._at[name] - at for name, at in self._gone.items() if name in self._at], default=0.0)

    def add(self, client_id: str, role: str) -> None:
        """A client will be connected. `role`: what the node that suffers is for it."""
        self._roles[client_id] = role

    def is_gone(self, client_id: str) -> None:
        """The connection of a client that does not return has ended."""
        self._gone.setdefault(client_id, time.time())

    def gave_up(self, client_id: str) -> None:
        """A client has closed a connection whose CONNECT got no answer in time. The node may have accepted it at that
        moment: then this end is due a will of its own."""
        self._excused[client_id] += 1

    def came_late(self, client_id: str) -> None:
        """A client has come back more than `GRACE_S` after the begin of the fault: its will may have come or not."""
        self._excused[client_id] += 1

    def delivered(self, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> None:  # noqa: ARG002
        """The subscriber has got a will."""
        name = payload.decode()
        self._came[name] += 1
        self._at.setdefault(name, time.time())

    @property
    def waits(self) -> bool:
        """Whether a will is due that has not come, and is not late yet."""
        return any(name not in self._came and time.time() - at < DUE_S for name, at in self._gone.items())

    def records(self) -> Counter[tuple[str, str]]:
        """Returns ("will", client id) -> how many wills are too many or too few, if there are any."""
        found: Counter[tuple[str, str]] = Counter()
        for name in self._roles:
            due, came = int(name in self._gone), self._came[name]
            found["will", name] = max(due - came, came - due - self._excused[name], 0)
        return +found

    def violations(self) -> list[str]:
        """Returns a line for each wrong number of wills, and for each late one."""
        wrong = []
        counts = self.records()
        for name, role in self._roles.items():
            due, came = int(name in self._gone), self._came[name]
            if counts["will", name]:
                wrong.append(f"{name} ({role}): {came} wills, {due} due")
            elif due and self._at[name] - self._gone[name] > DUE_S:
                wrong.append(f"{name} ({role}): its will came after {self._at[name] - self._gone[name]:.1f} s")
        return wrong


def connect_fields(client_id: str, rng: random.Random) -> tuple[int, dict[str, Any]]:
    """Returns the version and the fields of CONNECT of a client with a will. It has a durable session, or one that ends
    with its connection."""
    will = packets.Will(TOPIC + client_id, client_id.encode(), 2)
    if rng.random() < 0.5:
        return 4, {"will": will}
    return 5, {"will": will, "properties": {"session_expiry_interval": rng.choice((0, 3600))}}
