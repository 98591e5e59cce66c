"""The state that all connections of one listener share: their set, their limit, and counters.

A connection *enters* when it is accepted, before TLS, PROXY header or WebSocket upgrade, so that half-open ones count
against `max_connections` too, and *leaves* when its transport is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from ...configs import ListenerSettings, Settings
from ...mqtt.decoder import WILL_BYTES
from ..connection.transport import MakeConnection
from ..reporting.log_line import Line
from .traffic import Traffic

BURST_GAP_S = 10.0
"""Refusals with less than this time between them, in seconds, are one burst and logged once."""

RESERVED = "the other file descriptors are reserved for files, raise the limit (`ulimit -n`, LimitNOFILE)"

_HEADER_BYTES = 5
"""The longest fixed header of a packet."""


class LimitedConnection(Protocol):
    """The calls of a limiter to a connection."""

    def end(self, reason: str) -> None:
        """Report the end to the handler, send the rest, close."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class LimiterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that are the same for all listeners of a node.

    `opening_timeout_s` limits PROXY header and WebSocket upgrade together. `write_buffer_bytes` is the high mark of a
    connection's buffer, a quarter of it the low mark. `crl_refresh_interval_s`: 0 reads revocation lists only once.
    `max_descriptor` is the highest number that a connection's file descriptor may have, 0 for any: the system assigns
    the lowest free number, so a higher one would take descriptors that are reserved for files. `opening_frame_bytes`
    limits a WebSocket frame of a client that is not accepted yet; None: no limit.
    """

    opening_timeout_s: float = 5.0
    opening_frame_bytes: int | None = 65536 + WILL_BYTES + _HEADER_BYTES
    write_buffer_bytes: int = 1 << 20
    crl_refresh_interval_s: float = 60.0
    max_descriptor: int = 0


def limiter_options(settings: Settings, max_descriptor: int = 0) -> LimiterOptions:
    """The options from the configuration; `max_descriptor` as above."""
    crl_ms, connect = int(settings["crl_refresh_interval"]), int(settings["session.max_connect_bytes"])
    return LimiterOptions(
        opening_frame_bytes=connect + WILL_BYTES + _HEADER_BYTES if connect else None,
        write_buffer_bytes=int(settings["flow.out_buffer_bytes"]),
        crl_refresh_interval_s=crl_ms / 1000,
        max_descriptor=max_descriptor,
    )


class Refusals:
    """Logs why connections are refused, once for each burst. `clock` is monotonic, in seconds; `log` takes a level and
    a line."""

    def __init__(self, log: Callable[[str, str], None], clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._last_at = -BURST_GAP_S
        self._count = 0

    def note(self, why: str) -> None:
        """A connection was refused."""
        self._count += 1
        now = self._clock()
        if now - self._last_at >= BURST_GAP_S:
            others = f"; {self._count} since the last time this was logged" if self._count > 1 else ""
            self._log("warning", f"{why}, refusing connections{others}")
            self._count = 0
        self._last_at = now


class ConnectionLimiter:
    """The limiter of one listener. `clock` is monotonic, in seconds; `log` takes a level and a line."""

    def __init__(
        self,
        settings: ListenerSettings,
        make_handler: MakeConnection,
        traffic: Traffic,
        options: LimiterOptions,
        log: Callable[[str, str], None],
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.make_handler = make_handler
        self.traffic = traffic
        self.options = options
        self.connections: set[LimitedConnection] = set()
        self.accepted = 0
        """Connections accepted since the listener was made."""
        self.when_empty: Callable[[], None] | None = None
        """Called when the last connection has left."""
        self._log = log
        self._refusals = Refusals(self.log, clock)

    def enter(self, connection: LimitedConnection, descriptor: int = 0) -> bool:
        """Admit a connection with this file descriptor, within the limits. True for one that is already admitted."""
        if connection in self.connections:
            return True
        limit = self.settings.max_connections
        if limit is not None and len(self.connections) >= limit:
            self._refuse(f"max_connections = {limit} is reached")
            return False
        if 0 < self.options.max_descriptor < descriptor:
            self._refuse(RESERVED)
            return False
        self.connections.add(connection)
        self.accepted += 1
        self.traffic.socket_open += 1
        return True

    def leave(self, connection: LimitedConnection) -> None:
        """Remove a closed connection. Does nothing for a connection that was not admitted."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.traffic.socket_close += 1
            if not self.connections and self.when_empty is not None:
                self.when_empty()

    def log(self, level: str, text: str) -> None:
        """Write a line with the listener's name to the log."""
        self._log(level, f"{self.settings.key}: {text}")

    def log_refused(self, event: str, text: str, host: str) -> None:
        """Log why a client at this host is refused. Strangers can cause any number of these lines: the log limits the
        lines of each event apart, so they take the place of no other line."""
        self._log("info", Line(event, f"{self.settings.key}: {text}", peer=host))

    def refuse_proxy(self, host: str, why: str) -> None:
        """Count and log a connection from this host without a valid PROXY header."""
        self.traffic.proxy_protocol_error += 1
        self.log_refused("proxy.refuse", f"connection refused: {why}", host)

    def _refuse(self, why: str) -> None:
        self.traffic.connections_refused += 1
        self._refusals.note(why)
