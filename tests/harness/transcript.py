"""Transcripts of raw connections: a client's packets, all packets that it receives, and the close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from strogoff.broker.plugins.hooks import Verdict
from strogoff.mqtt.packets import Connack, Disconnect, Will

from .broker import BrokerHarness, PacketClient

CLOSED = "closed"
"""The entry of a transcript at which the broker closed the connection."""


class RawClient(PacketClient):
    """A connection without any packet yet. `listener` has the settings that differ from a plain listener."""

    def __init__(self, broker: BrokerHarness, version: int = 4, **listener: Any) -> None:
        super().__init__(broker, version, **listener)
        self._close_told = False

    def says(self, *sent: Any) -> list[Any]:
        """Send packets or raw bytes in one piece. Returns what `hears` returns; no time passes."""
        self.send(*sent)
        return self.hears()

    def hears(self) -> list[Any]:
        """Returns the packets since the last call, followed by `CLOSED` if the broker has closed the connection."""
        self.broker.settle()
        heard = self.take()
        if self.closed and not self._close_told:
            self._close_told = True
            heard.append(CLOSED)
        return heard


class PendingHooks:
    """A `spawn` port for tests: a call of an asynchronous plugin waits until the test calls `answer`."""

    def __init__(self, broker: BrokerHarness) -> None:
        self._broker = broker
        self._waiting: list[Callable[[], None]] = []
        broker.node.services.spawn = self._spawn

    def _spawn(self, question: Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        def answer() -> None:
            try:
                question.__await__().send(None)
            except StopIteration as end:
                then(end.value)

        self._waiting.append(answer)

    def __len__(self) -> int:
        return len(self._waiting)

    def answer(self) -> None:
        """Answer the oldest call."""
        self._waiting.pop(0)()
        self._broker.settle()


def accepted(present: bool = False, **properties: Any) -> Connack:
    """Returns the CONNACK for an accepted CONNECT."""
    return Connack(present, 0, properties or None)


def refused(client: RawClient, code: int) -> bool:
    """Whether `client` received nothing but a CONNACK with this code and then the close."""
    heard = client.hears()
    return len(heard) == 2 and heard[0].reason == code and not heard[0].session_present and heard[1] == CLOSED


def reason_of(heard: list[Any]) -> int | None:
    """Returns the reason of the DISCONNECT that ended a connection; None without a DISCONNECT or an end."""
    if len(heard) < 2 or heard[-1] != CLOSED or not isinstance(heard[-2], Disconnect):
        return None
    return heard[-2].reason


def will(topic: str = "will", payload: bytes = b"gone", qos: int = 0, retain: bool = False, **properties: Any) -> Will:
    """Returns a will; `properties` need version 5."""
    return Will(topic, payload, qos, retain, properties or None)
