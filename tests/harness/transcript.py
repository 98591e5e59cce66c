"""Transcripts of raw connections: what a client sends, and everything that it receives, including the close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from strogoff.broker.plugins.hooks import Verdict
from strogoff.mqtt.packets import Connack, Disconnect, Will

from .broker import BrokerHarness, PacketClient

CLOSED = "closed"
"""What stands in a transcript where the broker closed the connection."""


class RawClient(PacketClient):
    """A connection that has said nothing yet; `listener` is what differs from a plain listener."""

    def __init__(self, broker: BrokerHarness, version: int = 4, **listener: Any) -> None:
        super().__init__(broker, version, **listener)
        self._close_told = False

    def says(self, *sent: Any) -> list[Any]:
        """Send packets or raw bytes in one piece; what is heard of it, without time passing."""
        self.send(*sent)
        return self.hears()

    def hears(self) -> list[Any]:
        """What came since the last look, with `CLOSED` behind the last packet."""
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
        """The oldest question gets its answer."""
        self._waiting.pop(0)()
        self._broker.settle()


def accepted(present: bool = False, **properties: Any) -> Connack:
    """The CONNACK of a CONNECT that was accepted."""
    return Connack(present, 0, properties or None)


def refused(client: RawClient, code: int) -> bool:
    """True if the last thing that `client` heard, and the only one, is a CONNACK with this code and then the close."""
    heard = client.hears()
    return len(heard) == 2 and heard[0].reason == code and not heard[0].session_present and heard[1] == CLOSED


def reason_of(heard: list[Any]) -> int | None:
    """The reason of the DISCONNECT that ended a connection; None if it ended without one, or did not end."""
    if len(heard) < 2 or heard[-1] != CLOSED or not isinstance(heard[-2], Disconnect):
        return None
    return heard[-2].reason


def will(topic: str = "will", payload: bytes = b"gone", qos: int = 0, retain: bool = False, **properties: Any) -> Will:
    """A will; `properties` are v5's."""
    return Will(topic, payload, qos, retain, properties or None)
